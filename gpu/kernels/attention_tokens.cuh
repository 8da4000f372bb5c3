// SPDX-License-Identifier: Apache-2.0
// Where the tokens of tiles are. Each of the first 64 threads of a block looks up a token some tiles ahead,
// and later keeps it in a ring buffer in shared memory: nothing waits for the block table. A tile that is
// kept replaces the one kRingTiles tiles before.
#pragma once
#include "kernels/attention_part.cuh"

namespace kvc::gpu {

struct TokenPlace {
  int32_t block = 0;  // from the table; keep() waits for the load
  uint32_t token = 0;
  bool is_read = false;
  uint32_t seen = 0;  // of the 32 tokens of this warp, a bit each: those that are read
  bool full = false;  // every row sees all of the tile that is read

  KVC_DEVICE uint64_t block_index() const { return static_cast<uint32_t>(block); }
};

// The offset of a token's row of the part's head in the plane of keys. A row that is not read has offset 0,
// which is valid, with the highest bit set.
struct RowOffset {
  static constexpr uint64_t kUnread = uint64_t{1} << 63;

  uint64_t bits;
  // Tests the upper half; for a test of the sign the compiler makes more instructions.
  KVC_DEVICE bool is_read() const { return static_cast<uint32_t>(bits >> 32) != kUnread >> 32; }
  KVC_DEVICE uint64_t bytes() const { return bits & ~kUnread; }
};

template <uint32_t kRingTiles>
class TokenRing {
 public:
  static constexpr uint32_t kBytes = kRingTiles * (kAttentionTile * 8 + 16);

  // `memory`: kBytes of the block's.
  KVC_DEVICE explicit TokenRing(unsigned char* memory) : memory_(memory) {}

  // Tiles are counted from the part's first one.
  KVC_DEVICE static TokenPlace find(const AttentionArgs& args, const Part& part, int32_t tile) {
    TokenPlace place;
    if (threadIdx.x >= kAttentionTile) return place;
    const Piece& piece = part.piece;
    const int64_t position = piece.span.position(part.first_tile + tile), j = position + threadIdx.x;
    place.token = args.block_size.remainder(static_cast<uint32_t>(j));
    if (piece.whole.holds_tile(position)) {
      place.block = block_of(args, part, j);
      place.is_read = place.full = true;
      place.seen = 0xFFFFFFFFu;
      return place;
    }
    place.is_read = may_read(args, part, j);
    if (place.is_read) place.block = block_of(args, part, j);
    place.seen = static_cast<uint32_t>(ballot(place.is_read));
    place.full = sees_tile(args, piece.view, piece.first_query, piece.last_query, position);
    return place;
  }
  KVC_DEVICE void keep(const AttentionArgs& args, const Part& part, int32_t tile,
                       const TokenPlace& place) const {
    if (threadIdx.x >= kAttentionTile) return;
    const uint64_t offset = offset_in(args.k, place.block_index(), part.head, place.token);
    rows(tile)[threadIdx.x] = place.is_read ? offset : RowOffset::kUnread;
    if (threadIdx.x % 32 == 0) marks(tile)[threadIdx.x / 32] = place.seen;
    if (threadIdx.x == 0) marks(tile)[2] = place.full ? 1 : 0;
  }

  KVC_DEVICE RowOffset row(int32_t tile, uint32_t token) const { return {rows(tile)[token]}; }
  KVC_DEVICE uint32_t seen(int32_t tile, uint32_t token) const {  // from `token` on to a multiple of 32
    return marks(tile)[token / 32] >> token % 32;
  }
  KVC_DEVICE bool is_full(int32_t tile) const {
    return marks(tile)[2] != 0 && (marks(tile)[0] & marks(tile)[1]) == 0xFFFFFFFFu;
  }
  KVC_DEVICE bool is_empty(int32_t tile) const { return (marks(tile)[0] | marks(tile)[1]) == 0; }

 private:
  KVC_DEVICE static uint32_t ring_entry(int32_t tile) { return static_cast<uint32_t>(tile) % kRingTiles; }
  KVC_DEVICE uint64_t* rows(int32_t tile) const {
    return reinterpret_cast<uint64_t*>(memory_) + ring_entry(tile) * kAttentionTile;
  }
  KVC_DEVICE uint32_t* marks(int32_t tile) const {
    return reinterpret_cast<uint32_t*>(memory_ + kRingTiles * kAttentionTile * 8) + ring_entry(tile) * 4;
  }

  unsigned char* memory_;
};

}  // namespace kvc::gpu
