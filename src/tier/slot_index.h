// SPDX-License-Identifier: Apache-2.0
// Which page is in which slot of a store with a fixed number of slots. A slot is FREE, WRITING (findable as
// pending), READY, or REMOVING (bytes are being invalidated); READY slots are in a list of last use, and have
// readers and a lease. A slot with readers or a lease is neither evicted nor removed. All memory is taken by
// create(); each call is O(1), but begin_write looks at kTries slots at most. Not thread-safe.
//
// What gives way: the page of the least last use + A * log2(uses), with A = the number of slots, as under the
// manager's policy FREQUENCY. Pages of an equal log2(uses) are on one shelf, in the order of their last use,
// so the ends of the shelves are all that is compared. LRU has one shelf.
//
// With a time to live, a page is expired that was not used for so long by the caller's clock; of those that
// were there before, for so long from the first time on that the caller tells.
#pragma once
#include "base/memory.h"
#include "base/sha256.h"
#include "tier/store.h"

namespace kvc {

enum class SlotState : uint8_t { kFree, kWriting, kReady, kRemoving };

struct PageSlot {
  Digest256 key;
  uint64_t generation;
  uint64_t bytes;
  uint64_t lease_until_ns;
  uint64_t last_use;  // of all uses, its number
  uint64_t used_ns;   // the time of it
  uint32_t crc;
  uint32_t readers;
  int32_t older, newer;  // READY slots of its shelf; `older` also: list of FREE ones
  int32_t hash_next;
  SlotState state;
  uint8_t uses;  // up to kMostUses
  bool has_key;
};

// All bytes of the key, so that keys which a caller makes, such as numbers, spread as digests do.
uint64_t mix_key(const Digest256& key);

class SlotIndex {
 public:
  static constexpr int kTries = 64;
  static constexpr int kShelves = 8;
  static constexpr uint8_t kMostUses = 128;  // more are equal

  [[nodiscard]] bool create(Memory& memory, size_t num_slots, SlotPolicy policy = SlotPolicy::kLru,
                            uint64_t ttl_ns = 0);  // 0 = pages do not expire

  const PageSlot& operator[](int32_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  size_t size() const { return slots_.size(); }
  size_t num_ready() const { return num_ready_; }
  uint64_t ready_bytes() const { return ready_bytes_; }
  uint64_t evictions() const { return evictions_; }

  int32_t find(const Digest256& key) const;  // -1: none
  void tell_time(uint64_t now_ns);           // for uses and what expires
  bool expires() const { return ttl_ns_ != 0; }
  bool is_expired(int32_t slot, uint64_t now_ns) const;  // READY, and not held
  int32_t find_expired(uint64_t now_ns) const;           // of those that are oldest; -1: none
  // For find() and what follows it, of a page that comes soon: with 2 steps, with 1, and with none before it.
  void prefetch(const Digest256& key, int steps) const;
  // A slot for a page that find() does not know; -1: there is none. Another page may give way.
  int32_t begin_write(const Digest256& key, uint64_t now_ns);
  uint64_t next_generation() { return ++generation_; }
  void commit_write(int32_t slot, uint64_t generation, uint64_t bytes, uint32_t crc);
  void abort_write(int32_t slot) { release(slot); }
  // Of READY slots. touch() makes the last use later and counts none, as does a lease: a
  // read comes.
  void use(int32_t slot);
  void touch(int32_t slot);
  void lease(int32_t slot, uint64_t until_ns);
  void begin_read(int32_t slot) { use(slot), ++at(slot).readers; }
  void end_read(int32_t slot) { --at(slot).readers; }
  bool is_held(int32_t slot, uint64_t now_ns) const {
    return (*this)[slot].readers != 0 || (*this)[slot].lease_until_ns > now_ns;
  }
  void begin_remove(int32_t slot);  // of a slot without readers
  void end_remove(int32_t slot) { release(slot); }
  // A page that was there before: of a FREE slot, while the index is filled. With null for its key find()
  // does not know it, and all that it does is give way.
  void restore(int32_t slot, const Digest256* key, uint64_t generation, uint64_t bytes, uint32_t crc);
  void end_restore();  // makes the list of FREE slots

 private:
  PageSlot& at(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }
  int32_t& bucket(const Digest256& key);
  void link(int32_t slot);  // as the last used
  void unlink(int32_t slot);
  struct Shelf {
    int32_t oldest = -1, newest = -1;
  };
  int shelf_of(const PageSlot& page) const {
    return policy_ == SlotPolicy::kLru ? 0 : 31 - __builtin_clz(static_cast<unsigned>(page.uses) | 1u);
  }
  int32_t coldest() const;    // READY; -1: none
  void forget(int32_t slot);  // removes it from its bucket, if it is in one
  void enter(int32_t slot, const Digest256& key);
  void release(int32_t slot);
  int32_t evict(uint64_t now_ns);

  Array<PageSlot> slots_;
  Array<int32_t> buckets_;
  SlotPolicy policy_ = SlotPolicy::kLru;
  uint64_t ttl_ns_ = 0, now_ns_ = 0, began_ns_ = 0;  // the first time that was told
  Shelf shelves_[kShelves];
  int32_t free_ = -1;
  uint64_t uses_ = 0;
  size_t num_ready_ = 0;
  uint64_t ready_bytes_ = 0, generation_ = 0, evictions_ = 0;
};

}  // namespace kvc
