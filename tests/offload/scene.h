// SPDX-License-Identifier: Apache-2.0
// A small engine with an offload, whose blocks have bytes that follow from all tokens before them: a wrong
// byte is always seen. The oracle knows nothing of digests: it hashes tokens by itself.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/device.h>
#include <kvcache/manager.h>
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/prefix.h>
#include <kvcache/request.h>
#include <kvcache/storage.h>

#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "api/tier_handle.h"
#include "tier/memory_store.h"

namespace kvc::test {

inline constexpr uint32_t kBlock = 4;

// A store whose answers go wrong as the test says.
struct Weather {
  std::atomic<uint32_t> fail_percent{0}, full{0}, down{0}, broken_puts{0};
  std::atomic<int32_t> gets_before_failure{-1};  // of one get; -1 = none fails so
  std::atomic<uint64_t> random{1};
  // Called before a call of the store, without threads: what the engine does meanwhile.
  std::function<void(TierJobKind)> before;
  void begin(TierJobKind kind) {
    if (before) before(kind);
  }
  bool bad() {
    const uint64_t n = random.fetch_add(0x9E3779B97F4A7C15u);
    return ((n ^ n >> 31) * 0xBF58476D1CE4E5B9u >> 40) % 100 < fail_percent;
  }
};

class UnreliableStore final : public PageStore {
 public:
  UnreliableStore(PageStorePtr inner, Weather* weather) : inner_(std::move(inner)), weather_(*weather) {}
  void exists(const StoreCall& call, kvc_tier_item* items, size_t count) override {
    weather_.begin(TierJobKind::kExists);
    inner_->exists(call, items, count);
    for (size_t i = 0; i < count; ++i)
      if (weather_.bad()) items[i].result = KVC_PAGE_FAILED;
  }
  void get(const StoreCall& call, kvc_tier_item* items, size_t count) override {
    weather_.begin(TierJobKind::kGet);
    for (size_t i = 0; i < count; ++i) {
      if (weather_.down || (weather_.gets_before_failure >= 0 && weather_.gets_before_failure-- == 0)) {
        items[i].result = KVC_PAGE_FAILED;
      } else if (weather_.bad()) {
        std::memset(items[i].data, 0x5a, items[i].bytes);  // what is not OK is undefined
        items[i].result = weather_.random % 2 == 0 ? KVC_PAGE_MISS : KVC_PAGE_TIMEOUT;
      } else {
        inner_->get(call, items + i, 1);
      }
    }
  }
  void put(const StoreCall& call, kvc_tier_item* items, size_t count) override {
    weather_.begin(TierJobKind::kPut);
    for (size_t i = 0; i < count; ++i) {
      if (weather_.broken_puts)
        items[i].result = KVC_PAGE_FAILED;
      else if (weather_.full || weather_.down || weather_.bad())
        items[i].result = KVC_PAGE_NO_SPACE;
      else
        inner_->put(call, items + i, 1);
    }
  }
  void remove(const StoreCall& call, kvc_tier_item* items, size_t count) override {
    inner_->remove(call, items, count);
  }
  StoreStats stats() override { return inner_->stats(); }

