// SPDX-License-Identifier: Apache-2.0
// What stores with slots have in common: the calls on their index, under its lock. A store of this kind adds
// how the bytes of slots are read, written and invalidated, several at once, which is done without the lock.
#pragma once
#include <mutex>

#include "tier/slot_index.h"
#include "tier/store.h"

namespace kvc {

// A slot in work, which nobody else changes meanwhile.
struct SlotWork {
  enum class Outcome : uint8_t { kDone, kWrong, kFailed };  // kWrong: the bytes are not those of the slot
  kvc_tier_item* item;                                      // its bytes are those of the page
  uint64_t generation;
  uint32_t crc;  // write: out
  int32_t slot;
  Outcome outcome;  // out; kDone before
};

class SlotStore : public PageStore {
 public:
  static constexpr size_t kMostBatch = 32;

  void exists(const StoreCall& call, kvc_tier_item* items, size_t num_items) final;
  void get(const StoreCall& call, kvc_tier_item* items, size_t num_items) final;
  void put(const StoreCall& call, kvc_tier_item* items, size_t num_items) final;
  void remove(const StoreCall& call, kvc_tier_item* items, size_t num_items) final;
  StoreStats stats() final;
  size_t batch() const final { return batch_; }
  bool knows_pages() const final { return true; }

 protected:
  using Outcome = SlotWork::Outcome;
  SlotStore(const Env& env, uint64_t page_bytes) : memory_(env), page_bytes_(page_bytes) {}

  // Of at most batch() slots.
  virtual void read_slots(const StoreCall& call, SlotWork* work, size_t count) = 0;
  virtual void write_slots(const StoreCall& call, SlotWork* work, size_t count) = 0;
  virtual void clear_slots(SlotWork* work, size_t count) = 0;
  void count_failure(int64_t error);
  void count_fallbacks(size_t count);

  Memory memory_;
  uint64_t page_bytes_;  // the largest page; not changed once the store is open
  size_t batch_ = 1;     // up to kMostBatch
  std::mutex mutex_;     // all below
  SlotIndex index_;
  StoreStats stats_ = {};

 private:
  void look_ahead(const kvc_tier_item* items, size_t num_items, size_t i) const;
  bool begin_get(const StoreCall& call, kvc_tier_item* item, SlotWork* work);
  enum class Begun : uint8_t { kYes, kEnded, kLater };
  Begun begin_put(const StoreCall& call, kvc_tier_item* item, SlotWork* work, size_t count);
  void forget_wrong(SlotWork* work, size_t count, std::unique_lock<std::mutex>& lock);
  void remove_expired(const StoreCall& call);
};

}  // namespace kvc
