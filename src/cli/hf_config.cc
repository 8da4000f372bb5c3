// SPDX-License-Identifier: Apache-2.0
// One table row per architecture says what its configs leave out and how they write down windows.
#include "cli/hf_config.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/errors.h"
#include "cli/json_section.h"

namespace kvcli {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr uint64_t kMaxDim = 65536;
constexpr uint64_t kMaxHidden = uint64_t{1} << 24;
constexpr uint64_t kMaxTokens = uint64_t{1} << 40;

// Defaults that are no numbers.
constexpr uint64_t kRequired = Section::kRequired;
constexpr uint64_t kSameAsHeads = UINT64_MAX;
constexpr uint64_t kFromHidden = UINT64_MAX;

enum class Windows {
  kNever,         // The architecture has none, whatever the config says.
  kAllLayers,     // sliding_window, if it is a number, holds for every layer.
  kIfSwitchedOn,  // use_sliding_window, then for layers from max_window_layers on.
  kEverySixth,    // All but every sliding_window_pattern-th layer.
  kEverySecond    // All but every second layer.
};

// What holds if a config does not say it.
struct Architecture {
  const char* model_type;
  const char* class_name;  // In "architectures", for configs without a model_type.
  Windows windows = Windows::kNever;
  uint64_t window = 0;  // 0 = none
  bool latent = false;
  uint64_t heads = kRequired;
  uint64_t kv_heads = kRequired;
  uint64_t head_dim = kRequired;
  uint64_t vocab = kRequired;
  uint64_t context = kRequired;
  double rope_theta = 1e4;
  double rope_local_theta = 0;
};

constexpr Architecture gemma3(const char* model_type, const char* class_name) {
  return {.model_type = model_type,  // The multimodal configs state only what differs from these.
          .class_name = class_name,
          .windows = Windows::kEverySixth,
          .window = 4096,
          .heads = 8,
          .kv_heads = 4,
          .head_dim = 256,
          .vocab = 262208,
          .context = 131072,
          .rope_theta = 1e6,
          .rope_local_theta = 1e4};
}

constexpr Architecture kArchitectures[] = {
    {.model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .kv_heads = kSameAsHeads,
     .head_dim = kFromHidden},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .windows = Windows::kAllLayers,
     .window = 4096,
     .head_dim = kFromHidden},
    {.model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .windows = Windows::kAllLayers,
     .head_dim = kFromHidden,
     .rope_theta = 1e6},
    {.model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .windows = Windows::kAllLayers,
     .kv_heads = kSameAsHeads,
     .head_dim = kFromHidden},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .windows = Windows::kIfSwitchedOn,
     .window = 4096,
     .head_dim = kFromHidden},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .windows = Windows::kIfSwitchedOn,
     .window = 4096},
    {.model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .windows = Windows::kIfSwitchedOn,
     .window = 4096},
    {.model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .windows = Windows::kEverySecond,
     .window = 4096},
    gemma3("gemma3_text", "Gemma3ForCausalLM"),
    gemma3("gemma3", "Gemma3ForConditionalGeneration"),
    {.model_type = "deepseek_v3", .class_name = "DeepseekV3ForCausalLM", .latent = true},
    {.model_type = "gpt_oss",
     .class_name = "GptOssForCausalLM",
     .windows = Windows::kEverySecond,
     .window = 128,
     .rope_theta = 1.5e5},
};

const Architecture& find_architecture(const Section& outer, const Section& config) {
  const std::string* type = config.text("model_type");
  if (type == nullptr) type = outer.text("model_type");
  const std::string* class_name = nullptr;
  if (const json* names = outer.find("architectures"); type == nullptr && names != nullptr) {
    if (!names->is_array() || names->empty() || !names->front().is_string())
      outer.fail("architectures", "is " + shown(*names), "give an array with one class name");
    class_name = names->front().get_ptr<const std::string*>();
  }
  for (const Architecture& architecture : kArchitectures) {
    if (type != nullptr ? *type == architecture.model_type
                        : class_name != nullptr && *class_name == architecture.class_name)
      return architecture;
  }
  std::string known = "known are";
  for (const Architecture& architecture : kArchitectures) known += std::string(" ") + architecture.model_type;
  if (type != nullptr) config.fail("model_type", "is " + shown(*type), known);
  if (class_name != nullptr) outer.fail("architectures", "is " + shown(*class_name), known);
  outer.fail("model_type", "is missing", known);
}

void read_heads(const Section& config, const Architecture& architecture, kvc_model& model) {
  const auto heads =
      static_cast<uint32_t>(config.whole_or("num_attention_heads", 1, kMaxDim, architecture.heads));
  model.num_q_heads = heads;
  if (architecture.latent) {
    const auto latent = static_cast<uint32_t>(config.whole("kv_lora_rank", 1, kMaxDim / 2));
    model.rope_dim = static_cast<uint32_t>(config.whole("qk_rope_head_dim", 1, kMaxDim / 2));
    model.head_dim = static_cast<uint32_t>(config.whole("qk_nope_head_dim", 1, kMaxDim / 2)) + model.rope_dim;
    model.v_head_dim = static_cast<uint32_t>(config.whole("v_head_dim", 1, kMaxDim));
    model.latent_dim = latent + model.rope_dim;
    model.num_kv_heads = 1;  // What the config counts are the heads that are made of the latent row.
    return;
  }
  model.num_kv_heads = static_cast<uint32_t>(
      config.whole_or("num_key_value_heads", 1, kMaxDim,
                      architecture.kv_heads == kSameAsHeads ? heads : architecture.kv_heads));
  if (heads % model.num_kv_heads != 0) {
    config.fail("num_key_value_heads", "is " + std::to_string(model.num_kv_heads),
                "it must divide num_attention_heads, " + std::to_string(heads));
  }
  if (architecture.head_dim == kFromHidden && config.find("head_dim") == nullptr) {
    const uint64_t hidden = config.whole("hidden_size", 1, kMaxHidden);
    if (hidden % heads != 0 || hidden / heads > kMaxDim) {
      config.fail("hidden_size", "is " + std::to_string(hidden),
                  "give head_dim, or a multiple of num_attention_heads, " + std::to_string(heads));
    }
    model.head_dim = static_cast<uint32_t>(hidden / heads);
  } else {
    model.head_dim = static_cast<uint32_t>(config.whole_or(
        "head_dim", 1, kMaxDim, architecture.head_dim == kFromHidden ? kRequired : architecture.head_dim));
  }
  model.v_head_dim = model.head_dim;
  const double rotated = config.positive_or("partial_rotary_factor", 1);
  if (rotated > 1) {
    config.fail("partial_rotary_factor", "is " + shown(*config.find("partial_rotary_factor")),
                "give the share of a head, at most 1");
  }
  model.rope_dim = static_cast<uint32_t>(model.head_dim * rotated);
}

/// Whether a layer has the window, from "layer_types", which newer configs spell out.
std::vector<bool> read_layer_types(const Section& config, const json& types, uint32_t num_layers) {
  if (!types.is_array() || types.size() < num_layers) {
    config.fail("layer_types", "is " + shown(types),
                "give one name for each of " + std::to_string(num_layers) + " layers");
  }
  std::vector<bool> windowed;
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    const bool window = types[layer] == "sliding_attention";
    if (!window && types[layer] != "full_attention") {
      config.fail("layer_types[" + std::to_string(layer) + "]", "is " + shown(types[layer]),
                  "known are sliding_attention and full_attention");
    }
    windowed.push_back(window);
  }
  return windowed;
}

