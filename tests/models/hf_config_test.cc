// SPDX-License-Identifier: Apache-2.0
// kvc_model_from_config: the keys that published config.json files have give the struct of the preset, and
// whatever else a file may hold gives an error that names key and remedy.
#include <gtest/gtest.h>
#include <kvcache/model.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace kvc {
namespace {

using nlohmann::json;

kvc_model preset(const char* name) {
  kvc_model model{};
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_find(name, &model), KVC_OK) << kvc_last_error();
  return model;
}

kvc_status read(const std::string& text, kvc_model* model) {
  *model = {};
  model->struct_size = sizeof *model;
  return kvc_model_from_config(text.data(), text.size(), model);
}

kvc_model read(const std::string& text) {
  kvc_model model;
  EXPECT_EQ(read(text, &model), KVC_OK) << kvc_last_error() << '\n' << text;
  return model;
}

void expect_error(const std::string& text, const std::string& part) {
  kvc_model model;
  ASSERT_EQ(read(text, &model), KVC_ERROR_INVALID_ARGUMENT) << "no error for " << text.substr(0, 200);
  const std::string what = kvc_last_error();
  EXPECT_NE(what.find(part), std::string::npos) << what;
  EXPECT_NE(what.find("; "), std::string::npos) << "a remedy: " << what;
  EXPECT_LT(what.size(), 600u) << what;
  EXPECT_EQ(model.num_layers, 0u) << "nothing is written";
}

void expect_same(const char* name, const char* text) {
  SCOPED_TRACE(name);
  const kvc_model expected = preset(name);
  const kvc_model model = read(text);
  EXPECT_EQ(model.struct_size, expected.struct_size);
  EXPECT_EQ(model.num_layers, expected.num_layers);
  EXPECT_EQ(model.num_q_heads, expected.num_q_heads);
  EXPECT_EQ(model.num_kv_heads, expected.num_kv_heads);
  EXPECT_EQ(model.head_dim, expected.head_dim);
  EXPECT_EQ(model.v_head_dim, expected.v_head_dim);
  EXPECT_EQ(model.latent_dim, expected.latent_dim);
  EXPECT_EQ(model.rope_dim, expected.rope_dim);
  EXPECT_EQ(model.vocab_size, expected.vocab_size);
  EXPECT_EQ(model.max_context, expected.max_context);
  EXPECT_EQ(model.window_tokens, expected.window_tokens);
  for (size_t i = 0; i < KVC_MODEL_MAX_LAYERS / 64; ++i)
    EXPECT_EQ(model.window_layers[i], expected.window_layers[i]) << i;
  for (size_t i = 0; i < KVC_MODEL_MAX_LAYERS / 64; ++i)
    EXPECT_EQ(model.state_layers[i], expected.state_layers[i]) << i;
  EXPECT_EQ(model.conv_elements, expected.conv_elements);
  EXPECT_EQ(model.recurrent_elements, expected.recurrent_elements);
  EXPECT_EQ(model.num_cross_layers, expected.num_cross_layers);
  EXPECT_EQ(model.cross_tokens, expected.cross_tokens);
  EXPECT_EQ(model.cross_kv_heads, expected.cross_kv_heads);
  EXPECT_EQ(model.cross_head_dim, expected.cross_head_dim);
  EXPECT_EQ(model.rope_theta, expected.rope_theta);
  EXPECT_EQ(model.rope_local_theta, expected.rope_local_theta);
  EXPECT_EQ(model.rope_factor, expected.rope_factor);
  EXPECT_EQ(model.rope_original_context, expected.rope_original_context);
  EXPECT_EQ(model.rope_scaling, expected.rope_scaling);
  EXPECT_EQ(model.rope_flags, expected.rope_flags);
  EXPECT_EQ(model.rope_low_rotations, expected.rope_low_rotations);
  EXPECT_EQ(model.rope_high_rotations, expected.rope_high_rotations);
  EXPECT_EQ(model.rope_attention_factor, expected.rope_attention_factor);
}

constexpr const char* kLlama31 = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"}})";

TEST(HfConfig, LlamaConfigsGiveThePresets) {
  expect_same("llama-3.1-8b", kLlama31);
  expect_same("llama-2-13b", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 5120,
      "num_hidden_layers": 40, "num_attention_heads": 40, "vocab_size": 32000,
      "max_position_embeddings": 4096, "rope_scaling": null})");
  expect_same("llama-3.2-1b", R"({"model_type": "llama", "head_dim": 64, "hidden_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
      "max_position_embeddings": 131072, "rope_parameters": {"rope_theta": 500000.0, "factor": 32.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}})");
}

TEST(HfConfig, MistralAndMixtralConfigsGiveThePresets) {
  expect_same("mistral-7b-v0.1", R"({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
      "max_position_embeddings": 32768, "rope_theta": 10000.0, "sliding_window": 4096})");
  expect_same("mistral-7b-v0.3", R"({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32768, "head_dim": null,
      "max_position_embeddings": 32768, "rope_theta": 1000000.0, "sliding_window": null})");
  expect_same("mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
      "max_position_embeddings": 32768, "rope_theta": 1000000.0, "sliding_window": null})");
}

TEST(HfConfig, PhiConfigsGiveThePresets) {
  expect_same("phi-2", R"({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 51200,
      "max_position_embeddings": 2048, "rope_theta": 10000.0, "rope_scaling": null,
      "partial_rotary_factor": 0.4})");
  expect_same("phi-3-mini-4k", R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064,
      "max_position_embeddings": 4096, "original_max_position_embeddings": 4096, "rope_theta": 10000.0,
      "rope_scaling": null, "sliding_window": 2047})");
  expect_same("phi-3-mini-128k", R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064,
      "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "rope_theta": 10000.0,
      "rope_scaling": {"long_factor": [1.0], "short_factor": [1.0], "type": "longrope"},
      "sliding_window": 262144})");
  expect_same("phi-4-mini", R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
      "num_attention_heads": 24, "num_key_value_heads": 8, "vocab_size": 200064,
      "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "rope_theta": 10000.0,
      "partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope"}, "sliding_window": 262144})");
}

TEST(HfConfig, QwenConfigsGiveThePresets) {
  expect_same("qwen2.5-7b", R"({"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
      "max_position_embeddings": 131072, "rope_theta": 1000000.0, "max_window_layers": 28,
      "sliding_window": 131072, "use_sliding_window": false})");
  expect_same("qwen3-4b", R"({"model_type": "qwen3", "head_dim": 128, "hidden_size": 2560,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
      "max_position_embeddings": 40960, "rope_theta": 1000000, "rope_scaling": null, "max_window_layers": 36,
      "sliding_window": null, "use_sliding_window": false})");
  expect_same("qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "head_dim": 128, "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 151936,
      "max_position_embeddings": 40960, "rope_theta": 1000000.0, "use_sliding_window": false})");
}

TEST(HfConfig, QwenWindowsBeginAtMaxWindowLayers) {
  const kvc_model model = read(R"({"model_type": "qwen2", "hidden_size": 3584,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
      "max_position_embeddings": 131072, "max_window_layers": 20, "sliding_window": 4096,
      "use_sliding_window": true})");
  EXPECT_EQ(model.window_tokens, 4096u);
  EXPECT_EQ(model.window_layers[0], 0xffu << 20);
}

TEST(HfConfig, GemmaConfigsGiveThePresets) {
  expect_same("gemma-2-9b", R"({"model_type": "gemma2", "head_dim": 256, "hidden_size": 3584,
      "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 256000,
      "max_position_embeddings": 8192, "rope_theta": 10000.0, "sliding_window": 4096,
      "sliding_window_size": 4096})");
  expect_same("gemma-3-1b", R"({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
      "head_dim": 256, "hidden_size": 1152, "num_hidden_layers": 26, "num_attention_heads": 4,
      "num_key_value_heads": 1, "vocab_size": 262144, "max_position_embeddings": 32768,
      "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512,
      "sliding_window_pattern": 6})");
  // The multimodal ones state what differs from the architecture's defaults and nothing else.
  expect_same("gemma-3-4b", R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
      "text_config": {"hidden_size": 2560, "model_type": "gemma3_text", "num_hidden_layers": 34,
                      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
      "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}})");
  expect_same("gemma-3-27b", R"({"model_type": "gemma3", "text_config": {"head_dim": 128, "hidden_size": 5376,
      "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
      "rope_parameters": {"full_attention": {"factor": 8.0, "rope_type": "linear", "rope_theta": 1000000.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
      "sliding_window": 1024, "_sliding_window_pattern": 6}})");
}

