// SPDX-License-Identifier: Apache-2.0
// Which blocks are worth reading, by the criterion of Quest (arXiv:2406.10774). Over the keys of a block, q .
// k is at most the sum over elements e of max(q[e] * largest[e], q[e] * smallest[e]). With the positive part
// q+ and the negative part q- this is q+ . largest + q- . smallest: one dot product with a row of bounds, by
// the kernels of q . k. Stateless; a call writes only its own results.
#pragma once
#include "attention/attention.h"

namespace kvc {

// Bounds [num_heads][2: largest, smallest][k_dim] float16 of the keys as they are stored, rounded outwards;
// NaN for an element that is not finite in some key.
void find_key_bounds(const Stored& stored, uint32_t layer, uint64_t block, uint16_t* bounds);

// Scratch memory of one worker; a multiple of 64.
size_t selection_scratch_bytes(const AttentionArgs& args);
// `scratch` as for attend(); parallel_for.run is not nullptr.
void select_blocks(const AttentionArgs& args, const kvc_backend_selection& choice,
                   const ParallelFor& parallel_for, void* scratch);

}  // namespace kvc
