// SPDX-License-Identifier: Apache-2.0
// Memory estimates: known numbers, the inverse as a property over random models and budgets, the window rule
// against counting and against a manager that grows a sequence.
#include "models/memory.h"

#include <gtest/gtest.h>
#include <kvcache/device.h>
#include <kvcache/manager.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "calls.h"
#include "models/memory_questions.h"

namespace kvc {
namespace {

TEST(MemoryEstimate, OfGroupedQueryAttentionIsTheKnownNumber) {
  const kvc_model model = grouped(32, 8, 128);
  kvc_memory_query query = question(model);
  query.tokens = 8192;
  const kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.total_bytes, 1'073'741'824u);
  EXPECT_EQ(answer.bytes_per_token, 131'072u);
  EXPECT_EQ(answer.full_block_bytes, 2'097'152u);
  EXPECT_EQ(answer.full_blocks, 512u);
  EXPECT_EQ(answer.num_full_layers, 32u);
  EXPECT_EQ(answer.window_block_bytes + answer.window_blocks + answer.num_window_layers, 0u);
  EXPECT_EQ(answer.max_tokens + answer.max_sequences, 0u) << "there was no budget";
  query.tokens = 0;
  EXPECT_EQ(estimate(query).total_bytes, 1'073'741'824u) << "0 tokens are the model's context";
  query.num_sequences = 3;
  EXPECT_EQ(estimate(query).total_bytes, 3'221'225'472u);
  query.dtype = 0;
  EXPECT_EQ(estimate(query).total_bytes, 6'442'450'944u);
  query.dtype = 0;
  EXPECT_EQ(estimate(query).total_bytes, 6'442'450'944u) << "0 is KVC_FLOAT32";
}

TEST(MemoryEstimate, CountsABlockThatIsBegunAsAWholeOne) {
  const kvc_model model = grouped(2, 1, 4);
  kvc_memory_query query = question(model);
  query.block_size = 10;
  for (const auto& [tokens, blocks] : {std::pair{1u, 1u}, {10u, 1u}, {11u, 2u}, {20u, 2u}, {21u, 3u}}) {
    query.tokens = tokens;
    EXPECT_EQ(estimate(query).full_blocks, blocks);
    EXPECT_EQ(estimate(query).sequence_bytes, blocks * 10u * 2u * 16u);
  }
}

TEST(MemoryEstimate, TakesKeysAndValuesOfDifferentSizes) {
  kvc_model model = grouped(3, 2, 192);
  model.v_head_dim = 128;
  EXPECT_EQ(estimate(question(model)).bytes_per_token, 3u * 2u * (192u + 128u) * 2u);
}

TEST(MemoryEstimate, OfLatentAttentionStoresOneRowAndNoValues) {
  kvc_model model = grouped(61, 1, 192);
  model.v_head_dim = 128;
  model.latent_dim = 576;
  kvc_memory_query query = question(model);
  EXPECT_EQ(estimate(query).bytes_per_token, 70'272u);
  query.tokens = 163'840;
  EXPECT_EQ(estimate(query).total_bytes, 11'513'364'480u);
  query.dtype = KVC_INT8;
  EXPECT_EQ(estimate(query).bytes_per_token, 61u * (576u + 4u));
  query.scale_group = 64;
  EXPECT_EQ(estimate(query).bytes_per_token, 61u * (576u + 9u * 4u));
  model.head_dim = 0;  // is not needed then
  EXPECT_EQ(estimate(query).bytes_per_token, 61u * (576u + 9u * 4u));
}

TEST(MemoryEstimate, OfQuantizedTypesCountsTheScales) {
  const kvc_model model = grouped(32, 8, 128);  // 512 rows of 128 elements a token
  kvc_memory_query query = question(model);
  const auto bytes = [&](int32_t dtype, uint32_t scale_group, uint32_t asymmetric) {
    query.dtype = dtype;
    query.scale_group = scale_group;
    query.asymmetric = asymmetric;
    return estimate(query).bytes_per_token;
  };
  EXPECT_EQ(bytes(KVC_INT8, 0, 0), 512u * (128u + 4u));
  EXPECT_EQ(bytes(KVC_INT8, 0, 1), 512u * (128u + 8u));
  EXPECT_EQ(bytes(KVC_INT8, 128, 0), 512u * (128u + 4u));
  EXPECT_EQ(bytes(KVC_INT8, 32, 0), 512u * (128u + 16u));
  EXPECT_EQ(bytes(KVC_INT8, 100, 1), 512u * (128u + 16u));
  EXPECT_EQ(bytes(KVC_INT4, 0, 0), 512u * (64u + 4u)) << "int4 is half a byte";
  EXPECT_EQ(bytes(KVC_INT4, 32, 1), 512u * (64u + 32u));
  EXPECT_EQ(bytes(KVC_INT4, 1000, 0), 512u * (64u + 4u)) << "a group never spans rows";
  EXPECT_EQ(bytes(KVC_FLOAT8_E4M3, 0, 0), 65'536u) << "fp8 has no scales in the blocks unless asked for";
  EXPECT_EQ(bytes(KVC_FLOAT8_E5M2, 64, 0), 512u * (128u + 8u));
}

TEST(MemoryEstimate, OfOneScaleForAllKeysAndOneForAllValuesIsThatOfTheCodes) {
  const kvc_model model = grouped(32, 8, 128);
  kvc_memory_query query = question(model);
  query.tensor_scales = 1;
  query.dtype = KVC_INT4;
  EXPECT_EQ(estimate(query).bytes_per_token, 512u * 64u);
  query.dtype = KVC_FLOAT8_E4M3;
  EXPECT_EQ(estimate(query).bytes_per_token, 512u * 128u);
}

TEST(MemoryEstimate, OfChannelKeysCountsTheScalesOfABlockAndTheOpenOne) {
  const kvc_model model = grouped(32, 8, 128);
  kvc_memory_query query = question(model);
  query.dtype = KVC_INT4, query.scale_group = 32, query.channel_keys = 1, query.tokens = 256;
  query.block_size = 64;
  const uint64_t rows = 256, codes = 64, of_values = 4 * 4, of_channels = 128 * 4;
  kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.full_block_bytes, rows * (64 * (2 * codes + of_values) + of_channels));
  EXPECT_EQ(answer.bytes_per_token, rows * (2 * codes + of_values + of_channels / 64));
  EXPECT_EQ(answer.residual_bytes, rows * 64 * 128 * 2);
  EXPECT_EQ(answer.sequence_bytes, 4 * answer.full_block_bytes + answer.residual_bytes);
  query.channel_tokens = 16, query.asymmetric = 1;
  answer = estimate(query);
  EXPECT_EQ(answer.full_block_bytes, rows * (64 * (2 * codes + 2 * of_values) + 4 * 2 * of_channels));
}

TEST(MemoryEstimate, AnOddRowOfInt4EndsInAWholeByte) {
  const kvc_model model = grouped(1, 1, 5);
  kvc_memory_query query = question(model);
  query.dtype = KVC_INT4;
  EXPECT_EQ(estimate(query).bytes_per_token, 2u * (3u + 4u));
}

TEST(MemoryEstimate, OfWindowsStopsGrowing) {
  kvc_model model = grouped(48, 8, 256);  // 5 of 6 layers read 1024 tokens
  model.window_tokens = 1024;
  for (uint32_t layer = 0; layer < 48; ++layer)
    if (layer % 6 != 5) model.window_layers[0] |= uint64_t{1} << layer;
  kvc_memory_query query = question(model);
  query.tokens = 131'072;
  kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.num_full_layers, 8u);
  EXPECT_EQ(answer.num_window_layers, 40u);
  EXPECT_EQ(answer.bytes_per_token, 393'216u);
  EXPECT_EQ(answer.full_block_bytes, 1'048'576u);
  EXPECT_EQ(answer.window_block_bytes, 5'242'880u);
  EXPECT_EQ(answer.full_blocks, 8192u);
  EXPECT_EQ(answer.window_blocks, 65u);
  EXPECT_EQ(answer.total_bytes, 8'930'721'792u);
  query.chunk_tokens = 512;
  EXPECT_EQ(estimate(query).window_blocks, 97u);
  query.chunk_tokens = UINT64_MAX;
  EXPECT_EQ(estimate(query).window_blocks, 8192u);
  query.chunk_tokens = 0;
  query.tokens = 100;
  EXPECT_EQ(estimate(query).window_blocks, 7u);
}

TEST(MemoryEstimate, AWindowWithoutNamedLayersIsThatOfEveryLayer) {
  kvc_model model = grouped(4, 1, 8);
  model.window_tokens = 33;
  kvc_memory_query query = question(model);
  const kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.num_window_layers, 4u);
  EXPECT_EQ(answer.num_full_layers, 0u);
  EXPECT_EQ(answer.full_blocks + answer.full_block_bytes, 0u);
  EXPECT_EQ(answer.window_blocks, 3u);
}

TEST(MemoryEstimate, AStateTakesTheBytesOfItsElements) {
  kvc_model model = grouped(8, 2, 32);
  add_states(model, 0xf7);  // 7 of 8 layers
  kvc_memory_query query = question(model);
  kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.num_full_layers, 1u);
  EXPECT_EQ(answer.num_state_layers, 7u);
  EXPECT_EQ(answer.bytes_per_token, 1u * 2 * 2 * 32 * 2) << "a state does not grow with tokens";
  EXPECT_EQ(answer.state_block_bytes, 7u * 100 * 2);
  EXPECT_EQ(answer.full_blocks, 512u);
  EXPECT_EQ(answer.state_blocks, 2u);
  EXPECT_EQ(answer.sequence_bytes, 512 * answer.full_block_bytes + 2 * answer.state_block_bytes);
  query.conv_dtype = KVC_BFLOAT16, query.recurrent_dtype = KVC_FLOAT32;
  EXPECT_EQ(estimate(query).state_block_bytes, 7u * (30 * 2 + 70 * 4));
  query.conv_dtype = query.recurrent_dtype = 0;
  query.dtype = 0;
  EXPECT_EQ(estimate(query).state_block_bytes, 7u * 100 * 4) << "as dtype, which is KVC_FLOAT32";
  query.dtype = KVC_INT4;
  EXPECT_EQ(estimate(query).state_block_bytes, 7u * 100 * 2) << "codes are not for states";
  query.checkpoint_tokens = 1024;
  EXPECT_EQ(estimate(query).state_blocks, 2u + 8);
  query.tokens = 1023;
  EXPECT_EQ(estimate(query).state_blocks, 2u);
  query.tokens = 16;
  EXPECT_EQ(estimate(query).state_blocks, 1u) << "no border is crossed";
}

TEST(MemoryEstimate, AModelOfStatesAloneHasNoKeys) {
  kvc_model model = grouped(3, 0, 0);
  add_states(model, 7);
  kvc_memory_query query = question(model);
  query.budget_bytes = 5 * 3 * 100 * 2;
  const kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.bytes_per_token + answer.full_blocks + answer.full_block_bytes, 0u);
  EXPECT_EQ(answer.sequence_bytes, 2u * 3 * 100 * 2);
  EXPECT_EQ(answer.max_tokens, UINT64_MAX) << "any length";
  EXPECT_EQ(answer.max_sequences, 2u);
  EXPECT_EQ(answer.pool_blocks, 5u);
  EXPECT_EQ(answer.state_pool_blocks, 0u) << "it has the first pool";
  EXPECT_EQ(answer.num_pools, 1u);
}

TEST(MemoryEstimate, EncoderTokensAreTheSameForEachLength) {
  kvc_model model = grouped(4, 6, 64);
  model.max_context = 448;
  add_encoder(model, 1500);
  kvc_memory_query query = question(model);
  kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.num_cross_layers, 4u);
  EXPECT_EQ(answer.full_blocks, 28u);
  EXPECT_EQ(answer.cross_blocks, 94u);
  EXPECT_EQ(answer.cross_block_bytes, answer.full_block_bytes);
  EXPECT_EQ(answer.sequence_bytes, (28u + 94) * answer.full_block_bytes);
  EXPECT_EQ(answer.num_pools, 1u) << "blocks of equal size share a pool";
  EXPECT_EQ(answer.cross_pool, 0u);
  query.tokens = 1;
  EXPECT_EQ(estimate(query).cross_blocks, 94u);
  query.budget_bytes = 94 * answer.full_block_bytes;
  EXPECT_EQ(estimate(query).max_tokens, 0u);
  query.budget_bytes = 96 * answer.full_block_bytes;
  EXPECT_EQ(estimate(query).max_tokens, 32u);
  EXPECT_EQ(estimate(query).pool_blocks, 96u);
  model.cross_kv_heads = 3;
  query.dtype = KVC_INT8, query.channel_keys = 1;
  answer = estimate(query);
  EXPECT_EQ(answer.num_pools, 2u);
  EXPECT_EQ(answer.cross_pool, 1u);
  EXPECT_EQ(answer.residual_bytes, 16u * 4 * (6 + 3) * 64 * 2)
      << "the open block of the encoder's tokens too";
}

// Jamba 1.5 Mini: 4 layers with keys and values, a state of 8.5 MB.
TEST(MemoryEstimate, StatesGetTheirShareOfABudget) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  ASSERT_EQ(kvc_model_find("jamba-1.5-mini", &model), KVC_OK);
  kvc_memory_query query = question(model);
  query.tokens = 8192, query.checkpoint_tokens = 2048;
  query.budget_bytes = uint64_t{16} << 30;
  const kvc_memory_estimate answer = estimate(query);
  EXPECT_EQ(answer.state_blocks, 6u);
  EXPECT_EQ(answer.num_pools, 2u);
  EXPECT_EQ(answer.state_pool, 1u);
  const uint64_t fit = answer.max_sequences;
  EXPECT_GT(fit, 50u);
  EXPECT_GE(answer.pool_blocks, fit * answer.full_blocks);
  EXPECT_GE(answer.state_pool_blocks, fit * answer.state_blocks);
  EXPECT_LT(answer.state_pool_blocks, (fit + 1) * answer.state_blocks);
}

TEST(MemoryEstimate, TheWindowRuleIsWhatCountingFinds) {
  for (uint64_t block_size = 1; block_size <= 5; ++block_size) {
    for (uint64_t window = 1; window <= 12; ++window) {
      for (uint64_t chunk = 1; chunk <= 6; ++chunk) {
        kvc_model model = grouped(1, 1, 1);
        model.window_tokens = window;
        kvc_memory_query query = question(model);
        query.block_size = static_cast<uint32_t>(block_size);
        query.chunk_tokens = chunk;
        for (uint64_t tokens = 1; tokens <= 40; ++tokens) {
          uint64_t most = 0;  // of any chunk at any place of the sequence
          for (uint64_t length = 1; length <= chunk; ++length) {
            for (uint64_t first = 0; first + length <= tokens; ++first) {
              const uint64_t read = std::max<uint64_t>(window, 2);    // a manager keeps two tokens at least
              const uint64_t full = first / block_size * block_size;  // whose window stays
              const uint64_t oldest = full + 1 >= read ? full + 1 - read : 0;
              most = std::max(most, (first + length - 1) / block_size - oldest / block_size + 1);
            }
          }
          query.tokens = tokens;
          ASSERT_EQ(estimate(query).window_blocks, most)
              << "block " << block_size << " window " << window << " chunk " << chunk << " tokens " << tokens;
        }
      }
    }
  }
}

// Blocks of a sequence that a manager with these two groups holds at most while the sequence grows.
uint64_t most_blocks(uint32_t block_size, uint64_t window, uint64_t chunk, uint64_t tokens) {
  kvc_group_config groups[2] = {};
  groups[0].struct_size = groups[1].struct_size = sizeof groups[0];
  groups[1].kind = KVC_GROUP_SLIDING_WINDOW;
  groups[1].window_tokens = window;
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 256;
  config.block_size = block_size;
  config.groups = groups;
  config.num_groups = 2;
  kvc_manager* m = nullptr;
  EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
  uint64_t request = 0, most = 0;
  EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(0, nullptr, 0, nullptr, 0), nullptr, &request, nullptr),
            KVC_OK);
  for (uint64_t done = 0; done < tokens;) {
    const uint64_t count = std::min(chunk, tokens - done);
    const std::vector<int32_t> ids(count, 7);
    EXPECT_EQ(kvc_manager_append_tokens(m, request, ids.data(), count), KVC_OK) << kvc_last_error();
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_request_info(m, request, &info), KVC_OK);
    most = std::max(most, info.num_blocks);
    done += count;
    EXPECT_EQ(kvc_manager_commit_tokens(m, request, done), KVC_OK);
  }
  kvc_manager_destroy(m);
  return most;
}

TEST(MemoryEstimate, AManagerHoldsAsManyBlocksAsEstimated) {
  for (const uint32_t block_size : {1u, 4u, 16u}) {
    for (const uint64_t window : {1u, 2u, 15u, 16u, 17u, 18u, 33u}) {
      for (const uint64_t tokens : {1u, 16u, 60u, 100u}) {
        kvc_model model = grouped(2, 1, 8);
        model.window_tokens = window;
        model.window_layers[0] = 1;
        kvc_memory_query query = question(model);
        query.tokens = tokens;
        query.block_size = block_size;
        kvc_memory_estimate answer = estimate(query);
        // The full group holds most at the end, the window group perhaps a few tokens earlier.
        const uint64_t estimated = answer.full_blocks + answer.window_blocks;
        const uint64_t held = most_blocks(block_size, window, 1, tokens);
        EXPECT_LE(held, estimated) << block_size << ' ' << window << ' ' << tokens;
        EXPECT_GE(held + 1, estimated) << block_size << ' ' << window << ' ' << tokens;
        query.chunk_tokens = 7;
        answer = estimate(query);
        EXPECT_LE(most_blocks(block_size, window, 7, tokens), answer.full_blocks + answer.window_blocks)
            << block_size << ' ' << window << ' ' << tokens;
      }
    }
  }
}

// Whether the estimate of `query` is at most the budget; one that does not fit 64 bits is above any.
bool within(kvc_memory_query query, uint64_t budget) {
  query.budget_bytes = 0;
  kvc_memory_estimate out = {};
  out.struct_size = sizeof out;
  return kvc_estimate_memory(&query, &out) == KVC_OK && out.total_bytes <= budget;
}

// The pools take all that the budget leaves for blocks, up to less than one block of the first, and not more.
// Groups of equal blocks share one, each pool has a block, and all have one or none.
void expect_pools_fill_the_budget(const kvc_memory_estimate& answer, uint64_t num_sequences) {
  const uint64_t residual = num_sequences * answer.residual_bytes;
  const uint64_t bytes = answer.budget_bytes - std::min(answer.budget_bytes, residual);
  const struct {
    uint64_t block_bytes, own_blocks;
    uint32_t pool;
  } groups[] = {{answer.full_block_bytes, answer.pool_blocks, 0},
                {answer.window_block_bytes, answer.window_pool_blocks, answer.window_pool},
                {answer.state_block_bytes, answer.state_pool_blocks, answer.state_pool},
                {answer.cross_block_bytes, answer.cross_pool_blocks, answer.cross_pool}};
  std::vector<uint64_t> sizes, blocks;  // of the pools, in order
  for (const auto& group : groups) {
    if (group.block_bytes == 0) continue;
    const auto known = std::find(sizes.begin(), sizes.end(), group.block_bytes) - sizes.begin();
    ASSERT_EQ(group.pool, static_cast<uint32_t>(known));
    if (group.pool == sizes.size()) {
      sizes.push_back(group.block_bytes);
      blocks.push_back(sizes.size() == 1 ? answer.pool_blocks : group.own_blocks);
    } else if (&group != &groups[0]) {
      ASSERT_EQ(group.own_blocks, 0u);
    }
  }
  ASSERT_EQ(answer.num_pools, sizes.size());
  unsigned __int128 least = 0, used = 0;
  for (size_t p = 0; p < sizes.size(); ++p) {
    least += sizes[p];
    used += static_cast<unsigned __int128>(sizes[p]) * blocks[p];
    ASSERT_EQ(blocks[p] == 0, blocks[0] == 0);
  }
  ASSERT_EQ(blocks[0] == 0, bytes < least);
  ASSERT_LE(used, bytes);
  if (blocks[0] != 0) {
    ASSERT_LT(bytes - used, sizes[0]);
  }
}

// Gemma 3 4B: 5 layers with full attention, 29 with a window of 1024 tokens.
TEST(MemoryEstimate, ABudgetIsDividedAsASequenceNeedsIt) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  ASSERT_EQ(kvc_model_find("gemma-3-4b", &model), KVC_OK);
  kvc_memory_query query = question(model);
  query.tokens = 32'768;
  query.budget_bytes = uint64_t{8} << 30;
  query.retention_tokens = KVC_NO_RETENTION;  // a cached one keeps no more than a running one
  const kvc_memory_estimate answer = estimate(query);
  ASSERT_NE(answer.full_block_bytes, answer.window_block_bytes);
  const uint64_t fit = answer.max_sequences;  // as many find room in each pool
  EXPECT_GT(fit, 5u);
  EXPECT_GE(answer.pool_blocks, fit * answer.full_blocks);
  EXPECT_LT(answer.pool_blocks, (fit + 1) * answer.full_blocks);
  EXPECT_GE(answer.window_pool_blocks, fit * answer.window_blocks);
  EXPECT_LT(answer.window_pool_blocks, (fit + 1) * answer.window_blocks);
}

// Running sequences have what they need; what is left is divided for cached ones, which keep a sixth of the
// windows that hits at multiples of the retention need.
TEST(MemoryEstimate, ABudgetIsDividedForRunningAndForCachedSequences) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  ASSERT_EQ(kvc_model_find("gemma-3-4b", &model), KVC_OK);
  kvc_memory_query query = question(model);
  query.tokens = 32'768, query.num_sequences = 3;
  query.budget_bytes = uint64_t{8} << 30;
  const auto part_of_windows = [&] {
    const kvc_memory_estimate answer = estimate(query);
    const auto full = static_cast<double>(answer.pool_blocks - 3 * answer.full_blocks);
    const auto windows = static_cast<double>(answer.window_pool_blocks - 3 * answer.window_blocks);
    EXPECT_GT(full, 100) << "all three run";
    EXPECT_LT(answer.pool_blocks * answer.full_block_bytes, query.budget_bytes);
    return windows / full;
  };
  EXPECT_NEAR(part_of_windows(), 1 / 6.0, 0.01);
  query.retention_tokens = 16;
  EXPECT_NEAR(part_of_windows(), 1 / 6.0, 0.01) << "the default is the block size";
  query.retention_tokens = 1024;  // a window each
  EXPECT_NEAR(part_of_windows(), 1 / 6.0, 0.01);
  query.retention_tokens = 2048;  // 65 of 128 blocks
  EXPECT_NEAR(part_of_windows(), 65 / 128.0 / 6, 0.01);
  query.retention_tokens = (uint64_t{1} << 32) + 1;  // none: one window a sequence
  EXPECT_NEAR(part_of_windows(), 65 / 2048.0, 0.01);
  query.tokens = 1024, query.retention_tokens = 0;  // short ones keep their window all the same
  EXPECT_NEAR(part_of_windows(), 1, 0.02);
}