TEST(HfConfig, DeepSeekAndGptOssConfigsGiveThePresets) {
  expect_same("deepseek-v3", R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
      "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
      "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "vocab_size": 129280, "max_position_embeddings": 163840, "rope_theta": 10000,
      "num_nextn_predict_layers": 1, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40,
      "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}})");
  json config = json::parse(R"({"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880,
      "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 201088,
      "max_position_embeddings": 131072, "initial_context_length": 4096, "rope_theta": 150000,
      "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
      "rope_type": "yarn", "truncate": false},
      "sliding_window": 128})");
  expect_same("gpt-oss-20b", config.dump().c_str());
  for (int layer = 0; layer < 24; ++layer)
    config["layer_types"].push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  expect_same("gpt-oss-20b", config.dump().c_str());
  config["layer_types"][1] = "sliding_attention";
  EXPECT_EQ(read(config.dump()).window_layers[0], 0x555557u);
}

TEST(HfConfig, Llama4HasChunksWhereItRotates) {
  json config = json::parse(R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
      "attention_chunk_size": 8192, "head_dim": 128, "num_hidden_layers": 48, "num_attention_heads": 40,
      "num_key_value_heads": 8, "vocab_size": 202048, "max_position_embeddings": 10485760, "rope_theta": 500000.0,
      "no_rope_layers": [], "rope_scaling": {"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}}})");
  expect_same("llama-4-scout", config.dump().c_str());
  json& text = config["text_config"];
  for (int layer = 0; layer < 48; ++layer) text["no_rope_layers"].push_back(layer % 4 == 3 ? 0 : 1);
  expect_same("llama-4-scout", config.dump().c_str());
  text["no_rope_layers"][3] = 1;
  EXPECT_EQ(read(config.dump()).window_layers[0], 0x77777777777fu);
  text["no_rope_layers"][3] = 2;
  kvc_model model = {};
  EXPECT_EQ(read(config.dump(), &model), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("no_rope_layers[3]\" is 2; give 0 or 1"), std::string::npos)
      << kvc_last_error();
  text.erase("no_rope_layers");
  text["no_rope_layer_interval"] = 2;
  EXPECT_EQ(read(config.dump()).window_layers[0], 0x555555555555u);
  for (int layer = 0; layer < 48; ++layer)
    text["layer_types"].push_back(layer == 0 ? "full_attention" : "chunked_attention");
  EXPECT_EQ(read(config.dump()).window_layers[0], 0xfffffffffffeu);
  text["attention_chunk_size"] = nullptr;  // no chunks
  EXPECT_EQ(read(config.dump()).window_tokens, 0u);
}

constexpr const char* kJamba = R"({"architectures": ["JambaForCausalLM"], "attn_layer_offset": 4,
    "attn_layer_period": 8, "hidden_size": 4096, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 256,
    "mamba_expand": 2, "max_position_embeddings": 262144, "model_type": "jamba", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": null, "vocab_size": 65536})";
constexpr const char* kQwen3Next =
    R"({"architectures": ["Qwen3NextForCausalLM"], "full_attention_interval": 4,
    "head_dim": 256, "hidden_size": 2048, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "max_position_embeddings": 262144, "model_type": "qwen3_next", "num_attention_heads": 16,
    "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rope_scaling": null,
    "rope_theta": 10000000, "vocab_size": 151936})";
