// SPDX-License-Identifier: Apache-2.0
#include "events/hash_chain.h"

#include <cstring>

#include "events/msgpack.h"

namespace kvc {
namespace {

// Feeds canonical CBOR (RFC 8949) to a hash, through a buffer of a block's usual size.
class CborHash {
 public:
  enum Major : uint8_t { kUnsigned = 0x00, kBytes = 0x40, kText = 0x60, kArray = 0x80 };

  void head(Major major, uint32_t value) {
    if (used_ + 5 > sizeof buffer_) flush();
    uint8_t* out = buffer_ + used_;
    if (value < 24) {
      *out++ = static_cast<uint8_t>(major | value);
    } else if (value <= UINT8_MAX) {
      *out++ = major | 24;
      *out++ = static_cast<uint8_t>(value);
    } else if (value <= UINT16_MAX) {
      *out++ = major | 25;
      const uint16_t wire = big_endian(static_cast<uint16_t>(value));
      std::memcpy(out, &wire, sizeof wire);
      out += sizeof wire;
    } else {
      *out++ = major | 26;
      const uint32_t wire = big_endian(value);
      std::memcpy(out, &wire, sizeof wire);
      out += sizeof wire;
    }
    used_ = static_cast<size_t>(out - buffer_);
  }
  void nil() {
    head(kArray, 0);
    buffer_[used_ - 1] = 0xf6;
  }
  void text(std::string_view value) {
    head(kText, static_cast<uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  void bytes(const Digest256& value) {
    head(kBytes, sizeof value.bytes);
    raw(value.bytes, sizeof value.bytes);
  }
  Digest256 finish() {
    flush();
    return sha_.finish();
  }

 private:
  void raw(const void* data, size_t size) {
    if (used_ + size > sizeof buffer_) flush();
    if (size > sizeof buffer_) {
      sha_.update(data, size);
    } else {
      std::memcpy(buffer_ + used_, data, size);
      used_ += size;
    }
  }
  void flush() {
    sha_.update(buffer_, used_);
    used_ = 0;
  }

  Sha256 sha_;
  size_t used_ = 0;
  uint8_t buffer_[512];
};

bool has_text(std::string_view text) { return text.data() != nullptr; }

}  // namespace

void to_hex(const Digest256& digest, char* out) {
  for (const uint8_t byte : digest.bytes) {
    *out++ = "0123456789abcdef"[byte >> 4];
    *out++ = "0123456789abcdef"[byte & 15];
  }
}

Digest256 vllm_root(std::string_view seed) {
  CborHash hash;
  hash.text(seed);
  return hash.finish();
}

Digest256 vllm_hash(const Digest256& parent, const int32_t* tokens, size_t num_tokens,
                    const ChainKeys& keys) {
  CborHash hash;
  hash.head(CborHash::kArray, 3);
  hash.bytes(parent);
  hash.head(CborHash::kArray, static_cast<uint32_t>(num_tokens));
  for (size_t i = 0; i < num_tokens; ++i) hash.head(CborHash::kUnsigned, static_cast<uint32_t>(tokens[i]));
  const bool has_extra = keys.extra != Digest256{};
  const uint32_t count = has_text(keys.lora_name) + has_extra + has_text(keys.salt);
  if (count == 0) {
    hash.nil();
    return hash.finish();
  }
  hash.head(CborHash::kArray, count);
  if (has_text(keys.lora_name)) {
    hash.head(CborHash::kArray, 3);
    hash.text("lora");
    hash.text(keys.lora_name);
    hash.text(keys.lora_path);
  }
  if (has_extra) {
    char hex[64];
    to_hex(keys.extra, hex);
    hash.head(CborHash::kArray, 3);
    hash.text("mm");
    hash.text({hex, sizeof hex});
    hash.head(CborHash::kUnsigned, 0);
  }
  if (has_text(keys.salt)) {
    hash.head(CborHash::kArray, 2);
    hash.text("cache_salt");
    hash.text(keys.salt);
  }
  return hash.finish();
}

Digest256 sglang_hash(const Digest256* parent, const int32_t* tokens, size_t num_tokens,
                      const ChainKeys& keys) {
  Sha256 sha;
  if (parent != nullptr) sha.update(parent->bytes, sizeof parent->bytes);
  sha.update(tokens, num_tokens * sizeof *tokens);
  for (const std::string_view text : {keys.lora_name, keys.salt}) {
    const uint64_t size = text.size();
    if (parent != nullptr || !has_text(text)) continue;
    sha.update(&size, sizeof size);
    sha.update(text.data(), size);
  }
  if (keys.extra != Digest256{}) sha.update(keys.extra.bytes, sizeof keys.extra.bytes);
  return sha.finish();
}

}  // namespace kvc
