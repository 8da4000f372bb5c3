// SPDX-License-Identifier: Apache-2.0
// The bytes of a block, and of a part of it, as they lie in the slab of a layout.
#pragma once
#include <kvcache/storage.h>

#include "layout/layout.h"

namespace kvc {

// Heads outside tokens?
constexpr bool head_major(uint32_t preset) {
  return preset == KVC_LAYOUT_LBHNC || preset == KVC_LAYOUT_BLHNC || preset == KVC_LAYOUT_BHLNC;
}

// Where the bytes of a block are: `count` parts of `bytes` bytes each; part i of block b is at b * block + i
// * part. In a page, the parts of a block follow each other.
struct BlockParts {
  uint64_t count, bytes, block, part;
};
inline BlockParts block_parts(const Layout& layout) {
  const bool layer_first = layout.preset == KVC_LAYOUT_LBNHC || layout.preset == KVC_LAYOUT_LBHNC;
  if (!layer_first) return {1, layout.block_bytes, layout.block_bytes, 0};
  return {layout.num_layers, layout.cell_bytes, layout.k.block, layout.k.layer};
}

// The selected bytes of all planes of a block as runs in ascending order; adjacent runs are joined. Writes at
// most `capacity` runs and returns their number. In a tiled plane, whole tiles are selected; of scales that
// tokens share, all that one of the tokens reads.
size_t layout_runs(const Layout& layout, uint64_t block, const kvc_selection& selection, kvc_run* runs,
                   size_t capacity);

}  // namespace kvc
