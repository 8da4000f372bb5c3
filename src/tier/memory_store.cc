// SPDX-License-Identifier: Apache-2.0
#include "tier/memory_store.h"

#include <new>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/slot_store.h"

namespace kvc {
namespace {

class MemoryStore final : public SlotStore {
 public:
  MemoryStore(const Env& env, uint64_t page_bytes)
      : SlotStore(env, page_bytes), stride_((page_bytes + kLine - 1) / kLine * kLine) {}
  ~MemoryStore() override { memory_.release(pages_, stride_ * index_.size(), kLine); }

  bool create(size_t num_slots) {
    size_t bytes;
    if (!checked_mul(stride_, num_slots, &bytes) || !index_.create(memory_, num_slots)) return false;
    pages_ = static_cast<char*>(memory_.allocate(bytes, kLine));
    return pages_ != nullptr;
  }

 private:
  static constexpr size_t kLine = 64;

  char* page_at(int32_t slot) { return pages_ + stride_ * static_cast<size_t>(slot); }

  Bytes read_slot(const StoreCall&, int32_t slot, const PageSlot& page, const PageItem& item) override {
    const char* from = page_at(slot);
    auto* to = static_cast<char*>(item.data);
    uint32_t crc = 0;
    if (item.runs == nullptr) {
      crc = crc32c_copy(to, from, page.bytes);
    } else {
      crc = crc32c(from, page.bytes);
      for (size_t i = 0; i < item.num_runs; to += item.runs[i++].bytes)
        std::memcpy(to, from + item.runs[i].offset, item.runs[i].bytes);
    }
    return crc == page.crc ? Bytes::kRight : Bytes::kWrong;
  }
  bool write_slot(const StoreCall&, int32_t slot, uint64_t, const PageItem& item, uint32_t* crc) override {
    *crc = crc32c_copy(page_at(slot), item.data, item.bytes);
    return true;
  }
  bool clear_slot(int32_t) override { return true; }

  const size_t stride_;
  char* pages_ = nullptr;
};

}  // namespace

kvc_status make_memory_store(const Env& env, uint64_t bytes, uint64_t page_bytes, PageStorePtr* out) {
  if (page_bytes == 0 || page_bytes > bytes)
    return invalid("a memory tier of %llu bytes has no room for a page of %llu; give it more, or pages bytes",
                   static_cast<ull>(bytes), static_cast<ull>(page_bytes));
  const uint64_t num_slots = bytes / page_bytes;
  auto* store = num_slots > INT32_MAX / 2 ? nullptr : new (std::nothrow) MemoryStore(env, page_bytes);
  PageStorePtr owner(store);
  if (store == nullptr || !store->create(num_slots))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %llu pages of %llu bytes",
                static_cast<ull>(num_slots), static_cast<ull>(page_bytes));
  *out = std::move(owner);
  return KVC_OK;
}

}  // namespace kvc
