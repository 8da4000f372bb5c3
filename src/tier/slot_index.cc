// SPDX-License-Identifier: Apache-2.0
#include "tier/slot_index.h"

namespace kvc {

bool SlotIndex::create(Memory& memory, size_t num_slots, SlotPolicy policy, uint64_t ttl_ns) {
  policy_ = policy;
  ttl_ns_ = ttl_ns;
  if (num_slots > INT32_MAX / 2) return false;
  if (!slots_.create(memory, num_slots) || !buckets_.create(memory, next_power_of_two(num_slots)))
    return false;
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] = -1;
  end_restore();
  return true;
}

uint64_t mix_key(const Digest256& key) {
  uint64_t words[sizeof key.bytes / sizeof(uint64_t) + 1] = {}, mixed = 0;  // the last one mixes once more
  std::memcpy(words, key.bytes, sizeof key.bytes);
  for (const uint64_t word : words) {
    mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 32;
  }
  return mixed;
}

int32_t& SlotIndex::bucket(const Digest256& key) { return buckets_[mix_key(key) & (buckets_.size() - 1)]; }

int32_t SlotIndex::find(const Digest256& key) const {
  int32_t slot = const_cast<SlotIndex*>(this)->bucket(key);
  while (slot >= 0 && (*this)[slot].key != key) slot = (*this)[slot].hash_next;
  return slot;
}

void SlotIndex::prefetch(const Digest256& key, int steps) const {
  const int32_t& first = const_cast<SlotIndex*>(this)->bucket(key);
  if (steps == 2) return __builtin_prefetch(&first);
  if (first < 0) return;
  const auto fetch = [&](int32_t slot) {
    const auto* page = reinterpret_cast<const char*>(&(*this)[slot]);
    __builtin_prefetch(page, 1);
    __builtin_prefetch(page + sizeof(PageSlot) - 1, 1);
  };
  if (steps == 1) return fetch(first);
  for (const int32_t neighbour : {(*this)[first].older, (*this)[first].newer})
    if (neighbour >= 0) fetch(neighbour);
}

void SlotIndex::enter(int32_t slot, const Digest256& key) {
  at(slot).key = key;
  at(slot).has_key = true;
  at(slot).hash_next = bucket(key);
  bucket(key) = slot;
}

void SlotIndex::forget(int32_t slot) {
  if (!at(slot).has_key) return;
  int32_t* from = &bucket(at(slot).key);
  while (*from != slot) from = &at(*from).hash_next;
  *from = at(slot).hash_next;
}

void SlotIndex::link(int32_t slot) {
  PageSlot& page = at(slot);
  Shelf& shelf = shelves_[shelf_of(page)];
  page.last_use = ++uses_;
  page.older = shelf.newest;
  page.newer = -1;
  (shelf.newest < 0 ? shelf.oldest : at(shelf.newest).newer) = slot;
  shelf.newest = slot;
}

void SlotIndex::unlink(int32_t slot) {
  const PageSlot& gone = at(slot);
  Shelf& shelf = shelves_[shelf_of(gone)];
  (gone.older < 0 ? shelf.oldest : at(gone.older).newer) = gone.newer;
  (gone.newer < 0 ? shelf.newest : at(gone.newer).older) = gone.older;
}

void SlotIndex::release(int32_t slot) {
  forget(slot);
  at(slot) = {};
  at(slot).older = free_;
  free_ = slot;
}

void SlotIndex::touch(int32_t slot) {
  unlink(slot);
  link(slot);
}

void SlotIndex::use(int32_t slot) {
  unlink(slot);
  at(slot).used_ns = now_ns_;
  if (at(slot).uses < kMostUses) ++at(slot).uses;
  link(slot);
}

void SlotIndex::lease(int32_t slot, uint64_t until_ns) {
  touch(slot);
  if (at(slot).lease_until_ns < until_ns) at(slot).lease_until_ns = until_ns;
}

void SlotIndex::tell_time(uint64_t now_ns) {
  if (now_ns_ == 0) began_ns_ = now_ns;
  if (now_ns_ < now_ns) now_ns_ = now_ns;
}

bool SlotIndex::is_expired(int32_t slot, uint64_t now_ns) const {
  const PageSlot& page = (*this)[slot];
  const uint64_t since = page.used_ns < began_ns_ ? began_ns_ : page.used_ns;
  return ttl_ns_ != 0 && page.state == SlotState::kReady && now_ns_ - since >= ttl_ns_ &&
         !is_held(slot, now_ns);
}

int32_t SlotIndex::find_expired(uint64_t now_ns) const {
  for (const Shelf& shelf : shelves_)
    if (shelf.oldest >= 0 && is_expired(shelf.oldest, now_ns)) return shelf.oldest;
  return -1;
}

int32_t SlotIndex::coldest() const {
  int32_t coldest = -1;
  uint64_t least = 0;
  for (uint64_t i = 0; i < kShelves; ++i) {
    const int32_t slot = shelves_[i].oldest;
    if (slot < 0) continue;
    const uint64_t value = (*this)[slot].last_use + i * slots_.size();
    if (coldest < 0 || value < least) coldest = slot, least = value;
  }
  return coldest;
}

int32_t SlotIndex::evict(uint64_t now_ns) {
  for (int i = 0; i < kTries; ++i) {
    const int32_t slot = coldest();
    if (slot < 0) break;
    if (is_held(slot, now_ns)) {
      touch(slot);  // else the next call would look at it again
      continue;
    }
    begin_remove(slot);
    end_remove(slot);
    ++evictions_;
    return slot;
  }
  return -1;
}

int32_t SlotIndex::begin_write(const Digest256& key, uint64_t now_ns) {
  if (free_ < 0 && evict(now_ns) < 0) return -1;
  const int32_t slot = free_;
  free_ = at(slot).older;
  at(slot).state = SlotState::kWriting;
  enter(slot, key);
  return slot;
}

void SlotIndex::commit_write(int32_t slot, uint64_t generation, uint64_t bytes, uint32_t crc) {
  PageSlot& page = at(slot);
  page.state = SlotState::kReady;
  page.generation = generation;
  page.bytes = bytes;
  page.crc = crc;
  page.used_ns = now_ns_;
  page.uses = 1;
  link(slot);
  ++num_ready_;
  ready_bytes_ += bytes;
}

void SlotIndex::begin_remove(int32_t slot) {
  unlink(slot);
  at(slot).state = SlotState::kRemoving;
  --num_ready_;
  ready_bytes_ -= at(slot).bytes;
}

void SlotIndex::restore(int32_t slot, const Digest256* key, uint64_t generation, uint64_t bytes,
                        uint32_t crc) {
  if (key != nullptr) enter(slot, *key);
  commit_write(slot, generation, bytes, crc);
  if (generation_ < generation) generation_ = generation;
}

void SlotIndex::end_restore() {
  free_ = -1;
  for (auto slot = static_cast<int32_t>(slots_.size()); --slot >= 0;) {
    if (at(slot).state != SlotState::kFree) continue;
    at(slot).older = free_;
    free_ = slot;
  }
}

}  // namespace kvc
