// SPDX-License-Identifier: Apache-2.0
// The presets: every one against numbers that are written out here, and how names are found.
#include "models/registry.h"

#include <gtest/gtest.h>

#include <bit>
#include <iterator>
#include <set>
#include <string>
#include <tuple>

namespace kvc {
namespace {

struct Expected {
  const char* name;
  uint64_t bytes_per_token;  // 16-bit elements, all layers, as if none had a window
  uint64_t window_tokens;
  uint32_t window_layers;
};

// bytes_per_token = layers with keys and values * (key + value elements) * 2.
constexpr Expected kExpected[] = {
    {"llama-7b", 524'288, 0, 0},
    {"llama-13b", 819'200, 0, 0},
    {"llama-30b", 1'597'440, 0, 0},
    {"llama-65b", 2'621'440, 0, 0},
    {"llama-2-7b", 524'288, 0, 0},
    {"llama-2-13b", 819'200, 0, 0},
    {"llama-2-70b", 327'680, 0, 0},
    {"llama-3-8b", 131'072, 0, 0},
    {"llama-3-70b", 327'680, 0, 0},
    {"llama-3.1-8b", 131'072, 0, 0},
    {"llama-3.1-70b", 327'680, 0, 0},
    {"llama-3.1-405b", 516'096, 0, 0},
    {"llama-3.2-1b", 32'768, 0, 0},
    {"llama-3.2-3b", 114'688, 0, 0},
    {"llama-4-scout", 196'608, 8192, 36},
    {"llama-4-maverick", 196'608, 8192, 36},
    {"mistral-7b-v0.1", 131'072, 4096, 32},
    {"mistral-7b-v0.2", 131'072, 0, 0},
    {"mistral-7b-v0.3", 131'072, 0, 0},
    {"mixtral-8x7b", 131'072, 0, 0},
    {"mixtral-8x22b", 229'376, 0, 0},
    {"phi-2", 327'680, 0, 0},
    {"phi-3-mini-4k", 393'216, 2047, 32},
    {"phi-3-mini-128k", 393'216, 0, 0},
    {"phi-3.5-mini", 393'216, 0, 0},
    {"phi-4", 204'800, 0, 0},
    {"phi-4-mini", 131'072, 0, 0},
    {"qwen2.5-0.5b", 12'288, 0, 0},
    {"qwen2.5-1.5b", 28'672, 0, 0},
    {"qwen2.5-3b", 36'864, 0, 0},
    {"qwen2.5-7b", 57'344, 0, 0},
    {"qwen2.5-14b", 196'608, 0, 0},
    {"qwen2.5-32b", 262'144, 0, 0},
    {"qwen2.5-72b", 327'680, 0, 0},
    {"qwen3-0.6b", 114'688, 0, 0},
    {"qwen3-1.7b", 114'688, 0, 0},
    {"qwen3-4b", 147'456, 0, 0},
    {"qwen3-8b", 147'456, 0, 0},
    {"qwen3-14b", 163'840, 0, 0},
    {"qwen3-32b", 262'144, 0, 0},
    {"qwen3-30b-a3b", 98'304, 0, 0},
    {"qwen3-235b-a22b", 192'512, 0, 0},
    {"gemma-2-2b", 106'496, 4096, 13},
    {"gemma-2-9b", 344'064, 4096, 21},
    {"gemma-2-27b", 376'832, 4096, 23},
    {"gemma-3-1b", 26'624, 512, 22},
    {"gemma-3-4b", 139'264, 1024, 29},
    {"gemma-3-12b", 393'216, 1024, 40},
    {"gemma-3-27b", 507'904, 1024, 52},
    {"deepseek-v3", 70'272, 0, 0},
    {"gpt-oss-20b", 49'152, 128, 12},
    {"gpt-oss-120b", 73'728, 128, 18},
    {"jamba-v0.1", 16'384, 0, 0},
    {"jamba-1.5-mini", 16'384, 0, 0},
    {"jamba-1.5-large", 36'864, 0, 0},
    {"qwen3-next-80b-a3b", 24'576, 0, 0},
    {"whisper-tiny", 6'144, 0, 0},
    {"whisper-base", 12'288, 0, 0},
    {"whisper-small", 36'864, 0, 0},
    {"whisper-medium", 98'304, 0, 0},
    {"whisper-large-v3", 163'840, 0, 0},
    {"whisper-large-v3-turbo", 20'480, 0, 0},
};

kvc_model model_named(const char* name) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_find(name, &model), KVC_OK) << name << ": " << kvc_last_error();
  return model;
}

uint32_t window_layers(const kvc_model& model) {
  int count = 0;
  for (const uint64_t bits : model.window_layers) count += std::popcount(bits);
  return static_cast<uint32_t>(count);
}

bool has_window(const kvc_model& model, uint32_t layer) {
  return (model.window_layers[layer / 64] >> layer % 64 & 1) != 0;
}

TEST(Presets, EachTakesTheBytesPerTokenAndHasTheWindowsWrittenHere) {
  std::set<std::string> written;
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.name);
    written.insert(expected.name);
    const kvc_model model = model_named(expected.name);
    EXPECT_STREQ(model.name, expected.name);
    EXPECT_EQ(model.window_tokens, expected.window_tokens);
    EXPECT_EQ(window_layers(model), expected.window_layers);
    kvc_memory_query query = {};
    query.struct_size = sizeof query;
    query.model = &model;
    for (const int32_t dtype : {KVC_FLOAT16, KVC_BFLOAT16}) {
      query.dtype = dtype;
      kvc_memory_estimate estimate = {};
      estimate.struct_size = sizeof estimate;
      ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
      EXPECT_EQ(estimate.bytes_per_token, expected.bytes_per_token);
      EXPECT_EQ(estimate.num_window_layers, expected.window_layers);
      EXPECT_EQ(estimate.num_full_layers + estimate.num_window_layers + estimate.num_state_layers,
                model.num_layers);
    }
  }
  for (size_t i = 0; i < preset_count(); ++i)
    EXPECT_EQ(written.count(model_at(i).name), 1u) << model_at(i).name << " has no line in this test";
  EXPECT_EQ(preset_count(), written.size());
}

TEST(Presets, HaveEveryFieldInRange) {
  for (size_t i = 0; i < preset_count(); ++i) {
    kvc_model model = {};
    model.struct_size = sizeof model;
    ASSERT_EQ(kvc_model_get(i, &model), KVC_OK);
    SCOPED_TRACE(model.name);
    EXPECT_GE(model.num_q_heads, model.num_kv_heads);
    EXPECT_GT(model.v_head_dim, 0u);
    EXPECT_EQ(model.rope_dim == 0, model.rope_theta == 0) << "neither, or both";
    EXPECT_LE(model.rope_dim, model.head_dim);
    EXPECT_EQ(model.rope_dim % 2, 0u);
    EXPECT_GE(model.vocab_size, 32'000u);
    EXPECT_GE(model.max_context, model.num_cross_layers != 0 ? 448u : 2048u);
    EXPECT_LT(model.window_tokens, model.max_context);
    if (model.rope_theta != 0) {
      EXPECT_GE(model.rope_theta, 1e4);
    }
    EXPECT_EQ(model.rope_scaling == KVC_ROPE_NONE, model.rope_factor == 0.0);
    const bool by_turns = model.rope_scaling == KVC_ROPE_LLAMA3 || model.rope_scaling == KVC_ROPE_YARN;
    EXPECT_EQ(by_turns, model.rope_low_rotations != 0.0);
    EXPECT_EQ(by_turns, model.rope_high_rotations != 0.0);
    if (model.rope_scaling == KVC_ROPE_LONGROPE) {
      EXPECT_EQ(model.rope_factor, static_cast<double>(model.max_context / model.rope_original_context));
    }
  }
}

TEST(Presets, Phi3MiniHasAsManyKvHeadsAsQueryHeads) {
  for (const char* name : {"phi-3-mini-4k", "phi-3-mini-128k", "phi-3.5-mini"}) {
    EXPECT_EQ(model_named(name).num_kv_heads, 32u) << name;
    EXPECT_EQ(model_named(name).num_q_heads, 32u) << name;
    EXPECT_EQ(model_named(name).head_dim, 96u) << name;
  }
}

TEST(Presets, MixtralHasNoWindowAndItsWholeContext) {
  EXPECT_EQ(model_named("mixtral-8x7b").window_tokens, 0u);
  EXPECT_EQ(model_named("mixtral-8x7b").max_context, 32'768u);
  EXPECT_EQ(model_named("mixtral-8x22b").window_tokens, 0u);
  EXPECT_EQ(model_named("mixtral-8x22b").max_context, 65'536u);
}

TEST(Presets, DeepSeekV3StoresLatentRowsAndNot128Heads) {
  const kvc_model model = model_named("deepseek-v3");
  EXPECT_EQ(model.latent_dim, 512u + 64u);
  EXPECT_EQ(model.rope_dim, 64u);
  EXPECT_EQ(model.num_kv_heads, 1u);
  EXPECT_EQ(model.num_q_heads, 128u);
  kvc_memory_query query = {};
  query.struct_size = sizeof query;
  query.dtype = KVC_FLOAT16;
  query.model = &model;
  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
  EXPECT_EQ(estimate.bytes_per_token, 61u * 576u * 2u);
}

TEST(Presets, WindowPatternsPutFullAttentionAtTheEndOfEachPeriod) {
  for (const auto& [name, period] :
       {std::pair{"gemma-2-9b", 2u}, {"gemma-3-27b", 6u}, {"gpt-oss-20b", 2u}, {"llama-4-scout", 4u}}) {
    const kvc_model model = model_named(name);
    for (uint32_t layer = 0; layer < model.num_layers; ++layer)
      EXPECT_EQ(has_window(model, layer), layer % period != period - 1) << name << " layer " << layer;
  }
  const kvc_model mistral = model_named("mistral-7b-v0.1");
  for (uint32_t layer = 0; layer < mistral.num_layers; ++layer) EXPECT_TRUE(has_window(mistral, layer));
}

struct ExpectedStates {
  const char* name;
  uint32_t layers;
  uint64_t block_bytes;  // of bfloat16
};

// Jamba: inner size * (kernel - 1 + state size). Qwen3-Next: (2 key heads + value heads) * 128 * (kernel - 1)
// and value heads * 128 * 128.
constexpr ExpectedStates kExpectedStates[] = {
    {"jamba-v0.1", 28, 28 * 8192 * (3 + 16) * 2},
    {"jamba-1.5-mini", 28, 28 * 8192 * (3 + 16) * 2},
    {"jamba-1.5-large", 63, 63 * 16384 * (3 + 16) * 2},
    {"qwen3-next-80b-a3b", 36, 36 * ((2 * 16 + 32) * 128 * 3 + 32 * 128 * 128) * 2},
};

TEST(Presets, StatesHaveTheBytesWrittenHere) {
  size_t with_states = 0;
  for (size_t i = 0; i < preset_count(); ++i) with_states += model_at(i).recurrent_elements != 0;
  EXPECT_EQ(with_states, std::size(kExpectedStates));
  for (const ExpectedStates& expected : kExpectedStates) {
    SCOPED_TRACE(expected.name);
    const kvc_model model = model_named(expected.name);
    kvc_memory_query query = {};
    query.struct_size = sizeof query;
    query.model = &model;
    query.dtype = KVC_BFLOAT16;
    kvc_memory_estimate estimate = {};
    estimate.struct_size = sizeof estimate;
    ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
    EXPECT_EQ(estimate.num_state_layers, expected.layers);
    EXPECT_EQ(estimate.state_block_bytes, expected.block_bytes);
    query.dtype = KVC_FLOAT8_E4M3;
    ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
    EXPECT_EQ(estimate.state_block_bytes, expected.block_bytes) << "a state is not stored as fp8";
  }
}

TEST(Presets, JambaAndQwen3NextPutAttentionWhereTheirConfigurationsDo) {
  for (const auto& [name, period, offset] :
       {std::tuple{"jamba-1.5-mini", 8u, 4u}, {"jamba-1.5-large", 8u, 4u}, {"qwen3-next-80b-a3b", 4u, 3u}}) {
    const kvc_model model = model_named(name);
    for (uint32_t layer = 0; layer < model.num_layers; ++layer) {
      const bool state = (model.state_layers[layer / 64] >> layer % 64 & 1) != 0;
      EXPECT_EQ(state, layer % period != offset) << name << " layer " << layer;
    }
  }
}

TEST(Presets, WhisperReadsItsEncoderTokensInEachLayer) {
  size_t with_encoders = 0;
  for (size_t i = 0; i < preset_count(); ++i) {
    const kvc_model model = model_at(i);
    if (model.num_cross_layers == 0) continue;
    ++with_encoders;
    SCOPED_TRACE(model.name);
    EXPECT_EQ(model.num_cross_layers, model.num_layers);
    EXPECT_EQ(model.cross_tokens, 1500u);
    EXPECT_EQ(model.cross_kv_heads, model.num_kv_heads);
    EXPECT_EQ(model.cross_head_dim, model.head_dim);
  }
  EXPECT_EQ(with_encoders, 6u);
}

TEST(Presets, NamesAndSourcesAreUnique) {
  std::set<std::string> names;
  std::set<std::string_view> sources;
  for (size_t i = 0; i < preset_count(); ++i) {
    EXPECT_TRUE(names.insert(model_at(i).name).second) << model_at(i).name;
    EXPECT_TRUE(sources.insert(preset_source(i)).second) << preset_source(i);
    EXPECT_EQ(find_model(model_at(i).name), i);
  }
}

TEST(FindModel, TakesAliasesRepositoriesAndEitherCase) {
  EXPECT_STREQ(model_named("LLAMA-3.1-8B").name, "llama-3.1-8b");
  EXPECT_STREQ(model_named("llama-3.1-8b-instruct").name, "llama-3.1-8b");
  EXPECT_STREQ(model_named("meta-llama/Llama-3.1-8B").name, "llama-3.1-8b");
  EXPECT_STREQ(model_named("deepseek-ai/deepseek-v3").name, "deepseek-v3");
  EXPECT_STREQ(model_named("deepseek-r1").name, "deepseek-v3");
  EXPECT_STREQ(model_named("phi-3-mini").name, "phi-3-mini-4k");
}

TEST(FindModel, AnUnknownNameIsNotFoundAndTheTextHasNearOnes) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  const auto text = [&](const std::string& name) {
    EXPECT_EQ(kvc_model_find(name.c_str(), &model), KVC_ERROR_NOT_FOUND) << name;
    return std::string(kvc_last_error());
  };
  EXPECT_NE(text("lama-3.1-8b").find("nearest: llama-3.1-8b"), std::string::npos);
  EXPECT_NE(text("qwen2.5-7b-instruct").find("nearest: qwen2.5-7b"), std::string::npos);
  EXPECT_NE(text("someone/gpt-oss-20b-finetune").find("gpt-oss-20b"), std::string::npos);
  EXPECT_NE(text("llama").find("llama-"), std::string::npos);
  EXPECT_NE(text("completely different").find("kvc_model_get lists all"), std::string::npos);
  EXPECT_NE(text("").find("kvc_model_get lists all"), std::string::npos);
  EXPECT_NE(text("/").find("kvc_model_get lists all"), std::string::npos);
  EXPECT_NE(text(std::string(1 << 20, 'x')).find("xxx..."), std::string::npos);
  EXPECT_NE(text("x/" + std::string(128, 'l')).find("kvc_model_get"), std::string::npos);
  EXPECT_EQ(model.num_layers, 0u) << "a failed call writes nothing";
}

TEST(FindModel, WrongArgumentsAreRefused) {
  kvc_model model = {};
  EXPECT_EQ(kvc_model_find("phi-4", &model), KVC_ERROR_INVALID_ARGUMENT) << "struct_size is 0";
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_find(nullptr, &model), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_find("phi-4", nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_get(0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_get(kvc_model_count(), &model), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_get(SIZE_MAX, &model), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc
