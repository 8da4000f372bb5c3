// SPDX-License-Identifier: Apache-2.0
// Registered models: what is found, listed and replaced, which names and values are refused, the limit, and
// threads that register, look up and list at once. Models stay for the life of the process, so the tests
// count from what is there, and the one that fills the table replaces afterwards.
#include "models/registered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "models/registry.h"

namespace kvc {
namespace {

kvc_model small(const std::string& name, uint32_t num_layers = 4) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  std::memcpy(model.name, name.data(), std::min(name.size(), sizeof model.name));
  model.num_layers = num_layers, model.num_kv_heads = 2, model.head_dim = 64, model.max_context = 1000;
  return model;
}

kvc_model find(const std::string& name) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_find(name.c_str(), &model), KVC_OK) << kvc_last_error();
  return model;
}

std::string refusal(const kvc_model& model, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
  const size_t count = kvc_model_count();
  EXPECT_EQ(kvc_model_register(&model), status) << model.name;
  EXPECT_EQ(kvc_model_count(), count) << "a failed call registered something";
  return kvc_last_error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RegisterModel, IsFoundListedAndEstimated) {
  const size_t before = kvc_model_count();
  const kvc_model own = small("own/first");
  ASSERT_EQ(kvc_model_register(&own), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_model_count(), before + 1);
  kvc_model found = find("OWN/First");
  EXPECT_EQ(std::memcmp(&found, &own, sizeof own), 0);
  ASSERT_EQ(kvc_model_get(before, &found), KVC_OK);
  EXPECT_STREQ(found.name, "own/first");
  kvc_memory_query query = {};
  query.struct_size = sizeof query, query.model = &found, query.dtype = KVC_FLOAT16;
  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
  EXPECT_EQ(estimate.bytes_per_token, 4u * 2 * 2 * 64 * 2);
  EXPECT_EQ(kvc_model_find("own/firs", &found), KVC_ERROR_NOT_FOUND);
  EXPECT_TRUE(contains(kvc_last_error(), "nearest: own/first")) << kvc_last_error();
}

TEST(RegisterModel, OfAConfigKeepsItsRotaryEmbedding) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 64, "rope_theta": 500})";
  kvc_model model = {};
  model.struct_size = sizeof model;
  ASSERT_EQ(kvc_model_from_config(config.data(), config.size(), &model), KVC_OK) << kvc_last_error();
  std::strcpy(model.name, "own/config");
  ASSERT_EQ(kvc_model_register(&model), KVC_OK) << kvc_last_error();
  EXPECT_EQ(find("own/config").rope_theta, 500);
}

TEST(RegisterModel, EveryPresetFitsUnderAnotherName) {
  for (size_t i = 0; i < preset_count(); ++i) {
    kvc_model model = model_at(i);
    std::strcpy(model.name, "own/preset");
    EXPECT_EQ(kvc_model_register(&model), KVC_OK) << model_at(i).name << ": " << kvc_last_error();
  }
}

TEST(RegisterModel, ReplacesTheModelOfItsNameInPlace) {
  const kvc_model first = small("own/twice", 4), second = small("OWN/Twice", 7);
  ASSERT_EQ(kvc_model_register(&first), KVC_OK);
  const size_t count = kvc_model_count(), index = find_model("own/twice");
  ASSERT_EQ(kvc_model_register(&second), KVC_OK);
  EXPECT_EQ(kvc_model_count(), count);
  EXPECT_EQ(find_model("own/twice"), index);
  EXPECT_EQ(find("own/twice").num_layers, 7u);
  EXPECT_STREQ(find("own/twice").name, "OWN/Twice");
}

TEST(RegisterModel, APresetStaysAsItIs) {
  for (const char* name :
       {"llama-3.1-8b", "LLAMA-3.1-8B", "llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B"})
    EXPECT_TRUE(contains(refusal(small(name)), "means the preset llama-3.1-8b")) << name;
  EXPECT_EQ(find("llama-3.1-8b").num_layers, 32u);
}

