// SPDX-License-Identifier: Apache-2.0
#include "tier/sizes_store.h"

#include <new>

#include "base/status.h"
#include "tier/slot_store.h"

namespace kvc {
namespace {

class SizesStore final : public SlotStore {
 public:
  SizesStore(const Env& env, uint64_t page_bytes) : SlotStore(env, page_bytes) { batch_ = kMostBatch; }
  bool create(size_t num_slots, uint64_t ttl_ns) {
    return index_.create(memory_, num_slots, SlotPolicy::kLru, ttl_ns);
  }
  bool has_bytes() const override { return false; }

 private:
  // There are no bytes that could be wrong.
  void read_slots(const StoreCall&, SlotWork*, size_t) override {}
  void write_slots(const StoreCall&, SlotWork* work, size_t count) override {
    for (size_t w = 0; w < count; ++w) work[w].crc = 0;
  }
  void clear_slots(SlotWork*, size_t) override {}
};

}  // namespace

kvc_status make_sizes_store(const Env& env, uint64_t bytes, uint64_t page_bytes, PageStorePtr* out,
                            uint64_t ttl_ns) {
  if (page_bytes == 0 || page_bytes > bytes)
    return invalid("a tier of %llu bytes has no room for a page of %llu; give it more, or take smaller pages",
                   static_cast<ull>(bytes), static_cast<ull>(page_bytes));
  const uint64_t num_slots = bytes / page_bytes;
  if (num_slots > INT32_MAX / 2)
    return invalid(
        "a tier of %llu bytes has %llu pages of %llu; give it fewer bytes: it has at most %d pages",
        static_cast<ull>(bytes), static_cast<ull>(num_slots), static_cast<ull>(page_bytes), INT32_MAX / 2);
  auto* store = new (std::nothrow) SizesStore(env, page_bytes);
  PageStorePtr owner(store);
  if (store == nullptr || !store->create(num_slots, ttl_ns))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the keys of %llu pages", static_cast<ull>(num_slots));
  *out = std::move(owner);
  return KVC_OK;
}

}  // namespace kvc