 private:
  PageStorePtr inner_;
  Weather& weather_;
};

struct SceneConfig {
  uint64_t num_blocks = 32;
  uint32_t policy = KVC_OFFLOAD_WRITE_THROUGH, flags = 0;
  bool windows = false;                  // a second group, with a window
  std::vector<kvc_group_config> groups;  // else these
  std::vector<uint64_t> pools;           // blocks of each
  uint64_t record_bytes = 0;
  uint32_t threads = 0, num_tiers = 1, num_pages = 8;
  uint64_t tier_pages = 1024, max_request_blocks = 64, hold_ns = 100000;
  double compute_ns = 0;
  uint64_t min_load_tokens = 0, retry_ns = 1000, timeout_ns = 0;
  uint32_t tier_jobs = 1024;
  std::string url;  // of the tier, without weather; "" = memory, with weather, or
  std::function<kvc_status(uint64_t page_bytes, PageStorePtr*)> open_store;
  int32_t layout = 0;
  int32_t dtype = KVC_FLOAT16;
  uint32_t scale_group = 0;
  const char* weights = "w";  // one byte
  uint32_t manager_policy = 0, manager_flags = 0;
  bool sizes_alone = false;
  const char* device = nullptr;
  bool stream = false;
};

// `tokens`: of a window or a chunk.
inline kvc_group_config group_of(uint32_t kind, uint64_t tokens = 0, uint32_t pool = 0) {
  kvc_group_config out = {};
  out.struct_size = sizeof out;
  out.kind = kind;
  out.pool = pool;
  if (kind == KVC_GROUP_SLIDING_WINDOW) {
    out.window_tokens = static_cast<decltype(out.window_tokens)>(tokens);
    out.num_sink_tokens = kBlock;
  }
  if (kind == KVC_GROUP_CHUNKED_LOCAL) out.chunk_tokens = static_cast<decltype(out.chunk_tokens)>(tokens);
  return out;
}

class Scene {
 public:
  explicit Scene(const SceneConfig& config) : config_(config) {
    groups = config.groups;
    if (groups.empty()) groups.push_back(group_of(KVC_GROUP_FULL));
    if (config.windows) groups.push_back(group_of(KVC_GROUP_SLIDING_WINDOW, 2 * kBlock));
    for (const uint64_t blocks : config.pools) {
      kvc_pool_config pool = {};
      pool.struct_size = sizeof pool;
      pool.num_blocks = blocks;
      pools.push_back(pool);
    }
    kvc_manager_config c = {};
    c.struct_size = sizeof c;
    c.num_blocks = pools.empty() ? config.num_blocks : 0;
    c.pools = pools.data();
    c.num_pools = pools.size();
    c.record_bytes = config.record_bytes;
    c.max_requests = 32;
    c.max_request_tokens = config.max_request_blocks * kBlock;
    c.block_size = kBlock;
    c.event_capacity = 512;
    c.seed = 7;
    c.groups = groups.data();
    c.num_groups = groups.size();
    num_groups = static_cast<uint32_t>(groups.size());
    c.policy = config.manager_policy;
    c.flags = config.manager_flags;
    EXPECT_EQ(kvc_manager_create(&c, &manager), KVC_OK) << kvc_last_error();
    kvc_storage_config s = {};
    s.struct_size = sizeof s;
    s.num_blocks = config.num_blocks;  // of each pool
    s.num_layers = 2;
    s.num_heads = 2;
    s.head_dim = 8;
    s.block_size = kBlock;
    s.dtype = config.dtype;
    s.scale_group = config.scale_group;
    s.layout = static_cast<uint32_t>(config.layout);
    s.device = config.device;
    for (size_t p = 0; p < std::max<size_t>(pools.size(), 1); ++p) {
      EXPECT_EQ(kvc_storage_create(&s, &storages.emplace_back()), KVC_OK) << kvc_last_error();
      first_blocks.push_back(p == 0 ? 0 : first_blocks.back() + static_cast<int32_t>(config.pools[p - 1]));
    }
    storage = storages[0];
    names.struct_size = sizeof names;
    names.model = "m", names.model_size = 1;
    names.weights = config.weights, names.weights_size = 1;
    kvc_page_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_storage_page_properties(storage, &names, &info), KVC_OK) << kvc_last_error();
    page_bytes = info.page_bytes;
    if (config.stream) {
      EXPECT_EQ(kvc_stream_create(config.device, &stream), KVC_OK) << kvc_last_error();
    }
    EXPECT_EQ(
        kvc_device_allocate(config.device, config.device == nullptr ? KVC_MEMORY_HOST : KVC_MEMORY_PINNED,
                            page_bytes, &bounce),
        KVC_OK)
        << kvc_last_error();
    if (!config.url.empty()) open_url(config.url, info);
    for (uint32_t t = 0; t < config.num_tiers && config.url.empty(); ++t) {
      PageStorePtr inner;
      const kvc_status status =
          config.open_store
              ? config.open_store(page_bytes, &inner)
              : make_memory_store(default_env(), config.tier_pages * page_bytes, page_bytes, &inner);
      EXPECT_EQ(status, KVC_OK) << kvc_last_error();
      auto tier = std::make_unique<kvc_tier>();
      TierOptions options;
      options.num_threads = config.threads;
      options.max_jobs = config.tier_jobs;
      EXPECT_EQ(Tier::create(default_env(), std::make_unique<UnreliableStore>(std::move(inner), &weather[t]),
                             options, &tier->impl),
                KVC_OK);
      tiers.push_back(tier.release());
    }
    open();
  }
  ~Scene() {
    kvc_offload_destroy(offload);
    kvc_stream_destroy(stream);
    EXPECT_EQ(kvc_device_release(bounce), KVC_OK);
    kvc_manager_destroy(manager);
    for (kvc_storage* each : storages) kvc_storage_destroy(each);
    for (kvc_tier* tier : tiers) kvc_tier_destroy(tier);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void open() { EXPECT_EQ(try_open(), KVC_OK) << kvc_last_error(); }
  kvc_status try_open() {
    std::vector<kvc_storage*> of_groups;
    for (const kvc_group_config& group : groups) of_groups.push_back(storages[group.pool]);
    const std::vector<uint64_t> sizes(num_groups, page_bytes);
    kvc_offload_config o = {};
    o.struct_size = sizeof o;
    o.manager = manager;
    if (!config_.sizes_alone) o.storages = of_groups.data();
    o.page_bytes = sizes.data();
    o.tiers = tiers.data();
    o.num_tiers = tiers.size();
    o.pages = &names;
    o.policy = config_.policy;
    o.flags = config_.flags;
    o.num_pages = config_.num_pages;
    o.max_lookups = 4;
    o.hold_ns = config_.hold_ns;
    o.compute_ns_per_token = config_.compute_ns;
    o.min_load_tokens = config_.min_load_tokens;
    o.retry_ns = config_.retry_ns;
    o.timeout_ns = config_.timeout_ns;
    return kvc_offload_create(&o, &offload);
  }
  void open_url(const std::string& url, const kvc_page_info& info) {
    kvc_tier_config config = {};
    config.struct_size = sizeof config;
    config.url = url.c_str();
    config.page_bytes = info.page_bytes;
    std::memcpy(config.fingerprint, info.fingerprint, sizeof config.fingerprint);
    kvc_tier* made = nullptr;
    EXPECT_EQ(kvc_tier_create(&config, &made), KVC_OK) << kvc_last_error();
    if (made != nullptr) tiers.push_back(made);
  }
  uint64_t flush(uint64_t timeout_ns = UINT64_MAX) {
    uint64_t left = UINT64_MAX;
    EXPECT_EQ(kvc_offload_flush(offload, now += tick, timeout_ns, stream, &left), KVC_OK) << kvc_last_error();
    return left;
  }
  void close() {
    kvc_offload_destroy(offload);
    offload = nullptr;
  }

  // What a page of a block has: a function of all tokens and extra keys up to its end, its group and the
  // namespace.
  std::vector<char> content(const int32_t* tokens, size_t block, uint32_t group, uint64_t ns) const {
    uint64_t state = 88172645463325252u + ns * 977 + group * 131;
    for (size_t i = 0; i < (block + 1) * kBlock; ++i)
      state = (state ^ static_cast<uint64_t>(tokens[i] + 1)) * 0x100000001B3u + (state >> 29);
    for (const kvc_extra_key& key : keys)
      if (key.first_token < (block + 1) * kBlock) state = (state ^ key.digest[0]) * 0x100000001B3u + 1;
    std::vector<char> out(page_bytes);
    for (char& byte : out) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<char>(state >> 56);
    }
    return out;
  }

