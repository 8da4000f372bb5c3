// SPDX-License-Identifier: Apache-2.0
// models.def as a constant table, checked at compile time, and the search for names of all models.
#include "models/registry.h"

#include <kvcache/manager.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "models/registered.h"

namespace kvc {
namespace {

// Layers l with l % kv_every == kv_offset have keys and values, the others a state; kv_every 0 = no states.
struct StateLayers {
  uint32_t kv_every = 0, kv_offset = 0;
  uint64_t conv_elements = 0, recurrent_elements = 0;
};

struct Entry {
  const char* name;
  const char* aliases;
  const char* source;
  uint32_t num_layers, num_q_heads, num_kv_heads, head_dim, v_head_dim, latent_dim, rope_dim, vocab_size;
  uint64_t max_context, window_tokens;
  uint32_t full_every;
  double rope_theta, rope_local_theta;
  uint32_t rope_scaling;
  double rope_factor;
  uint64_t rope_original_context;
  double rope_attention_factor = 0;
  uint32_t rope_flags = 0;
  uint32_t window_kind = 0;
  double rope_high_rotations = 0;
  StateLayers states = {};
  uint64_t encoder_tokens = 0;  // every layer reads them, by heads as its own
};

// What a layer keeps of its past in place of keys and values, by the numbers of its configuration.
constexpr StateLayers mamba(uint32_t kv_every, uint32_t kv_offset, uint64_t inner, uint64_t kernel,
                            uint64_t state) {
  return {kv_every, kv_offset, inner * (kernel - 1), inner * state};
}
constexpr StateLayers delta_net(uint32_t kv_every, uint32_t kv_offset, uint64_t key_heads,
                                uint64_t value_heads, uint64_t key_dim, uint64_t value_dim, uint64_t kernel) {
  return {kv_every, kv_offset, (2 * key_heads * key_dim + value_heads * value_dim) * (kernel - 1),
          value_heads * key_dim * value_dim};
}

constexpr Entry kEntries[] = {
#define KVC_MODEL(...) {__VA_ARGS__},
#include "models/models.def"
#undef KVC_MODEL
};

constexpr std::string_view kSourceHead = "https://huggingface.co/";
constexpr std::string_view kSourceTail = "/raw/main/config.json";

constexpr bool well_formed(const Entry& entry) {
  const std::string_view source = entry.source;
  return std::string_view(entry.name).size() < sizeof(kvc_model::name) && source.starts_with(kSourceHead) &&
         source.ends_with(kSourceTail) && entry.num_layers > 0 && entry.num_layers <= KVC_MODEL_MAX_LAYERS &&
         entry.num_q_heads % entry.num_kv_heads == 0 && entry.window_tokens < entry.max_context;
}
static_assert(std::all_of(std::begin(kEntries), std::end(kEntries), well_formed));

// "owner/name" on the hub.
constexpr std::string_view repository(const Entry& entry) {
  const std::string_view source = entry.source;
  return source.substr(kSourceHead.size(), source.size() - kSourceHead.size() - kSourceTail.size());
}

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Calls function(alias) until it returns true.
template <typename Function>
bool any_alias(const Entry& entry, Function&& function) {
  std::string_view rest = entry.aliases;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (function(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

constexpr size_t kLongestGuess = 128;  // Longer texts are similar to no name.

bool contains(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char x, char y) { return lower(x) == lower(y); }) != text.end();
}

// Edit distance of two nonempty texts. It is smaller if one contains the other, since names often have a
// suffix more or less ("-instruct").
size_t distance(std::string_view a, std::string_view b) {
  if (contains(a, b) || contains(b, a))
    return (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) + 3) / 4;
  size_t row[kLongestGuess + 1];
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

size_t preset_count() { return std::size(kEntries); }

size_t model_count() { return preset_count() + registered_count(); }

std::string_view preset_source(size_t index) { return kEntries[index].source; }

kvc_model model_at(size_t index) {
  if (index >= preset_count()) return registered_at(index - preset_count());
  const Entry& entry = kEntries[index];
  kvc_model model = {};
  model.struct_size = sizeof model;
  std::memcpy(model.name, entry.name, std::strlen(entry.name));
  model.num_layers = entry.num_layers;
  model.num_q_heads = entry.num_q_heads;
  model.num_kv_heads = entry.num_kv_heads;
  model.head_dim = entry.head_dim;
  model.v_head_dim = entry.v_head_dim;
  model.latent_dim = entry.latent_dim;
  model.rope_dim = entry.rope_dim != 0 || entry.rope_theta == 0 ? entry.rope_dim : entry.head_dim;
  model.vocab_size = entry.vocab_size;
  model.max_context = entry.max_context;
  model.window_tokens = entry.window_tokens;
  for (uint32_t layer = 0; layer < entry.num_layers && entry.window_tokens != 0; ++layer) {
    const bool full = entry.full_every != 0 && (layer + 1) % entry.full_every == 0;
    if (!full) model.window_layers[layer / 64] |= uint64_t{1} << layer % 64;
  }
  const StateLayers& states = entry.states;
  model.conv_elements = states.conv_elements;
  model.recurrent_elements = states.recurrent_elements;
  for (uint32_t layer = 0; layer < entry.num_layers && states.kv_every != 0; ++layer) {
    if (layer % states.kv_every != states.kv_offset)
      model.state_layers[layer / 64] |= uint64_t{1} << layer % 64;
  }
  if (entry.encoder_tokens != 0) {
    model.num_cross_layers = entry.num_layers;
    model.cross_tokens = entry.encoder_tokens;
    model.cross_kv_heads = entry.num_kv_heads;
    model.cross_head_dim = entry.head_dim;
  }
  model.rope_theta = entry.rope_theta;
  model.rope_local_theta = entry.rope_local_theta;
  model.rope_factor = entry.rope_factor;
  model.rope_original_context = entry.rope_original_context;
  model.rope_scaling = entry.rope_scaling;
  model.rope_flags = entry.rope_flags;
  model.window_kind = entry.window_kind;
  model.rope_attention_factor = entry.rope_attention_factor;
  if (entry.rope_scaling == KVC_ROPE_LLAMA3 || entry.rope_scaling == KVC_ROPE_YARN) {  // as in all presets
    model.rope_low_rotations = 1;
    model.rope_high_rotations = entry.rope_high_rotations != 0          ? entry.rope_high_rotations
                                : entry.rope_scaling == KVC_ROPE_LLAMA3 ? 4
                                                                        : 32;
  }
  return model;
}

size_t find_preset(std::string_view name) {
  const auto found = std::find_if(std::begin(kEntries), std::end(kEntries), [&](const Entry& entry) {
    return same_name(name, entry.name) || same_name(name, repository(entry)) ||
           any_alias(entry, [&](std::string_view alias) { return same_name(name, alias); });
  });
  return found == std::end(kEntries) ? kNoModel : static_cast<size_t>(found - std::begin(kEntries));
}

size_t find_model(std::string_view name) {
  if (const size_t preset = find_preset(name); preset != kNoModel) return preset;
  const size_t index = find_registered(name);
  return index == kNotRegistered ? kNoModel : preset_count() + index;
}

size_t near_models(std::string_view name, ModelName* names, size_t capacity) {
  if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (name.empty() || name.size() > kLongestGuess) return 0;
  size_t distances[std::size(kEntries) + KVC_MODEL_MAX_REGISTERED];
  const size_t num_models = model_count();
  for (size_t i = 0; i < std::size(kEntries); ++i) {
    size_t best = distance(name, kEntries[i].name);
    any_alias(kEntries[i], [&](std::string_view alias) {
      best = std::min(best, distance(name, alias));
      return false;
    });
    distances[i] = best;
  }
  for (size_t i = preset_count(); i < num_models; ++i) distances[i] = distance(name, model_at(i).name);
  size_t count = 0;
  for (; count < capacity; ++count) {
    const size_t i = static_cast<size_t>(std::min_element(distances, distances + num_models) - distances);
    if (distances[i] * 2 > name.size()) break;  // More than half of the name differs.
    std::memcpy(names[count], model_at(i).name, sizeof names[count]);
    distances[i] = SIZE_MAX / 2;
  }
  return count;
}

}  // namespace kvc
