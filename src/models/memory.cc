// SPDX-License-Identifier: Apache-2.0
// The memory of a sequence never shrinks while it grows, so what fits a budget is found by bisection. Sums of
// bytes have 128 bits: no product of them overflows within the limits of a model.
#include "models/memory.h"

#include <kvcache/manager.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/status.h"

namespace kvc {
namespace {

// Of heads and elements. Within these limits the bytes of a block fit 64 bits.
constexpr uint32_t kMaxDim = 65536;
constexpr uint32_t kMaxBlockSize = 1024;
constexpr uint32_t kDefaultBlockSize = 16;
constexpr uint32_t kScaleBytes = 4;
constexpr uint64_t kMaxStateElements = uint64_t{1} << 32;
constexpr uint64_t kMaxRetention = uint64_t{1} << 32;

kvc_status check_range(const char* what, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return KVC_OK;
  return invalid("%s is %llu; it may be %llu .. %llu", what, ull(value), ull(low), ull(high));
}

#define KVC_REQUIRE_RANGE(value, low, high) KVC_TRY(check_range(#value, value, low, high))

// The size of keys, values and latent rows.
struct Element {
  uint32_t bits;
  uint32_t scale_group;  // UINT32_MAX = one per row; 0 = no scales
  uint32_t scale_bytes;
  uint32_t channel_tokens;  // tokens that share the scales of channels; 0 = keys have scales of rows

