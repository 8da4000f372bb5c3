// SPDX-License-Identifier: Apache-2.0
// What the tests of checkpoints share: an engine with a manager and a storage for each group, whose pages
// follow from their keys, so that a wrong byte is always seen.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/checkpoint.h>
#include <kvcache/external.h>
#include <kvcache/manager.h>
#include <kvcache/page.h>
#include <kvcache/prefix.h>
#include <kvcache/rebuild.h>
#include <kvcache/retention.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "calls.h"
#include "tier/stores.h"

namespace kvc::test {

// Does the last error name it?
inline bool says(const std::string& text) { return std::strstr(kvc_last_error(), text.c_str()) != nullptr; }

// The checkpoints of a folder.
inline std::vector<uint64_t> ids_of(const std::string& folder) {
  std::vector<uint64_t> ids(64);
  size_t count = 0;
  EXPECT_EQ(kvc_checkpoint_list(folder.c_str(), ids.data(), ids.size(), &count), KVC_OK) << kvc_last_error();
  ids.resize(count);
  return ids;
}

struct Form {
  uint64_t num_blocks = 64;
  uint32_t block_size = 4;
  uint32_t num_groups = 1;
  uint64_t window = 0;     // tokens, of the groups but the first
  uint64_t chunk = 0;      // tokens, of the last group instead
  bool own_pools = false;  // of num_blocks for each group
  uint32_t layout = KVC_LAYOUT_LBHNC;
  int32_t dtype = KVC_BFLOAT16;
  uint32_t policy = KVC_POLICY_LRU;
  uint32_t flags = 0, num_layers = 2, num_heads = 2, head_dim = 8;
  uint64_t max_nodes = 0;
  uint32_t max_quotas = 0;
  uint64_t max_request_tokens = 0;
  int32_t last_kind = -1;  // KVC_GROUP_STATE, KVC_GROUP_CROSS: of the last group instead
  const char* weights = "w1";
  bool smooth = false;  // pages that codecs make shorter
};

struct Spoken {  // a prompt
  std::vector<int32_t> tokens;
  std::vector<kvc_extra_key> keys;
  uint32_t tenant = 0;  // 0 = the default namespace
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::vector<int32_t> tokens_of(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> out(count);
  for (int32_t& token : out) token = static_cast<int32_t>(random() % 30000);
  return out;
}

class Engine {
 public:
  explicit Engine(const Form& wanted) : form(wanted) {
    std::vector<kvc_group_config> groups(form.num_groups);
    for (uint32_t g = 0; g < form.num_groups; ++g) {
      groups[g].struct_size = sizeof groups[g];
      groups[g].kind = g == 0 || form.window == 0 ? KVC_GROUP_FULL : KVC_GROUP_SLIDING_WINDOW;
      groups[g].window_tokens = groups[g].kind == KVC_GROUP_FULL ? 0 : form.window;
      groups[g].pool = form.own_pools ? g : 0;
      if (form.chunk == 0 || g + 1 != form.num_groups) continue;
      groups[g].kind = KVC_GROUP_CHUNKED_LOCAL;
      groups[g].window_tokens = 0, groups[g].chunk_tokens = form.chunk;
    }
    if (form.last_kind >= 0) {
      groups.back() = {};
      groups.back().struct_size = sizeof groups[0];
      groups.back().kind = static_cast<uint32_t>(form.last_kind);
    }
    const kvc_pool_config pool = {sizeof(kvc_pool_config), form.num_blocks, 0};
    const std::vector<kvc_pool_config> pools(form.own_pools ? form.num_groups : 0, pool);
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.block_size = form.block_size;
    config.num_blocks = form.own_pools ? 0 : form.num_blocks;
    config.pools = pools.data(), config.num_pools = pools.size();
    config.groups = groups.data();
    config.num_groups = groups.size();
    config.max_requests = 16;
    config.max_nodes = form.max_nodes;
    config.max_request_tokens = form.max_request_tokens;
    config.policy = form.policy;
    config.max_quotas = form.max_quotas;
    config.flags = form.flags;
    config.seed = 7;
    EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
    for (uint32_t g = 0; g < form.num_groups; ++g) {
      kvc_storage_config storage = {};
      storage.struct_size = sizeof storage;
      storage.num_blocks = form.num_blocks;
      storage.num_layers = form.num_layers;
      storage.num_heads = form.num_heads;
      storage.head_dim = form.head_dim;
      storage.block_size = form.block_size;
      storage.dtype = form.dtype;
      storage.layout = form.layout;
      kvc_storage* made = nullptr;
      EXPECT_EQ(kvc_storage_create(&storage, &made), KVC_OK) << kvc_last_error();
      storages.push_back(made);
    }
    pages.struct_size = sizeof pages;
    pages.model = "model", pages.model_size = 5;
    pages.weights = form.weights, pages.weights_size = std::strlen(form.weights);
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_storage_page_properties(storages[0], &pages, &info), KVC_OK) << kvc_last_error();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    kvc_manager_destroy(m);
    for (kvc_storage* storage : storages) kvc_storage_destroy(storage);
  }

