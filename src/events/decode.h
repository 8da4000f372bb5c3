// SPDX-License-Identifier: Apache-2.0
// Reads a batch of events in the schema of vLLM (docs/EVENTS.md), both forms of it: an event is a map with
// "type", or an array whose first entry is the type. Fields may come in any order in a map, and unknown ones
// are passed over. The batch is read whole before anything of it is given, and nothing behind its end is.
//
// A decoder keeps its memory from batch to batch, so that it allocates only for a batch larger than those
// before; for one of n bytes it has at most 64 n. Not thread-safe; each thread has its own.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "events/msgpack.h"

namespace kvc {

// One event. Texts lie in the payload, arrays in the decoder: both must stay while it is used. A text that
// the event does not have, or that is nil, has no data().
struct WireEvent {
  uint32_t kind = 0;  // KVC_EVENT_*
  uint32_t block_size = 0;
  bool has_parent = false;
  int32_t group = -1;    // -1: the event names none
  uint64_t parent = 0;   // hash of the block before the first one; 0 also without a parent
  int64_t lora_id = -1;  // -1 = none
  std::string_view medium, lora_name, spec_kind;
  // [blocks] A hash of bytes is its last 8, big-endian (vLLM, llm-d); a negative one its two's complement.
  std::span<const uint64_t> hashes;
  // [blocks * block_size], or empty: the blocks are told of another medium, and known by their hashes.
  std::span<const int32_t> tokens;
  // [blocks] Extra keys of each block, as they stand in the payload: equal bytes are equal keys. Empty: no
  // block has any. An entry of size 0: this block has none.
  std::span<const std::string_view> extra_keys;
};

class WireDecoder {
 public:
  // Reads a batch; what the call before gave is gone.
  //  CORRUPT: these bytes are no batch of events; the text says where.
  //  UNSUPPORTED: a batch with an event of a type that is not known; the text names it.
  // On failure there are no events. Throws std::bad_alloc.
  [[nodiscard]] kvc_status decode(const void* payload, size_t size);

  std::span<const WireEvent> events() const { return events_; }
  double time() const { return time_; }   // seconds since 1970, by the publisher's clock
  int64_t rank() const { return rank_; }  // data parallel rank, -1 = none

 private:
  struct Arrays {  // of an event: from where on, and how many
    size_t hashes, num_hashes, tokens, num_tokens, extra_keys, num_extra_keys;
  };

  kvc_status read_batch();
  kvc_status read_event();
  kvc_status read_map(uint32_t fields);
  kvc_status read_type(uint32_t fields);
  kvc_status set_type(const PackValue& type);
  kvc_status read_field(uint32_t field);
  kvc_status check_event();
  kvc_status read_hash(const char* name, uint64_t* hash);
  kvc_status read_hashes();
  kvc_status read_tokens();
  kvc_status read_extra_keys();
  kvc_status read_entries(const char* name, size_t* count);
  kvc_status read_text(const char* name, std::string_view* text);
  kvc_status read_number(const char* name, bool may_be_nil, int64_t most, int64_t* number);
  kvc_status next(PackValue* value);
  kvc_status skip();
  [[gnu::cold]] kvc_status bad(const char* name, const char* wanted, const PackValue& value) const;
  [[gnu::cold]] kvc_status cut_off() const;

  PackReader in_{nullptr, 0};
  WireEvent event_;    // that is being read
  uint32_t seen_ = 0;  // its fields, a bit each
  Arrays arrays_ = {};
  std::vector<WireEvent> events_;
  std::vector<Arrays> all_arrays_;  // of events_, until nothing moves any more
  std::vector<uint64_t> hashes_;
  std::vector<int32_t> tokens_;
  std::vector<std::string_view> extra_keys_;
  double time_ = 0;
  int64_t rank_ = -1;
};

}  // namespace kvc