  uint64_t row_bytes(uint64_t dim) const {
    const uint64_t scales = scale_group == 0 ? 0 : ceil_div(dim, scale_group) * scale_bytes;
    return ceil_div(dim * bits, 8) + scales;
  }
  // Bytes of the keys of some tokens. A part of a group of tokens counts as its share, rounded up.
  uint64_t key_bytes(uint64_t dim, uint64_t tokens) const {
    if (channel_tokens == 0) return tokens * row_bytes(dim);
    return tokens * ceil_div(dim * bits, 8) + ceil_div(tokens * dim * scale_bytes, channel_tokens);
  }
};

kvc_status find_element(const kvc_memory_query& query, const kvc_model& model, uint32_t block_size,
                        Element* out) {
  const int32_t dtype = query.dtype == 0 ? int32_t{KVC_FLOAT32} : query.dtype;
  if (!is_float(dtype) && !is_quantized(dtype)) {
    return invalid("query.dtype is %d (%s); keys and values are stored as float, fp8, int8 or int4", dtype,
                   dtype_name(dtype));
  }
  if (!is_quantized(dtype) && query.scale_group != 0) {
    return invalid("query.scale_group is %u; %s has no scales: set it to 0", query.scale_group,
                   dtype_name(dtype));
  }
  KVC_REQUIRE_RANGE(query.asymmetric, 0, 1);
  KVC_REQUIRE_RANGE(query.tensor_scales, 0, 1);
  KVC_REQUIRE_RANGE(query.channel_keys, 0, 1);
  const bool is_integer = dtype == KVC_INT8 || dtype == KVC_INT4;
  if (query.tensor_scales != 0 &&
      (!is_quantized(dtype) || query.scale_group != 0 || query.asymmetric != 0 || query.channel_keys != 0)) {
    return invalid(
        "query.tensor_scales is 1; that is for quantized types, and leaves no other scales: set "
        "scale_group, asymmetric and channel_keys to 0");
  }
  if (query.channel_keys != 0 && (!is_integer || model.latent_dim != 0)) {
    return invalid("query.channel_keys is 1; that is for int8 and int4 without latent rows, not %s",
                   dtype_name(dtype));
  }
  const uint32_t channel_tokens = query.channel_tokens == 0 ? block_size : query.channel_tokens;
  if (query.channel_keys != 0 ? block_size % channel_tokens != 0 : query.channel_tokens != 0) {
    return invalid("query.channel_tokens is %u; 0 or, with channel_keys, a divisor of block_size, %u",
                   query.channel_tokens, block_size);
  }
  const bool per_row = query.scale_group == 0 && is_integer && query.tensor_scales == 0;
  const uint32_t scale_group = per_row ? UINT32_MAX : query.scale_group;
  if (query.asymmetric != 0 && scale_group == 0) {
    return invalid("query.asymmetric is 1, but there are no scales with %s%s", dtype_name(dtype),
                   is_quantized(dtype) ? ": set scale_group" : "");
  }
  *out = {dtype_bits(dtype), scale_group, query.asymmetric != 0 ? 2 * kScaleBytes : kScaleBytes,
          query.channel_keys != 0 ? channel_tokens : 0};
  return KVC_OK;
}

using LayerBits = uint64_t[KVC_MODEL_MAX_LAYERS / 64];

uint32_t count_layers(const LayerBits& layers) {
  int count = 0;
  for (const uint64_t bits : layers) count += std::popcount(bits);
  return static_cast<uint32_t>(count);
}

uint32_t count_window_layers(const kvc_model& model) {
  if (model.window_tokens == 0) return 0;
  const uint32_t named = count_layers(model.window_layers);
  return named == 0 ? model.num_layers - count_layers(model.state_layers) : named;
}

// The last layer that the bits name, or -1.
int64_t last_layer(const LayerBits& layers) {
  for (int64_t i = static_cast<int64_t>(std::size(layers)) - 1; i >= 0; --i)
    if (layers[i] != 0) return i * 64 + 63 - std::countl_zero(layers[i]);
  return -1;
}

kvc_status check_layers(const char* field, const LayerBits& layers, uint32_t num_layers) {
  const int64_t last = last_layer(layers);
  if (last < int64_t{num_layers}) return KVC_OK;
  return invalid("model.%s names layer %lld of %u layers", field, static_cast<long long>(last), num_layers);
}

// Most blocks that a full window, or chunk of local attention, and the chunk being written span; UINT64_MAX
// if that overflows, which no sequence reaches. A window of 1 counts as 2, as in a manager.
uint64_t window_span(uint64_t window, uint64_t chunk, uint64_t block_size) {
  const uint64_t behind = ceil_div(std::max<uint64_t>(window, 2) - 1, block_size);
  size_t span;
  return checked_add(behind + 1, ceil_div(chunk - 1, block_size), &span) ? span : UINT64_MAX;
}

using Wide = __uint128_t;

// A group of an estimate: where its numbers are.
struct EstimatedGroup {
  uint64_t kvc_memory_estimate::*block_bytes;
  uint64_t kvc_memory_estimate::*blocks;
  uint64_t kvc_memory_estimate::*pool_blocks;
  uint32_t kvc_memory_estimate::*pool;  // nullptr: the full group's, which is the first
};
constexpr EstimatedGroup kEstimatedGroups[] = {
    {&kvc_memory_estimate::full_block_bytes, &kvc_memory_estimate::full_blocks,
     &kvc_memory_estimate::pool_blocks, nullptr},
    {&kvc_memory_estimate::window_block_bytes, &kvc_memory_estimate::window_blocks,
     &kvc_memory_estimate::window_pool_blocks, &kvc_memory_estimate::window_pool},
    {&kvc_memory_estimate::state_block_bytes, &kvc_memory_estimate::state_blocks,
     &kvc_memory_estimate::state_pool_blocks, &kvc_memory_estimate::state_pool},
    {&kvc_memory_estimate::cross_block_bytes, &kvc_memory_estimate::cross_blocks,
     &kvc_memory_estimate::cross_pool_blocks, &kvc_memory_estimate::cross_pool}};
constexpr size_t kMostPools = std::size(kEstimatedGroups);

struct EstimatedPool {
  uint64_t block_bytes;
  Wide needed;  // most bytes of a sequence while it grows,
  Wide kept;    // and its bytes while it is cached
  uint64_t kvc_memory_estimate::*blocks;
};

// Finds the pool of each group. Returns their number. kept_windows: blocks of a cached sequence in the window
// group.
uint32_t assign_pools(uint64_t kept_windows, kvc_memory_estimate* out, EstimatedPool* pools) {
  uint32_t num_pools = 0;
  for (const EstimatedGroup& group : kEstimatedGroups) {
    const uint64_t bytes = out->*group.block_bytes;
    if (bytes == 0) continue;
    uint32_t pool = 0;
    while (pool < num_pools && pools[pool].block_bytes != bytes) ++pool;
    if (pool == num_pools) {
      pools[num_pools++] = {bytes, 0, 0, pool == 0 ? &kvc_memory_estimate::pool_blocks : group.pool_blocks};
    }
    const bool windows = group.blocks == &kvc_memory_estimate::window_blocks;
    pools[pool].needed += static_cast<Wide>(bytes) * (out->*group.blocks);
    pools[pool].kept += static_cast<Wide>(bytes) * (windows ? kept_windows : out->*group.blocks);
    if (group.pool != nullptr) out->*group.pool = pool;
  }
  return num_pools;
}

// Divides what a budget leaves for blocks among the pools: what `num_sequences` running sequences need, and
// the rest as cached ones keep it. Each pool has at least a block, the first what is left.
void size_pools(uint64_t bytes, uint64_t num_sequences, EstimatedPool* pools, uint32_t num_pools,
                kvc_memory_estimate* out) {
  Wide least = 0, needed = 0, kept = 0;
  for (uint32_t p = 0; p < num_pools; ++p)
    least += pools[p].block_bytes, needed += pools[p].needed, kept += pools[p].kept;
  if (bytes < least) return;
  // A need fits 64 bits: estimate_memory() has checked the bytes of all sequences. What is kept may not.
  const Wide running = std::min<Wide>(bytes, needed * num_sequences);
  int shift = 0;
  while (kept >> shift >> 63 != 0) ++shift;
  const auto share_of = [&](const EstimatedPool& pool) {
    const Wide rest = (bytes - running) * (pool.kept >> shift) / std::max<Wide>(kept >> shift, 1);
    return static_cast<uint64_t>(running * pool.needed / needed + rest);
  };
  uint64_t left = bytes;
  for (uint32_t p = num_pools; p-- > 0;) {
    const EstimatedPool& pool = pools[p];
    least -= pool.block_bytes;  // now of the pools before it
    const uint64_t most = (left - static_cast<uint64_t>(least)) / pool.block_bytes;
    const uint64_t blocks = p == 0 ? most : std::clamp<uint64_t>(share_of(pool) / pool.block_bytes, 1, most);
    out->*pool.blocks = blocks;
    left -= blocks * pool.block_bytes;
  }
}

// The bytes of an element of a part of a state.
kvc_status find_state_type(const char* field, int32_t given, int32_t dtype, uint32_t* bytes) {
  const auto stored = [](int32_t type) {
    return type == KVC_FLOAT32 || type == KVC_FLOAT16 || type == KVC_BFLOAT16;
  };
  if (given == 0) given = dtype == 0 ? int32_t{KVC_FLOAT32} : stored(dtype) ? dtype : int32_t{KVC_BFLOAT16};
  if (!stored(given)) {
    return invalid("query.%s is %d (%s); a state is stored as fp32, fp16 or bf16, or 0 = as dtype", field,
                   given, dtype_name(given));
  }
  *bytes = dtype_bits(given) / 8;
  return KVC_OK;
}

kvc_status find_state_bytes(const kvc_memory_query& query, const kvc_model& model, uint32_t block_size,
                            uint32_t num_layers, uint64_t* out) {
  if (query.checkpoint_tokens % block_size != 0) {
    return invalid("query.checkpoint_tokens is %llu; 0 or a multiple of block_size, %u",
                   ull(query.checkpoint_tokens), block_size);
  }
  uint32_t conv_bytes = 0, recurrent_bytes = 0;
  KVC_TRY(find_state_type("conv_dtype", query.conv_dtype, query.dtype, &conv_bytes));
  KVC_TRY(find_state_type("recurrent_dtype", query.recurrent_dtype, query.dtype, &recurrent_bytes));
  *out = num_layers * (model.conv_elements * conv_bytes + model.recurrent_elements * recurrent_bytes);
  return KVC_OK;
}

kvc_status check_state_layers(const kvc_model& model, uint32_t num_state_layers) {
  KVC_REQUIRE_RANGE(model.conv_elements, 0, kMaxStateElements);
  KVC_REQUIRE_RANGE(model.recurrent_elements, 0, kMaxStateElements);
  const uint64_t elements = model.conv_elements + model.recurrent_elements;
  if (num_state_layers == 0 && elements != 0) {
    return invalid(
        "model.conv_elements is %llu and model.recurrent_elements %llu, but state_layers names no layer; set "
        "both or neither",
        ull(model.conv_elements), ull(model.recurrent_elements));
  }
  if (num_state_layers != 0 && elements == 0) {
    return invalid(
        "model.state_layers names %u layers, but conv_elements and recurrent_elements are 0; give the "
        "elements of a layer's state",
        num_state_layers);
  }
  for (uint32_t i = 0; i < std::size(model.state_layers); ++i) {
    const uint64_t both = model.state_layers[i] & model.window_layers[i];
    if (both == 0) continue;
    return invalid(
        "model.state_layers and window_layers both name layer %u; a layer has a state or a window: clear one "
        "bit",
        i * 64 + static_cast<uint32_t>(std::countr_zero(both)));
  }
  return KVC_OK;
}

kvc_status check_cross_layers(const kvc_model& model) {
  KVC_REQUIRE_RANGE(model.num_cross_layers, 0, KVC_MODEL_MAX_LAYERS);
  const bool cross = model.num_cross_layers != 0;
  const struct {
    const char* name;
    uint64_t value, most;
  } fields[] = {{"cross_tokens", model.cross_tokens, UINT64_MAX},
                {"cross_kv_heads", model.cross_kv_heads, kMaxDim},
                {"cross_head_dim", model.cross_head_dim, kMaxDim}};
  for (const auto& field : fields) {
    if (cross ? field.value != 0 && field.value <= field.most : field.value == 0) continue;
    if (cross) {
      return invalid("model.%s is %llu with num_cross_layers %u; it may be 1 .. %llu", field.name,
                     ull(field.value), model.num_cross_layers, ull(field.most));
    }
    return invalid("model.%s is %llu, but num_cross_layers is 0; set both or neither", field.name,
                   ull(field.value));
  }
  return KVC_OK;
}

}  // namespace

kvc_status check_model(const kvc_model& model) {
  KVC_REQUIRE_RANGE(model.num_layers, 1, KVC_MODEL_MAX_LAYERS);
  KVC_TRY(check_layers("window_layers", model.window_layers, model.num_layers));
  KVC_TRY(check_layers("state_layers", model.state_layers, model.num_layers));
  const uint32_t num_state_layers = count_layers(model.state_layers);
  const uint32_t least = num_state_layers == model.num_layers ? 0 : 1;  // with states alone there are no keys
  KVC_REQUIRE_RANGE(model.num_kv_heads, least, kMaxDim);
  KVC_REQUIRE_RANGE(model.head_dim, model.latent_dim != 0 ? 0 : least, kMaxDim);
  KVC_REQUIRE_RANGE(model.v_head_dim, 0, kMaxDim);
  KVC_REQUIRE_RANGE(model.latent_dim, 0, kMaxDim);
  if (model.num_kv_heads != 0 ? model.num_q_heads % model.num_kv_heads != 0 : model.num_q_heads != 0) {
    return invalid("model.num_q_heads is %u; it must be a multiple of num_kv_heads, %u, or 0",
                   model.num_q_heads, model.num_kv_heads);
  }
  if (model.latent_dim != 0 && model.num_kv_heads != 1) {
    return invalid(
        "model.num_kv_heads is %u; with latent_dim %u there is one latent row for all heads: set it "
        "to 1",
        model.num_kv_heads, model.latent_dim);
  }
  if (model.window_kind > KVC_GROUP_CHUNKED_LOCAL) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "model.window_kind is %u; it is 0, 1 (sliding window) or 2 (chunked local)",
                model.window_kind);
  }
  if (model.window_tokens == 0 && last_layer(model.window_layers) >= 0) {
    return invalid("model.window_layers names layer %lld, but window_tokens is 0; set both or neither",
                   static_cast<long long>(last_layer(model.window_layers)));
  }
  KVC_TRY(check_state_layers(model, num_state_layers));
  if (model.window_tokens != 0 && count_window_layers(model) == 0) {
    return invalid("model.window_tokens is %llu, but all %u layers have a state; set it to 0",
                   ull(model.window_tokens), model.num_layers);
  }
  return check_cross_layers(model);
}

