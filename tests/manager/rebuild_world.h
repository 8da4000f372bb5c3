// SPDX-License-Identifier: Apache-2.0
// Random histories for tests of kvc_manager_rebuild, and what they say of a rebuilt manager. The model reads
// the old manager through its public listing alone, walks the known prompts token by token, and shares no
// code with the library.
#pragma once
#include <kvcache/events.h>
#include <kvcache/prefix.h>
#include <kvcache/rebuild.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc::test {

struct KnownPrompt {
  uint32_t tenant;  // 0 = the default namespace
  std::vector<int32_t> tokens;
  std::vector<kvc_extra_key> keys;
};

struct Form {
  uint32_t block_size = 16;
  uint64_t num_blocks = 64;  // of each pool
  uint32_t num_groups = 1, num_pools = 1;
  uint32_t policy = KVC_POLICY_LRU;
};

/// A manager of a form, or the rebuilt one of another.
class Side {
 public:
  explicit Side(const Form& wanted) : form(wanted) {
    for (uint32_t g = 0; g < wanted.num_groups; ++g) {
      groups_.push_back(full_group());
      groups_.back().pool = g % wanted.num_pools;
    }
    for (uint32_t p = 0; p < wanted.num_pools; ++p)
      pools_.push_back({sizeof(kvc_pool_config), wanted.num_blocks, 0});
    config.struct_size = sizeof config;
    config.block_size = wanted.block_size;
    config.groups = groups_.data();
    config.num_groups = groups_.size();
    config.pools = pools_.data();
    config.num_pools = pools_.size();
    config.max_nodes = 4096;
    config.max_requests = 16;
    config.event_capacity = 1 << 14;
    config.policy = wanted.policy;
    config.seed = 7;
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() { kvc_manager_destroy(m); }

  const Form form;
  kvc_manager_config config = {};
  kvc_manager* m = nullptr;
  uint64_t tenants[3] = {};  // Ids; [0] = 0.

 private:
  std::vector<kvc_group_config> groups_;
  std::vector<kvc_pool_config> pools_;
};

/// What can be found, read by kvc_manager_list_prefixes.
class Listing {
 public:
  explicit Listing(const Side& side) : side_(side) {
    std::vector<kvc_event> events(1 << 14);
    std::vector<int32_t> tokens(events.size() * side.form.block_size);
    uint64_t cursor = 0, next = 0;
    kvc_event_batch batch = {};
    batch.struct_size = sizeof batch;
    batch.events = events.data(), batch.event_size = sizeof(kvc_event), batch.capacity = events.size();
    batch.tokens = tokens.data(), batch.token_capacity = tokens.size();
    do {
      EXPECT_EQ(kvc_manager_list_prefixes(side.m, &cursor, &next, &batch), KVC_OK) << kvc_last_error();
      for (size_t i = 0; i < batch.count; ++i) {
        const kvc_event& event = events[i];
        Position& position = positions_[event.node];
        const auto* first = tokens.data() + i * side.form.block_size;
        position.tokens.assign(first, first + side.form.block_size);
        std::memcpy(position.extra.data(), event.extra_digest, 32);
        position.blocks.resize(side.form.num_groups, -1);
        position.blocks[event.group] = event.block;
        if (!std::exchange(position.listed, true))
          children_[{event.namespace_id, event.parent_node}].push_back(event.node);
      }
    } while (cursor != 0);
  }

  /// Blocks of each position of a prompt that a hit may use, from the first on: in all groups.
  std::vector<std::vector<int32_t>> path(const KnownPrompt& prompt) const {
    std::vector<std::vector<int32_t>> found;
    const uint64_t ns = side_.tenants[prompt.tenant];
    const size_t size = side_.form.block_size;
    uint64_t at = 0;
    for (size_t begin = 0; begin + size <= prompt.tokens.size(); begin += size) {
      const auto children = children_.find({ns, at});
      if (children == children_.end()) break;
      const auto wanted = extra_digest(prompt, begin);
      uint64_t next = 0;
      for (const uint64_t node : children->second) {
        const Position& position = positions_.at(node);
        if (position.extra == wanted &&
            std::equal(position.tokens.begin(), position.tokens.end(), prompt.tokens.begin() + begin))
          next = node;
      }
      if (next == 0) break;
      const auto& blocks = positions_.at(next).blocks;
      if (std::count(blocks.begin(), blocks.end(), -1) != 0) break;
      found.push_back(blocks);
      at = next;
    }
    return found;
  }

