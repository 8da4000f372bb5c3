// SPDX-License-Identifier: Apache-2.0
// The chain of digests that names a prefix outside the process: kvc_event.digest is defined by it, and the
// keys of pages begin with it. The first parent is the digest of the namespace.
#pragma once
#include "base/sha256.h"

namespace kvc {

inline Digest256 position_digest(const Digest256& parent, const Digest256& extra, uint32_t block_size,
                                 const int32_t* tokens) {
  Sha256 sha;
  sha.update(parent.bytes, sizeof parent.bytes);
  sha.update(extra.bytes, sizeof extra.bytes);
  sha.update(&block_size, sizeof block_size);
  sha.update(tokens, block_size * sizeof(int32_t));
  return sha.finish();
}

}  // namespace kvc