namespace {

// Blocks of the window group to plan for a cached sequence of `blocks` blocks: of those that hits at
// multiples of its retention need a sixth, since the ones far from an end leave first. By `kvcache advise`
// (docs/BENCHMARKS.md).
uint64_t kept_windows(const kvc_memory_query& query, const kvc_model& model, uint32_t block_size,
                      uint64_t blocks, uint64_t window_blocks) {
  constexpr uint64_t kPart = 6;
  const uint64_t retention = window_retention(query, block_size) / block_size;
  if (retention == 0) return window_blocks;
  const uint64_t span = std::min(retention, window_span(model.window_tokens, 1, block_size));
  const auto kept = static_cast<uint64_t>(static_cast<Wide>(blocks) * span / retention / kPart);
  return std::max(window_blocks, kept);
}

// The layers of each kind, the bytes of a token, and those of a block in each group.
kvc_status measure_blocks(const kvc_memory_query& query, const kvc_model& model, uint32_t block_size,
                          const Element& element, kvc_memory_estimate* out) {
  const uint32_t v_dim = model.v_head_dim == 0 ? model.head_dim : model.v_head_dim;
  const auto layer_bytes = [&](uint64_t of_tokens) {
    if (model.latent_dim != 0) return of_tokens * element.row_bytes(model.latent_dim);
    return model.num_kv_heads *
           (element.key_bytes(model.head_dim, of_tokens) + of_tokens * element.row_bytes(v_dim));
  };
  out->num_window_layers = count_window_layers(model);
  out->num_state_layers = count_layers(model.state_layers);
  out->num_cross_layers = model.num_cross_layers;
  out->num_full_layers = model.num_layers - out->num_window_layers - out->num_state_layers;
  if (out->num_window_layers != 0 && window_retention(query, block_size) % block_size != 0) {
    return invalid("query.retention_tokens is %llu; 0, a multiple of block_size, %u, or above 2^32 for none",
                   ull(query.retention_tokens), block_size);
  }
  const uint32_t kv_layers = out->num_full_layers + out->num_window_layers;
  out->bytes_per_token = kv_layers * layer_bytes(1);
  out->full_block_bytes = out->num_full_layers * layer_bytes(block_size);
  out->window_block_bytes = out->num_window_layers * layer_bytes(block_size);
  out->cross_block_bytes = uint64_t{model.num_cross_layers} * model.cross_kv_heads *
                           (element.key_bytes(model.cross_head_dim, block_size) +
                            block_size * element.row_bytes(model.cross_head_dim));
  if (query.channel_keys != 0) {
    const uint64_t rows = uint64_t{kv_layers} * model.num_kv_heads * model.head_dim +
                          uint64_t{model.num_cross_layers} * model.cross_kv_heads * model.cross_head_dim;
    out->residual_bytes = block_size * rows * (dtype_bits(KVC_BFLOAT16) / 8);
  }
  if (out->num_state_layers == 0) return KVC_OK;
  return find_state_bytes(query, model, block_size, out->num_state_layers, &out->state_block_bytes);
}

// One sequence, whose blocks an estimate has.
class Sequence {
 public:
  Sequence(const kvc_memory_query& query, const kvc_model& model, uint32_t block_size,
           kvc_memory_estimate* estimate)
      : query_(query),
        block_size_(block_size),
        span_(model.window_tokens == 0
                  ? UINT64_MAX
                  : window_span(model.window_tokens, query.chunk_tokens == 0 ? 1 : query.chunk_tokens,
                                block_size)),
        estimate_(*estimate) {
    estimate_.cross_blocks = ceil_div(model.cross_tokens, block_size);
  }

