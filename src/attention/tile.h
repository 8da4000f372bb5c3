// SPDX-License-Identifier: Apache-2.0
// Finds the tiles that a piece reads, one after the other: which tokens some row sees, and where the keys and
// values of the first KV head are. Table entries of blocks that no row sees are never used.
#pragma once
#include "attention/plan.h"

namespace kvc {

inline constexpr uint64_t kUnseen = 1ull << 62;  // an offset beyond all memory

struct Tile {
  uint32_t segments;
  bool all;      // every row sees every token
  uint64_t any;  // bit per token: some row sees it
  int64_t position[kMaxSegments];
  // Offsets in the slab. Keys: of each token, or of each segment's tile; a token that no row sees has the
  // offset of another one. Values: of each token; kUnseen if no row sees it.
  uint64_t k[kTile], k_scales[kTile];
  uint64_t v[kTile], v_scales[kTile];
  bool whole;                             // some row sees every token
  bool k_scales_adjoin, v_scales_adjoin;  // see Rows
  uint64_t visible[kMaxRows];             // bit per token, of each row; not set if `all`
};

class TileWalk {
 public:
  // Segments [from, to) of the piece's span.
  TileWalk(const AttentionArgs& args, const AttentionShape& shape, const Piece& piece, uint64_t from,
           uint64_t to)
      : args_(args), shape_(shape), piece_(piece), at_(from), to_(to) {}
  bool next(Tile* tile);  // false: no row sees any further tile

 private:
  void find_visible(Tile* tile) const;
  void find_tiles(const Tile& tile, uint64_t* at) const;
  // Returns whether the rows are floats that adjoin.
  bool find_rows(const Tile& tile, const Plane& plane, bool keys, uint64_t* at) const;
  uint64_t token_offset(const Plane& plane, int64_t position) const;
  uint32_t block_bits(int64_t position) const {  // with a block mask, a piece has one head
    if (args_.block_mask == nullptr) return 0xffff;
    return kvc::block_bits(args_, piece_.view, piece_.first_head, position);
  }

  const AttentionArgs& args_;
  const AttentionShape& shape_;
  const Piece& piece_;
  uint64_t at_, to_;
};

}  // namespace kvc
