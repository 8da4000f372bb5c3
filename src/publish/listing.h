// SPDX-License-Identifier: Apache-2.0
// All blocks that can be found in a manager at one moment, in an order in which each comes behind its parent
// and chains stay together. It is read like any reader does it: listed, then corrected by the events that
// came meanwhile.
#pragma once
#include <kvcache/events.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/sha256.h"
#include "manager/manager.h"

namespace kvc {

class Listing {
 public:
  // Reads a manager. On return *cursor is the event to go on with. AGAIN: events were lost meanwhile, time
  // after time. `groups`: a bit each, the others are left out. Throws std::bad_alloc.
  kvc_status read(Manager& manager, uint32_t block_size, uint32_t groups, uint64_t* cursor);
  void clear();

  // The blocks as STORED events.
  size_t size() const { return order_.size(); }
  const kvc_event& event(size_t i) const { return events_[order_[i]]; }
  const int32_t* tokens(size_t i) const { return tokens_.data() + order_[i] * block_size_; }

 private:
  struct Key {
    uint64_t node;
    uint32_t group;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return (key.node * 32 + key.group) * 0x9e3779b97f4a7c15u; }
  };

  kvc_status try_read(Manager& manager, uint64_t* cursor, bool* lost);
  void apply(const kvc_event& event, const int32_t* tokens);
  void sort();

  uint32_t block_size_ = 0, groups_ = 0;
  std::vector<kvc_event> events_;  // places are used again: free_
  std::vector<int32_t> tokens_;
  std::vector<size_t> free_, order_;
  std::unordered_map<Key, size_t, KeyHash> places_;
};

}  // namespace kvc