  uint64_t open_tenant(uint32_t number) {
    while (tenants.size() <= number) {
      const std::string name = "tenant " + std::to_string(tenants.size());
      kvc_namespace_config config = {};
      config.struct_size = sizeof config;
      config.tenant = name.data(), config.tenant_size = name.size();
      uint64_t id = 0;
      EXPECT_EQ(kvc_manager_open_namespace(m, &config, &id), KVC_OK) << kvc_last_error();
      tenants.push_back(id);
    }
    return tenants[number];
  }
  kvc_prompt prompt_of(const Spoken& spoken) {
    return {sizeof(kvc_prompt),
            open_tenant(spoken.tenant),
            spoken.tokens.data(),
            spoken.tokens.size(),
            spoken.keys.empty() ? nullptr : spoken.keys.data(),
            spoken.keys.size()};
  }
  std::vector<Digest256> keys_of(const Spoken& spoken, uint32_t group) {
    const kvc_prompt prompt = prompt_of(spoken);
    std::vector<Digest256> out(spoken.tokens.size() / form.block_size);
    size_t count = 0;
    EXPECT_EQ(
        kvc_manager_position_digests(m, &prompt, out.empty() ? nullptr : out[0].bytes, out.size(), &count),
        KVC_OK)
        << kvc_last_error();
    for (Digest256& digest : out) {
      Digest256 key;
      EXPECT_EQ(kvc_page_key(digest.bytes, group, info.fingerprint, key.bytes), KVC_OK);
      digest = key;
    }
    return out;
  }

  std::vector<char> page_of_key(const Digest256& key) const {
    std::vector<char> page = page_of(key, info.page_bytes);
    for (char& byte : page) byte = form.smooth ? static_cast<char>(byte & 3) : byte;
    return page;
  }

  // The block of a storage that has this id.
  int32_t place_of(uint32_t group, int32_t block) const {
    return block - static_cast<int32_t>(form.own_pools ? group * form.num_blocks : 0);
  }

  // A request computes all of its tokens but those that it hits: others may be reading these. Its pages are
  // what their keys say. Returns its id.
  uint64_t begin(const Spoken& spoken) {
    const kvc_prompt prompt = prompt_of(spoken);
    uint64_t id = 0, cached = 0;
    EXPECT_EQ(kvc_manager_allocate_request(m, &prompt, nullptr, &id, &cached), KVC_OK) << kvc_last_error();
    const size_t count = (spoken.tokens.size() + form.block_size - 1) / form.block_size;
    for (uint32_t g = 0; g < form.num_groups; ++g) {
      std::vector<int32_t> table(count, -1);
      EXPECT_EQ(kvc_manager_export_tables(m, &id, 1, g, -1, table.data(), table.size()), KVC_OK)
          << kvc_last_error();
      const std::vector<Digest256> keys = keys_of(spoken, g);
      for (size_t i = cached / form.block_size; i < keys.size(); ++i) {
        if (table[i] < 0) continue;
        const std::vector<char> page = page_of_key(keys[i]);
        const int32_t place = place_of(g, table[i]);
        EXPECT_EQ(kvc_storage_unpack_pages(storages[g], &place, 1, page.data(), page.size(), 0), KVC_OK);
      }
    }
    EXPECT_EQ(kvc_manager_commit_tokens(m, id, spoken.tokens.size()), KVC_OK) << kvc_last_error();
    return id;
  }
  void end(uint64_t id) { EXPECT_EQ(kvc_manager_free_request(m, id), KVC_OK) << kvc_last_error(); }
  void run(const Spoken& spoken) { end(begin(spoken)); }

  // Tokens that a request for the prompt would not compute.
  uint64_t hit(const Spoken& spoken) {
    const kvc_prompt prompt = prompt_of(spoken);
    kvc_probe_info probe = {};
    probe.struct_size = sizeof probe;
    EXPECT_EQ(kvc_manager_probe(m, &prompt, &probe), KVC_OK) << kvc_last_error();
    return probe.num_cached;
  }
  // Blocks of the prompt that are cached in a group, all of whose bytes are looked at.
  size_t check_pages(const Spoken& spoken, uint32_t g) {
    const kvc_prompt prompt = prompt_of(spoken);
    std::vector<int32_t> blocks(spoken.tokens.size() / form.block_size + 1, -1);
    size_t count = 0, found = 0;
    EXPECT_EQ(kvc_manager_acquire_prefix(m, &prompt, g, blocks.data(), blocks.size(), &count), KVC_OK)
        << kvc_last_error();
    const std::vector<Digest256> keys = keys_of(spoken, g);
    std::vector<char> page(info.page_bytes);
    for (size_t i = 0; i < count; ++i) {
      if (blocks[i] < 0) continue;
      const int32_t place = place_of(g, blocks[i]);
      EXPECT_EQ(kvc_storage_pack_pages(storages[g], &place, 1, page.data(), page.size(), 0), KVC_OK);
      wrong += page != page_of_key(keys[i]);
      ++found;
    }
    EXPECT_EQ(kvc_manager_release_blocks(m, blocks.data(), count), KVC_OK) << kvc_last_error();
    return found;
  }