  // Sets the most blocks of each group while it grows to so many tokens. Returns their bytes.
  Wide grow(uint64_t tokens) {
    const uint64_t blocks = ceil_div(tokens, block_size_);
    estimate_.full_blocks = estimate_.num_full_layers == 0 ? 0 : blocks;
    estimate_.window_blocks = estimate_.num_window_layers == 0 ? 0 : std::min(blocks, span_);
    if (estimate_.num_state_layers != 0) {
      const uint64_t checkpoints = query_.checkpoint_tokens == 0 ? 0 : tokens / query_.checkpoint_tokens;
      estimate_.state_blocks = std::min<uint64_t>(blocks, 2) + checkpoints;
    }
    Wide bytes = estimate_.residual_bytes;
    for (const EstimatedGroup& group : kEstimatedGroups)
      bytes += static_cast<Wide>(estimate_.*group.block_bytes) * (estimate_.*group.blocks);
    return bytes;
  }

  // To how many tokens it may grow within so many bytes; UINT64_MAX: to any number.
  uint64_t most_tokens(uint64_t bytes) {
    uint64_t fit = 0, most = UINT64_MAX / block_size_;  // in blocks
    if (grow(most * block_size_) <= bytes) return UINT64_MAX;
    while (fit + 1 < most) {
      const uint64_t middle = fit + (most - fit) / 2;
      (grow(middle * block_size_) <= bytes ? fit : most) = middle;
    }
    return fit * block_size_;
  }

