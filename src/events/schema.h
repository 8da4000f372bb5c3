// SPDX-License-Identifier: Apache-2.0
// The schema of a batch of events: names and places of the fields (vLLM 0.33, vllm/distributed/kv_events.py).
// A batch is [time, [event, ...], rank]. An event is a map whose first key is "type", or an array whose first
// entry is the type and whose others are the fields in the order below.
#pragma once
#include <kvcache/events.h>

#include <cstdint>
#include <iterator>
#include <string_view>

namespace kvc {

enum WireField : uint32_t {
  kBlockHashes,
  kParentBlockHash,
  kTokenIds,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kExtraKeys,
  kGroupIdx,
  kSpecKind,
  kSlidingWindow,
  kNoField
};

inline constexpr const char* kFieldNames[] = {"block_hashes",
                                              "parent_block_hash",
                                              "token_ids",
                                              "block_size",
                                              "lora_id",
                                              "medium",
                                              "lora_name",
                                              "extra_keys",
                                              "group_idx",
                                              "kv_cache_spec_kind",
                                              "kv_cache_spec_sliding_window"};
static_assert(std::size(kFieldNames) == kNoField);

constexpr const char* type_name(uint32_t kind) {
  return kind == KVC_EVENT_STORED    ? "BlockStored"
         : kind == KVC_EVENT_REMOVED ? "BlockRemoved"
                                     : "AllBlocksCleared";
}

inline uint32_t field_by_name(std::string_view name) {
  uint32_t field = 0;
  while (field < kNoField && name != kFieldNames[field]) ++field;
  return field;
}

// The field at a place of an array, behind the type.
constexpr uint32_t field_by_place(uint32_t kind, uint32_t place) {
  if (kind == KVC_EVENT_STORED) return place < kNoField ? place : kNoField;
  constexpr uint32_t kRemoved[] = {kBlockHashes, kMedium, kGroupIdx};
  return kind == KVC_EVENT_REMOVED && place < std::size(kRemoved) ? kRemoved[place] : uint32_t{kNoField};
}

}  // namespace kvc
