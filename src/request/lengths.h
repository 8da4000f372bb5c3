// SPDX-License-Identifier: Apache-2.0
// How many tokens requests got after their prompts: a histogram of those that have ended, exact below 16
// tokens, above with 8 counts for each power of two. Whenever kMost have been counted, all counts are halved,
// so that old requests fade. It takes no memory and decides the same for the same calls. Not thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

class Lengths {
 public:
  static constexpr uint32_t kNumCounts = 16 + 28 * 8;
  static constexpr uint32_t kMost = 65536;

  void add(uint32_t tokens);
  // Of the requests with at least `done` tokens, `percent` in a hundred got at most so many more. 0 if there
  // are none.
  uint64_t rest(uint32_t percent, uint64_t done) const;

  uint32_t count(size_t i) const { return counts_[i]; }
  bool intact() const;

 private:
  uint32_t counts_[kNumCounts] = {};
  uint32_t total_ = 0;
};

}  // namespace kvc