 private:
  const kvc_memory_query& query_;
  const uint32_t block_size_;
  const uint64_t span_;  // blocks of a window
  kvc_memory_estimate& estimate_;
};

}  // namespace

uint64_t window_retention(const kvc_memory_query& query, uint32_t block_size) {
  if (query.retention_tokens > kMaxRetention) return 0;
  return query.retention_tokens == 0 ? block_size : query.retention_tokens;
}

kvc_status estimate_memory(const kvc_memory_query& query, const kvc_model& model, kvc_memory_estimate* out) {
  KVC_TRY(check_model(model));
  KVC_REQUIRE_RANGE(query.block_size, 0, kMaxBlockSize);
  const uint32_t block_size = query.block_size == 0 ? kDefaultBlockSize : query.block_size;
  Element element{};
  KVC_TRY(find_element(query, model, block_size, &element));
  const uint64_t tokens = query.tokens == 0 ? model.max_context : query.tokens;
  if (tokens == 0) return invalid("query.tokens and model.max_context are both 0; set one");
  const uint64_t num_sequences = query.num_sequences == 0 ? 1 : query.num_sequences;

  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  KVC_TRY(measure_blocks(query, model, block_size, element, &estimate));
  Sequence sequence(query, model, block_size, &estimate);
  const uint64_t max_tokens =
      query.budget_bytes == 0 ? 0 : sequence.most_tokens(query.budget_bytes / num_sequences);
  const Wide sequence_bytes = sequence.grow(tokens);
  if (sequence_bytes > UINT64_MAX) {
    return invalid(
        "%llu tokens in blocks of %llu (full), %llu (window), %llu (state) and %llu (cross) bytes are more "
        "than 2^64 - 1 bytes; ask for fewer tokens",
        ull(tokens), ull(estimate.full_block_bytes), ull(estimate.window_block_bytes),
        ull(estimate.state_block_bytes), ull(estimate.cross_block_bytes));
  }
  estimate.sequence_bytes = static_cast<uint64_t>(sequence_bytes);
  if (!checked_mul(num_sequences, estimate.sequence_bytes, &estimate.total_bytes)) {
    return invalid("%llu sequences of %llu bytes are more than 2^64 - 1 bytes; ask for fewer sequences",
                   ull(num_sequences), ull(estimate.sequence_bytes));
  }
  EstimatedPool pools[kMostPools] = {};
  estimate.num_pools = assign_pools(
      kept_windows(query, model, block_size, ceil_div(tokens, block_size), estimate.window_blocks), &estimate,
      pools);
  if (query.budget_bytes != 0) {
    estimate.max_tokens = max_tokens;
    estimate.max_sequences = query.budget_bytes / estimate.sequence_bytes;
    estimate.budget_bytes = query.budget_bytes;
    // Residual blocks of all sequences: less than total_bytes, so the product fits.
    const uint64_t residual = num_sequences * estimate.residual_bytes;
    size_pools(query.budget_bytes - std::min(query.budget_bytes, residual), num_sequences, pools,
               estimate.num_pools, &estimate);
  }
  *out = estimate;
  return KVC_OK;
}

}  // namespace kvc
