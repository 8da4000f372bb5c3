// SPDX-License-Identifier: Apache-2.0
#include "request/lengths.h"

namespace kvc {
namespace {

// Tokens of 32 bits; of [2^e, 2^(e+1)) each eighth has a count of its own.
size_t count_of(uint32_t tokens) {
  if (tokens < 16) return tokens;
  const auto e = static_cast<uint32_t>(31 - __builtin_clz(tokens));
  return 16 + (e - 4) * 8 + (tokens >> (e - 3) & 7);
}

uint64_t longest_in(size_t count) {
  if (count < 16) return count;
  const size_t e = (count - 16) / 8 + 4, eighth = (count - 16) % 8;
  return (uint64_t{8 + eighth + 1} << (e - 3)) - 1;
}

}  // namespace

void Lengths::add(uint32_t tokens) {
  ++counts_[count_of(tokens)];
  if (++total_ < kMost) return;
  total_ = 0;
  for (uint32_t& count : counts_) total_ += count /= 2;
}

uint64_t Lengths::rest(uint32_t percent, uint64_t done) const {
  const size_t first = count_of(done < UINT32_MAX ? static_cast<uint32_t>(done) : UINT32_MAX);
  uint64_t longer = 0;
  for (size_t i = first; i < kNumCounts; ++i) longer += counts_[i];
  if (longer == 0) return 0;
  uint64_t seen = 0;
  size_t i = first;
  while ((seen += counts_[i]) * 100 < longer * percent) ++i;
  const uint64_t length = longest_in(i);
  return length > done ? length - done : 0;
}

bool Lengths::intact() const {
  uint64_t sum = 0;
  for (const uint32_t count : counts_) sum += count;
  return sum == total_ && total_ < kMost;
}

}  // namespace kvc
