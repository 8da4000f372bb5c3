// SPDX-License-Identifier: Apache-2.0
// Which pages the tiers are known to have: a bounded table of the first bytes of keys, which forgets. What it
// forgets is stored once more; what a tier has dropped since is not stored until the table forgets it or a
// lookup misses.
#pragma once
#include "base/memory.h"
#include "base/sha256.h"

namespace kvc {

class KnownPages {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t pages) {
    size_t size = kWays;
    while (size < pages) size *= 2;
    return entries_.create(memory, size);
  }
  // A bit for each tier.
  uint32_t tiers(const Digest256& key) const {
    const uint64_t tag = tag_of(key);
    const Entry* set = set_of(tag);
    for (size_t i = 0; i < kWays; ++i)
      if (set[i].tag == tag) return set[i].tiers;
    return 0;
  }
  void add(const Digest256& key, size_t tier) {
    const uint64_t tag = tag_of(key);
    Entry* set = set_of(tag);
    Entry entry = {tag, 0, 0};
    size_t at = 0;
    while (at < kWays - 1 && set[at].tag != tag) ++at;
    if (set[at].tag == tag) entry = set[at];
    for (; at != 0; --at) set[at] = set[at - 1];
    entry.tiers |= 1u << tier;
    set[0] = entry;
  }
  // True: it was known.
  bool remove(const Digest256& key, size_t tier) {
    const uint64_t tag = tag_of(key);
    Entry* set = set_of(tag);
    for (size_t i = 0; i < kWays; ++i) {
      if (set[i].tag != tag || (set[i].tiers >> tier & 1) == 0) continue;
      set[i].tiers &= ~(1u << tier);
      return true;
    }
    return false;
  }

 private:
  static constexpr size_t kWays = 4;
  struct Entry {
    uint64_t tag;
    uint32_t tiers, reserved;
  };
  static uint64_t tag_of(const Digest256& key) {
    uint64_t tag;
    std::memcpy(&tag, key.bytes, sizeof tag);
    return tag;
  }
  Entry* set_of(uint64_t tag) { return &entries_[(tag >> 20) % (entries_.size() / kWays) * kWays]; }
  const Entry* set_of(uint64_t tag) const {
    return &entries_[(tag >> 20) % (entries_.size() / kWays) * kWays];
  }

  Array<Entry> entries_;  // the newest of a set first
};

}  // namespace kvc
