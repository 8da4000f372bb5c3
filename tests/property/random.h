// SPDX-License-Identifier: Apache-2.0
// splitmix64: the same numbers on every platform, which std::uniform_int_distribution does not promise. A
// fuzzer gives bytes instead, two for each number, before those.
#ifndef KVCACHE_TESTS_PROPERTY_RANDOM_H_
#define KVCACHE_TESTS_PROPERTY_RANDOM_H_

#include <cstddef>
#include <cstdint>

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  Random(const uint8_t* bytes, size_t size) : bytes_(bytes), end_(bytes + size) {}
  bool exhausted() const { return bytes_ == end_; }
  uint64_t next() {
    if (bytes_ != end_) {
      uint64_t value = 0;
      for (int shift = 0; shift < 16 && bytes_ != end_; shift += 8) value |= uint64_t{*bytes_++} << shift;
      return value;
    }
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return n ? next() % n : 0; }                              // 0 .. n - 1
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }  // both included
  bool chance(uint64_t percent) { return below(100) < percent; }

 private:
  uint64_t state_ = 0;
  const uint8_t *bytes_ = nullptr, *end_ = nullptr;
};

#endif  // KVCACHE_TESTS_PROPERTY_RANDOM_H_
