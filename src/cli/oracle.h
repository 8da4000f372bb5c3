// SPDX-License-Identifier: Apache-2.0
// The content oracle of `replay --verify`: it simulates the memory of the block ids. Each slot remembers the
// chain (a 64-bit hash of all tokens up to its own) that was last written to it. A hit is compared slot by
// slot, and no slot may be written while another live request has it in its table. The oracle sees block
// tables and slots only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cli/slot_memory.h"

namespace kvcli {

class Oracle {
 public:
  /// `real_bytes`: the memory is a kvc_storage.
  Oracle(uint64_t num_blocks, uint32_t block_size, bool real_bytes = false);

  /// A request was admitted with these tokens, of which the first num_cached are cached, and this block
  /// table.
  void admit(uint32_t request, std::span<const int32_t> tokens, uint64_t num_cached,
             std::span<const int32_t> table);

  /// The engine computes the part of the admitted tokens that was not cached.
  void write_uncached(uint32_t request);

  /// The engine computes one more token, in this slot.
  void extend(uint32_t request, int32_t token, int64_t slot);

  /// The request will be freed and has this block table: its content must still be there.
  void release(uint32_t request, std::span<const int32_t> table);

  uint64_t wrong_hits() const { return wrong_hits_; }  ///< Admissions whose cached tokens are not all there.
  uint64_t wrong_writes() const { return wrong_writes_; }  ///< Slots that are shared, unknown or lost.

 private:
  struct Request {
    std::vector<uint64_t> chains;  // One per token.
    std::vector<int32_t> table;
    uint64_t num_cached = 0;
  };

  bool known_block(int32_t block) const { return block >= 0 && static_cast<uint64_t>(block) < num_blocks_; }
  /// Slot of a position; -1 if its block id is invalid.
  int64_t slot_of(const Request& request, size_t position) const;
  /// Number of positions in [0, end) that do not hold their chain.
  uint64_t missing(const Request& request, size_t end);
  void write(const Request& request, size_t begin, size_t end);

  uint64_t num_blocks_;
  uint32_t block_size_;
  std::unique_ptr<SlotMemory> memory_;
  std::vector<uint32_t> holders_;  // Per block: live requests with it in their table.
  std::unordered_map<uint32_t, Request> live_;
  uint64_t wrong_hits_ = 0;
  uint64_t wrong_writes_ = 0;
  std::vector<int64_t> slots_;  // scratch
  std::vector<uint64_t> values_, expected_;
};

}  // namespace kvcli
