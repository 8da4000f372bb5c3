// SPDX-License-Identifier: Apache-2.0
// Managers whose pools follow from a model and a budget: kvc_manager_config.memory.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/model.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "calls.h"

namespace kvc {
namespace {

kvc_model preset(const char* name) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_find(name, &model), KVC_OK) << kvc_last_error();
  return model;
}

class ManagerMemory : public ::testing::Test {
 protected:
  ManagerMemory() {
    query_.struct_size = sizeof query_;
    query_.model = &model_;
    query_.dtype = KVC_BFLOAT16;
    query_.budget_bytes = uint64_t{8} << 30;
    config_.struct_size = sizeof config_;
    config_.max_requests = 4;
    config_.memory = &query_;
  }
  ~ManagerMemory() override { kvc_manager_destroy(m_); }
  void create() { ASSERT_EQ(kvc_manager_create(&config_, &m_), KVC_OK) << kvc_last_error(); }
  kvc_properties properties() {
    kvc_properties out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_manager_properties(m_, &out), KVC_OK);
    return out;
  }
  uint64_t blocks_of(uint32_t pool) {
    kvc_pool_info out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_manager_pool_info(m_, pool, &out), KVC_OK) << kvc_last_error();
    return out.num_blocks;
  }
  kvc_memory_estimate estimate() {
    kvc_memory_estimate out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_estimate_memory(&query_, &out), KVC_OK) << kvc_last_error();
    return out;
  }

  kvc_model model_ = preset("llama-3.1-8b");
  kvc_memory_query query_ = {};
  kvc_manager_config config_ = {};
  kvc_manager* m_ = nullptr;
};

TEST_F(ManagerMemory, EightGibibytesOfAModelAreItsBlocks) {
  create();
  EXPECT_EQ(properties().num_blocks, 4096u);  // 2 MiB each: 32 layers, 8 heads of 128, 16 tokens, bf16
  EXPECT_EQ(properties().block_size, 16u);
  EXPECT_EQ(properties().num_groups, 1u);
}

TEST_F(ManagerMemory, ABlockMoreDoesNotFit) {
  query_.budget_bytes = 3 * (uint64_t{2} << 20) - 1;
  create();
  EXPECT_EQ(properties().num_blocks, 2u);
}

TEST_F(ManagerMemory, BlockSizeMayComeFromEitherSide) {
  config_.block_size = 32;
  create();
  EXPECT_EQ(properties().num_blocks, 2048u);
  EXPECT_EQ(properties().block_size, 32u);
  kvc_manager_destroy(m_);
  config_.block_size = 0, query_.block_size = 64;
  create();
  EXPECT_EQ(properties().num_blocks, 1024u);
  EXPECT_EQ(properties().block_size, 64u);
}

TEST_F(ManagerMemory, TheBlocksOfAStorageFillTheBudget) {
  kvc_storage_config storage = {};
  storage.struct_size = sizeof storage;
  storage.num_layers = model_.num_layers, storage.num_heads = model_.num_kv_heads;
  storage.head_dim = model_.head_dim, storage.dtype = query_.dtype;
  create();
  storage.num_blocks = properties().num_blocks;
  uint64_t slab_bytes = 0;
  ASSERT_EQ(kvc_storage_size(&storage, nullptr, &slab_bytes), KVC_OK) << kvc_last_error();
  EXPECT_EQ(slab_bytes, query_.budget_bytes);
}

