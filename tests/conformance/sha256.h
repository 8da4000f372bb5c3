// SPDX-License-Identifier: Apache-2.0
// SHA-256 as FIPS 180-4 writes it, so that a consumer's recomputation of event digests shares no code with
// the library.
#ifndef KVCACHE_TESTS_CONFORMANCE_SHA256_H_
#define KVCACHE_TESTS_CONFORMANCE_SHA256_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace conformance {

using Digest = std::array<uint8_t, 32>;

// The first 32 bits of the fraction of a root of the i-th prime: the constants, computed instead of copied.
inline uint32_t root_bits(int i, bool cube) {
  int prime = 2;
  for (int found = 0;; ++prime) {
    bool is_prime = true;
    for (int d = 2; d * d <= prime; ++d) is_prime &= prime % d != 0;
    if (is_prime && found++ == i) break;
  }
  const long double root =
      cube ? std::cbrt(static_cast<long double>(prime)) : std::sqrt(static_cast<long double>(prime));
  return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
}

inline Digest sha256(std::vector<uint8_t> message) {
  uint32_t k[64], h[8];
  for (int i = 0; i < 64; ++i) k[i] = root_bits(i, true);
  for (int i = 0; i < 8; ++i) h[i] = root_bits(i, false);
  const uint64_t bits = message.size() * 8;
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (int i = 56; i >= 0; i -= 8) message.push_back(static_cast<uint8_t>(bits >> i));
  for (size_t at = 0; at < message.size(); at += 64) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i)
      w[i] = uint32_t{message[at + 4 * i]} << 24 | uint32_t{message[at + 4 * i + 1]} << 16 |
             uint32_t{message[at + 4 * i + 2]} << 8 | uint32_t{message[at + 4 * i + 3]};
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    uint32_t v[8];
    for (int i = 0; i < 8; ++i) v[i] = h[i];
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25),
                     ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
      const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
      const uint32_t one = v[7] + s1 + ch + k[i] + w[i],
                     two = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      for (int j = 7; j > 0; --j) v[j] = v[j - 1];
      v[4] += one, v[0] = one + two;
    }
    for (int i = 0; i < 8; ++i) h[i] += v[i];
  }
  Digest out;
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(h[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

}  // namespace conformance

#endif  // KVCACHE_TESTS_CONFORMANCE_SHA256_H_