TEST(RegisterModel, NamesAreVisibleAsciiAndEnd) {
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\tb"),
                                  std::string("\xc3\xa9"), std::string("a\x7f"), std::string(64, 'x')})
    EXPECT_TRUE(contains(refusal(small(name)), "1 .. 63 printable ASCII characters")) << name;
  EXPECT_EQ(kvc_model_register(nullptr), KVC_ERROR_INVALID_ARGUMENT);
  const kvc_model longest = small(std::string(63, 'x'));
  EXPECT_EQ(kvc_model_register(&longest), KVC_OK) << kvc_last_error();
  EXPECT_EQ(find(longest.name).num_layers, 4u);
}

TEST(RegisterModel, FieldsThatNoUseTakesAreRefused) {
  const auto with = [](auto change) {
    kvc_model model = small("own/refused");
    change(model);
    return model;
  };
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.num_layers = 0; })), "num_layers is 0"));
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.num_layers = 513; })), "num_layers is 513"));
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.num_kv_heads = 0; })), "num_kv_heads is 0"));
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.num_q_heads = 3; })), "num_q_heads is 3"));
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.max_context = 0; })), "max_context is 0"));
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.window_layers[0] = 1; })), "window_tokens is 0"));
  EXPECT_TRUE(contains(refusal(with([](kvc_model& m) { m.rope_theta = -1; })), "rope_theta is -1"));
  const auto scaling = [](kvc_model& m) { m.rope_theta = 1e4, m.rope_scaling = 99, m.rope_factor = 2; };
  EXPECT_TRUE(contains(refusal(with(scaling), KVC_ERROR_UNSUPPORTED), "rope_scaling 99"));
  kvc_model unsized = small("own/refused");
  unsized.struct_size = 0;
  refusal(unsized);
  EXPECT_EQ(find_model("own/refused"), kNoModel);
}

// Readers see whole models: the number of layers and of heads of one registration.
TEST(RegisterModel, ThreadsReadWhatOthersRegister) {
  constexpr uint32_t kRounds = 2000;
  kvc_model model = small("own/shared", 1);
  model.head_dim = 1;
  ASSERT_EQ(kvc_model_register(&model), KVC_OK);
  std::atomic<bool> done = false;
  std::atomic<uint32_t> torn = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      kvc_model seen = {};
      seen.struct_size = sizeof seen;
      while (!done) {
        if (kvc_model_find("own/shared", &seen) != KVC_OK || seen.num_layers != seen.head_dim) ++torn;
        for (size_t k = preset_count(); k < kvc_model_count(); ++k)
          if (kvc_model_get(k, &seen) != KVC_OK) ++torn;
      }
    });
  }
  for (uint32_t round = 0; round < kRounds; ++round) {
    model.num_layers = model.head_dim = 1 + round % KVC_MODEL_MAX_LAYERS;
    EXPECT_EQ(kvc_model_register(&model), KVC_OK);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
}

TEST(RegisterModel, TheTableIsBoundedAndStillReplaces) {
  kvc_status status = KVC_OK;
  for (size_t i = 0; i <= KVC_MODEL_MAX_REGISTERED && status == KVC_OK; ++i) {
    const kvc_model model = small("own/many-" + std::to_string(i));
    status = kvc_model_register(&model);
  }
  EXPECT_EQ(status, KVC_ERROR_LIMIT);
  EXPECT_TRUE(contains(kvc_last_error(), "256 models are registered")) << kvc_last_error();
  EXPECT_EQ(kvc_model_count(), preset_count() + KVC_MODEL_MAX_REGISTERED);
  const kvc_model again = small("own/many-0", 9);
  EXPECT_EQ(kvc_model_register(&again), KVC_OK);
  EXPECT_EQ(find("own/many-0").num_layers, 9u);
  kvc_model last = {};
  last.struct_size = sizeof last;
  EXPECT_EQ(kvc_model_get(kvc_model_count() - 1, &last), KVC_OK);
  EXPECT_EQ(kvc_model_get(kvc_model_count(), &last), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_find("own/many-1000", &last), KVC_ERROR_NOT_FOUND);
}

}  // namespace
}  // namespace kvc
