// SPDX-License-Identifier: Apache-2.0
#include "index/block_table.h"

namespace kvc {

bool BlockTable::create(Memory& memory, size_t max_blocks) {
  return entries_.create(memory, max_blocks + 1) && heads_.create(memory, max_blocks + max_blocks / 2 + 1);
}

BlockTable::Found BlockTable::find(BlockKey key) const {
  const size_t own = bucket(key);
again:
  for (Index at = load(heads_[own]); at != 0;) {
    const Entry& entry = entries_[at];
    const uint64_t state = load(entry.state);
    const BlockKey there = {load(entry.low), load(entry.high)};
    const Index next = load(entry.next);
    if (load(entry.state) != state || static_cast<SetId>(state) == HolderSets::kEmpty) goto again;
    if (there == key) return {at, state};
    if (bucket(there) != own) goto again;
    at = next;
  }
  return {};
}

BlockTable::Found BlockTable::find_behind(Index entry, BlockKey key) const {
  const Index at = entry + 1;
  if (at >= entries_.size()) return {};
  const Entry& behind = entries_[at];
  const uint64_t state = load(behind.state);
  const BlockKey there = {load(behind.low), load(behind.high)};
  if (!(there == key) || static_cast<SetId>(state) == HolderSets::kEmpty || load(behind.state) != state)
    return {};
  return {at, state};
}

BlockTable::Index BlockTable::look_up(BlockKey key) const {
  Index at = heads_[bucket(key)];
  while (at != 0 && !(key_of(at) == key)) at = entries_[at].next;
  return at;
}

void BlockTable::insert(BlockKey key, SetId set) {
  const Index made = free_ != 0 ? free_ : used_++;
  Entry& entry = entries_[made];
  if (made == free_) free_ = entry.next;
  Index& head = heads_[bucket(key)];
  store(entry.low, key.low);
  store(entry.high, key.high);
  store(entry.next, head);
  __atomic_store_n(&entry.mark, 0, __ATOMIC_RELAXED);
  set_state(entry, set);
  store(head, made);
  ++num_blocks_;
}

void BlockTable::change(Index entry, SetId set) {
  __atomic_store_n(&entries_[entry].mark, 1, __ATOMIC_RELAXED);
  set_state(entries_[entry], set);
}

void BlockTable::remove(Index gone) {
  Entry& entry = entries_[gone];
  Index* link = &heads_[bucket(key_of(gone))];
  while (*link != gone) link = &entries_[*link].next;
  store(*link, entry.next);
  set_state(entry, HolderSets::kEmpty);
  store(entry.next, free_);
  free_ = gone;
  --num_blocks_;
}

BlockTable::Index BlockTable::choose_victim(Index except) {
  if (num_blocks_ < (except == 0 ? 1 : 2)) return 0;
  for (;;) {
    if (++hand_ >= used_) hand_ = 1;
    Entry& entry = entries_[hand_];
    if (hand_ == except || static_cast<SetId>(entry.state) == HolderSets::kEmpty) continue;
    if (__atomic_exchange_n(&entry.mark, 0, __ATOMIC_RELAXED) == 0) return hand_;
  }
}

}  // namespace kvc
