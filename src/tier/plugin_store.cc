// SPDX-License-Identifier: Apache-2.0
#include "tier/plugin_store.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/status.h"
#include "plugin/plugins.h"
#include "tier/record.h"

namespace kvc {
namespace {

constexpr size_t kBatch = 64;  // items of one call of the plug-in

class PluginStore final : public PageStore {
 public:
  PluginStore(const Env& env, const PluginStoreConfig& config)
      : memory_(env),
        table_(*config.table),
        fingerprint_(config.fingerprint),
        page_bytes_(config.page_bytes),
        workers_(std::max(config.workers, 1u)) {}
  ~PluginStore() override {
    if (store_ != nullptr) table_.close(store_);
    memory_.release(pages_, workers_ * page_bytes_, kAlignment);
  }

  kvc_status open(const PluginStoreConfig& config) {
    pages_ = static_cast<char*>(memory_.allocate(workers_ * page_bytes_, kAlignment));
    if (pages_ == nullptr || !desks_.create(memory_, workers_))
      return fail(KVC_ERROR_OUT_OF_MEMORY, "tier %s: no memory for %u threads", config.text, workers_);
    kvc_store_config own = {};
    own.struct_size = sizeof own;
    own.url = config.url;
    std::memcpy(own.fingerprint, fingerprint_.bytes, sizeof own.fingerprint);
    own.page_bytes = page_bytes_;
    own.num_threads = workers_;
    // It may set a better text, and may leave anything in `opened` if it fails.
    fail(KVC_OK, "tier %.900s: plug-in \"%s\" cannot open it", config.text, config.name);
    void* opened = nullptr;
    KVC_TRY(checked_status(table_.open(&own, &opened), KVC_ERROR_DEVICE));
    store_ = opened;
    if (store_ != nullptr) return KVC_OK;
    return fail(KVC_ERROR_INTERNAL, "plug-in \"%s\" opened no store and said KVC_OK", config.name);
  }

  void exists(const StoreCall& call, kvc_tier_item* items, size_t num_items) override {
    in_batches(call, items, num_items, KVC_PAGE_MISS, [&](Desk& desk, kvc_tier_item* some, size_t count) {
      ask(table_.exists, call, desk, count);
      for (size_t i = 0; i < count; ++i) {
        some[i].lease_until_ns = some[i].generation = 0;
        some[i].result = desk.items[i].result;
      }
    });
  }

  void get(const StoreCall& call, kvc_tier_item* items, size_t num_items) override {
    in_batches(call, items, num_items, KVC_PAGE_MISS, [&](Desk& desk, kvc_tier_item* some, size_t count) {
      char* const part = some[0].runs == nullptr ? nullptr : page_of(call);
      for (size_t i = 0; i < count; ++i) {
        desk.headers[i] = {};  // nothing of an earlier page, should the plug-in write none
        desk.items[i].header = &desk.headers[i];
        desk.items[i].data = part == nullptr ? some[i].data : part;
        desk.items[i].bytes = some[i].bytes;
      }
      ask(table_.get, call, desk, count);
      size_t num_broken = 0;
      for (size_t i = 0; i < count; ++i) {
        some[i].result = desk.items[i].result;
        if (some[i].result != KVC_PAGE_OK) continue;
        some[i].result =
            check(desk.headers[i], part == nullptr ? static_cast<const char*>(some[i].data) : part, &some[i]);
        if (some[i].result == KVC_PAGE_MISS)
          desk.items[num_broken++] = {some[i].key, nullptr, nullptr, some[i].bytes, 0, 0};
      }
      const kvc_store_call own = call_of(call);
      if (num_broken != 0 && table_.remove != nullptr) table_.remove(store_, &own, desk.items, num_broken);
    });
  }

  void put(const StoreCall& call, kvc_tier_item* items, size_t num_items) override {
    in_batches(call, items, num_items, KVC_PAGE_NO_SPACE, [&](Desk& desk, kvc_tier_item* some, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        desk.headers[i] =
            make_record(key_of(some[i]), fingerprint_, 1, some[i].bytes, crc32c(some[i].data, some[i].bytes));
        desk.items[i].header = &desk.headers[i];
        desk.items[i].data = some[i].data;
        desk.items[i].bytes = some[i].bytes;
      }
      ask(table_.put, call, desk, count);
      for (size_t i = 0; i < count; ++i) {
        some[i].result = desk.items[i].result;
        some[i].generation = some[i].result == KVC_PAGE_OK;
      }
    });
  }

  void remove(const StoreCall& call, kvc_tier_item* items, size_t num_items) override {
    in_batches(call, items, num_items, KVC_PAGE_MISS, [&](Desk& desk, kvc_tier_item* some, size_t count) {
      if (table_.remove != nullptr) ask(table_.remove, call, desk, count);
      for (size_t i = 0; i < count; ++i)
        some[i].result = table_.remove == nullptr ? KVC_PAGE_FAILED : desk.items[i].result;
    });
  }

