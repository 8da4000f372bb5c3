// SPDX-License-Identifier: Apache-2.0
// One match: goes along the blocks of a prompt and notes where each holder has its first gap. It keeps the
// words of the first block's holders, and takes out of them what the next blocks lack. Blocks with the set of
// the block before cost one comparison.
//
// Used by one thread, beside the writer. What is read of a set counts only if the block still had it
// afterwards.
#pragma once
#include "index/prefix_index.h"

namespace kvc {

class MatchWalk {
 public:
  MatchWalk(PrefixIndex& index, uint64_t* ids, uint32_t* matched, size_t capacity)
      : index_(index), ids_(ids), matched_(matched), capacity_(capacity), columns_(1 + index.num_media()) {
    const uint32_t bits = index.workers_.unit_bits();
    first_bits_ = ~uint64_t{0};
    if (bits < 64) first_bits_ /= (uint64_t{1} << bits) - 1;
  }

  void begin();
  // The next blocks of the prompt. False: no worker has them all, or the answer has no room.
  bool go(const uint8_t* digests, size_t num_blocks);
  // False: a place of a worker got another owner meanwhile; begin again.
  bool end();

  size_t count() const { return count_; }
  bool has_room() const { return count_ <= capacity_; }

 private:
  BlockTable::Found look_up(BlockKey key) const;
  bool start(BlockTable::Found found);   // false: the block has changed
  bool narrow(BlockTable::Found found);  // the same
  // Bit 0 of each unit that has any bit.
  uint64_t units_of(uint64_t bits) const {
    for (uint32_t shift = index_.workers_.unit_bits() / 2; shift != 0; shift /= 2) bits |= bits >> shift;
    return bits & first_bits_;
  }
  uint32_t row_of(uint32_t at, uint64_t below) const {
    return base_[at] + static_cast<uint32_t>(__builtin_popcountll(rows_[at] & below));
  }

  PrefixIndex& index_;
  uint64_t* const ids_;
  uint32_t* const matched_;
  const size_t capacity_;
  const uint32_t columns_;
  uint64_t first_bits_;  // bit 0 of each unit

  uint64_t assignments_ = 0;
  size_t count_ = 0;    // rows
  uint32_t depth_ = 0;  // blocks behind
  bool started_ = false;
  BlockTable::Index last_ = 0;  // entry of the block before
  bool in_a_row_ = false;       // it lies behind that of the one before it
  SetId set_ = HolderSets::kEmpty;
  uint32_t generation_ = 0;
  uint32_t alive_ = 0;  // words
  uint32_t word_[HolderSets::kMaxWords];
  uint32_t base_[HolderSets::kMaxWords];   // row of the word's first unit
  uint64_t rows_[HolderSets::kMaxWords];   // units with a row
  uint64_t media_[HolderSets::kMaxWords];  // holders that have all blocks so far
  uint64_t units_[HolderSets::kMaxWords];  // units that have all blocks so far, in any medium
  uint64_t fresh_[HolderSets::kMaxWords];
};

}  // namespace kvc
