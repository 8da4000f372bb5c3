// SPDX-License-Identifier: Apache-2.0
// Which blocks are worth reading: q . k over the keys of a block is at most the sum over the elements e of
// max(q[e] * largest[e], q[e] * smallest[e]), that is q+ . largest + q- . smallest with the positive and the
// negative part of q: one dot product with a row of bounds, which the kernels of q . k compute (the criterion
// of Quest, arXiv:2406.10774). Stateless; what is written belongs to the call.
#pragma once
#include "attention/attention.h"

namespace kvc {

// bounds [num_heads][2: largest, smallest][k_dim] float16, rounded outwards, of the keys as they are stored;
// NaN for an element that is not finite in some key.
void find_key_bounds(const Stored& stored, uint32_t layer, uint64_t block, uint16_t* bounds);

// kvc_block_choice, complete; the memory of all workers.
struct BlockChoice {
  const uint16_t* bounds;  // [num_blocks][num_heads][2][k_dim]
  uint64_t top_k, sink_blocks, recent_blocks;
  uint8_t* block_mask;
  size_t block_mask_stride;
};

// Of one worker; a multiple of 64.
size_t selection_scratch_bytes(const AttentionArgs& args);
// `scratch` as for attend(); parallel_for.run is not nullptr. The masks of `args` are not looked at.
void select_blocks(const AttentionArgs& args, const BlockChoice& choice, const ParallelFor& parallel_for,
                   void* scratch);

}  // namespace kvc
