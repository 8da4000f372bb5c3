// SPDX-License-Identifier: Apache-2.0
// A rebuilt manager equals one that was always of its shape and has computed the same: for random histories,
// each known prompt has floor(t / block_size) * block_size of its first t tokens that were
// in cached blocks, the copies bring the right
// bytes, and blocks leave in the order in which the old ones would.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>

#include <set>

#include "base/counting_heap.h"
#include "manager/rebuild_world.h"
#include "seed.h"

namespace kvc {
namespace {

using namespace test;

/// The content of each slot of a manager's blocks of one group.
using Slots = std::map<int64_t, uint64_t>;

struct Model {
  /// A new block: its group and the content of its last token. When it leaves: the place of the old block
  /// that has this token in the order of eviction, and of one old block the last position first.
  using Name = std::pair<uint32_t, uint64_t>;
  std::map<Name, std::pair<size_t, int64_t>> leaves;

  std::vector<Name> order(uint32_t pool, uint32_t num_pools) const {
    std::vector<std::pair<std::pair<size_t, int64_t>, Name>> sorted;
    for (const auto& [name, key] : leaves)
      if (name.first % num_pools == pool) sorted.push_back({key, name});
    std::sort(sorted.begin(), sorted.end());
    std::vector<Name> names;
    for (const auto& each : sorted) names.push_back(each.second);
    return names;
  }
};

class RebuildProperty : public ::testing::Test {
 protected:
  /// A history in a manager of form `a`, then a rebuild to `b`; both are compared and then emptied.
  void check(const Form& a, const Form& b, uint64_t seed, bool with_keys = false) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + std::to_string(a.block_size) + " -> " +
                 std::to_string(b.block_size));
    Side from(a), to(b);
    History history(from, seed, with_keys);
    history.run(60);
    uint64_t before = 0, after = 0;
    ASSERT_EQ(kvc_manager_digest(from.m, &before), KVC_OK);
    const auto copies = rebuild(from, to);
    ASSERT_NE(to.m, nullptr);
    ASSERT_EQ(kvc_manager_digest(from.m, &after), KVC_OK);
    EXPECT_EQ(after, before) << "the old manager has changed";
    ASSERT_EQ(kvc_manager_check(to.m), KVC_OK) << last_error();

    const Listing old(from), made(to);
    const auto memory = copied(old, history.prompts, copies, a, b);
    compare_paths(old, made, history.prompts, memory, a, b);
    compare_order(old, made, history.prompts, from, to);
  }

 private:
  std::vector<Slots> copied(const Listing& old, const std::vector<KnownPrompt>& prompts,
                            const std::vector<kvc_token_copy>& copies, const Form& a, const Form& b) {
    std::vector<Slots> before(a.num_groups), after(a.num_groups);
    for (const KnownPrompt& prompt : prompts) {
      const auto content = contents(prompt);
      const auto path = old.path(prompt);
      for (size_t t = 0; t < path.size() * a.block_size; ++t) {
        for (uint32_t g = 0; g < a.num_groups; ++g)
          before[g][int64_t{path[t / a.block_size][g]} * a.block_size + t % a.block_size] = content[t];
      }
    }
    std::tuple<uint32_t, int32_t, uint32_t> last = {0, -1, 0};
    for (const kvc_token_copy& copy : copies) {
      const std::tuple<uint32_t, int32_t, uint32_t> at = {copy.group, copy.destination, copy.new_offset};
      EXPECT_LT(last, at) << "copies are not sorted";
      last = at;
      EXPECT_GT(copy.num_tokens, 0u);
      EXPECT_LE(copy.offset + copy.num_tokens, a.block_size);
      EXPECT_LE(copy.new_offset + copy.num_tokens, b.block_size);
      for (uint32_t t = 0; t < copy.num_tokens; ++t) {
        const auto source = before[copy.group].find(int64_t{copy.source} * a.block_size + copy.offset + t);
        if (source == before[copy.group].end()) {
          ADD_FAILURE() << "a copy of a slot that holds nothing";
          continue;
        }
        after[copy.group][int64_t{copy.destination} * b.block_size + copy.new_offset + t] = source->second;
      }
    }
    return after;
  }

