// SPDX-License-Identifier: Apache-2.0
#include "prefix/uses.h"

#include <cstring>

#include "base/checked.h"

namespace kvc {

bool Uses::create(Memory& memory, size_t max_nodes, size_t capacity, uint64_t secret) {
  if (capacity == 0) return true;
  const size_t buckets = next_power_of_two(2 * capacity);
  if (!counts_.create(memory, max_nodes) || !ring_.create(memory, capacity) ||
      !buckets_.create(memory, buckets)) {
    return false;
  }
  std::memset(buckets_.data(), 0xff, buckets * sizeof(int32_t));
  shift_ = 64 - __builtin_ctzll(buckets);
  spread_ = secret | 1;
  return true;
}

void Uses::begin(NodeId node, uint64_t key) {
  uint8_t& count = counts_[static_cast<size_t>(raw(node))];
  count = 0;
  for (int32_t i = bucket(key); i >= 0; i = ring_[static_cast<size_t>(i)].next) {
    Entry& entry = ring_[static_cast<size_t>(i)];
    if (entry.key != key) continue;
    count = entry.uses;
    unchain(i);
    entry.uses = 0;
    return;
  }
}

void Uses::end(NodeId node, uint64_t key, uint32_t tag) {
  const auto index = static_cast<int32_t>(pushed_++ % ring_.size());
  Entry& entry = ring_[static_cast<size_t>(index)];
  if (entry.uses != 0) unchain(index);
  prefetch(ring_[(pushed_ + kAhead) % ring_.size()].key);  // will be overwritten soon
  uint8_t& count = counts_[static_cast<size_t>(raw(node))];
  entry.key = key;
  entry.tag = tag & 0xffffff;
  entry.uses = count;
  count = 0;
  int32_t& first = bucket(key);
  entry.next = first;
  first = index;
}

void Uses::unchain(int32_t index) {
  int32_t* link = &bucket(ring_[static_cast<size_t>(index)].key);
  while (*link != index) link = &ring_[static_cast<size_t>(*link)].next;
  *link = ring_[static_cast<size_t>(index)].next;
}

bool Uses::intact() const {
  size_t chained = 0, remembered = 0;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (int32_t i = buckets_[b]; i >= 0; i = ring_[static_cast<size_t>(i)].next) {
      const Entry& entry = ring_[static_cast<size_t>(i)];
      if (entry.uses == 0 || entry.key * spread_ >> shift_ != b || ++chained > ring_.size()) return false;
    }
  }
  for (size_t i = 0; i < ring_.size(); ++i) remembered += ring_[i].uses != 0;
  return chained == remembered;
}

}  // namespace kvc