constexpr const char* kWhisper = R"({"architectures": ["WhisperForConditionalGeneration"], "d_model": 1280,
    "decoder_attention_heads": 20, "decoder_layers": 32, "encoder_attention_heads": 20, "encoder_layers": 32,
    "max_source_positions": 1500, "max_target_positions": 448, "model_type": "whisper",
    "num_hidden_layers": 32, "vocab_size": 51866})";

TEST(HfConfig, ConfigsOfHybridAndEncoderDecoderModelsGiveThePresets) {
  expect_same("jamba-1.5-mini", kJamba);
  expect_same("jamba-1.5-large", R"({"model_type": "jamba", "hidden_size": 8192, "num_attention_heads": 64,
      "num_hidden_layers": 72, "num_key_value_heads": 8, "vocab_size": 65536})");
  expect_same("qwen3-next-80b-a3b", kQwen3Next);
  expect_same("whisper-large-v3", kWhisper);
  expect_same("whisper-small", R"({"model_type": "whisper", "d_model": 768, "decoder_attention_heads": 12,
      "decoder_layers": 12})");
}

// 5 of 6 layers are named; heads of 64, a state of 128, one group: 4096 + 2 * 128 channels.
TEST(HfConfig, StateLayersMayBeNamed) {
  json config = json::parse(R"({"model_type": "granitemoehybrid", "hidden_size": 2048, "num_hidden_layers": 6,
      "num_attention_heads": 32, "num_key_value_heads": 8, "mamba_d_conv": 4, "mamba_d_head": 64,
      "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 64,
      "max_position_embeddings": 131072, "position_embedding_type": "nope", "vocab_size": 100352,
      "layer_types": ["mamba", "mamba", "mamba", "attention", "mamba", "mamba"]})");
  kvc_model model = read(config.dump());
  EXPECT_EQ(model.state_layers[0], 0x37u);
  EXPECT_EQ(model.conv_elements, (4096u + 2 * 128) * 3);
  EXPECT_EQ(model.recurrent_elements, 64u * 64 * 128);
  EXPECT_EQ(model.rope_theta, 0);
  EXPECT_EQ(model.rope_dim, 0u);
  config["position_embedding_type"] = "rope", config["rope_theta"] = 5e5;
  EXPECT_EQ(read(config.dump()).rope_theta, 5e5);
  config["layer_types"] = json(std::vector<std::string>(6, "attention"));
  model = read(config.dump());
  EXPECT_EQ(model.state_layers[0] + model.conv_elements + model.recurrent_elements, 0u);
  config["layer_types"][4] = "linear_attention";
  expect_error(config.dump(), "\"layer_types[4]\" is \"linear_attention\"; known are mamba and attention");
  config.erase("layer_types");
  expect_error(config.dump(), "\"layer_types\" is missing");
  config["layer_types"] = json(std::vector<std::string>(6, "mamba")),
  config["position_embedding_type"] = "alibi";
  expect_error(config.dump(), "\"position_embedding_type\" is \"alibi\"; known are rope and nope");

  json next = json::parse(kQwen3Next);
  next["num_hidden_layers"] = 3,
  next["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_EQ(read(next.dump()).state_layers[0], 2u);
}

TEST(HfConfig, BadStatesAndDecodersAreNamed) {
  const auto refused = [](const char* text, const char* key, const json& value, const char* expected) {
    json bad = json::parse(text);
    bad[key] = value;
    expect_error(bad.dump(), expected);
  };
  refused(kJamba, "attn_layer_offset", 8,
          "\"attn_layer_offset\" is 8; it must be below attn_layer_period, 8");
  refused(kJamba, "attn_layer_period", 0, "\"attn_layer_period\" is 0");
  refused(kJamba, "mamba_d_state", 0, "\"mamba_d_state\" is 0");
  refused(kJamba, "mamba_expand", 65, "\"mamba_expand\" is 65");
  refused(kJamba, "mamba_d_conv", "4", "\"mamba_d_conv\" is \"4\"");
  refused(kQwen3Next, "linear_num_value_heads", -1, "\"linear_num_value_heads\" is -1");
  refused(kQwen3Next, "layer_types", "full_attention", "\"layer_types\" is");
  refused(kWhisper, "d_model", 1281, "\"d_model\" is 1281; give a multiple of decoder_attention_heads, 20");
  refused(kWhisper, "decoder_layers", 513, "\"decoder_layers\" is 513");
  refused(kWhisper, "decoder_attention_heads", nullptr, "\"decoder_attention_heads\" is null");
  refused(kWhisper, "max_source_positions", 0, "\"max_source_positions\" is 0");
  json wide = json::parse(kQwen3Next);
  wide["linear_value_head_dim"] = 65536, wide["linear_key_head_dim"] = 65536;
  expect_error(wide.dump(), "gives a layer 137438953472 elements of state; at most 2^32");
}

