// SPDX-License-Identifier: Apache-2.0
// Quantized keys of one (layer, block, head) in a layout with channel keys: codes per token, and a scale per
// channel for every channel_tokens tokens. Stateless: any thread may call.
#pragma once
#include "layout/layout.h"

namespace kvc {

// `rows` are the keys of all tokens of the block: [block_size][k_dim].
void quantize_keys(const Layout& layout, char* slab, uint32_t layer, uint64_t block, uint32_t head,
                   const float* rows);

// The first `count` elements of one token's key.
void read_quantized_key(const Layout& layout, const char* slab, uint32_t layer, uint64_t block, uint32_t head,
                        uint64_t token, uint32_t count, float* out);

}  // namespace kvc