  StoreStats stats() override {
    kvc_store_info info = {};
    info.struct_size = sizeof info;
    if (table_.info != nullptr) table_.info(store_, &info);
    const std::lock_guard lock(mutex_);
    StoreStats out = stats_;
    out.pages = info.pages, out.capacity_pages = info.capacity_pages;
    out.bytes = info.bytes, out.capacity_bytes = info.capacity_bytes;
    out.last_errno = info.last_errno;
    return out;
  }

  bool is_remote() const override { return (table_.flags & KVC_STORE_REMOTE) != 0; }

 private:
  static constexpr size_t kAlignment = 4096;

  // What one worker writes on.
  struct Desk {
    kvc_store_item items[kBatch];
    RecordHeader headers[kBatch];
  };
  using Call = void (*)(void*, const kvc_store_call*, kvc_store_item*, size_t);

  static kvc_store_call call_of(const StoreCall& call) {
    return {sizeof(kvc_store_call), call.deadline_ns, call.worker, 0};
  }
  char* page_of(const StoreCall& call) { return pages_ + page_bytes_ * call.worker; }

  // Calls each(desk, items, count) with items of the plug-in that have keys. Parts of pages come one by one,
  // and what is larger than the store takes does not come: it gets the result `too_large`.
  template <typename Each>
  void in_batches(const StoreCall& call, kvc_tier_item* items, size_t num_items, int32_t too_large,
                  Each&& each) {
    Desk& desk = desks_[call.worker];
    for (size_t i = 0; i < num_items;) {
      if (items[i].bytes > page_bytes_) {
        items[i++].result = too_large;
        continue;
      }
      size_t count = 0;
      do {
        desk.items[count] = {items[i + count].key, nullptr, nullptr, 0, KVC_PAGE_FAILED, 0};
        ++count;
      } while (count < kBatch && i + count < num_items && items[i].runs == nullptr &&
               items[i + count].runs == nullptr && items[i + count].bytes <= page_bytes_);
      each(desk, items + i, count);
      i += count;
    }
  }

  void ask(Call function, const StoreCall& call, Desk& desk, size_t count) {
    const kvc_store_call own = call_of(call);
    if (call.asks != nullptr) *call.asks = true;
    function(store_, &own, desk.items, count);
    uint64_t failures = 0;
    for (size_t i = 0; i < count; ++i) {
      int32_t& result = desk.items[i].result;
      const bool known = result == KVC_PAGE_OK || result == KVC_PAGE_MISS || result == KVC_PAGE_NO_SPACE ||
                         result == KVC_PAGE_TIMEOUT || result == KVC_PAGE_UNAVAILABLE;
      if (!known) result = KVC_PAGE_FAILED;
      failures += result == KVC_PAGE_FAILED;
    }
    if (failures == 0) return;
    const std::lock_guard lock(mutex_);
    stats_.failures += failures;
  }

  // A value that a get gave: its result, and what was wanted of it copied to the item.
  int32_t check(const RecordHeader& header, const char* data, kvc_tier_item* item) {
    const bool is_it = is_record(header, fingerprint_, page_bytes_) && header.key == key_of(*item) &&
                       header.payload_bytes == item->bytes;
    if (!is_it || crc32c(data, item->bytes) != header.payload_crc) {
      const std::lock_guard lock(mutex_);
      ++(is_it ? stats_.bad_payloads : stats_.bad_headers);
      return KVC_PAGE_MISS;
    }
    if (item->generation != 0 && item->generation != header.generation) return KVC_PAGE_EXPIRED;
    item->generation = header.generation;
    auto* out = static_cast<char*>(item->data);
    for (size_t i = 0; item->runs != nullptr && i < item->num_runs; out += item->runs[i++].bytes)
      std::memcpy(out, data + item->runs[i].offset, item->runs[i].bytes);
    return KVC_PAGE_OK;
  }

  Memory memory_;
  const kvc_store& table_;
  const Digest256 fingerprint_;
  const uint64_t page_bytes_;
  const uint32_t workers_;
  void* store_ = nullptr;
  char* pages_ = nullptr;  // of a worker each, for gets of a part
  Array<Desk> desks_;
  std::mutex mutex_;  // below
  StoreStats stats_ = {};
};

}  // namespace

kvc_status open_plugin_store(const Env& env, const PluginStoreConfig& config, PageStorePtr* out) {
  if (config.table == nullptr)
    return fail(KVC_ERROR_UNSUPPORTED, "tier %s: the plug-in \"%s\" has no store", config.text, config.name);
  if (config.page_bytes == 0 || config.page_bytes > PTRDIFF_MAX / 256)
    return invalid("tier %s: page_bytes is %llu; it is 1 to 2^55 - 1", config.text,
                   static_cast<ull>(config.page_bytes));
  auto* store = new (std::nothrow) PluginStore(env, config);
  PageStorePtr owner(store);
  if (store == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "tier %s: no memory", config.text);
  KVC_TRY(store->open(config));
  *out = std::move(owner);
  return KVC_OK;
}

}  // namespace kvc