  /// The first tokens of a prompt that are in blocks of the old manager, perhaps of prompts that go on
  /// otherwise.
  static size_t cached_tokens(const Listing& old, const std::vector<KnownPrompt>& prompts,
                              const KnownPrompt& prompt, uint32_t block_size) {
    const auto content = contents(prompt);
    size_t most = 0;
    for (const KnownPrompt& other : prompts) {
      if (other.tenant != prompt.tenant) continue;
      const auto theirs = contents(other);
      const size_t cached = std::min(old.path(other).size() * block_size, content.size());
      const auto end = theirs.begin() + static_cast<std::ptrdiff_t>(cached);
      most = std::max(most, static_cast<size_t>(std::mismatch(theirs.begin(), end, content.begin()).first -
                                                theirs.begin()));
    }
    return most;
  }

  void compare_paths(const Listing& old, const Listing& made, const std::vector<KnownPrompt>& prompts,
                     const std::vector<Slots>& memory, const Form& a, const Form& b) {
    const bool all_fits = b.num_blocks >= 1000;
    for (const KnownPrompt& prompt : prompts) {
      const size_t cached = cached_tokens(old, prompts, prompt, a.block_size);
      const auto path = made.path(prompt);
      if (all_fits)
        EXPECT_EQ(path.size(), cached / b.block_size);
      else
        EXPECT_LE(path.size(), cached / b.block_size);
      const auto content = contents(prompt);
      for (size_t t = 0; t < path.size() * b.block_size; ++t) {
        for (uint32_t g = 0; g < b.num_groups; ++g) {
          const int64_t slot = int64_t{path[t / b.block_size][g]} * b.block_size + t % b.block_size;
          const auto found = memory[g].find(slot);
          ASSERT_TRUE(found != memory[g].end()) << "a token of a hit was not copied";
          ASSERT_EQ(found->second, content[t]) << "wrong bytes at token " << t;
        }
      }
    }
  }

  void compare_order(const Listing& old, const Listing& made, const std::vector<KnownPrompt>& prompts,
                     const Side& from, const Side& to) {
    const Form &a = from.form, &b = to.form;
    Model model;
    std::map<int32_t, size_t> place;
    for (uint32_t p = 0; p < a.num_pools; ++p)
      for (const int32_t block : evict_all(from.m, p)) place.insert({block, place.size()});
    std::map<int32_t, Model::Name> names;
    for (const KnownPrompt& prompt : prompts) {
      const auto content = contents(prompt);
      const auto path = old.path(prompt);
      for (size_t end = b.block_size; end <= path.size() * a.block_size; end += b.block_size) {
        for (uint32_t g = 0; g < b.num_groups; ++g) {
          const std::pair<size_t, int64_t> key = {place.at(path[(end - 1) / a.block_size][g]),
                                                  -static_cast<int64_t>(end)};
          auto& latest = model.leaves.insert({{g, content[end - 1]}, key}).first->second;
          latest = std::max(latest, key);
        }
      }
      const auto new_path = made.path(prompt);
      for (size_t j = 0; j < new_path.size(); ++j)
        for (uint32_t g = 0; g < b.num_groups; ++g)
          names[new_path[j][g]] = {g, content[(j + 1) * b.block_size - 1]};
    }
    for (uint32_t p = 0; p < b.num_pools; ++p) {
      auto expected = model.order(p, b.num_pools);
      if (expected.size() > b.num_blocks)
        expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(b.num_blocks));
      const std::vector<int32_t> order = evict_all(to.m, p);
      ASSERT_EQ(order.size(), expected.size());
      for (size_t i = 0; i < order.size(); ++i) {
        const auto name = names.find(order[i]);
        if (name == names.end()) continue;  // no hit reaches it
        EXPECT_EQ(name->second, expected[i]) << "block " << i << " of the line";
      }
    }
  }
};

constexpr std::pair<uint32_t, uint32_t> kSizes[] = {{16, 24}, {24, 16}, {16, 16}, {4, 16}, {16, 4},
                                                    {7, 5},   {5, 7},   {1, 3},   {32, 1}, {8, 100}};

TEST_F(RebuildProperty, HoldsForEveryPairOfBlockSizes) {
  for (const auto& [a, b] : kSizes) {
    for (uint64_t seed = 0; seed < 4; ++seed)
      check({.block_size = a, .num_blocks = 900 / a}, {.block_size = b, .num_blocks = 2000},
            test_seed() + seed);
  }
}

TEST_F(RebuildProperty, HoldsWithExtraKeys) {
  for (const auto& [a, b] : kSizes) {
    for (uint64_t seed = 0; seed < 4; ++seed)
      check({.block_size = a, .num_blocks = 900 / a}, {.block_size = b, .num_blocks = 2000},
            test_seed() + seed, true);
  }
}

