// SPDX-License-Identifier: Apache-2.0
// Swaps of whole blocks as work in a stream, and which way they take on a device: measured once, by whoever
// asks first. Any thread.
#pragma once
#include "backend/call.h"
#include "kernels/swap_choice.h"
#include "layout/layout.h"

namespace kvc::gpu {

// What is known: with `measure`, it is found out first, unless somebody is at it. Else a guess.
const SwapChoice& swap_choice(uint32_t device, bool measure);

// To be followed by call.end(). `slab` and swap.pages are addresses on the device.
kvc_status enqueue_swap(Call& call, const Layout& layout, void* slab, const kvc_backend_swap& swap,
                        SwapPath path);

}  // namespace kvc::gpu
