// SPDX-License-Identifier: Apache-2.0
// Prompt lookup: the longest suffix of a sequence that occurred in it before, and what followed.
// `find_suffix` reads the sequence; NgramIndex keeps, for each n-gram of each length, where it was seen last,
// in tables with open addressing whose keys are the tokens themselves. Both give the same answer, unless an
// index gave up after kMaxProbes: then it forgets. Not thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/memory.h"

namespace kvc {

inline constexpr uint32_t kMaxNgram = 32;

// The position behind the occurrence, or 0: no suffix of min .. max tokens occurred before.
size_t find_suffix(const int32_t* tokens, size_t size, uint32_t min, uint32_t max);

// What follows position `at` of a sequence, as if it repeated.
void continue_from(const int32_t* tokens, size_t size, size_t at, int32_t* out, size_t length);

class NgramIndex {
 public:
  static constexpr size_t kMaxTokens = INT32_MAX;

  void configure(uint32_t min, uint32_t max) { min_ = min, max_ = max; }
  // Room for `size` tokens in all; false: no memory, and nothing has changed.
  [[nodiscard]] bool reserve(Memory& memory, size_t size);
  void append(int32_t token);  // there is room
  void truncate(size_t size);
  size_t find() const;  // as find_suffix

  const int32_t* tokens() const { return tokens_.data(); }
  size_t size() const { return size_; }

  uint64_t stamp = 0;  // of the caller

 private:
  static constexpr size_t kMaxProbes = 128;

  // Slots of one length in `ends`, with the positions behind n-grams; 0 = empty.
  uint32_t* table(uint32_t n) { return ends_.data() + (n - min_) * num_slots_; }
  const uint32_t* table(uint32_t n) const { return ends_.data() + (n - min_) * num_slots_; }
  // Calls visit(n, hash of the n tokens before `end`) for each length, while that returns true.
  template <typename Visit>
  void for_each_length(size_t end, Visit&& visit) const;
  bool same(size_t end, size_t other, uint32_t n) const;
  void enter(size_t end);  // the n-grams before it
  void enter_all();

  uint32_t min_ = 1, max_ = 1;
  size_t size_ = 0, num_slots_ = 0;  // slots of each table, a power of two, at least twice the tokens
  Array<int32_t> tokens_;
  Array<uint32_t> ends_;
};

}  // namespace kvc