  // Of a device, the bytes of a block in the order of its layout; in no case has it padding.
  void read_block(uint32_t group, int32_t block, std::vector<char>* out) {
    kvc_storage* const own = storages[groups[group].pool];
    block -= first_blocks[groups[group].pool];
    if (config_.device == nullptr) {
      EXPECT_EQ(kvc_storage_pack_pages(own, &block, 1, out->data(), page_bytes, 0), KVC_OK);
      return;
    }
    const kvc_block_copy copy = {block, 0};
    EXPECT_EQ(kvc_storage_swap_out(own, &copy, 1, bounce, page_bytes, 0, nullptr), KVC_OK)
        << kvc_last_error();
    std::memcpy(out->data(), bounce, page_bytes);
  }
  void write_block(uint32_t group, int32_t block, const std::vector<char>& bytes) {
    kvc_storage* const own = storages[groups[group].pool];
    block -= first_blocks[groups[group].pool];
    if (config_.device == nullptr) {
      EXPECT_EQ(kvc_storage_unpack_pages(own, &block, 1, bytes.data(), page_bytes, 0), KVC_OK);
      return;
    }
    const kvc_block_copy copy = {0, block};
    std::memcpy(bounce, bytes.data(), page_bytes);
    EXPECT_EQ(kvc_storage_swap_in(own, &copy, 1, bounce, page_bytes, 0, nullptr), KVC_OK) << kvc_last_error();
  }

