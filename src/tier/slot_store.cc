// SPDX-License-Identifier: Apache-2.0
#include "tier/slot_store.h"

namespace kvc {

void SlotStore::count_failure(int64_t error) {
  const std::lock_guard lock(mutex_);
  ++stats_.failures;
  stats_.last_errno = error < 0 ? -error : error;
}

void SlotStore::count_fallback() {
  const std::lock_guard lock(mutex_);
  ++stats_.fallbacks;
}

void SlotStore::exists(const StoreCall& call, PageItem* items, size_t num_items) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < num_items; ++i) {
    PageItem& item = items[i];
    const int32_t slot = index_.find(item.key);
    item.lease_until_ns = 0;
    if (slot < 0 || index_[slot].state == SlotState::kRemoving) {
      item.result = PageResult::kMiss;
    } else if (index_[slot].state == SlotState::kWriting) {
      item.result = PageResult::kPending;
    } else {
      item.result = PageResult::kOk;
      item.generation = index_[slot].generation;
      if (call.lease_ns == 0) continue;
      uint64_t until;
      if (__builtin_add_overflow(call.now_ns, call.lease_ns, &until)) until = UINT64_MAX;
      index_.lease(slot, until);
      item.lease_until_ns = index_[slot].lease_until_ns;
    }
  }
}

void SlotStore::get(const StoreCall& call, PageItem* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) items[i].result = get_one(call, &items[i]);
}

void SlotStore::put(const StoreCall& call, PageItem* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) items[i].result = put_one(call, &items[i]);
}

void SlotStore::remove(const StoreCall& call, PageItem* items, size_t num_items) {
  for (size_t i = 0; i < num_items; ++i) items[i].result = remove_one(call, &items[i]);
}

PageResult SlotStore::get_one(const StoreCall& call, PageItem* item) {
  std::unique_lock lock(mutex_);
  const int32_t slot = index_.find(item->key);
  if (slot < 0 || index_[slot].state == SlotState::kRemoving) return PageResult::kMiss;
  if (index_[slot].state == SlotState::kWriting) return PageResult::kPending;
  if (item->generation != 0 && item->generation != index_[slot].generation) return PageResult::kExpired;
  if (item->bytes != index_[slot].bytes) {
    ++stats_.bad_headers;
    return PageResult::kMiss;
  }
  index_.begin_read(slot);
  const PageSlot page = index_[slot];
  lock.unlock();
  const Bytes bytes = read_slot(call, slot, page, *item);
  lock.lock();
  index_.end_read(slot);
  if (bytes == Bytes::kFailed) return PageResult::kFailed;
  if (bytes == Bytes::kRight) {
    item->generation = page.generation;
    return PageResult::kOk;
  }
  ++stats_.bad_payloads;
  if (index_[slot].readers == 0) {  // a lease of a broken page is worth nothing
    index_.begin_remove(slot);
    lock.unlock();
    static_cast<void>(clear_slot(slot));  // it does not check in any case
    lock.lock();
    index_.end_remove(slot);
  }
  return PageResult::kMiss;
}

PageResult SlotStore::put_one(const StoreCall& call, PageItem* item) {
  std::unique_lock lock(mutex_);
  if (item->bytes > page_bytes_) {
    ++stats_.no_space;
    return PageResult::kNoSpace;
  }
  int32_t slot = index_.find(item->key);
  if (slot >= 0) {
    if (index_[slot].state != SlotState::kReady) return PageResult::kPending;
    index_.touch(slot);
    item->generation = index_[slot].generation;
    return PageResult::kOk;
  }
  slot = index_.begin_write(item->key, call.now_ns);
  if (slot < 0) {
    ++stats_.no_space;
    return PageResult::kNoSpace;
  }
  const uint64_t generation = index_.next_generation();
  lock.unlock();
  uint32_t crc = 0;
  const bool written = write_slot(call, slot, generation, *item, &crc);
  lock.lock();
  if (!written) {
    index_.abort_write(slot);
    return PageResult::kFailed;
  }
  index_.commit_write(slot, generation, item->bytes, crc);
  item->generation = generation;
  return PageResult::kOk;
}

PageResult SlotStore::remove_one(const StoreCall& call, PageItem* item) {
  std::unique_lock lock(mutex_);
  const int32_t slot = index_.find(item->key);
  if (slot < 0) return PageResult::kMiss;
  if (index_[slot].state != SlotState::kReady || index_.is_held(slot, call.now_ns))
    return PageResult::kPending;
  index_.begin_remove(slot);
  lock.unlock();
  const bool cleared = clear_slot(slot);
  lock.lock();
  index_.end_remove(slot);  // what a failed write has left is not known
  return cleared ? PageResult::kOk : PageResult::kFailed;
}

StoreStats SlotStore::stats() {
  const std::lock_guard lock(mutex_);
  StoreStats out = stats_;
  out.pages = index_.num_ready();
  out.bytes = index_.ready_bytes();
  out.capacity_pages = index_.size();
  out.capacity_bytes = index_.size() * page_bytes_;
  out.evictions = index_.evictions();
  return out;
}

}  // namespace kvc
