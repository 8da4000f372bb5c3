// SPDX-License-Identifier: Apache-2.0
// The table hash: a chain over block contents, seeded by a secret. It only finds candidates; every hit is
// compared, so nothing but speed depends on it. The parent's position takes no part, which lets a whole
// prompt be hashed before any look-up.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/ids.h"

namespace kvc {

class TableHash {
 public:
  void init(uint64_t seed);

  // Start of the chain for a namespace: its index and the generation of the index. Epochs are told apart by
  // comparison alone.
  uint64_t root(NamespaceId ns, uint32_t generation) const;
  // out[i] = chain over tokens [0, (i + 1) * block_size) after `chain`; returns the last one.
  uint64_t blocks(uint64_t chain, const int32_t* tokens, size_t block_size, size_t num_blocks,
                  uint64_t* out) const;
  // Mixes the identity of extra content into the chain, after the block's tokens.
  uint64_t extra(uint64_t chain, const void* data, size_t size) const;

 private:
  static constexpr size_t kSecretSize = 192;
  alignas(64) unsigned char secret_[kSecretSize];
};

// A fixed, unseeded 64-bit hash for state digests: the same in every process and build.
class DigestHash {
 public:
  void add(uint64_t value);
  void add_bytes(const void* data, size_t size);
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x2545F4914F6CDD1Du;
};

}  // namespace kvc
