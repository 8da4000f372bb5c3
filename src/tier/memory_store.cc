// SPDX-License-Identifier: Apache-2.0
#include "tier/memory_store.h"

#include <algorithm>
#include <new>

#include "base/crc32c.h"
#include "base/status.h"
#include "tier/slot_store.h"

namespace kvc {
namespace {

class MemoryStore final : public SlotStore {
 public:
  MemoryStore(const Env& env, uint64_t page_bytes, bool batches)
      : SlotStore(env, page_bytes), stride_(stride_of(page_bytes)) {
    if (batches) batch_ = std::clamp<uint64_t>(kBytesAtOnce / stride_, 1, kMostBatch);
  }
  ~MemoryStore() override { memory_.release(pages_, stride_ * index_.size(), kLine); }

  static uint64_t stride_of(uint64_t page_bytes) { return (page_bytes + kLine - 1) / kLine * kLine; }

  bool create(size_t num_slots, SlotPolicy policy, uint64_t ttl_ns) {
    size_t bytes;
    if (!checked_mul(stride_, num_slots, &bytes) || !index_.create(memory_, num_slots, policy, ttl_ns))
      return false;
    pages_ = static_cast<char*>(memory_.allocate(bytes, kLine));
    return pages_ != nullptr;
  }

 private:
  static constexpr size_t kLine = 64;
  static constexpr uint64_t kBytesAtOnce = 1 << 20;  // small pages would wait for locks more than move

  char* page_at(int32_t slot) { return pages_ + stride_ * static_cast<size_t>(slot); }

  void read_slots(const StoreCall&, SlotWork* work, size_t count) override {
    for (size_t w = 0; w < count; ++w) {
      const kvc_tier_item& item = *work[w].item;
      const char* from = page_at(work[w].slot);
      auto* to = static_cast<char*>(item.data);
      uint32_t crc = 0;
      if (item.runs == nullptr) {
        crc = crc32c_copy(to, from, item.bytes);
      } else {
        crc = crc32c(from, item.bytes);
        for (size_t i = 0; i < item.num_runs; to += item.runs[i++].bytes)
          std::memcpy(to, from + item.runs[i].offset, item.runs[i].bytes);
      }
      if (crc != work[w].crc) work[w].outcome = Outcome::kWrong;
    }
  }
  void write_slots(const StoreCall&, SlotWork* work, size_t count) override {
    for (size_t w = 0; w < count; ++w)
      work[w].crc = crc32c_copy(page_at(work[w].slot), work[w].item->data, work[w].item->bytes);
  }
  void clear_slots(SlotWork*, size_t) override {}

  const size_t stride_;
  char* pages_ = nullptr;
};

}  // namespace

kvc_status make_memory_store(const Env& env, uint64_t bytes, uint64_t page_bytes, PageStorePtr* out,
                             SlotPolicy policy, uint64_t ttl_ns, bool batches) {
  if (page_bytes == 0 || page_bytes > PTRDIFF_MAX || MemoryStore::stride_of(page_bytes) > bytes)
    return invalid(
        "a memory tier of %llu bytes has no room for a page of %llu, which takes a multiple of 64 bytes; "
        "give "
        "it more, or smaller pages",
        static_cast<ull>(bytes), static_cast<ull>(page_bytes));
  const uint64_t num_slots = bytes / MemoryStore::stride_of(page_bytes);
  if (num_slots > INT32_MAX / 2)
    return invalid(
        "a memory tier of %llu bytes has %llu pages of %llu; give it fewer bytes: it has at most %d pages",
        static_cast<ull>(bytes), static_cast<ull>(num_slots), static_cast<ull>(page_bytes), INT32_MAX / 2);
  auto* store = new (std::nothrow) MemoryStore(env, page_bytes, batches);
  PageStorePtr owner(store);
  if (store == nullptr || !store->create(num_slots, policy, ttl_ns))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %llu pages of %llu bytes",
                static_cast<ull>(num_slots), static_cast<ull>(page_bytes));
  *out = std::move(owner);
  return KVC_OK;
}

}  // namespace kvc
