// SPDX-License-Identifier: Apache-2.0
#include "speculation/ngrams.h"

#include <algorithm>
#include <cstring>

namespace kvc {

size_t find_suffix(const int32_t* tokens, size_t size, uint32_t min, uint32_t max) {
  size_t best = 0, longest = min - 1;
  for (size_t end = size; end-- > 1 && longest < max;) {
    const size_t most = std::min<size_t>(max, end);
    size_t n = 0;
    while (n < most && tokens[end - 1 - n] == tokens[size - 1 - n]) ++n;
    if (n > longest) longest = n, best = end;
  }
  return best;
}

void continue_from(const int32_t* tokens, size_t size, size_t at, int32_t* out, size_t length) {
  const size_t period = size - at;
  const size_t first = std::min(length, period);
  std::copy_n(tokens + at, first, out);
  for (size_t i = first; i < length; ++i) out[i] = out[i - period];
}

template <typename Visit>
void NgramIndex::for_each_length(size_t end, Visit&& visit) const {
  uint64_t hash = 0;
  const auto most = static_cast<uint32_t>(std::min<size_t>(max_, end));
  for (uint32_t n = 1; n <= most; ++n) {
    hash = (hash ^ static_cast<uint32_t>(tokens_[end - n])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    if (n >= min_ && !visit(n, hash)) return;
  }
}

bool NgramIndex::same(size_t end, size_t other, uint32_t n) const {
  return std::memcmp(tokens_.data() + end - n, tokens_.data() + other - n, n * sizeof(int32_t)) == 0;
}

void NgramIndex::enter(size_t end) {
  for_each_length(end, [&](uint32_t n, uint64_t hash) {
    uint32_t* slots = table(n);
    size_t slot = hash & (num_slots_ - 1);
    for (size_t probe = 1; probe < kMaxProbes && slots[slot] != 0 && !same(end, slots[slot], n); ++probe)
      slot = (slot + 1) & (num_slots_ - 1);
    slots[slot] = static_cast<uint32_t>(end);
    return true;
  });
}

void NgramIndex::enter_all() {
  std::fill_n(ends_.data(), ends_.size(), 0u);
  // The last n-grams are not followed by anything yet.
  for (size_t end = 1; end < size_; ++end) enter(end);
}

size_t NgramIndex::find() const {
  size_t found = 0;
  for_each_length(size_, [&](uint32_t n, uint64_t hash) {
    const uint32_t* slots = table(n);
    size_t slot = hash & (num_slots_ - 1);
    for (size_t probe = 0; probe < kMaxProbes && slots[slot] != 0;
         ++probe, slot = (slot + 1) & (num_slots_ - 1)) {
      if (!same(size_, slots[slot], n)) continue;
      found = slots[slot];
      return true;  // a longer one may have occurred too
    }
    return false;  // and none that is longer
  });
  return found;
}

bool NgramIndex::reserve(Memory& memory, size_t size) {
  if (size <= tokens_.size()) return true;
  const size_t capacity = next_power_of_two(std::max<size_t>(size, 16));
  Array<uint32_t> ends;
  if (!ends.create(memory, (max_ - min_ + 1) * capacity * 2) || !tokens_.grow(memory, capacity)) return false;
  ends_.swap(ends);
  num_slots_ = capacity * 2;
  enter_all();
  return true;
}

void NgramIndex::append(int32_t token) {
  if (size_ != 0) enter(size_);
  tokens_[size_++] = token;
}

void NgramIndex::truncate(size_t size) {
  if (size == size_) return;
  size_ = size;
  enter_all();
}

}  // namespace kvc