std::vector<bool> windowed_layers(const Section& config, const Architecture& architecture,
                                  uint32_t num_layers) {
  if (const json* types = config.find("layer_types"); types != nullptr)
    return read_layer_types(config, *types, num_layers);
  uint64_t first = 0, period = 0;
  switch (architecture.windows) {
    case Windows::kNever:
    case Windows::kAllLayers:
      break;
    case Windows::kIfSwitchedOn:
      first = config.whole_or("max_window_layers", 0, UINT32_MAX, 28);
      break;
    case Windows::kEverySixth: {
      const char* key = config.find("sliding_window_pattern") != nullptr ? "sliding_window_pattern"
                                                                         : "_sliding_window_pattern";
      period = config.whole_or(key, 1, UINT32_MAX, 6);
      break;
    }
    case Windows::kEverySecond:
      period = 2;
      break;
  }
  std::vector<bool> windowed;
  for (uint32_t layer = 0; layer < num_layers; ++layer)
    windowed.push_back(layer >= first && (period == 0 || (layer + 1) % period != 0));
  return windowed;
}

void read_window(const Section& config, const Architecture& architecture, kvc_model& model) {
  if (architecture.windows == Windows::kNever) return;
  if (architecture.windows == Windows::kIfSwitchedOn && !config.flag_or("use_sliding_window", false)) return;
  uint64_t window = config.has("sliding_window") ? 0 : architecture.window;
  if (config.find("sliding_window") != nullptr) window = config.whole("sliding_window", 1, kMaxTokens);
  if (window == 0 || window >= model.max_context) return;  // It hides nothing.
  const std::vector<bool> windowed = windowed_layers(config, architecture, model.num_layers);
  for (uint32_t layer = 0; layer < model.num_layers; ++layer) {
    if (!windowed[layer]) continue;
    model.window_layers[layer / 64] |= uint64_t{1} << layer % 64;
    model.window_tokens = window;
  }
}

void read_yarn(const Section& scaling, kvc_model& model) {
  model.rope_low_rotations = scaling.positive_or("beta_slow", 1);
  model.rope_high_rotations = scaling.positive_or("beta_fast", 32);
  if (!scaling.flag_or("truncate", true)) model.rope_flags |= KVC_MODEL_ROPE_EXACT_RAMP;
  const double mscale = scaling.positive_or("mscale", 0), of_all = scaling.positive_or("mscale_all_dim", 0);
  if (model.rope_attention_factor != 0 || mscale == 0 || of_all == 0) return;
  const double log = model.rope_factor > 1 ? 0.1 * std::log(model.rope_factor) : 0;
  model.rope_attention_factor = (mscale * log + 1) / (of_all * log + 1);
}

void read_scaling(const Section& config, const Section& scaling, kvc_model& model) {
  struct Kind {
    const char* name;
    uint32_t value;
  };
  constexpr Kind kKinds[] = {{"default", KVC_ROPE_NONE},    {"linear", KVC_ROPE_LINEAR},
                             {"dynamic", KVC_ROPE_DYNAMIC}, {"yarn", KVC_ROPE_YARN},
                             {"llama3", KVC_ROPE_LLAMA3},   {"longrope", KVC_ROPE_LONGROPE},
                             {"su", KVC_ROPE_LONGROPE}};  // Its first name.
  const char* key = scaling.find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string* name = scaling.text(key);
  if (name == nullptr) scaling.fail("rope_type", "is missing", "give default, linear, dynamic, yarn, ...");
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& candidate) { return *name == candidate.name; });
  if (kind == std::end(kKinds)) {
    scaling.fail(key, "is " + shown(*name), "known are default, linear, dynamic, yarn, llama3 and longrope");
  }
  model.rope_scaling = kind->value;
  if (kind->value == KVC_ROPE_NONE) return;
  model.rope_attention_factor = scaling.positive_or("attention_factor", 0);
  const char* original = "original_max_position_embeddings";
  const Section& holder = scaling.find(original) != nullptr ? scaling : config;
  const bool needed = kind->value >= KVC_ROPE_YARN;
  if (needed || holder.find(original) != nullptr)
    model.rope_original_context = holder.whole(original, 1, kMaxTokens);
  if (kind->value == KVC_ROPE_LONGROPE) {
    model.rope_factor =
        static_cast<double>(model.max_context) / static_cast<double>(model.rope_original_context);
    return;
  }
  if (scaling.find("factor") == nullptr) scaling.fail("factor", "is missing", "give a number above 0");
  model.rope_factor = scaling.positive_or("factor", 0);
  if (kind->value == KVC_ROPE_LLAMA3) {
    model.rope_low_rotations = scaling.positive_or("low_freq_factor", 1);
    model.rope_high_rotations = scaling.positive_or("high_freq_factor", 4);
  } else if (kind->value == KVC_ROPE_YARN) {
    read_yarn(scaling, model);
  }
}

