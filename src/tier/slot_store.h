// SPDX-License-Identifier: Apache-2.0
// What stores with slots have in common: the calls on their index, under its lock. A store of this kind adds
// how the bytes of a slot are read, written and invalidated, which is done without the lock.
#pragma once
#include <mutex>

#include "tier/slot_index.h"
#include "tier/store.h"

namespace kvc {

class SlotStore : public PageStore {
 public:
  void exists(const StoreCall& call, PageItem* items, size_t num_items) final;
  void get(const StoreCall& call, PageItem* items, size_t num_items) final;
  void put(const StoreCall& call, PageItem* items, size_t num_items) final;
  void remove(const StoreCall& call, PageItem* items, size_t num_items) final;
  StoreStats stats() final;

 protected:
  enum class Bytes : uint8_t { kRight, kWrong, kFailed };  // kWrong: they are not those of the slot
  SlotStore(const Env& env, uint64_t page_bytes) : memory_(env), page_bytes_(page_bytes) {}

  // Of a slot that nobody else changes meanwhile; `page` is a copy.
  virtual Bytes read_slot(const StoreCall& call, int32_t slot, const PageSlot& page,
                          const PageItem& item) = 0;
  virtual bool write_slot(const StoreCall& call, int32_t slot, uint64_t generation, const PageItem& item,
                          uint32_t* crc) = 0;
  virtual bool clear_slot(int32_t slot) = 0;
  void count_failure(int64_t error);
  void count_fallback();

  Memory memory_;
  const uint64_t page_bytes_;
  std::mutex mutex_;  // all below
  SlotIndex index_;
  StoreStats stats_ = {};

 private:
  PageResult get_one(const StoreCall& call, PageItem* item);
  PageResult put_one(const StoreCall& call, PageItem* item);
  PageResult remove_one(const StoreCall& call, PageItem* item);
};

}  // namespace kvc