TEST_F(ManagerMemory, LayersWithAWindowGetTheirOwnPool) {
  model_ = preset("gemma-3-4b");
  query_.tokens = 32'768;
  create();
  ASSERT_EQ(properties().num_groups, 2u);
  ASSERT_EQ(properties().num_pools, 2u);
  EXPECT_EQ(blocks_of(0), estimate().pool_blocks);
  EXPECT_EQ(blocks_of(1), estimate().window_pool_blocks);
  EXPECT_LE(blocks_of(0) * estimate().full_block_bytes + blocks_of(1) * estimate().window_block_bytes,
            query_.budget_bytes);
  // Group 1 has the window: of a long prompt it keeps the end alone.
  std::vector<int32_t> prompt(4096, 7);
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), nullptr,
                                         &request, nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(m_, request, prompt.size()), KVC_OK);
  int32_t tables[2][256];
  for (const uint32_t group : {0u, 1u}) {
    ASSERT_EQ(kvc_manager_export_tables(m_, &request, 1, group, -1, tables[group], 256), KVC_OK);
  }
  EXPECT_NE(tables[0][0], -1);
  EXPECT_EQ(tables[1][0], -1);
  EXPECT_EQ(tables[1][(4096 - model_.window_tokens) / 16 - 1], -1);
  EXPECT_NE(tables[1][255], -1);
}

TEST_F(ManagerMemory, LayersWithChunksReturnTheChunksThatArePassed) {
  model_ = preset("llama-4-scout");
  query_.tokens = 32768, query_.chunk_tokens = 512;
  create();
  EXPECT_EQ(properties().num_pools, 2u);
  EXPECT_EQ(blocks_of(1), estimate().window_pool_blocks);
  const std::vector<int32_t> prompt(2 * 8192 + 1);
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), nullptr,
                                         &id, nullptr),
            KVC_OK)
      << kvc_last_error();
  ASSERT_EQ(kvc_manager_commit_tokens(m_, id, 2 * 8192 - 1), KVC_OK);
  std::vector<int32_t> table(1025);
  const auto empty = [&](uint32_t group) {
    EXPECT_EQ(kvc_manager_export_tables(m_, &id, 1, group, -1, table.data(), table.size()), KVC_OK);
    return std::count(table.begin(), table.end(), -1);
  };
  EXPECT_EQ(empty(0), 0);
  EXPECT_EQ(empty(1), 512);
  ASSERT_EQ(kvc_manager_commit_tokens(m_, id, 2 * 8192), KVC_OK);
  EXPECT_EQ(empty(1), 1024);
}

TEST_F(ManagerMemory, LayersWithAStateHoldAsManyStatesAsEstimated) {
  model_ = preset("jamba-1.5-mini");
  query_.tokens = 8192, query_.checkpoint_tokens = 1024;
  create();
  ASSERT_EQ(properties().num_groups, 2u);
  ASSERT_EQ(properties().num_pools, 2u);
  EXPECT_EQ(blocks_of(0), estimate().pool_blocks);
  EXPECT_EQ(blocks_of(1), estimate().state_pool_blocks);
  const std::vector<int32_t> prompt(8192, 7);
  kvc_request_config config = {};
  config.struct_size = sizeof config;
  config.slots = 1;
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), &config,
                                         &id, nullptr),
            KVC_OK)
      << kvc_last_error();
  std::vector<int32_t> table(512);
  uint64_t most = 0;
  for (uint64_t done = 0; done < prompt.size();) {
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_request_info(m_, id, &info), KVC_OK);
    const uint64_t end = info.next_checkpoint != 0 ? info.next_checkpoint : prompt.size();
    ASSERT_EQ(kvc_manager_reserve_tokens(m_, id, end), KVC_OK) << kvc_last_error();
    std::fill(table.begin(), table.end(), -1);
    ASSERT_EQ(kvc_manager_export_tables(m_, &id, 1, 1, -1, table.data(), table.size()), KVC_OK);
    const auto held = static_cast<uint64_t>(table.size()) -
                      static_cast<uint64_t>(std::count(table.begin(), table.end(), -1));
    most = std::max(most, held);
    ASSERT_EQ(kvc_manager_commit_tokens(m_, id, end), KVC_OK) << kvc_last_error();
    done = end;
  }
  EXPECT_EQ(most, 2u);
  kvc_pool_info states = {};
  states.struct_size = sizeof states;
  ASSERT_EQ(kvc_manager_pool_info(m_, 1, &states), KVC_OK);
  EXPECT_LE(states.cached + most, estimate().state_blocks);
}

