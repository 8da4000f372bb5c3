// SPDX-License-Identifier: Apache-2.0
// kvc_attention as the arguments of kernels.
#pragma once
#include "device/call.h"
#include "kernels/attention.h"

namespace kvc::gpu {

AttentionArgs args_of(const Layout& layout, const char* slab, const kvc_attention& attention);
AttentionLimits limits_of(uint32_t device, const kvc_attention& attention);
// Addresses of the device in place of the caller's: of its memory, and of the copies of host arrays that
// call.upload() makes. What is NULL stays NULL.
kvc_status find_arrays(const Layout& layout, const kvc_attention& attention, const AttentionLimits& limits,
                       Call& call, AttentionArgs* args);

}  // namespace kvc::gpu