  uint64_t create(const std::vector<int32_t>& tokens, uint64_t ns = 0) {
    kvc_prompt prompt = {};
    prompt.struct_size = sizeof prompt;
    prompt.namespace_id = ns;
    prompt.tokens = tokens.data();
    prompt.num_tokens = tokens.size();
    prompt.keys = keys.data();
    prompt.num_keys = keys.size();
    kvc_request_config config = {};
    config.struct_size = sizeof config;
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_create_request(manager, &prompt, &config, &id), KVC_OK) << kvc_last_error();
    return id;
  }
  // The table of an admitted request.
  std::vector<int32_t> table(uint64_t id, uint32_t group) const {
    std::vector<int32_t> out(config_.max_request_blocks + 1, -1);
    EXPECT_EQ(kvc_manager_export_tables(manager, &id, 1, group, -1, out.data(), out.size()), KVC_OK)
        << kvc_last_error();
    return out;
  }
  // Checks the hit of an admitted request and computes the rest. Returns the tokens of the hit.
  uint64_t compute(uint64_t id, const std::vector<int32_t>& tokens, uint64_t cached, uint64_t ns = 0) {
    if (stream != nullptr) {
      EXPECT_EQ(kvc_stream_synchronize(stream), KVC_OK);
    }
    for (uint32_t g = 0; g < num_groups; ++g) {
      const std::vector<int32_t> blocks = table(id, g);
      for (size_t b = 0; b < tokens.size() / kBlock; ++b) {
        if (blocks[b] < 0) continue;
        const std::vector<char> page = content(tokens.data(), b, g, ns);
        std::vector<char> there(page_bytes);
        if (config_.sizes_alone) continue;
        if (b < cached / kBlock) {
          read_block(g, blocks[b], &there);
          wrong_pages += there != page;
          ++checked_pages;
        } else {
          write_block(g, blocks[b], page);
        }
      }
    }
    EXPECT_EQ(kvc_manager_commit_tokens(manager, id, tokens.size()), KVC_OK) << kvc_last_error();
    return cached;
  }
  void poll() { ASSERT_EQ(kvc_offload_poll(offload, now += tick, stream), KVC_OK) << kvc_last_error(); }
  // Until nothing is under way.
  void settle() {
    for (int i = 0; i < 1000000; ++i) {
      poll();
      const kvc_offload_stats s = stats();
      if (s.waiting_blocks == 0 && s.busy_pages == 0) return;
      std::this_thread::yield();  // to threads of tiers and streams
    }
    const kvc_offload_stats s = stats();
    FAIL() << "the offload does not settle: " << s.waiting_blocks << " blocks wait, " << s.busy_pages
           << " pages are busy";
  }
  kvc_offload_info info(uint64_t id) const {
    kvc_offload_info out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_offload_query(offload, id, &out), KVC_OK);
    return out;
  }
  // Looks the request up, waits, admits and computes it. Returns the tokens of the hit.
  uint64_t serve(uint64_t id, const std::vector<int32_t>& tokens, uint64_t ns = 0) {
    EXPECT_EQ(kvc_offload_lookup(offload, id, now), KVC_OK) << kvc_last_error();
    for (int i = 0; i < 1000000; ++i) {
      const uint32_t state = info(id).state;
      if (state == KVC_OFFLOAD_NONE || state == KVC_OFFLOAD_READY) break;
      poll();
      std::this_thread::yield();
    }
    last = info(id);
    uint64_t cached = 0;
    EXPECT_EQ(kvc_manager_admit_request(manager, id, &cached), KVC_OK) << kvc_last_error();
    return compute(id, tokens, cached, ns);
  }
  uint64_t serve(const std::vector<int32_t>& tokens, uint64_t ns = 0) {
    const uint64_t id = create(tokens, ns);
    const uint64_t cached = serve(id, tokens, ns);
    EXPECT_EQ(kvc_manager_free_request(manager, id), KVC_OK);
    return cached;
  }
  void evict_all() {
    size_t count = 0;
    EXPECT_EQ(kvc_manager_evict_blocks(manager, UINT32_MAX, SIZE_MAX, &count), KVC_OK) << kvc_last_error();
  }
  // Afterwards the tiers alone have the prompt.
  void store_and_evict(const std::vector<int32_t>& tokens) {
    serve(tokens);
    settle();
    evict_all();
  }
  kvc_offload_stats stats() const {
    kvc_offload_stats out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_offload_read_stats(offload, &out), KVC_OK);
    return out;
  }
  kvc_offload_tier_stats tier(uint32_t t = 0) const {
    kvc_offload_tier_stats out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_offload_read_tier_stats(offload, t, &out), KVC_OK);
    return out;
  }
  uint64_t held_blocks() const {
    uint64_t held = 0;
    for (uint32_t p = 0; p < storages.size(); ++p) {
      kvc_pool_info out = {};
      out.struct_size = sizeof out;
      EXPECT_EQ(kvc_manager_pool_info(manager, p, &out), KVC_OK);
      held += out.num_blocks - out.free - out.cached;
    }
    return held;
  }
  void check() const { ASSERT_EQ(kvc_manager_check(manager), KVC_OK) << kvc_last_error(); }

  SceneConfig config_;
  kvc_manager* manager = nullptr;
  std::vector<kvc_group_config> groups;
  std::vector<kvc_pool_config> pools;
  std::vector<kvc_storage*> storages;  // of each pool
  std::vector<int32_t> first_blocks;
  kvc_storage* storage = nullptr;   // of the first one
  std::vector<kvc_extra_key> keys;  // of prompts that are made now
  kvc_offload* offload = nullptr;
  kvc_page_config names = {};
  kvc_stream* stream = nullptr;
  void* bounce = nullptr;
  std::vector<kvc_tier*> tiers;
  Weather weather[8];
  uint64_t page_bytes = 0, now = 1, tick = 1;
  uint32_t num_groups = 1;
  uint64_t wrong_pages = 0, checked_pages = 0;
  kvc_offload_info last = {};
};

inline std::vector<int32_t> tokens_of(int32_t first, size_t count) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = first + static_cast<int32_t>(i);
  return out;
}

}  // namespace kvc::test