TEST_F(ManagerMemory, AModelOfStatesAloneHasOneGroup) {
  model_ = {};
  model_.struct_size = sizeof model_;
  model_.num_layers = 64, model_.max_context = 1 << 20;
  model_.state_layers[0] = UINT64_MAX;
  model_.conv_elements = 3 * 10'240, model_.recurrent_elements = 128 * 64 * 128;
  create();
  EXPECT_EQ(properties().num_groups, 1u);
  EXPECT_EQ(properties().num_blocks, (uint64_t{8} << 30) / (64 * (3 * 10'240 + 128 * 64 * 128) * 2));
}

TEST_F(ManagerMemory, GroupsOfEqualBlocksShareAPool) {
  model_.window_tokens = 128;
  model_.window_layers[0] = 0xffff;  // 16 of 32 layers
  create();
  EXPECT_EQ(properties().num_groups, 2u);
  EXPECT_EQ(properties().num_pools, 1u);
  EXPECT_EQ(properties().num_blocks, 8192u);
}

TEST_F(ManagerMemory, AModelOfWindowsAloneHasOneGroup) {
  model_.window_tokens = 128;
  create();
  EXPECT_EQ(properties().num_groups, 1u);
  EXPECT_EQ(properties().num_blocks, 4096u);
}

// Eight positions a block, and at least twice those of the longest request, where no group has full attention
// and so few blocks hold many positions.
TEST_F(ManagerMemory, NodesLastForTheLongestRequestWithoutFullAttention) {
  model_ = preset("mistral-7b-v0.1");
  query_.budget_bytes = uint64_t{1} << 28;
  query_.tokens = 20'000, query_.chunk_tokens = 512;
  const auto max_nodes = [&] {
    create();
    const uint64_t nodes = properties().max_nodes;
    kvc_manager_destroy(std::exchange(m_, nullptr));
    return nodes;
  };
  EXPECT_EQ(estimate().pool_blocks, 128u);
  EXPECT_EQ(max_nodes(), 2u * 1250);
  query_.tokens = 20'001;
  EXPECT_EQ(max_nodes(), 2u * 1251);
  query_.tokens = 0;  // the model's context
  EXPECT_EQ(max_nodes(), 2u * 32'768 / 16);
  config_.max_request_tokens = 12'000;  // no request is longer
  EXPECT_EQ(max_nodes(), 2u * 750);
  config_.max_request_tokens = 100;
  EXPECT_EQ(max_nodes(), 8u * 128);
  config_.max_nodes = 7;
  EXPECT_EQ(max_nodes(), 7u);
}

TEST_F(ManagerMemory, NodesOfGroupsThatTheCallerGives) {
  config_.memory = nullptr;
  config_.num_blocks = 64;
  kvc_group_config groups[2] = {};
  groups[0].struct_size = groups[1].struct_size = sizeof groups[0];
  config_.groups = groups, config_.num_groups = 1;
  const auto max_nodes = [&](uint64_t longest) {
    config_.max_request_tokens = longest;
    create();
    const uint64_t nodes = properties().max_nodes;
    kvc_manager_destroy(std::exchange(m_, nullptr));
    return nodes;
  };
  EXPECT_EQ(max_nodes(100'000), 64u + 2 + 64) << "full attention alone";
  groups[0].kind = KVC_GROUP_STATE;
  EXPECT_EQ(max_nodes(0), 8u * 64) << "nobody says how long requests are";
  EXPECT_EQ(max_nodes(100'000), 2u * 6250);
  config_.num_groups = 2;
  groups[1].kind = KVC_GROUP_SLIDING_WINDOW, groups[1].window_tokens = 10;
  EXPECT_EQ(max_nodes(100'000), 2u * 6250) << "a window and states";
  groups[0].kind = KVC_GROUP_FULL;
  EXPECT_EQ(max_nodes(100'000), 128u) << "a window beside full attention";
}

// What the default is for: the last window of a prompt of many more positions than blocks is found again.
TEST_F(ManagerMemory, ALongPromptIsFoundAgainByWindowsAlone) {
  model_ = preset("mistral-7b-v0.1");
  query_.budget_bytes = uint64_t{1} << 30;
  query_.chunk_tokens = 512;
  create();
  std::vector<int32_t> prompt(32'000, 7);
  const auto turn = [&] {
    kvc_request_config config = {};
    config.struct_size = sizeof config;
    config.slots = 1;
    uint64_t id = 0, hit = 0;
    EXPECT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), &config,
                                           &id, &hit),
              KVC_OK)
        << kvc_last_error();
    for (uint64_t done = hit; done < prompt.size();) {
      done = std::min<uint64_t>(done + 512, prompt.size());
      EXPECT_EQ(kvc_manager_reserve_tokens(m_, id, done), KVC_OK) << kvc_last_error();
      EXPECT_EQ(kvc_manager_commit_tokens(m_, id, done), KVC_OK) << kvc_last_error();
    }
    EXPECT_EQ(kvc_manager_free_request(m_, id), KVC_OK);
    return hit;
  };
  EXPECT_EQ(turn(), 0u);
  prompt.back() = 8;
  EXPECT_EQ(turn(), 31'984u);
}

TEST_F(ManagerMemory, AFractionOfTheFreeMemory) {
  query_.budget_bytes = 0, query_.memory_fraction = 0.25f;
  create();
  EXPECT_GE(properties().num_blocks, 1u);
}

TEST_F(ManagerMemory, RefusalsNameTheValueAndTheFix) {
  const auto refused = [&](const char* text, const std::function<void(kvc_memory_query&)>& spoil) {
    kvc_memory_query query = query_;
    kvc_manager_config config = config_;
    spoil(query);
    config.memory = &query;
    EXPECT_EQ(kvc_manager_create(&config, &m_), KVC_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_EQ(m_, nullptr);
    EXPECT_NE(std::strstr(kvc_last_error(), text), nullptr) << kvc_last_error();
  };
  refused("budget_bytes and memory_fraction of memory are both 0; set one",
          [](auto& q) { q.budget_bytes = 0; });
  refused("set one of them, the other to 0", [](auto& q) { q.memory_fraction = 0.5f; });
  refused("the budget is 2097151 bytes; a block of each group takes 2097152",
          [](auto& q) { q.budget_bytes = (2 << 20) - 1; });
  refused("raise the budget", [](auto& q) { q.budget_bytes = 1; });
  refused("raise the budget", [](auto& q) {  // residual blocks take it all
    q.dtype = KVC_INT8, q.channel_keys = 1, q.num_sequences = 1 << 20;
  });
  refused("model is NULL", [](auto& q) { q.model = nullptr; });
  refused("kvc_memory_query.struct_size is 8", [](auto& q) { q.struct_size = 8; });
  refused("query.asymmetric is 2", [](auto& q) { q.asymmetric = 2; });
  refused("all pools at most 2147483582", [](auto& q) { q.budget_bytes = UINT64_MAX; });
}

TEST_F(ManagerMemory, OneSourceOfBlocksIsAllowed) {
  kvc_pool_config pool = {sizeof pool, 8, 0};
  kvc_group_config group = {};
  group.struct_size = sizeof group;
  const auto refused = [&](const char* text, const std::function<void(kvc_manager_config&)>& spoil) {
    kvc_manager_config config = config_;
    spoil(config);
    EXPECT_EQ(kvc_manager_create(&config, &m_), KVC_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::strstr(kvc_last_error(), text), nullptr) << kvc_last_error();
  };
  refused("memory is set beside num_blocks 5", [](auto& c) { c.num_blocks = 5; });
  refused("1 pools", [&](auto& c) { c.pools = &pool, c.num_pools = 1; });
  refused("1 groups", [&](auto& c) { c.groups = &group, c.num_groups = 1; });
  refused("groups or pools is set beside memory", [&](auto& c) { c.pools = &pool; });
  refused("groups or pools is set beside memory", [&](auto& c) { c.groups = &group; });
  refused("set num_blocks, pools, or memory", [](auto& c) { c.memory = nullptr; });
  query_.block_size = 16;
  refused("block_size is 32 and that of memory 16", [](auto& c) { c.block_size = 32; });
}

}  // namespace
}  // namespace kvc
