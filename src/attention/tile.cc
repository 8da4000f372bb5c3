// SPDX-License-Identifier: Apache-2.0
#include "attention/tile.h"

#include <algorithm>
#include <bit>

namespace kvc {

uint64_t TileWalk::token_offset(const Plane& plane, int64_t position) const {
  const uint64_t at = static_cast<uint64_t>(position), size = args_.layout->block_size;
  const uint64_t block = static_cast<uint64_t>(piece_.view.table[at / size]);
  return plane.offset(args_.layer, block, piece_.first_head, at % size);
}

void TileWalk::find_visible(Tile* tile) const {
  const uint64_t first = piece_.first_row / shape_.group;
  const uint64_t last = (piece_.first_row + piece_.rows - 1) / shape_.group;
  tile->all = true;
  for (uint32_t s = 0; s < tile->segments && tile->all; ++s) {
    tile->all = all_visible(args_, piece_.view, first, last, tile->position[s]) &&
                block_bits(tile->position[s]) == 0xffff;
  }
  const uint64_t every = ~0ull >> (kTile - tile->segments * kSegment);
  tile->any = every;
  tile->whole = true;
  if (tile->all) return;
  tile->any = 0;
  uint32_t row = 0;
  for (uint64_t query = first; query <= last; ++query) {
    uint64_t bits = 0;
    for (uint32_t s = 0; s < tile->segments; ++s) {
      const uint32_t seen = visible_bits(args_, piece_.view, query, tile->position[s]);
      bits |= static_cast<uint64_t>(seen & block_bits(tile->position[s])) << s * kSegment;
    }
    tile->any |= bits;
    const uint64_t end = std::min<uint64_t>((query + 1) * shape_.group - piece_.first_row, piece_.rows);
    while (row < end) tile->visible[row++] = bits;
  }
  tile->whole = tile->any == every;
}

void TileWalk::find_tiles(const Tile& tile, uint64_t* at) const {
  const Plane& plane = args_.layout->k;
  const uint64_t other =
      token_offset(plane, tile.position[static_cast<uint32_t>(std::countr_zero(tile.any)) / kSegment]);
  for (uint32_t s = 0; s < tile.segments; ++s) {
    const bool seen = (tile.any >> s * kSegment & 0xffff) != 0;
    at[s] = seen ? token_offset(plane, tile.position[s]) : other;
  }
}

bool TileWalk::find_rows(const Tile& tile, const Plane& plane, bool keys, uint64_t* at) const {
  const uint32_t first = static_cast<uint32_t>(std::countr_zero(tile.any));
  const uint64_t unseen =
      keys ? token_offset(plane, tile.position[first / kSegment] + first % kSegment) : kUnseen;
  bool adjoin = plane.token == sizeof(float);
  for (uint32_t s = 0; s < tile.segments; ++s, at += kSegment) {
    const uint32_t any = static_cast<uint32_t>(tile.any >> s * kSegment) & 0xffff;
    if (any == 0xffff && args_.layout->block_size % kSegment == 0) {
      at[0] = token_offset(plane, tile.position[s]);
      for (uint32_t t = 1; t < kSegment; ++t) at[t] = at[t - 1] + static_cast<uint64_t>(plane.token);
    } else {
      adjoin = false;
      for (uint32_t t = 0; t < kSegment; ++t) {
        at[t] = (any >> t & 1) != 0 ? token_offset(plane, tile.position[s] + t) : unseen;
      }
    }
  }
  return adjoin;
}

bool TileWalk::next(Tile* tile) {
  do {
    tile->segments = 0;
    for (; at_ != to_ && tile->segments < kMaxSegments; ++at_) {
      const int64_t position = piece_.span.position(at_);
      if (block_bits(position) != 0) tile->position[tile->segments++] = position;
    }
    if (tile->segments == 0) return false;
    find_visible(tile);
  } while (tile->any == 0);
  // Rows that are converted are read by position.
  const Layout& layout = *args_.layout;
  if (shape_.k_source == Source::kTiles) find_tiles(*tile, tile->k);
  if (shape_.k_source == Source::kRows) {
    find_rows(*tile, layout.k, true, tile->k);
    tile->k_scales_adjoin = layout.k_scale.exists() && find_rows(*tile, layout.k_scale, true, tile->k_scales);
  }
  if (shape_.v_source == Source::kRows) {
    find_rows(*tile, layout.v, false, tile->v);
    tile->v_scales_adjoin =
        layout.v_scale.exists() && find_rows(*tile, layout.v_scale, false, tile->v_scales);
  }
  return true;
}

}  // namespace kvc
