// SPDX-License-Identifier: Apache-2.0
// The only includer of xxhash.h.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvc {
namespace {

inline uint64_t multiply_fold(uint64_t a, uint64_t b) {
  const __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Only this short step waits for the previous block; the content hashes overlap.
inline uint64_t mix(uint64_t chain, uint64_t content) {
  return multiply_fold(chain ^ 0x9E3779B97F4A7C15u, content ^ 0xC2B2AE3D27D4EB4Fu) + content;
}

}  // namespace

void TableHash::init(uint64_t seed) {
  static_assert(kSecretSize >= XXH3_SECRET_SIZE_MIN);
  static_assert(kSecretSize == XXH3_SECRET_DEFAULT_SIZE);
  XXH3_generateSecret_fromSeed(secret_, seed);
}

uint64_t TableHash::root(NamespaceId ns, uint32_t generation) const {
  const uint64_t identity[2] = {ns, generation};
  return XXH3_64bits_withSecret(identity, sizeof identity, secret_, kSecretSize);
}

uint64_t TableHash::blocks(uint64_t chain, const int32_t* tokens, size_t block_size, size_t num_blocks,
                           uint64_t* out) const {
  const size_t bytes = block_size * sizeof(int32_t);
  if (block_size == 16) {  // the usual size: the length is a constant for the inlined hash
    for (size_t i = 0; i < num_blocks; ++i) {
      chain = mix(chain, XXH3_64bits_withSecret(tokens + 16 * i, 64, secret_, kSecretSize));
      out[i] = chain;
    }
    return chain;
  }
  for (size_t i = 0; i < num_blocks; ++i) {
    chain = mix(chain, XXH3_64bits_withSecret(tokens + block_size * i, bytes, secret_, kSecretSize));
    out[i] = chain;
  }
  return chain;
}

uint64_t TableHash::extra(uint64_t chain, const void* data, size_t size) const {
  return mix(chain, XXH3_64bits_withSecret(data, size, secret_, kSecretSize));
}

void DigestHash::add(uint64_t value) { state_ = mix(state_, value); }

void DigestHash::add_bytes(const void* data, size_t size) {
  add(size);
  add(XXH3_64bits(data, size));
}

}  // namespace kvc