 private:
  struct Position {
    std::vector<int32_t> tokens, blocks;
    std::array<uint8_t, 32> extra;
    bool listed = false;
  };
  std::array<uint8_t, 32> extra_digest(const KnownPrompt& prompt, size_t begin) const {
    std::array<uint8_t, 32> out = {};
    Sha256 sha;
    bool any = false;
    for (const kvc_extra_key& key : prompt.keys) {
      if (key.first_token + key.num_tokens <= begin || key.first_token >= begin + side_.form.block_size)
        continue;
      any = true;
      const int64_t offset = static_cast<int64_t>(key.first_token) - static_cast<int64_t>(begin);
      sha.update(&offset, 8);
      sha.update(&key.num_tokens, 8);
      sha.update(key.digest, 32);
    }
    if (any) std::memcpy(out.data(), sha.finish().bytes, 32);
    return out;
  }

  const Side& side_;
  std::map<uint64_t, Position> positions_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint64_t>> children_;
};

/// What the keys and values of each token of a prompt depend on, as a number.
inline std::vector<uint64_t> contents(const KnownPrompt& prompt) {
  std::vector<uint64_t> out;
  uint64_t state = (prompt.tenant + 1) * 0x9E3779B97F4A7C15u;
  const auto mix = [&state](uint64_t value) {
    state = (state ^ value) * 0xBF58476D1CE4E5B9u;
    state ^= state >> 29;
  };
  size_t key = 0;
  for (size_t t = 0; t < prompt.tokens.size(); ++t) {
    if (key < prompt.keys.size() && prompt.keys[key].first_token == t) {
      mix(1000 + prompt.keys[key].num_tokens);
      mix(2000 + prompt.keys[key++].digest[0]);
    }
    mix(static_cast<uint64_t>(prompt.tokens[t]));
    out.push_back(state);
  }
  return out;
}

/// Runs requests that branch off each other, in a pool that evicts.
class History {
 public:
  History(Side& side, uint64_t seed, bool with_keys) : side_(side), random_(seed), with_keys_(with_keys) {
    EXPECT_EQ(kvc_manager_create(&side.config, &side.m), KVC_OK) << kvc_last_error();
    for (uint32_t tenant = 1; tenant < 3; ++tenant) {
      kvc_namespace_config config = {};
      config.struct_size = sizeof config;
      config.tenant = tenant == 1 ? "one" : "";
      config.tenant_size = tenant == 1 ? 3 : 0;
      EXPECT_EQ(kvc_manager_open_namespace(side.m, &config, &side.tenants[tenant]), KVC_OK);
    }
  }

  void run(int requests) {
    for (int i = 0; i < requests; ++i) {
      KnownPrompt prompt = next_prompt();
      uint64_t id = 0;
      const auto status =
          kvc_manager_allocate_request(side_.m,
                                       PROMPT(side_.tenants[prompt.tenant], prompt.tokens.data(),
                                              prompt.tokens.size(), prompt.keys.data(), prompt.keys.size()),
                                       nullptr, &id, nullptr);
      if (status == KVC_ERROR_NO_SPACE) {
        i -= !live_.empty();
        if (!live_.empty()) free_one(0);
        continue;
      }
      ASSERT_EQ(status, KVC_OK) << kvc_last_error();
      ASSERT_EQ(kvc_manager_commit_tokens(side_.m, id, prompt.tokens.size()), KVC_OK) << kvc_last_error();
      prompts.push_back(prompt);
      live_.push_back(id);
      while (live_.size() > 3) free_one(pick(live_.size()));
      if (pick(40) == 0) {
        ASSERT_EQ(kvc_manager_reset_namespace(side_.m, 0), KVC_OK);
      }
      if (pick(25) == 0) {
        uint64_t dropped;
        const KnownPrompt& some = prompts[pick(prompts.size())];
        ASSERT_EQ(kvc_manager_drop_prefix(side_.m,
                                          PROMPT(side_.tenants[some.tenant], some.tokens.data(),
                                                 some.tokens.size() / 2, nullptr, 0),
                                          &dropped),
                  KVC_OK);
      }
    }
    while (!live_.empty()) free_one(pick(live_.size()));
  }