TEST_F(RebuildProperty, ASmallerPoolKeepsWhatWouldLeaveLast) {
  for (const auto& [a, b] : kSizes) {
    for (const uint64_t tokens : {50u, 200u, 500u})
      check({.block_size = a, .num_blocks = 900 / a}, {.block_size = b, .num_blocks = 1 + tokens / b},
            test_seed() + tokens, tokens == 200);
  }
}

TEST_F(RebuildProperty, HoldsForSeveralGroupsAndPools) {
  for (const auto& [a, b] : kSizes) {
    for (uint32_t pools = 1; pools <= 2; ++pools) {
      check({.block_size = a, .num_blocks = 1800 / a, .num_groups = 3, .num_pools = pools},
            {.block_size = b, .num_blocks = 6000, .num_groups = 3, .num_pools = pools}, test_seed() + pools,
            true);
      check({.block_size = a, .num_blocks = 1800 / a, .num_groups = 2, .num_pools = pools},
            {.block_size = b, .num_blocks = 600 / b + 2, .num_groups = 2, .num_pools = pools},
            test_seed() + pools);
    }
  }
}

TEST_F(RebuildProperty, TheOrderOfFrequencyBecomesThatOfLru) {
  for (const auto& [a, b] : kSizes)
    check({.block_size = a, .num_blocks = 900 / a, .policy = KVC_POLICY_FREQUENCY},
          {.block_size = b, .num_blocks = 300 / b + 1}, test_seed());
}

class RebuildTest : public ::testing::Test {
 protected:
  RebuildTest() {
    config_.struct_size = sizeof config_;
    config_.num_blocks = 64;
    config_.block_size = 4;
    config_.seed = 1;
    EXPECT_EQ(kvc_manager_create(&config_, &m_), KVC_OK);
    work_.struct_size = sizeof work_;
  }
  ~RebuildTest() override {
    kvc_manager_destroy(m_);
    kvc_manager_destroy(made_);
  }
  uint64_t compute(const std::vector<int32_t>& tokens) {
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &id, nullptr),
              KVC_OK);
    EXPECT_EQ(kvc_manager_commit_tokens(m_, id, tokens.size()), KVC_OK);
    return id;
  }
  void free(uint64_t id) { EXPECT_EQ(kvc_manager_free_request(m_, id), KVC_OK); }
  kvc_status rebuild(const kvc_manager_config& config) {
    return kvc_manager_rebuild(m_, &config, &work_, &made_);
  }
  void refused(const kvc_manager_config& config, kvc_status status, const char* text) {
    EXPECT_EQ(rebuild(config), status);
    EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(made_, nullptr);
  }
  uint64_t cached(kvc_manager* m, std::vector<int32_t> tokens) {
    tokens.push_back(0);
    kvc_probe_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_probe(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &info), KVC_OK);
    return info.num_cached;
  }

  kvc_manager_config config_ = {};
  kvc_rebuild work_ = {};
  kvc_manager *m_ = nullptr, *made_ = nullptr;
};

