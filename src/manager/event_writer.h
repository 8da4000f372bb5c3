// SPDX-License-Identifier: Apache-2.0
// Writes events and their tokens into a caller's batch, a slice at a time: others wait during one.
#pragma once
#include <kvcache/events.h>

#include "base/status.h"
#include "prefix/prefix_tree.h"

namespace kvc {

class EventWriter {
 public:
  static constexpr size_t kEvents = 256, kTokens = 4096;  // of a slice

  EventWriter(kvc_event_batch& batch, const Identities& identities, const PrefixTree& tree,
              uint32_t block_size)
      : batch_(batch), identities_(identities), tree_(tree), block_size_(block_size) {
    batch.count = 0;
  }
  // Refuses a batch without room for one event.
  kvc_status check_room() const {
    if (batch_.capacity == 0) return invalid("capacity is 0; make room for 1 event at least");
    if (batch_.tokens != nullptr && batch_.token_capacity < block_size_) {
      return invalid(
          "token_capacity is %zu; an event has up to %u tokens: make room for these, or set tokens to NULL",
          batch_.token_capacity, block_size_);
    }
    return KVC_OK;
  }
  bool empty() const { return batch_.count == 0; }
  void begin_slice() { slice_begin_ = batch_.count; }
  bool slice_ended() const {
    const size_t count = batch_.count - slice_begin_;
    return count == kEvents || count * block_size_ >= kTokens;
  }
  // Whether no position fits in; an event without tokens may.
  bool full() const {
    return batch_.count == batch_.capacity ||
           (batch_.tokens != nullptr && batch_.token_capacity - num_tokens_ < block_size_);
  }
  bool takes(const EventRecord& record) const {
    return is_node(record.position) ? !full() : batch_.count != batch_.capacity;
  }
  // Whether it can be written without hashing first.
  bool ready(const EventRecord& record) const {
    return !is_node(record.position) || identities_.known(record.position);
  }
  void write(const EventRecord& record, uint64_t sequence) {
    kvc_event event;
    identities_.describe(record, &event);
    event.sequence = sequence;
    char* out = reinterpret_cast<char*>(batch_.events) + batch_.count++ * batch_.event_size;
    std::memcpy(out, &event, sizeof event);
    std::memset(out + sizeof event, 0, batch_.event_size - sizeof event);
    if (batch_.tokens == nullptr || event.num_tokens == 0) return;
    std::memcpy(batch_.tokens + num_tokens_, tree_.tokens(record.position), block_size_ * sizeof(int32_t));
    num_tokens_ += block_size_;
  }

 private:
  kvc_event_batch& batch_;
  const Identities& identities_;
  const PrefixTree& tree_;
  const uint32_t block_size_;
  size_t num_tokens_ = 0, slice_begin_ = 0;
};

}  // namespace kvc
