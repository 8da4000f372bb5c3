// SPDX-License-Identifier: Apache-2.0
// The encoder of a request: what identifies its tokens, which the tables of cross groups hold. The encoder's
// blocks hang in the prefix tree below the root of the namespace, as positions of placeholder tokens under
// one extra key. No prompt has placeholder tokens, since its tokens are not negative; so a position holds
// blocks of cross groups, or blocks of the other groups. docs/SEMANTICS.md, "Cross-attention".
#pragma once
#include "manager/lookup.h"

namespace kvc {

inline constexpr int32_t kCrossToken = -1;

// What a manager with cross groups keeps of a request whose encoder has a digest.
struct Cross {
  ExtraKey key;             // over all of the encoder's tokens
  Buffer<uint64_t> hashes;  // table keys of its positions
  KeyList keys() const { return {&key, 1}; }
};

// The first key of a request: what the decoder computes depends on the encoder's digest and on the number of
// its tokens. False if there is no digest.
bool cross_key(const kvc_request_config& config, kvc_extra_key* key);
// UNSUPPORTED if another key of the prompt covers the first token.
kvc_status check_cross_key(const TokenSpan& prompt, const kvc_extra_key& key);

}  // namespace kvc
