// SPDX-License-Identifier: Apache-2.0
#include "tier/slot_store.h"

namespace kvc {
namespace {

bool is_in(const SlotWork* work, size_t count, int32_t slot) {
  for (size_t i = 0; i < count; ++i)
    if (work[i].slot == slot) return true;
  return false;
}

}  // namespace

// The index is larger than the caches: while page i is looked up, what those behind it need is on its way.
void SlotStore::look_ahead(const kvc_tier_item* items, size_t num_items, size_t i) const {
  constexpr size_t kApart = 4;
  for (int steps = 0; steps < 3; ++steps) {
    const size_t later = i + kApart * static_cast<size_t>(steps + 1);
    if (later < num_items) index_.prefetch(key_of(items[later]), steps);
  }
}

void SlotStore::count_failure(int64_t error) {
  const std::lock_guard lock(mutex_);
  ++stats_.failures;
  stats_.last_errno = error < 0 ? -error : error;
}

void SlotStore::count_fallbacks(size_t count) {
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  stats_.fallbacks += count;
}

// Some of the pages whose time is over.
void SlotStore::remove_expired(const StoreCall& call) {
  SlotWork work[kMostBatch];
  size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    index_.tell_time(call.now_ns);
    for (int32_t slot; count < kMostBatch && (slot = index_.find_expired(call.now_ns)) >= 0; ++count) {
      work[count] = {nullptr, 0, 0, slot, Outcome::kDone};
      index_.begin_remove(slot);
    }
  }
  if (count == 0) return;
  clear_slots(work, count);  // one that fails begins a new life when the store is opened again
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < count; ++i) index_.end_remove(work[i].slot);
  stats_.expired += count;
}

void SlotStore::exists(const StoreCall& call, kvc_tier_item* items, size_t num_items) {
  const std::lock_guard lock(mutex_);
  index_.tell_time(call.now_ns);
  for (size_t i = 0; i < num_items; ++i) {
    kvc_tier_item& item = items[i];
    look_ahead(items, num_items, i);
    const int32_t slot = index_.find(key_of(item));
    item.generation = item.lease_until_ns = 0;
    if (slot < 0 || index_[slot].state == SlotState::kRemoving || index_.is_expired(slot, call.now_ns)) {
      item.result = KVC_PAGE_MISS;
    } else if (index_[slot].state == SlotState::kWriting) {
      item.result = KVC_PAGE_PENDING;
    } else {
      item.result = KVC_PAGE_OK;
      item.generation = index_[slot].generation;
      if (call.lease_ns == 0) continue;
      uint64_t until;
      if (__builtin_add_overflow(call.now_ns, call.lease_ns, &until)) until = UINT64_MAX;
      index_.lease(slot, until);
      item.lease_until_ns = index_[slot].lease_until_ns;
    }
  }
}

// Whether the page is to be read; if not, the item has its result.
bool SlotStore::begin_get(const StoreCall& call, kvc_tier_item* item, SlotWork* work) {
  const int32_t slot = index_.find(key_of(*item));
  item->result = KVC_PAGE_MISS;
  if (slot < 0 || index_[slot].state == SlotState::kRemoving || index_.is_expired(slot, call.now_ns))
    return false;
  const PageSlot& page = index_[slot];
  if (page.state == SlotState::kWriting) {
    item->result = KVC_PAGE_PENDING;
  } else if (item->generation != 0 && item->generation != page.generation) {
    item->result = KVC_PAGE_EXPIRED;
  } else if (item->bytes != page.bytes) {
    ++stats_.bad_headers;
  } else {
    *work = {item, page.generation, page.crc, slot, Outcome::kDone};
    index_.begin_read(slot);
    return true;
  }
  return false;
}

void SlotStore::get(const StoreCall& call, kvc_tier_item* items, size_t num_items) {
  SlotWork work[kMostBatch];
  for (size_t next = 0; next < num_items;) {
    size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      if (index_.expires()) index_.tell_time(call.now_ns);
      while (count < batch_ && next < num_items) count += begin_get(call, &items[next++], &work[count]);
    }
    if (count == 0) continue;
    read_slots(call, work, count);
    std::unique_lock lock(mutex_);
    for (size_t i = 0; i < count; ++i) {
      index_.end_read(work[i].slot);
      work[i].item->result = work[i].outcome == Outcome::kDone    ? KVC_PAGE_OK
                             : work[i].outcome == Outcome::kWrong ? KVC_PAGE_MISS
                                                                  : KVC_PAGE_FAILED;
      if (work[i].outcome == Outcome::kDone) work[i].item->generation = work[i].generation;
    }
    forget_wrong(work, count, lock);
  }
  if (index_.expires()) remove_expired(call);  // behind the pages that were asked for
}

