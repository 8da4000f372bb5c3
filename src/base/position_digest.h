// SPDX-License-Identifier: Apache-2.0
// The chain of digests that names a prefix outside the process: kvc_event.digest is defined by it, and the
// keys of pages begin with it. The first parent is the digest of the namespace.
//
// The tokens come first in the message, so they are hashed beside the position before.
#pragma once
#include <cstring>

#include "base/sha256.h"

namespace kvc {

class PositionDigests {
 public:
  // `tokens`: of the first position.
  PositionDigests(uint32_t block_size, const int32_t* tokens, Sha256Path path = Sha256Path::kInstructions)
      : sha_(path), block_size_(block_size), tokens_(tokens) {
    sha_.begin(tokens, bytes());
  }

  // The digest of a position. `extra`: all zero if it has no extra keys; `next`: tokens of the next position,
  // null = there is none. The parent may be the digest of the call before.
  Digest256 next(const Digest256& parent, const Digest256& extra, const int32_t* next) {
    uint8_t rest[kBlockBytes + 2 * sizeof(Digest256) + sizeof(uint32_t) + kPadding];
    size_t used = bytes() % kBlockBytes;
    std::memcpy(rest, reinterpret_cast<const uint8_t*>(tokens_) + bytes() - used, used);
    const auto add = [&](const void* data, size_t size) {
      std::memcpy(rest + used, data, size);
      used += size;
    };
    add(parent.bytes, sizeof parent.bytes);
    const bool has_extra = extra != Digest256{};
    if (has_extra) add(extra.bytes, sizeof extra.bytes);
    const uint32_t end = block_size_ | uint32_t{has_extra} << 31;
    add(&end, sizeof end);
    const size_t size = Sha256Pipeline::pad(rest, used, bytes() - bytes() % kBlockBytes + used);
    tokens_ = next;
    return sha_.finish(rest, size, next, next == nullptr ? 0 : bytes());
  }

 private:
  static constexpr size_t kBlockBytes = 64, kPadding = 72;
  size_t bytes() const { return block_size_ * sizeof(int32_t); }

  Sha256Pipeline sha_;
  uint32_t block_size_;
  const int32_t* tokens_;  // of the position that has begun
};

}  // namespace kvc