TEST(MemoryEstimate, AFractionIsOfTheFreeMemory) {
  const kvc_model model = grouped(32, 8, 128);
  kvc_memory_query query = question(model);
  query.memory_fraction = 0.5f;
  const kvc_memory_estimate half = estimate(query);
  kvc_device_info device = {};
  device.struct_size = sizeof device;
  ASSERT_EQ(kvc_device_read_info("cpu", &device), KVC_OK);
  EXPECT_GT(half.budget_bytes, 0u);
  EXPECT_LT(half.budget_bytes, device.memory_bytes);
  EXPECT_EQ(half.pool_blocks, half.budget_bytes / half.full_block_bytes);
}

TEST(MemoryEstimate, TheInverseIsTheLargestThatFits) {
  std::mt19937_64 random(20240607);
  const auto up_to = [&](uint64_t most) { return 1 + random() % most; };
  const int32_t dtypes[] = {KVC_FLOAT32, KVC_FLOAT16, KVC_FLOAT8_E4M3, KVC_INT8, KVC_INT4};
  int none = 0, any = 0, between = 0;
  for (int round = 0; round < 20'000; ++round) {
    kvc_model model = grouped(static_cast<uint32_t>(up_to(130)), static_cast<uint32_t>(up_to(64)),
                              static_cast<uint32_t>(up_to(300)));
    if (random() % 4 == 0) {
      model.num_kv_heads = 1;
      model.latent_dim = static_cast<uint32_t>(up_to(600));
    }
    if (random() % 2 == 0) {
      model.window_tokens = random() % 8 == 0 ? random() | 1 : up_to(5000);
      for (uint32_t layer = 0; layer < model.num_layers && random() % 8 != 0; ++layer)
        model.window_layers[layer / 64] |= (random() % 3 == 0 ? uint64_t{1} : 0) << layer % 64;
    }
    if (random() % 3 == 0) {
      add_states(model, 1);
      for (uint32_t layer = 0; layer < std::min(model.num_layers, 64u); ++layer)
        model.state_layers[0] |= (random() % 2 == 0 ? uint64_t{1} : 0) << layer;
      model.window_layers[0] &= ~model.state_layers[0];
      model.conv_elements = up_to(100'000), model.recurrent_elements = up_to(1'000'000);
      const uint64_t all = model.num_layers < 64 ? (uint64_t{1} << model.num_layers) - 1 : UINT64_MAX;
      if (model.num_layers <= 64 && model.state_layers[0] == all) model.window_tokens = 0;
    }
    if (random() % 4 == 0) {
      add_encoder(model, up_to(3000));
      model.num_cross_layers = static_cast<uint32_t>(up_to(model.num_layers));
      model.cross_kv_heads = static_cast<uint32_t>(up_to(64)), model.cross_head_dim = 64;
    }
    kvc_memory_query query = question(model);
    query.dtype = dtypes[random() % 5];
    if (query.dtype == KVC_INT8 || query.dtype == KVC_INT4) {
      query.scale_group = static_cast<uint32_t>(random() % 200);
      query.asymmetric = random() % 2;
      query.channel_keys = model.latent_dim == 0 && random() % 3 == 0;
      if (query.channel_keys == 0 && query.scale_group == 0 && query.asymmetric == 0)
        query.tensor_scales = random() % 2;
    }
    query.block_size = static_cast<uint32_t>(up_to(1024));
    query.tokens = up_to(300'000);
    query.num_sequences = up_to(500);
    query.chunk_tokens = up_to(4000);
    query.budget_bytes = up_to(uint64_t{1} << (10 + random() % 54));

    kvc_memory_estimate answer = {};
    answer.struct_size = sizeof answer;
    ASSERT_EQ(kvc_estimate_memory(&query, &answer), KVC_OK) << kvc_last_error();

    kvc_memory_query inverse = query;
    none += answer.max_tokens == 0;
    any += answer.max_tokens == UINT64_MAX;
    between += answer.max_tokens != 0 && answer.max_tokens != UINT64_MAX;
    inverse.tokens = answer.max_tokens;
    ASSERT_TRUE(answer.max_tokens == 0 || within(inverse, query.budget_bytes)) << "round " << round;
    if (answer.max_tokens != UINT64_MAX) {
      inverse.tokens = answer.max_tokens + 1;
      ASSERT_FALSE(within(inverse, query.budget_bytes)) << "round " << round;
      ASSERT_EQ(answer.max_tokens % query.block_size, 0u);
    }

    ASSERT_EQ(answer.budget_bytes, query.budget_bytes);
    expect_pools_fill_the_budget(answer, query.num_sequences);

    inverse = query;
    inverse.num_sequences = answer.max_sequences;
    ASSERT_TRUE(answer.max_sequences == 0 || within(inverse, query.budget_bytes)) << "round " << round;
    inverse.num_sequences = answer.max_sequences + 1;
    ASSERT_FALSE(within(inverse, query.budget_bytes)) << "round " << round;
  }
  EXPECT_GT(none, 100);
  EXPECT_GT(any, 100);
  EXPECT_GT(between, 100);
}

TEST(MemoryEstimate, TheInverseHoldsAtTheEdges) {
  const kvc_model model = grouped(1, 1, 1);  // 4 bytes a token
  kvc_memory_query query = question(model);
  query.block_size = 1;
  for (const uint64_t budget :
       {uint64_t{1}, uint64_t{3}, uint64_t{4}, uint64_t{7}, uint64_t{8}, UINT64_MAX}) {
    query.budget_bytes = budget;
    query.tokens = 1;
    EXPECT_EQ(estimate(query).max_tokens, budget / 4);
    EXPECT_EQ(estimate(query).max_sequences, budget / 4);
  }
}

}  // namespace
}  // namespace kvc