// Pages that did not check are removed, unless somebody reads them; a lease of a broken page is worth
// nothing.
void SlotStore::forget_wrong(SlotWork* work, size_t count, std::unique_lock<std::mutex>& lock) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (work[i].outcome != Outcome::kWrong) continue;
    ++stats_.bad_payloads;
    const int32_t slot = work[i].slot;
    if (index_.find(key_of(*work[i].item)) != slot || index_[slot].generation != work[i].generation ||
        index_[slot].state != SlotState::kReady || index_[slot].readers != 0)
      continue;
    index_.begin_remove(slot);
    work[wrong++] = work[i];
  }
  if (wrong == 0) return;
  lock.unlock();
  clear_slots(work, wrong);  // if that fails, it does not check in any case
  lock.lock();
  for (size_t i = 0; i < wrong; ++i) index_.end_remove(work[i].slot);
}

// kLater: what is in work has the slot, or is the same page.
SlotStore::Begun SlotStore::begin_put(const StoreCall& call, kvc_tier_item* item, SlotWork* work,
                                      size_t count) {
  if (item->bytes > page_bytes_) {
    item->result = KVC_PAGE_NO_SPACE;
    return Begun::kEnded;
  }
  int32_t slot = index_.find(key_of(*item));
  const bool ready = slot >= 0 && index_[slot].state == SlotState::kReady;
  const bool expired = ready && index_.is_expired(slot, call.now_ns);
  if (ready && !expired && index_[slot].bytes == item->bytes) {
    index_.use(slot);
    item->generation = index_[slot].generation;
    item->result = KVC_PAGE_OK;
    return Begun::kEnded;
  }
  if (ready && !index_.is_held(slot, call.now_ns)) {  // of another size, which nobody could ever get, or old
    ++(expired ? stats_.expired : stats_.mismatches);
    index_.begin_remove(slot);
    index_.end_remove(slot);
    slot = -1;
  }
  if (slot >= 0) {
    if (is_in(work, count, slot)) return Begun::kLater;
    item->result = KVC_PAGE_PENDING;
    return Begun::kEnded;
  }
  slot = index_.begin_write(key_of(*item), call.now_ns);
  if (slot < 0) {
    if (count != 0) return Begun::kLater;
    item->result = KVC_PAGE_NO_SPACE;
    return Begun::kEnded;
  }
  work[count] = {item, index_.next_generation(), 0, slot, Outcome::kDone};
  return Begun::kYes;
}

void SlotStore::put(const StoreCall& call, kvc_tier_item* items, size_t num_items) {
  if (index_.expires()) remove_expired(call);
  SlotWork work[kMostBatch];
  for (size_t next = 0; next < num_items;) {
    size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      for (; count < batch_ && next < num_items; ++next) {
        look_ahead(items, num_items, next);
        const Begun begun = begin_put(call, &items[next], work, count);
        if (begun == Begun::kLater) break;
        count += begun == Begun::kYes;
      }
    }
    if (count == 0) continue;
    write_slots(call, work, count);
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; ++i) {
      kvc_tier_item* item = work[i].item;
      if (work[i].outcome != Outcome::kDone) {
        index_.abort_write(work[i].slot);
        item->result = KVC_PAGE_FAILED;
        continue;
      }
      index_.commit_write(work[i].slot, work[i].generation, item->bytes, work[i].crc);
      item->generation = work[i].generation;
      item->result = KVC_PAGE_OK;
    }
  }
}

void SlotStore::remove(const StoreCall& call, kvc_tier_item* items, size_t num_items) {
  SlotWork work[kMostBatch];
  for (size_t next = 0; next < num_items;) {
    size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      for (; count < batch_ && next < num_items; ++next) {
        kvc_tier_item* item = &items[next];
        const int32_t slot = index_.find(key_of(*item));
        if (slot >= 0 && is_in(work, count, slot)) break;  // then it is a miss
        item->result = slot < 0 ? KVC_PAGE_MISS : KVC_PAGE_PENDING;
        if (slot < 0 || index_[slot].state != SlotState::kReady || index_.is_held(slot, call.now_ns))
          continue;
        work[count++] = {item, index_[slot].generation, 0, slot, Outcome::kDone};
        index_.begin_remove(slot);
      }
    }
    if (count == 0) continue;
    clear_slots(work, count);
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; ++i) {
      index_.end_remove(work[i].slot);  // what a failed write has left is not known
      stats_.removed += work[i].outcome == Outcome::kDone;
      work[i].item->result = work[i].outcome == Outcome::kDone ? KVC_PAGE_OK : KVC_PAGE_FAILED;
    }
  }
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
