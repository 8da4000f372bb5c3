// SPDX-License-Identifier: Apache-2.0
// kvc_backend_attention as the arguments of kernels.
#pragma once
#include "backend/call.h"
#include "kernels/attention.h"

namespace kvc::gpu {

AttentionArgs args_of(const Layout& layout, const void* slab, const kvc_backend_attention& attention);
AttentionLimits limits_of(uint32_t device, const kvc_backend_attention& attention);
// Replaces the caller's addresses by the device's, of arrays in memory that the device reads; NULL stays
// NULL. The host arrays are added to those of the call.
kvc_status find_arrays(const Layout& layout, Call& call, kvc_backend_attention* args);
// The host arrays of a call, of which the device gets copies.
void list_host_arrays(const Layout& layout, HostArrays* arrays, kvc_backend_attention* args);

// The caller's workspace for `needed` bytes, or none.
kvc_status check_workspace(const kvc_backend_attention& attention, uint64_t needed, const char* needed_by);

}  // namespace kvc::gpu
