// SPDX-License-Identifier: Apache-2.0
// What blocks are called on the wire: a chain of SHA-256 over a prefix, by the rule of the engine whose
// consumers are to recognise it. Functions of their arguments alone.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/sha256.h"

namespace kvc {

// What else tells a block apart from one with the same tokens. A text without data() is absent.
struct ChainKeys {
  std::string_view lora_name, lora_path;  // of all blocks of the prefix
  std::string_view salt;                  // of its first block
  Digest256 extra = {};                   // kvc_event.extra_digest of this block
};

// vLLM's NONE_HASH, the parent of first blocks, of a process with this seed.
Digest256 vllm_root(std::string_view seed);

// vLLM's hash of a block with --prefix-caching-hash-algo sha256_cbor: SHA-256 of the canonical CBOR of
// (parent, tokens, extra keys). Where vLLM knows what an image is called, we know a digest: extra keys are
// ("mm", the digest in hexadecimal, 0) then.
Digest256 vllm_hash(const Digest256& parent, const int32_t* tokens, size_t num_tokens, const ChainKeys& keys);

// SGLang's hash of a page: SHA-256 of the parent's hash, absent for the first page, and the tokens as
// little-endian uint32. Behind the tokens comes what SGLang's events do not name: of the first page the name
// of the adapter and the salt, each after its length in 8 bytes; and the extra digest.
Digest256 sglang_hash(const Digest256* parent, const int32_t* tokens, size_t num_tokens,
                      const ChainKeys& keys);

// 64 lower-case digits.
void to_hex(const Digest256& digest, char* out);

}  // namespace kvc
