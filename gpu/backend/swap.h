// SPDX-License-Identifier: Apache-2.0
// Swaps of whole blocks as work in a stream, and the choice between copy engine and kernel, measured once per
// device. Any thread.
#pragma once
#include "backend/call.h"
#include "kernels/swap_choice.h"
#include "layout/layout.h"

namespace kvc::gpu {

// The measured choice, or else a guess. With `measure`, measures first, unless another thread does so now.
const SwapChoice& swap_choice(uint32_t device, bool measure);

// Call call.end() after it. `slab` and swap.pages are addresses on the device.
kvc_status enqueue_swap(Call& call, const Layout& layout, void* slab, const kvc_backend_swap& swap,
                        SwapPath path);

}  // namespace kvc::gpu