const json& object_at(const Section& section, const char* key, const json& value) {
  if (!value.is_object()) section.fail(key, "is " + shown(value), "give an object or null");
  return value;
}

void read_rope(const Section& config, const Architecture& architecture, kvc_model& model) {
  model.rope_theta = config.positive_or("rope_theta", architecture.rope_theta);
  if (architecture.rope_local_theta != 0)
    model.rope_local_theta = config.positive_or("rope_local_base_freq", architecture.rope_local_theta);
  if (const json* scaling = config.find("rope_scaling"); scaling != nullptr)
    read_scaling(config, config.inner("rope_scaling", object_at(config, "rope_scaling", *scaling)), model);

  // transformers 5 keeps all of it in one place, by kind of layer where kinds differ.
  const json* parameters = config.find("rope_parameters");
  if (parameters == nullptr) return;
  const Section all = config.inner("rope_parameters", object_at(config, "rope_parameters", *parameters));
  const json* full = all.find("full_attention");
  const json* local = all.find("sliding_attention");
  if (full == nullptr) {
    model.rope_theta = all.positive_or("rope_theta", model.rope_theta);
    read_scaling(config, all, model);
    return;
  }
  const Section of_full = all.inner("full_attention", object_at(all, "full_attention", *full));
  model.rope_theta = of_full.positive_or("rope_theta", model.rope_theta);
  read_scaling(config, of_full, model);
  if (local == nullptr) return;
  const Section of_local = all.inner("sliding_attention", object_at(all, "sliding_attention", *local));
  model.rope_local_theta = of_local.positive_or("rope_theta", model.rope_local_theta);
}

/// A name for reports, of printable ASCII.
void set_name(const std::string& from, kvc_model& model) {
  const size_t size = std::min(from.size(), sizeof model.name - 1);
  for (size_t i = 0; i < size; ++i) model.name[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
}

}  // namespace

kvc_model parse_hf_config(const std::string& text, const std::string& source) {
  const json root = parse_json(text, source);
  if (!root.is_object())
    throw InputError(source + ": " + shown(root) + " and not an object; give the config.json of a model");
  const Section outer(root, source);
  const json* inner = outer.find("text_config");  // Of models that also see or hear.
  const Section config =
      inner == nullptr ? outer : outer.inner("text_config", object_at(outer, "text_config", *inner));
  const Architecture& architecture = find_architecture(outer, config);

  kvc_model model{};
  model.struct_size = sizeof model;
  const std::string* name = outer.text("_name_or_path");
  set_name(name != nullptr && !name->empty() ? *name : architecture.model_type, model);
  model.num_layers = static_cast<uint32_t>(config.whole("num_hidden_layers", 1, KVC_MODEL_MAX_LAYERS));
  model.vocab_size = static_cast<uint32_t>(config.whole_or("vocab_size", 1, INT32_MAX, architecture.vocab));
  model.max_context = config.whole_or("max_position_embeddings", 1, kMaxTokens, architecture.context);
  read_heads(config, architecture, model);
  read_window(config, architecture, model);
  read_rope(config, architecture, model);
  return model;
}

kvc_model read_hf_config(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string source = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  std::ifstream file(source, std::ios::binary);
  if (!file) throw InputError(source + ": " + std::strerror(errno) + "; give a readable config.json");
  std::string text;
  char part[4096];
  while (file.read(part, sizeof part), file.gcount() > 0) {
    text.append(part, static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes)
      throw InputError(source + ": longer than 16 MiB; give the config.json of a model");
  }
  return parse_hf_config(text, source);
}

}  // namespace kvcli