  kvc_checkpoint_config config(const std::string& folder, uint32_t flags = 0) const {
    kvc_checkpoint_config out = {};
    out.struct_size = sizeof out;
    out.folder = folder.c_str();
    out.pages = &pages;
    out.flags = flags | KVC_CHECKPOINT_NO_SYNC;
    return out;
  }
  kvc_status save(const kvc_checkpoint_config& config, kvc_checkpoint_info* saved) {
    *saved = {};
    saved->struct_size = sizeof *saved;
    return kvc_checkpoint_save(m, storages.data(), storages.size(), &config, saved);
  }
  kvc_checkpoint_info save(const std::string& folder, uint32_t flags = 0) {
    kvc_checkpoint_info saved;
    EXPECT_EQ(save(config(folder, flags), &saved), KVC_OK) << kvc_last_error();
    return saved;
  }
  kvc_status restore(const kvc_checkpoint_config& config, kvc_checkpoint_info* restored) {
    *restored = {};
    restored->struct_size = sizeof *restored;
    kvc_namespace_pair names[64];
    kvc_request_pair requests[64];
    const kvc_status status = kvc_checkpoint_restore(m, storages.data(), storages.size(), &config, names, 64,
                                                     requests, 64, restored);
    if (status != KVC_OK) return status;
    namespace_pairs.assign(names, names + restored->num_namespaces);
    request_pairs.assign(requests, requests + restored->num_requests);
    return status;
  }
  kvc_checkpoint_info restore(const std::string& folder, uint32_t flags = 0, uint64_t id = 0) {
    kvc_checkpoint_config wanted = config(folder, flags);
    wanted.id = id;
    kvc_checkpoint_info restored;
    EXPECT_EQ(restore(wanted, &restored), KVC_OK) << kvc_last_error();
    return restored;
  }
  void pass_time(uint64_t now) { EXPECT_EQ(kvc_manager_set_time(m, now), KVC_OK) << kvc_last_error(); }
  size_t evict(size_t most) {
    size_t evicted = 0;
    EXPECT_EQ(kvc_manager_evict_blocks(m, -1, most, &evicted), KVC_OK) << kvc_last_error();
    return evicted;
  }
  uint64_t digest() const {
    uint64_t out = 0;
    EXPECT_EQ(kvc_manager_digest(m, &out), KVC_OK);
    return out;
  }
  std::string content() const {
    std::string out(32, '\0');
    EXPECT_EQ(kvc_manager_content_digest(m, reinterpret_cast<uint8_t*>(out.data())), KVC_OK)
        << kvc_last_error();
    return out;
  }
  void check() const { EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error(); }

  const Form form;
  kvc_manager* m = nullptr;
  std::vector<kvc_storage*> storages;
  std::vector<uint64_t> tenants = {0};
  kvc_page_config pages = {};
  kvc_page_info info = {};
  std::vector<kvc_namespace_pair> namespace_pairs;
  std::vector<kvc_request_pair> request_pairs;
  uint64_t wrong = 0;  // pages that are not what their key says
};

// A history with branches, and prompts that it knows.
inline std::vector<Spoken> speak(Engine& engine, uint64_t seed, size_t count, size_t most_blocks = 8) {
  std::mt19937_64 random(seed);
  std::vector<Spoken> all;
  for (size_t i = 0; i < count; ++i) {
    Spoken spoken;
    const size_t size = 1 + random() % (most_blocks * engine.form.block_size);
    if (!all.empty() && random() % 2 == 0) {
      spoken = all[random() % all.size()];
      spoken.tokens.resize(random() % (spoken.tokens.size() + 1));
      while (!spoken.keys.empty() &&
             spoken.keys.back().first_token + spoken.keys.back().num_tokens > spoken.tokens.size())
        spoken.keys.pop_back();
    } else {
      spoken.tenant = static_cast<uint32_t>(random() % 3);
    }
    const std::vector<int32_t> more = tokens_of(random(), size);
    if (random() % 3 == 0 && size > 4) {
      kvc_extra_key key = {};
      key.first_token = spoken.tokens.size() + 1;
      key.num_tokens = 3;
      std::memset(key.digest, static_cast<int>(random() % 256), sizeof key.digest);
      spoken.keys.push_back(key);
    }
    spoken.tokens.insert(spoken.tokens.end(), more.begin(), more.end());
    if (spoken.tokens.size() > most_blocks * engine.form.block_size)
      spoken.tokens.resize(most_blocks * engine.form.block_size);
    while (!spoken.keys.empty() &&
           spoken.keys.back().first_token + spoken.keys.back().num_tokens > spoken.tokens.size())
      spoken.keys.pop_back();
    engine.run(spoken);
    all.push_back(spoken);
  }
  return all;
}

}  // namespace kvc::test
