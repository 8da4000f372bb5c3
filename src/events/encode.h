// SPDX-License-Identifier: Apache-2.0
// Writes a batch of events in the schema of vLLM (schema.h), byte for byte as its own encoder does. Allocates
// nothing: the caller's buffer has the bytes of wire_bound(). Functions of their arguments alone.
#pragma once
#include <span>
#include <string_view>

#include "base/sha256.h"

namespace kvc {

enum class WireHash : uint8_t {
  kLastBytes,   // the last 8 bytes, unsigned (vLLM)
  kFirstBytes,  // the first 8 bytes, signed (SGLang)
  kBytes        // all 32 bytes
};

struct WireFormat {
  bool arrays = false;  // events as arrays instead of maps
  WireHash hash = WireHash::kLastBytes;
  int64_t rank = 0;  // data parallel rank; -1 = none
  std::string_view medium = "GPU";
  uint32_t block_size = 16;
};

// Groups of layers, as consumers know them.
struct WireGroup {
  std::string_view kind;  // "full_attention"; empty = nothing is told of the group
  uint32_t window = 0;    // tokens; 0 = none
};

// One event to write: blocks one behind the other of one group.
struct WireRun {
  uint32_t kind = 0;  // KVC_EVENT_STORED, REMOVED, ALL_CLEARED; that has a kind alone
  uint32_t group = 0;
  const Digest256* parent = nullptr;  // STORED: null = the first block begins a prompt
  std::span<const Digest256> hashes;
  // STORED: [blocks * block_size], and [blocks] kvc_event.extra_digest.
  const int32_t* tokens = nullptr;
  const Digest256* extras = nullptr;
  std::string_view lora_name;  // STORED: no data() = none
};

// Most bytes that encode_batch() may write.
size_t wire_bound(const WireFormat& format, std::span<const WireGroup> groups, std::span<const WireRun> runs);

// Returns the bytes written. `time`: seconds since 1970.
size_t encode_batch(const WireFormat& format, double time, std::span<const WireGroup> groups,
                    std::span<const WireRun> runs, uint8_t* out);

}  // namespace kvc
