// SPDX-License-Identifier: Apache-2.0
// A table has, for each architecture, the defaults of its configs and the form of its windows and states.
#include "models/hf_config.h"

#include <kvcache/manager.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/status.h"
#include "models/json.h"
#include "models/shortfin_config.h"

namespace kvc {
namespace {

using Layers = std::bitset<KVC_MODEL_MAX_LAYERS>;

constexpr uint32_t kMaxConfigDim = 65536;
constexpr uint32_t kMaxHidden = 1u << 24;
constexpr uint64_t kMaxTokens = uint64_t{1} << 40;

// Special defaults.
constexpr uint64_t kRequired = Section::kRequired;
constexpr uint64_t kSameAsHeads = UINT64_MAX;
constexpr uint64_t kFromHidden = UINT64_MAX;

enum class Windows {
  kNever,         // The architecture has none.
  kAllLayers,     // sliding_window holds for every layer.
  kIfSwitchedOn,  // With use_sliding_window: layers from max_window_layers on.
  kEverySixth,    // All but every sliding_window_pattern-th layer.
  kEverySecond,   // All but every second layer.
  kChunks         // attention_chunk_size, in the layers that rotate: all but every fourth one.
};

enum class StateKind {
  kNone,
  kMamba,    // All but every attn_layer_period-th layer.
  kMamba2,   // By layer_types.
  kDeltaNet  // By layer_types, or all but every full_attention_interval-th layer.
};

// Defaults for fields that a config omits.
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
  double rotated = 1;       // share of a head
  double rope_theta = 1e4;  // 0 = it does not rotate
  double rope_local_theta = 0;
  StateKind states = StateKind::kNone;
  bool decoder = false;  // of an encoder-decoder model
};

constexpr Architecture gemma3(const char* model_type, const char* class_name) {
  return {.model_type = model_type,  // Multimodal configs have only what differs.
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
    {.model_type = "llama4_text",
     .class_name = "Llama4ForCausalLM",
     .windows = Windows::kChunks,
     .window = 8192,
     .head_dim = 128,
     .rope_theta = 5e5},
    {.model_type = "llama4",
     .class_name = "Llama4ForConditionalGeneration",
     .windows = Windows::kChunks,
     .window = 8192,
     .heads = 40,
     .kv_heads = 8,
     .head_dim = 128,
     .vocab = 202048,
     .context = 131072,
     .rope_theta = 5e5},
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
    {.model_type = "phi",
     .class_name = "PhiForCausalLM",
     .kv_heads = kSameAsHeads,
     .head_dim = kFromHidden,
     .rotated = 0.5},
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
    {.model_type = "jamba",
     .class_name = "JambaForCausalLM",
     .kv_heads = 8,
     .head_dim = kFromHidden,
     .context = 262144,
     .rope_theta = 0,
     .states = StateKind::kMamba},
    {.model_type = "qwen3_next",
     .class_name = "Qwen3NextForCausalLM",
     .head_dim = 256,
     .rotated = 0.25,
     .states = StateKind::kDeltaNet},
    {.model_type = "granitemoehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .kv_heads = kSameAsHeads,
     .head_dim = kFromHidden,
     .states = StateKind::kMamba2},
    {.model_type = "whisper",
     .class_name = "WhisperForConditionalGeneration",
     .vocab = 51865,
     .context = 448,
     .decoder = true},
};

const Architecture& find_architecture(const Section& outer, const Section& config) {
  std::optional<Json> type = config.text("model_type"), class_name;
  if (!type) type = outer.text("model_type");
  if (const std::optional<Json> names = outer.find("architectures"); !type && names) {
    if (names->is_array()) {
      names->each([&](const Json&, const Json& first) {
        class_name = first;
        return false;
      });
    }
    if (!class_name || !class_name->is_string())
      outer.refuse("architectures", *names, "give an array with one class name");
  }
  for (const Architecture& architecture : kArchitectures) {
    if (type ? type->says(architecture.model_type) : class_name && class_name->says(architecture.class_name))
      return architecture;
  }
  std::string known = "known are";
  for (const Architecture& architecture : kArchitectures) known += std::string(" ") + architecture.model_type;
  if (type) config.refuse("model_type", *type, known);
  if (class_name) outer.refuse("architectures", *class_name, known);
  outer.fail("model_type", "is missing", known);
}

void read_heads(const Section& config, const Architecture& architecture, kvc_model& model) {
  const uint32_t heads = config.whole32("num_attention_heads", kMaxConfigDim, architecture.heads);
  model.num_q_heads = heads;
  if (architecture.latent) {
    model.latent_dim = config.whole32("kv_lora_rank", kMaxConfigDim / 2);
    model.rope_dim = config.whole32("qk_rope_head_dim", kMaxConfigDim / 2);
    model.latent_dim += model.rope_dim;
    model.head_dim = config.whole32("qk_nope_head_dim", kMaxConfigDim / 2) + model.rope_dim;
    model.v_head_dim = config.whole32("v_head_dim", kMaxConfigDim);
    model.num_kv_heads = 1;  // The config counts the heads that are computed from it.
    return;
  }
  model.num_kv_heads = config.whole32("num_key_value_heads", kMaxConfigDim,
                                      architecture.kv_heads == kSameAsHeads ? heads : architecture.kv_heads);
  if (heads % model.num_kv_heads != 0) {
    config.fail("num_key_value_heads", "is " + std::to_string(model.num_kv_heads),
                "it must divide num_attention_heads, " + std::to_string(heads));
  }
  const bool from_hidden = architecture.head_dim == kFromHidden;
  if (from_hidden && !config.find("head_dim")) {
    const uint32_t hidden = config.whole32("hidden_size", kMaxHidden);
    if (hidden % heads != 0 || hidden / heads > kMaxConfigDim) {
      config.fail("hidden_size", "is " + std::to_string(hidden),
                  "give head_dim, or a multiple of num_attention_heads, " + std::to_string(heads));
    }
    model.head_dim = hidden / heads;
  } else {
    model.head_dim =
        config.whole32("head_dim", kMaxConfigDim, from_hidden ? kRequired : architecture.head_dim);
  }
  model.v_head_dim = model.head_dim;
  const double rotated = config.positive_or("partial_rotary_factor", architecture.rotated);
  if (rotated > 1) {
    config.refuse("partial_rotary_factor", *config.find("partial_rotary_factor"),
                  "give the share of a head, at most 1");
  }
  model.rope_dim = static_cast<uint32_t>(model.head_dim * rotated);
}

// Layers that are `local`, from "layer_types" of newer configs; the others are `global`.
Layers read_layer_types(const Section& config, const Json& types, uint32_t num_layers, const char* local,
                        const char* global = "full_attention") {
  if (!types.is_array() || types.size() < num_layers) {
    config.refuse("layer_types", types,
                  "give one name for each of " + std::to_string(num_layers) + " layers");
  }
  Layers named;
  uint32_t layer = 0;
  types.each([&](const Json&, const Json& type) {
    named[layer] = type.says(local);
    if (!named[layer] && !type.says(global)) {
      config.refuse("layer_types[" + std::to_string(layer) + "]", type,
                    "known are " + std::string(local) + " and " + global);
    }
    return ++layer < num_layers;
  });
  return named;
}

// Layers that rotate, and so have chunks, from "no_rope_layers" (which names them by 1, whatever it is
// called).
Layers read_rotating(const Section& config, const Json& list, uint32_t num_layers) {
  if (!list.is_array() || list.size() < num_layers)
    config.refuse("no_rope_layers", list,
                  "give 0 or 1 for each of " + std::to_string(num_layers) + " layers");
  Layers rotating;
  uint32_t layer = 0;
  list.each([&](const Json&, const Json& rotates) {
    const std::optional<uint64_t> value = rotates.whole();
    if (!value || *value > 1)
      config.refuse("no_rope_layers[" + std::to_string(layer) + "]", rotates, "give 0 or 1");
    rotating[layer] = *value != 0;
    return ++layer < num_layers;
  });
  return rotating;
}

Layers windowed_layers(const Section& config, const Architecture& architecture, uint32_t num_layers) {
  if (const std::optional<Json> types = config.find("layer_types"))
    return read_layer_types(
        config, *types, num_layers,
        architecture.windows == Windows::kChunks ? "chunked_attention" : "sliding_attention");
  const std::optional<Json> rotating = config.find("no_rope_layers");
  if (architecture.windows == Windows::kChunks && rotating &&
      !(rotating->is_array() && rotating->size() == 0))
    return read_rotating(config, *rotating, num_layers);
  uint64_t first = 0, period = 0;
  if (architecture.windows == Windows::kIfSwitchedOn) {
    first = config.whole("max_window_layers", UINT32_MAX, 28, 0);
  } else if (architecture.windows == Windows::kEverySixth) {
    const char* key = "sliding_window_pattern";
    period = config.whole(config.find(key) ? key : "_sliding_window_pattern", UINT32_MAX, 6);
  } else if (architecture.windows == Windows::kEverySecond) {
    period = 2;
  } else if (architecture.windows == Windows::kChunks) {
    period = config.whole("no_rope_layer_interval", UINT32_MAX, 4);
  }
  Layers windowed;
  for (uint32_t layer = 0; layer < num_layers; ++layer)
    windowed[layer] = layer >= first && (period == 0 || (layer + 1) % period != 0);
  return windowed;
}

void read_window(const Section& config, const Architecture& architecture, kvc_model& model) {
  if (architecture.windows == Windows::kNever) return;
  if (architecture.windows == Windows::kIfSwitchedOn && !config.flag_or("use_sliding_window", false)) return;
  const bool chunks = architecture.windows == Windows::kChunks;
  const char* key = chunks ? "attention_chunk_size" : "sliding_window";
  uint64_t window = config.has(key) ? 0 : architecture.window;
  if (config.find(key)) window = config.whole(key, kMaxTokens);
  if (window == 0 || (window >= model.max_context && !chunks)) return;  // It covers the whole context.
  const Layers windowed = windowed_layers(config, architecture, model.num_layers);
  for (uint32_t layer = 0; layer < model.num_layers; ++layer) {
    if (!windowed[layer]) continue;
    model.window_layers[layer / 64] |= uint64_t{1} << layer % 64;
    model.window_tokens = window;
  }
  if (!chunks || model.window_tokens == 0) return;
  model.window_kind = KVC_GROUP_CHUNKED_LOCAL;
  model.rope_flags |= KVC_MODEL_ROPE_WINDOW_ONLY;
}

Layers state_layers(const Section& config, StateKind states, uint32_t num_layers) {
  uint64_t period = 0, offset = 0;  // of the layers with attention
  if (states == StateKind::kMamba) {
    period = config.whole("attn_layer_period", UINT32_MAX, 8);
    offset = config.whole("attn_layer_offset", UINT32_MAX, 4, 0);
    if (offset >= period) {
      config.fail("attn_layer_offset", "is " + std::to_string(offset),
                  "it must be below attn_layer_period, " + std::to_string(period));
    }
  } else {
    const bool mamba = states == StateKind::kMamba2;
    if (const std::optional<Json> types = config.find("layer_types")) {
      return read_layer_types(config, *types, num_layers, mamba ? "mamba" : "linear_attention",
                              mamba ? "attention" : "full_attention");
    }
    if (mamba) config.fail("layer_types", "is missing", "give mamba or attention for each layer");
    period = config.whole("full_attention_interval", UINT32_MAX, 4);
    offset = period - 1;
  }
  Layers stateful;
  for (uint32_t layer = 0; layer < num_layers; ++layer) stateful[layer] = layer % period != offset;
  return stateful;
}

// The elements follow vLLM's MambaStateShapeCalculator.
void read_states(const Section& config, StateKind states, kvc_model& model) {
  if (states == StateKind::kNone) return;
  constexpr uint64_t kMostExpand = 64, kMostKernel = 1024, kMostElements = uint64_t{1} << 32;
  uint64_t channels = 0, kernel = 0, recurrent = 0;
  if (states == StateKind::kDeltaNet) {
    const uint64_t key_dim = config.whole("linear_key_head_dim", kMaxConfigDim, 128);
    const uint64_t value_dim = config.whole("linear_value_head_dim", kMaxConfigDim, 128);
    const uint64_t value_heads = config.whole("linear_num_value_heads", kMaxConfigDim, 32);
    channels =
        2 * config.whole("linear_num_key_heads", kMaxConfigDim, 16) * key_dim + value_heads * value_dim;
    kernel = config.whole("linear_conv_kernel_dim", kMostKernel, 4);
    recurrent = value_heads * key_dim * value_dim;
  } else {
    const bool second = states == StateKind::kMamba2;
    const uint64_t state = config.whole("mamba_d_state", kMaxConfigDim, second ? 256 : 16);
    channels = config.whole("hidden_size", kMaxHidden) * config.whole("mamba_expand", kMostExpand, 2);
    kernel = config.whole("mamba_d_conv", kMostKernel, 4);
    recurrent = channels * state;
    if (second) channels += 2 * config.whole("mamba_n_groups", kMaxConfigDim, 1) * state;
  }
  if (channels * (kernel - 1) > kMostElements || recurrent > kMostElements) {
    config.fail(states == StateKind::kDeltaNet ? "linear_value_head_dim" : "mamba_d_state",
                "gives a layer " + std::to_string(std::max(channels * (kernel - 1), recurrent)) +
                    " elements of state",
                "at most 2^32");
  }
  const Layers stateful = state_layers(config, states, model.num_layers);
  if (stateful.none()) return;
  model.conv_elements = channels * (kernel - 1);
  model.recurrent_elements = recurrent;
  for (uint32_t layer = 0; layer < model.num_layers; ++layer)
    if (stateful[layer]) model.state_layers[layer / 64] |= uint64_t{1} << layer % 64;
}

// The decoder of Whisper: each layer also reads the keys and values of the encoder's tokens.
void read_decoder(const Section& config, const Architecture& architecture, kvc_model& model) {
  const uint32_t heads = config.whole32("decoder_attention_heads", kMaxConfigDim);
  const uint32_t width = config.whole32("d_model", kMaxHidden);
  if (width % heads != 0 || width / heads > kMaxConfigDim) {
    config.fail("d_model", "is " + std::to_string(width),
                "give a multiple of decoder_attention_heads, " + std::to_string(heads));
  }
  model.num_layers = model.num_cross_layers = config.whole32("decoder_layers", KVC_MODEL_MAX_LAYERS);
  model.num_q_heads = model.num_kv_heads = model.cross_kv_heads = heads;
  model.head_dim = model.v_head_dim = model.cross_head_dim = width / heads;
  model.max_context = config.whole("max_target_positions", kMaxTokens, architecture.context);
  model.cross_tokens = config.whole("max_source_positions", kMaxTokens, 1500);
}

// Whether keys rotate. Granite says it by a word.
bool rotates_keys(const Section& config, const Architecture& architecture) {
  if (architecture.states != StateKind::kMamba2) return architecture.rope_theta != 0;
  const char* key = "position_embedding_type";
  const std::optional<Json> type = config.text(key);
  if (type && !type->says("rope") && !type->says("nope"))
    config.refuse(key, *type, "known are rope and nope");
  return type && type->says("rope");
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
                             {"su", KVC_ROPE_LONGROPE}};  // Its former name.
  const char* key = scaling.find("rope_type") ? "rope_type" : "type";
  const std::optional<Json> name = scaling.text(key);
  if (!name) scaling.fail("rope_type", "is missing", "give default, linear, dynamic, yarn, ...");
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& candidate) { return name->says(candidate.name); });
  if (kind == std::end(kKinds)) {
    scaling.refuse(key, *name, "known are default, linear, dynamic, yarn, llama3 and longrope");
  }
  model.rope_scaling = kind->value;
  if (kind->value == KVC_ROPE_NONE) return;
  model.rope_attention_factor = scaling.positive_or("attention_factor", 0);
  const char* original = "original_max_position_embeddings";
  const Section& holder = scaling.find(original) ? scaling : config;
  const bool needed = kind->value >= KVC_ROPE_YARN;
  if (needed || holder.find(original)) model.rope_original_context = holder.whole(original, kMaxTokens);
  if (kind->value == KVC_ROPE_LONGROPE) {
    model.rope_factor =
        static_cast<double>(model.max_context) / static_cast<double>(model.rope_original_context);
    return;
  }
  if (!scaling.find("factor")) scaling.fail("factor", "is missing", "give a number above 0");
  model.rope_factor = scaling.positive_or("factor", 0);
  if (kind->value == KVC_ROPE_LLAMA3) {
    model.rope_low_rotations = scaling.positive_or("low_freq_factor", 1);
    model.rope_high_rotations = scaling.positive_or("high_freq_factor", 4);
  } else if (kind->value == KVC_ROPE_YARN) {
    read_yarn(scaling, model);
  }
}

