// SPDX-License-Identifier: Apache-2.0
// The numbers of the bits of a mask, the lowest first: for (const uint32_t group : bits_of(groups)).
#pragma once
#include <cstdint>

namespace kvc {

class BitsOf {
 public:
  struct End {};
  class Iterator {
   public:
    constexpr explicit Iterator(uint64_t rest) : rest_(rest) {}
    constexpr uint32_t operator*() const { return static_cast<uint32_t>(__builtin_ctzll(rest_)); }
    constexpr void operator++() { rest_ &= rest_ - 1; }
    constexpr bool operator!=(End) const { return rest_ != 0; }

   private:
    uint64_t rest_;
  };

  constexpr explicit BitsOf(uint64_t mask) : mask_(mask) {}
  constexpr Iterator begin() const { return Iterator(mask_); }
  constexpr End end() const { return {}; }

 private:
  uint64_t mask_;
};

constexpr BitsOf bits_of(uint64_t mask) { return BitsOf(mask); }
// The lowest one; the mask is not empty.
constexpr uint32_t first_bit(uint64_t mask) { return static_cast<uint32_t>(__builtin_ctzll(mask)); }

}  // namespace kvc
