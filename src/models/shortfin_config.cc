// SPDX-License-Identifier: Apache-2.0
#include "models/shortfin_config.h"

#include <kvcache/manager.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "base/dtype.h"
#include "base/status.h"

namespace kvc {
namespace {

constexpr uint32_t kMostHeads = 65536;
constexpr uint32_t kMostHeadDim = 8192;
constexpr uint32_t kMostPageTokens = 1024;
constexpr uint64_t kMostTokens = uint64_t{1} << 30;
constexpr size_t kMostDevices = 64;
constexpr const char* kCache = "paged_kv_cache";

// The names that both PyTorch and Shortfin give them. Those with "fnuz" have other values for the same bits.
struct NamedDtype {
  const char* name;
  int32_t dtype;
};
constexpr NamedDtype kShortfinDtypes[] = {{"float32", KVC_FLOAT32},
                                          {"float16", KVC_FLOAT16},
                                          {"bfloat16", KVC_BFLOAT16},
                                          {"float8_e4m3fn", KVC_FLOAT8_E4M3},
                                          {"float8_e5m2", KVC_FLOAT8_E5M2}};

// Older files have no kv_cache_dtype: attn_dtype, or float16.
int32_t read_dtype(const Section& config, const Section& cache) {
  const bool of_cache = cache.find("kv_cache_dtype").has_value();
  const Section& holder = of_cache ? cache : config;
  const char* key = of_cache ? "kv_cache_dtype" : "attn_dtype";
  const std::optional<Json> name = holder.text(key);
  if (!name) return KVC_FLOAT16;
  const auto* found = std::find_if(std::begin(kShortfinDtypes), std::end(kShortfinDtypes),
                                   [&](const NamedDtype& known) { return name->says(known.name); });
  if (found == std::end(kShortfinDtypes))
    holder.refuse(key, *name, "stored are float32, float16, bfloat16, float8_e4m3fn and float8_e5m2");
  return found->dtype;
}

// A device holds whole layers (the stages of a pipeline), all heads of each.
std::vector<uint32_t> read_devices(const Section& cache, const ShortfinConfig& config) {
  const char* key = "paged_kv_block_size_elements_per_device";
  const uint32_t num_layers = config.model.num_layers;
  const std::optional<Json> list = cache.find(key);
  if (!list) return {num_layers};  // older files, of one device
  if (!list->is_array() || list->size() == 0 || list->size() > kMostDevices)
    cache.refuse(key, *list, "give the elements of a page for each of 1 .. 64 devices");
  const uint64_t layer = uint64_t{2} * config.model.num_kv_heads * config.model.head_dim * config.block_size;
  const std::string fix = "give a multiple of the " + std::to_string(layer) +
                          " elements of a layer (2 * heads * head dim * tokens of a page), " +
                          std::to_string(num_layers) + " layers in all";
  std::vector<uint32_t> layers;
  uint64_t left = num_layers;
  list->each([&](const Json&, const Json& value) {
    const uint64_t elements = value.whole().value_or(0);
    if (elements == 0 || elements % layer != 0 || elements / layer > left)
      cache.refuse(std::string(key) + "[" + std::to_string(layers.size()) + "]", value, fix);
    layers.push_back(static_cast<uint32_t>(elements / layer));
    left -= layers.back();
    return true;
  });
  if (left != 0) cache.fail(key, "has " + std::to_string(num_layers - left) + " layers", fix);
  return layers;
}

}  // namespace

bool is_shortfin_config(const Section& config) { return config.has(kCache); }

ShortfinConfig read_shortfin_config(const Section& config) {
  const std::optional<Section> cache = config.section(kCache);
  if (!cache) config.fail(kCache, "is missing", "give the config of a model with a paged KV cache");
  ShortfinConfig out{};
  kvc_model& model = out.model;
  model.struct_size = sizeof model;
  const std::optional<Json> given = config.text("module_name");
  std::string name = given ? given->printable(sizeof model.name - 1) : "";
  if (name.empty()) name = "module";
  std::memcpy(model.name, name.data(), name.size());
  model.num_layers = config.whole32("transformer_block_count", KVC_MODEL_MAX_LAYERS);
  model.num_kv_heads = cache->whole32("attention_head_count_kv", kMostHeads);
  model.head_dim = model.v_head_dim = model.rope_dim = config.whole32("attn_head_dim", kMostHeadDim);
  model.max_context = config.whole("max_seq_len", kMostTokens);
  out.block_size = cache->whole32("block_seq_stride", kMostPageTokens);
  out.num_blocks = cache->whole("device_block_count", KVC_MAX_BLOCKS);
  out.dtype = read_dtype(config, *cache);
  out.device_layers = read_devices(*cache, out);
  return out;
}

kvc_status parse_shortfin_config(std::string_view text, ShortfinConfig* out) {
  Json root;
  KVC_TRY(Json::parse(text, &root));
  if (!root.is_object()) {
    return invalid("the JSON is %s, not an object; give the config.json that sharktank wrote for Shortfin",
                   root.shown().c_str());
  }
  try {
    *out = read_shortfin_config(Section(root));
  } catch (const Section::Refused&) {
    return KVC_ERROR_INVALID_ARGUMENT;
  }
  return KVC_OK;
}

}  // namespace kvc