TEST_F(RebuildTest, ListsTheCopiesOfBranchesInsideALargerBlock) {
  free(compute({1, 2, 3, 4, 5, 6, 7, 8}));
  free(compute({1, 2, 3, 4, 9, 9, 9, 9}));
  config_.block_size = 8;
  EXPECT_EQ(rebuild(config_), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(work_.num_copies, 4u) << "the shared head goes to both branches";
  kvc_token_copy copies[4];
  work_.copies = copies, work_.copy_capacity = 4;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  EXPECT_EQ(work_.num_blocks, 2u);
  const kvc_token_copy expected[] = {
      {0, 0, 0, 0, 0, 4}, {0, 2, 0, 0, 4, 4}, {0, 0, 1, 0, 0, 4}, {0, 1, 1, 0, 4, 4}};
  EXPECT_EQ(std::memcmp(copies, expected, sizeof expected), 0);
  EXPECT_EQ(cached(made_, {1, 2, 3, 4, 5, 6, 7, 8}), 8u);
  EXPECT_EQ(cached(made_, {1, 2, 3, 4, 9, 9, 9, 9}), 8u);
}

TEST_F(RebuildTest, RefusesWhileBlocksAreHeld) {
  const uint64_t id = compute({1, 2, 3, 4, 5});
  refused(config_, KVC_ERROR_BUSY, "1 requests are admitted; preempt or free them first");
  ASSERT_EQ(kvc_manager_preempt_request(m_, id), KVC_OK);
  uint64_t pin = 0, pinned = 0;
  const int32_t tokens[] = {1, 2, 3, 4};
  ASSERT_EQ(kvc_manager_pin_prefix(m_, PROMPT(0, tokens, 4, nullptr, 0), &pin, &pinned), KVC_OK);
  refused(config_, KVC_ERROR_BUSY, "1 blocks are held, 1 of them by pins");
  ASSERT_EQ(kvc_manager_unpin_prefix(m_, pin), KVC_OK);
  int32_t block = 0;
  ASSERT_EQ(kvc_manager_acquire_blocks(m_, 0, &block, 1), KVC_OK);
  refused(config_, KVC_ERROR_BUSY, "1 blocks are held, 0 of them by pins");
  ASSERT_EQ(kvc_manager_release_blocks(m_, &block, 1), KVC_OK);
  kvc_step step = {};
  step.struct_size = sizeof step;
  ASSERT_EQ(kvc_manager_step(m_, &step), KVC_OK);
  refused(config_, KVC_ERROR_BUSY, "in flight");
  ASSERT_EQ(kvc_manager_retire_step(m_, step.step_id), KVC_OK);
  kvc_token_copy copy;
  work_.copies = &copy, work_.copy_capacity = 1;
  EXPECT_EQ(rebuild(config_), KVC_OK) << "a request may wait: " << kvc_last_error();
  EXPECT_EQ(work_.num_blocks, 1u);
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(kvc_manager_read_stats(made_, &stats), KVC_OK);
  EXPECT_EQ(stats.blocks_cached, 1u);
  EXPECT_EQ(stats.waiting_requests, 0u);
}

TEST_F(RebuildTest, RefusesOtherGroups) {
  kvc_group_config groups[2] = {full_group(), full_group()};
  kvc_manager_config other = config_;
  other.groups = groups, other.num_groups = 2;
  refused(other, KVC_ERROR_INVALID_ARGUMENT, "config has 2 groups in 1 pools, the old manager 1 in 1");
  groups[0] = window_group(8);
  other.num_groups = 1;
  refused(other, KVC_ERROR_UNSUPPORTED, "a group has a window");
  other = config_;
  other.num_blocks = 0;
  refused(other, KVC_ERROR_INVALID_ARGUMENT, "num_blocks is 0");
  EXPECT_EQ(kvc_manager_rebuild(nullptr, &config_, &work_, &made_), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_rebuild(m_, nullptr, &work_, &made_), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_rebuild(m_, &config_, nullptr, &made_), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_rebuild(m_, &config_, &work_, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

TEST_F(RebuildTest, NamespacesStayOpenAsOftenAsTheyWere) {
  kvc_namespace_config tenant = {};
  tenant.struct_size = sizeof tenant;
  tenant.model = "";
  tenant.tenant = "a", tenant.tenant_size = 1;
  uint64_t id = 0, again = 0;
  ASSERT_EQ(kvc_manager_open_namespace(m_, &tenant, &id), KVC_OK);
  ASSERT_EQ(kvc_manager_open_namespace(m_, &tenant, &id), KVC_OK);
  kvc_namespace_pair pair = {};
  work_.namespaces = &pair, work_.namespace_capacity = 1;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  EXPECT_EQ(work_.num_namespaces, 1u);
  EXPECT_EQ(pair.old_id, id);
  ASSERT_EQ(kvc_manager_open_namespace(made_, &tenant, &again), KVC_OK);
  EXPECT_EQ(again, pair.new_id);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kvc_manager_close_namespace(made_, again), KVC_OK);
  EXPECT_EQ(kvc_manager_close_namespace(made_, again), KVC_ERROR_NOT_FOUND);
}

TEST_F(RebuildTest, ClearsNoBlockThatItFills) {
  free(compute({1, 2, 3, 4}));
  config_.flags = KVC_MANAGER_ZERO_ALWAYS;
  kvc_token_copy copy;
  work_.copies = &copy, work_.copy_capacity = 1;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  kvc_pending_work pending = {};
  pending.struct_size = sizeof pending;
  EXPECT_EQ(kvc_manager_take_pending(made_, &pending), KVC_OK);
  EXPECT_EQ(pending.num_zero_blocks, 0u);
}

TEST_F(RebuildTest, AManagerThatCachesNothingTakesNothing) {
  free(compute({1, 2, 3, 4}));
  config_.flags = KVC_MANAGER_NO_PREFIX_CACHE;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  EXPECT_EQ(work_.num_blocks, 0u);
}

TEST_F(RebuildTest, FewNodesCarryWhatTheyCan) {
  free(compute(tokens_from(1, 64)));
  config_.max_nodes = 3;
  kvc_token_copy copies[16];
  work_.copies = copies, work_.copy_capacity = 16;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  EXPECT_EQ(cached(made_, tokens_from(1, 64)), 12u);
  EXPECT_EQ(kvc_manager_check(made_), KVC_OK) << last_error();
}

TEST_F(RebuildTest, UsesAreCarried) {
  kvc_manager_destroy(std::exchange(m_, nullptr));
  config_.policy = KVC_POLICY_FREQUENCY;
  ASSERT_EQ(kvc_manager_create(&config_, &m_), KVC_OK);
  for (int i = 0; i < 5; ++i) free(compute({1, 2, 3, 4, 5, 6, 7, 8}));
  free(compute({1, 1, 1, 1, 1, 1, 1, 1}));
  config_.block_size = 8;
  kvc_token_copy copies[8];
  work_.copies = copies, work_.copy_capacity = 8;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  size_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(made_, 0, 1, &evicted), KVC_OK);
  EXPECT_EQ(cached(made_, {1, 2, 3, 4, 5, 6, 7, 8}), 8u) << "what was used more often stays";
  EXPECT_EQ(kvc_manager_check(made_), KVC_OK) << last_error();
}

TEST_F(RebuildTest, HintsAndTheTimeAreCarried) {
  kvc_manager_destroy(std::exchange(m_, nullptr));
  config_.flags = KVC_MANAGER_HINTS;
  ASSERT_EQ(kvc_manager_create(&config_, &m_), KVC_OK);
  ASSERT_EQ(kvc_manager_set_time(m_, 100), KVC_OK);
  uint64_t id = compute({1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_EQ(kvc_manager_set_priority(m_, id, 0, 8, 90, 200), KVC_OK);
  free(id);
  id = compute({1, 1, 1, 1, 1, 1, 1, 1});
  free(id);
  config_.block_size = 8;
  kvc_token_copy copies[8];
  work_.copies = copies, work_.copy_capacity = 8;
  ASSERT_EQ(rebuild(config_), KVC_OK);
  EXPECT_EQ(kvc_manager_check(made_), KVC_OK) << last_error();
  EXPECT_EQ(kvc_manager_set_time(made_, 99), KVC_ERROR_INVALID_ARGUMENT) << "the time goes on";
  size_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(made_, 0, 1, &evicted), KVC_OK);
  EXPECT_EQ(cached(made_, {1, 2, 3, 4, 5, 6, 7, 8}), 8u) << "the higher priority stays";
}

TEST_F(RebuildTest, AFailingAllocationLeavesNothingBehind) {
  const auto tokens = tokens_from(1, 40);
  const kvc_extra_key keys[] = {key_over(2, 3), key_over(9, 20, 2)};
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, tokens.data(), 40, keys, 2), nullptr, &id, nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(m_, id, 40), KVC_OK);
  free(id);
  kvc_namespace_config tenant = {};
  tenant.struct_size = sizeof tenant;
  tenant.tenant = "a", tenant.tenant_size = 1;
  ASSERT_EQ(kvc_manager_open_namespace(m_, &tenant, &id), KVC_OK);
  kvc_token_copy copies[64];
  kvc_namespace_pair pair;
  work_.copies = copies, work_.copy_capacity = 64;
  work_.namespaces = &pair, work_.namespace_capacity = 1;
  config_.block_size = 6;
  uint64_t before = 0, after = 0, failed = 0;
  ASSERT_EQ(kvc_manager_digest(m_, &before), KVC_OK);
  CountingHeap heap;
  for (uint64_t k = 0;; ++k) {
    heap.fail_after(k);
    const kvc_status status = rebuild_manager(m_, &config_, heap.env(), &work_, &made_);
    if (status == KVC_OK) break;
    ++failed;
    ASSERT_EQ(status, KVC_ERROR_OUT_OF_MEMORY) << k << ": " << last_error();
    ASSERT_EQ(made_, nullptr);
    ASSERT_EQ(heap.bytes(), 0u) << k;
    ASSERT_EQ(kvc_manager_digest(m_, &after), KVC_OK);
    ASSERT_EQ(after, before) << k;
  }
  EXPECT_GT(failed, 10u);
  EXPECT_EQ(work_.num_blocks, 6u);
  kvc_manager_destroy(std::exchange(made_, nullptr));
}

}  // namespace
}  // namespace kvc
