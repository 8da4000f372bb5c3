// SPDX-License-Identifier: Apache-2.0
// kvc_attention as the arguments of kernels.
#pragma once
#include "backend/call.h"
#include "kernels/attention.h"

namespace kvc::gpu {

AttentionArgs args_of(const Layout& layout, const char* slab, const kvc_backend_attention& attention);
AttentionLimits limits_of(uint32_t device, const kvc_backend_attention& attention);
// Addresses of the device in place of the caller's, of arrays that are in memory that the device reads. What
// is NULL stays NULL.
kvc_status find_arrays(const kvc_backend_attention& attention, Call& call, AttentionArgs* args);
// The others, of which the device gets copies: those that `args` points to.
void list_host_arrays(const Layout& layout, const kvc_backend_attention& attention,
                      const AttentionLimits& limits, HostArrays* arrays, AttentionArgs* args);

// The caller's workspace for `needed` bytes, or none.
kvc_status check_workspace(const kvc_backend_attention& attention, uint64_t needed, const char* needed_by);

}  // namespace kvc::gpu
