// SPDX-License-Identifier: Apache-2.0
#include "publish/changes.h"

#include <kvcache/events.h>

namespace kvc {

bool Changes::create(Memory& memory, size_t max_blocks, uint32_t block_size, uint32_t num_groups) {
  block_size_ = block_size;
  num_groups_ = num_groups;
  return entries_.create(memory, max_blocks) && hashes_.create(memory, max_blocks) &&
         extras_.create(memory, max_blocks) && tokens_.create(memory, max_blocks * block_size) &&
         slots_.create(memory, next_power_of_two(4 * max_blocks)) && taken_.create(memory, max_blocks) &&
         runs_.create(memory, max_blocks + 1);
}

// The slot of a block, or the free one that it would take. A digest is its own hash.
int32_t* Changes::slot_of(const Digest256& digest, GroupIndex group) {
  const size_t mask = slots_.size() - 1;
  uint64_t bits;
  std::memcpy(&bits, digest.bytes, sizeof bits);
  for (size_t i = (bits + group) & mask;; i = (i + 1) & mask) {
    if (slots_[i] == 0) return &slots_[i];
    const Entry& entry = entries_[static_cast<size_t>(slots_[i] - 1)];
    if (entry.group == group && entry.digest == digest) return &slots_[i];
  }
}

// An entry that tells that the block is stored, in any group; -1 = none.
int32_t Changes::find_stored(const Digest256& digest) {
  for (uint32_t group = 0; group < num_groups_; ++group) {
    const int32_t* slot = slot_of(digest, group);
    for (int32_t i = *slot - 1; i >= 0; i = entries_[static_cast<size_t>(i)].earlier) {
      const Entry& entry = entries_[static_cast<size_t>(i)];
      if (entry.alive && entry.kind == KVC_EVENT_STORED) return i;
    }
  }
  return -1;
}

void Changes::drop(int32_t i) {
  Entry& entry = entries_[static_cast<size_t>(i)];
  entry.alive = false;
  --alive_;
  ++cancelled_;
  if (entry.parent >= 0) --entries_[static_cast<size_t>(entry.parent)].children;
}

void Changes::add(const BlockChange& change) {
  int32_t* const slot = slot_of(*change.digest, change.group);
  int32_t last = *slot - 1;  // what is told of the block so far
  while (last >= 0 && !entries_[static_cast<size_t>(last)].alive)
    last = entries_[static_cast<size_t>(last)].earlier;
  if (last >= 0) {
    const Entry& other = entries_[static_cast<size_t>(last)];
    if (other.kind != change.kind && other.children == 0) {
      drop(last);
      ++cancelled_;
      return;
    }
  }
  const size_t i = count_++;
  Entry& entry = entries_[i];
  entry.digest = *change.digest;
  entry.kind = change.kind;
  entry.group = change.group;
  entry.earlier = last;
  entry.parent = -1;
  entry.children = 0;
  entry.alive = true;
  entry.has_parent = change.parent_digest != nullptr;
  entry.lora_name = change.lora_name;
  ++alive_;
  hashes_[i] = *change.hash;
  if (*slot == 0) taken_[num_taken_++] = static_cast<uint32_t>(slot - slots_.data());
  *slot = static_cast<int32_t>(i) + 1;
  if (change.kind != KVC_EVENT_STORED) return;
  extras_[i] = *change.extra;
  std::memcpy(&tokens_[i * block_size_], change.tokens, block_size_ * sizeof(int32_t));
  if (!entry.has_parent) return;
  entry.parent_hash = *change.parent_hash;
  entry.parent = find_stored(*change.parent_digest);
  if (entry.parent >= 0) ++entries_[static_cast<size_t>(entry.parent)].children;
}

void Changes::clear() {
  for (size_t i = 0; i < num_taken_; ++i) slots_[taken_[i]] = 0;
  num_taken_ = count_ = alive_ = 0;
  cleared_ = false;
}

void Changes::add_clear() {
  cancelled_ += alive_;
  clear();
  cleared_ = true;
}

// Brings what is told of to the front; the table of blocks is void then.
void Changes::compact() {
  size_t to = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (!entries_[i].alive) continue;
    if (to != i) {
      entries_[to] = entries_[i];
      hashes_[to] = hashes_[i];
      if (entries_[i].kind == KVC_EVENT_STORED) {
        extras_[to] = extras_[i];
        std::memmove(&tokens_[to * block_size_], &tokens_[i * block_size_], block_size_ * sizeof(int32_t));
      }
    }
    ++to;
  }
  count_ = to;
}

// Whether an entry belongs to the run of the one before it.
bool Changes::continues(size_t i) const {
  if (i == 0) return false;
  const Entry &entry = entries_[i], &before = entries_[i - 1];
  if (entry.kind != before.kind || entry.group != before.group) return false;
  if (entry.kind == KVC_EVENT_REMOVED) return true;
  return entry.has_parent && entry.parent_hash == hashes_[i - 1] &&
         entry.lora_name.data() == before.lora_name.data();
}

std::span<const WireRun> Changes::runs() {
  compact();
  size_t num_runs = 0;
  if (cleared_) {
    runs_[0] = {};
    runs_[num_runs++].kind = KVC_EVENT_ALL_CLEARED;
  }
  for (size_t i = 0; i < count_;) {
    const Entry& entry = entries_[i];
    size_t end = i + 1;
    while (end < count_ && continues(end)) ++end;
    WireRun& run = runs_[num_runs++];
    run = {};
    run.kind = entry.kind;
    run.group = entry.group;
    run.hashes = {&hashes_[i], end - i};
    if (entry.kind == KVC_EVENT_STORED) {
      run.parent = entry.has_parent ? &entry.parent_hash : nullptr;
      run.tokens = &tokens_[i * block_size_];
      run.extras = &extras_[i];
      run.lora_name = entry.lora_name;
    }
    i = end;
  }
  return {runs_.data(), num_runs};
}

}  // namespace kvc