  std::vector<KnownPrompt> prompts;

 private:
  size_t pick(size_t below) { return random_() % below; }
  void free_one(size_t i) {
    ASSERT_EQ(kvc_manager_free_request(side_.m, live_[i]), KVC_OK);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  /// The beginning of an earlier prompt, of any length, and new tokens.
  KnownPrompt next_prompt() {
    KnownPrompt prompt;
    prompt.tenant = static_cast<uint32_t>(pick(3));
    if (!prompts.empty() && pick(4) != 0) {
      const KnownPrompt& from = prompts[pick(prompts.size())];
      prompt.tenant = from.tenant;
      const size_t kept = pick(from.tokens.size() + 1);
      prompt.tokens.assign(from.tokens.begin(), from.tokens.begin() + static_cast<std::ptrdiff_t>(kept));
      for (const kvc_extra_key& key : from.keys)
        if (key.first_token + key.num_tokens <= kept) prompt.keys.push_back(key);
    }
    const size_t begin = prompt.tokens.size(), more = 1 + pick(120);
    for (size_t i = 0; i < more; ++i) prompt.tokens.push_back(static_cast<int32_t>(pick(2)));
    if (with_keys_ && pick(2) == 0) {
      const size_t first = begin + pick(more);
      prompt.keys.push_back(
          key_over(first, 1 + pick(prompt.tokens.size() - first), static_cast<uint8_t>(pick(2))));
    }
    return prompt;
  }

  Side& side_;
  std::mt19937_64 random_;
  const bool with_keys_;
  std::vector<uint64_t> live_;
};

/// Rebuilds `from` as `to`, and fills in the ids of namespaces.
inline std::vector<kvc_token_copy> rebuild(Side& from, Side& to) {
  kvc_rebuild work = {};
  work.struct_size = sizeof work;
  kvc_status status = kvc_manager_rebuild(from.m, &to.config, &work, &to.m);
  EXPECT_EQ(status, KVC_ERROR_BUFFER_TOO_SMALL) << kvc_last_error();
  EXPECT_EQ(to.m, nullptr);
  std::vector<kvc_token_copy> copies(work.num_copies);
  std::vector<kvc_namespace_pair> pairs(work.num_namespaces);
  work.copies = copies.data(), work.copy_capacity = copies.size();
  work.namespaces = pairs.data(), work.namespace_capacity = pairs.size();
  status = kvc_manager_rebuild(from.m, &to.config, &work, &to.m);
  EXPECT_EQ(status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(work.num_copies, copies.size());
  for (const kvc_namespace_pair& pair : pairs) {
    for (int tenant = 1; tenant < 3; ++tenant)
      if (pair.old_id == from.tenants[tenant]) to.tenants[tenant] = pair.new_id;
  }
  return copies;
}

/// Evicts everything, one by one: the blocks in the order in which they leave.
inline std::vector<int32_t> evict_all(kvc_manager* m, uint32_t pool) {
  std::vector<int32_t> order;
  ManagerPeer peer(m);
  const PoolCounts& counts = peer.pool().counts(pool);
  const auto cached = [&] {
    std::vector<int32_t> ids;
    for (uint64_t i = counts.first; i < counts.first + counts.size; ++i)
      if (peer.pool().read(BlockId{static_cast<int32_t>(i)}).list == List::kLru)
        ids.push_back(static_cast<int32_t>(i));
    return ids;
  };
  for (std::vector<int32_t> before = cached(); !before.empty();) {
    size_t evicted = 0;
    EXPECT_EQ(kvc_manager_evict_blocks(m, static_cast<int32_t>(pool), 1, &evicted), KVC_OK);
    const std::vector<int32_t> after = cached();
    if (after.size() == before.size()) break;
    std::vector<int32_t> gone;
    std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(gone));
    order.insert(order.end(), gone.begin(), gone.end());  // one, and what a reset left behind
    before = after;
  }
  return order;
}

}  // namespace kvc::test
