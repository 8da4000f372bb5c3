// SPDX-License-Identifier: Apache-2.0
// kvc_backend_attention as the arguments of kernels.
#pragma once
#include "backend/call.h"
#include "kernels/attention.h"

namespace kvc::gpu {

AttentionArgs args_of(const Layout& layout, const void* slab, const kvc_backend_attention& attention);
AttentionLimits limits_of(uint32_t device, const kvc_backend_attention& attention);
// Replaces the addresses of arrays in memory that the device reads by the device's; NULL stays NULL. Adds
// host arrays to those of the call.
kvc_status find_arrays(const Layout& layout, Call& call, kvc_backend_attention* args);
// Adds the host arrays, which the device gets as copies.
void list_host_arrays(const Layout& layout, HostArrays* arrays, kvc_backend_attention* args);

// Checks the caller's workspace, if there is one.
kvc_status check_workspace(const kvc_backend_attention& attention, uint64_t needed, const char* needed_by);

}  // namespace kvc::gpu