TEST(HfConfig, ParametersOfRotaryScaling) {
  json config = json::parse(kLlama31);
  json& scaling = config["rope_scaling"];
  scaling["low_freq_factor"] = 2, scaling["high_freq_factor"] = 8;
  kvc_model model = read(config.dump());
  EXPECT_EQ(model.rope_low_rotations, 2);
  EXPECT_EQ(model.rope_high_rotations, 8);
  scaling = {{"rope_type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 4096}};
  model = read(config.dump());
  EXPECT_EQ(model.rope_low_rotations, 1);
  EXPECT_EQ(model.rope_high_rotations, 32);
  EXPECT_EQ(model.rope_flags, 0u);
  EXPECT_EQ(model.rope_attention_factor, 0);
  scaling["mscale"] = 0.707, scaling["mscale_all_dim"] = 1, scaling["beta_fast"] = 16,
  scaling["truncate"] = false;
  model = read(config.dump());
  EXPECT_NEAR(model.rope_attention_factor, (0.0707 * std::log(40) + 1) / (0.1 * std::log(40) + 1), 1e-15);
  EXPECT_EQ(model.rope_high_rotations, 16);
  EXPECT_EQ(model.rope_flags, uint32_t{KVC_MODEL_ROPE_EXACT_RAMP});
  scaling["attention_factor"] = 1.5;
  EXPECT_EQ(read(config.dump()).rope_attention_factor, 1.5);
}

TEST(HfConfig, TheNameIsPrintableAndFits) {
  json config = json::parse(kLlama31);
  const auto name = [&](const char* given) {
    config["_name_or_path"] = given;
    return std::string(read(config.dump()).name);
  };
  EXPECT_EQ(name("meta-llama/Llama-3.1-8B"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(name(""), "llama");
  EXPECT_EQ(name("a\x1b[31m\nb\xc3\xa9"), "a?[31m?b??");
  EXPECT_EQ(name(std::string(200, 'x').c_str()), std::string(63, 'x'));
}

TEST(HfConfig, ABadValueIsNamedWithItsKeyAndTheRemedy) {
  const json good = json::parse(kLlama31);
  const std::string values[] = {
      "-1",    "0",   "1.5", "1e300", "18446744073709551615", "99999999999999999999", "true",
      "\"8\"", "[8]", "{}",  "null"};
  for (const char* key : {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
                          "max_position_embeddings", "hidden_size"}) {
    for (const std::string& value : values) {
      json bad = good;
      bad[key] = json::parse(value);
      if (value == "null" && std::strcmp(key, "num_key_value_heads") == 0) continue;  // As many as heads.
      expect_error(bad.dump(), std::string("\"") + key + "\" is ");
    }
    json bad = good;
    bad.erase(key);
    if (std::strcmp(key, "num_key_value_heads") == 0) continue;
    expect_error(bad.dump(), std::string("\"") + key + "\" is missing");
  }
  json bad = good;
  bad["num_key_value_heads"] = 5;
  expect_error(bad.dump(), "it must divide num_attention_heads, 32");
  bad = good;
  bad["hidden_size"] = 4097;
  expect_error(bad.dump(), "\"hidden_size\" is 4097; give head_dim");
  bad = good;
  bad["head_dim"] = "128";
  expect_error(bad.dump(), "\"head_dim\" is \"128\"");
  bad = good;
  bad["rope_scaling"]["rope_type"] = "magic";
  expect_error(bad.dump(), "\"rope_scaling.rope_type\" is \"magic\"");
  bad["rope_scaling"] = 7;
  expect_error(bad.dump(), "\"rope_scaling\" is 7");
  bad["rope_scaling"] = json::object();
  expect_error(bad.dump(), "\"rope_scaling.rope_type\" is missing");
  bad["rope_scaling"] = {{"rope_type", "yarn"}, {"original_max_position_embeddings", 4096}};
  expect_error(bad.dump(), "\"rope_scaling.factor\" is missing");
  bad["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
  expect_error(bad.dump(), "\"original_max_position_embeddings\" is missing");
  for (const char* value : {"-1", "0", "\"x\"", "[]"}) {
    bad = good;
    bad["rope_theta"] = json::parse(value);
    expect_error(bad.dump(), "\"rope_theta\" is ");
    bad = good;
    bad["partial_rotary_factor"] = json::parse(value);
    expect_error(bad.dump(), "\"partial_rotary_factor\" is ");
  }
  bad = good;
  bad["partial_rotary_factor"] = 1.5;
  expect_error(bad.dump(), "at most 1");
  bad = good;
  bad["text_config"] = 3;
  expect_error(bad.dump(), "\"text_config\" is 3");
  bad["text_config"] = {{"model_type", "gemma3_text"}};
  expect_error(bad.dump(), "\"text_config.num_hidden_layers\" is missing");
}

TEST(HfConfig, BadWindowsAreNamed) {
  json good = json::parse(kLlama31);
  good["model_type"] = "mistral";
  good["sliding_window"] = 4096;
  for (const char* value : {"-1", "0", "1.5", "true", "\"x\"", "[]"}) {
    json bad = good;
    bad["sliding_window"] = json::parse(value);
    expect_error(bad.dump(), "\"sliding_window\" is ");
  }
  json bad = good;
  bad["layer_types"] = {"full_attention"};
  expect_error(bad.dump(), "\"layer_types\" is an array of 1; give one name for each of 32 layers");
  bad["layer_types"] = std::vector<std::string>(32, "linear_attention");
  expect_error(bad.dump(), "\"layer_types[0]\" is \"linear_attention\"");
  bad["layer_types"] = std::vector<int>(32, 1);
  expect_error(bad.dump(), "\"layer_types[0]\" is 1");
  bad = good;
  bad["model_type"] = "qwen2";
  bad["use_sliding_window"] = 1;
  expect_error(bad.dump(), "\"use_sliding_window\" is 1; give true or false");
  bad["model_type"] = "gemma3_text";
  bad["sliding_window_pattern"] = 0;
  expect_error(bad.dump(), "\"sliding_window_pattern\" is 0");
}

TEST(HfConfig, AnUnknownArchitectureIsNamed) {
  expect_error("{}", "\"model_type\" is missing; known are llama");
  expect_error(R"({"model_type": "mamba"})", "\"model_type\" is \"mamba\"; known are llama");
  expect_error(R"({"model_type": 5})", "\"model_type\" is 5");
  expect_error(R"({"architectures": ["BertModel"]})", "\"architectures\" is \"BertModel\"");
  expect_error(R"({"architectures": []})", "\"architectures\" is an array of 0");
  expect_error(R"({"architectures": [[]]})", "\"architectures\" is an array of 1");
  expect_error(R"({"architectures": "LlamaForCausalLM"})", "\"architectures\" is ");
}

TEST(HfConfig, WhatIsNoConfigIsRefused) {
  for (const char* text : {"", " ", "{", "hello", "\xff\xfe", "{\"a\": 1} x", "{\"a\": \xc3}"})
    expect_error(text, "not JSON");
  for (const char* text : {"7", "null", "[1, 2]", "\"x\"", "true"}) expect_error(text, "not an object");
  const size_t kMany = 1'000'000;
  expect_error(std::string(kMany, '['), "nested deeper than 64 levels");
  expect_error(R"({"num_hidden_layers": )" + std::string(kMany, '['), "nested deeper");
  std::string objects;
  for (size_t i = 0; i < kMany / 5; ++i) objects += "{\"a\":";
  expect_error(objects, "nested deeper");
  expect_error("\"" + std::string(kMany, 'x') + "\"", "not an object");
  expect_error(R"({"model_type": ")" + std::string(kMany, 'x') + "\"}", "\"model_type\" is \"xxx");
  std::string garbage(kMany, '\0');
  std::mt19937 random(7);
  for (char& c : garbage) c = static_cast<char>(random());
  expect_error(garbage, "not JSON");
}

TEST(HfConfig, JsonIsReadAsRfc8259HasIt) {
  const json good = json::parse(kLlama31);
  const std::string text = good.dump(), rest = text.substr(1);
  EXPECT_EQ(read(" \t\r\n" + good.dump(4) + " \n").num_layers, 32u);
  EXPECT_EQ(
      read("{\"unread\": [-0, 1e3, 1.5E-7, {}, [], [[true, false], null], \"\\u00e9\\\\\\\"\"], " + rest)
          .num_layers,
      32u);
  EXPECT_EQ(read("{\"num_hidden_layers\": 7, " + rest).num_layers, 32u) << "the last of a name counts";
  EXPECT_EQ(read(R"({"\u005fname_or_path": "a\/b\u0041\u00e9\n\"", )" + rest).name, std::string("a/bA??\""));
  EXPECT_EQ(read("{\"unread\": " + std::string(63, '[') + std::string(63, ']') + "," + rest).num_layers, 32u);
  expect_error("{\"unread\": " + std::string(64, '[') + std::string(64, ']') + "," + rest, "nested deeper");
  for (const char* bad :
       {"01",    "-",    "+1",    ".5",     "1.",        "1e",          "1e+",         "NaN",     "Infinity",
        "-inf",  "tru",  "nulll", "'x'",    "\"x",       "\"\\x\"",     "\"\\u12g4\"", "\"\\",    "\"\n\"",
        "[1 2]", "[1,]", "[,]",   "{1: 2}", "{\"a\" 1}", "{\"a\": 1,}", "[}",          "// x\n1", ""})
    expect_error(std::string("{\"unread\": ") + bad + "," + rest, "not JSON");
  for (const char* huge : {"1e400", "-1e400", "1e-400"}) {
    std::string changed = text;
    changed.replace(changed.find("500000.0"), 8, huge);
    expect_error(changed, std::string("\"rope_theta\" is ") + huge);
  }
  kvc_model model;
  EXPECT_EQ(kvc_model_from_config(nullptr, 5, &model), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_model_from_config(text.data(), text.size(), nullptr), KVC_ERROR_INVALID_ARGUMENT);
  model.struct_size = 0;
  EXPECT_EQ(kvc_model_from_config(text.data(), text.size(), &model), KVC_ERROR_INVALID_ARGUMENT);
  // A text that is cut where its size says is not read beyond that.
  model.struct_size = sizeof model;
  EXPECT_EQ(kvc_model_from_config(std::vector<char>(text.begin(), text.end()).data(), text.size(), &model),
            KVC_OK);
}

TEST(HfConfig, NoCutOrChangedConfigCrashes) {
  const std::string good = kLlama31;
  for (size_t end = 0; end < good.size(); ++end) expect_error(good.substr(0, end), "not JSON");
  std::mt19937 random(11);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = good;
    for (uint32_t i = 0, count = 1 + random() % 4; i < count; ++i)
      changed[random() % changed.size()] = "0123456789-.\"[]{},:eanx "[random() % 24];
    kvc_model model;
    if (const kvc_status status = read(changed, &model); status == KVC_OK) {
      ++accepted;
      EXPECT_GE(model.num_layers, 1u);
      kvc_memory_query query{};
      query.struct_size = sizeof query;
      query.model = &model;
      query.tokens = 1;
      kvc_memory_estimate estimate{};
      estimate.struct_size = sizeof estimate;
      EXPECT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error() << '\n' << changed;
    } else {
      EXPECT_EQ(status, KVC_ERROR_INVALID_ARGUMENT);
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace kvc