void read_rope(const Section& config, const Architecture& architecture, kvc_model& model) {
  model.rope_theta = config.positive_or("rope_theta", architecture.rope_theta);
  if (architecture.rope_local_theta != 0)
    model.rope_local_theta = config.positive_or("rope_local_base_freq", architecture.rope_local_theta);
  if (const std::optional<Section> scaling = config.section("rope_scaling"))
    read_scaling(config, *scaling, model);

  // transformers 5 has all of it in one object, or in one per kind of layer.
  const std::optional<Section> all = config.section("rope_parameters");
  if (!all) return;
  const std::optional<Section> full = all->section("full_attention"),
                               local = all->section("sliding_attention");
  const Section& global = full ? *full : *all;
  model.rope_theta = global.positive_or("rope_theta", model.rope_theta);
  read_scaling(config, global, model);
  if (full && local) model.rope_local_theta = local->positive_or("rope_theta", model.rope_local_theta);
}

kvc_model read_config(const Section& outer) {
  const std::optional<Section> inner = outer.section("text_config");  // Multimodal models.
  const Section& config = inner ? *inner : outer;
  const Architecture& architecture = find_architecture(outer, config);

  kvc_model model{};
  model.struct_size = sizeof model;
  const std::optional<Json> given = outer.text("_name_or_path");
  std::string name = given ? given->printable(sizeof model.name - 1) : "";
  if (name.empty()) name = architecture.model_type;
  std::memcpy(model.name, name.data(), name.size());
  model.vocab_size = config.whole32("vocab_size", INT32_MAX, architecture.vocab);
  if (architecture.decoder) {
    read_decoder(config, architecture, model);
    return model;
  }
  model.num_layers = config.whole32("num_hidden_layers", KVC_MODEL_MAX_LAYERS);
  model.max_context = config.whole("max_position_embeddings", kMaxTokens, architecture.context);
  read_heads(config, architecture, model);
  read_window(config, architecture, model);
  read_states(config, architecture.states, model);
  if (rotates_keys(config, architecture))
    read_rope(config, architecture, model);
  else
    model.rope_dim = 0;
  return model;
}

}  // namespace

kvc_status parse_hf_config(std::string_view text, kvc_model* out) {
  Json root;
  KVC_TRY(Json::parse(text, &root));
  if (!root.is_object())
    return invalid("the JSON is %s, not an object; give the config.json of a model", root.shown().c_str());
  try {
    const Section config(root);
    *out = is_shortfin_config(config) ? read_shortfin_config(config).model : read_config(config);
  } catch (const Section::Refused&) {
    return KVC_ERROR_INVALID_ARGUMENT;
  }
  return KVC_OK;
}

}  // namespace kvc
