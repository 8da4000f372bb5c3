// SPDX-License-Identifier: Apache-2.0
// The estimate is linear in blocks until the window is full, and linear again after that. Both inverses are
// divisions, so they are exact.
#include "models/memory.h"

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

uint32_t count_window_layers(const kvc_model& model) {
  if (model.window_tokens == 0) return 0;
  int count = 0;
  for (const uint64_t bits : model.window_layers) count += std::popcount(bits);
  return count == 0 ? model.num_layers : static_cast<uint32_t>(count);
}

// Most blocks that a full window, or chunk of local attention, and the chunk being written span; UINT64_MAX
// if that overflows, which no sequence reaches. A window of 1 counts as 2, as in a manager.
uint64_t window_span(uint64_t window, uint64_t chunk, uint64_t block_size) {
  size_t tokens, span;
  if (!checked_add(std::max<uint64_t>(window, 2) - 1, chunk - 1, &tokens)) return UINT64_MAX;
  return checked_add(ceil_div(tokens, block_size), 1, &span) ? span : UINT64_MAX;
}

// Most blocks per sequence, in both groups, that fit into `bytes`.
uint64_t blocks_within(uint64_t bytes, uint64_t full, uint64_t window, uint64_t span) {
  const uint64_t before = bytes / (full + window);
  if (window == 0 || before < span) return before;
  return full == 0 ? UINT64_MAX : (bytes - span * window) / full;
}

// Divides what a budget leaves for blocks among the pools.
void size_pools(uint64_t bytes, kvc_memory_estimate* out) {
  const uint64_t full = out->full_block_bytes, window = out->window_block_bytes;
  if (full == 0 || window == 0 || full == window) {
    out->pool_blocks = bytes / std::max(full, window);
    return;
  }
  if (bytes < window || bytes - window < full) return;
  // Both products fit 64 bits: estimate_memory() has checked the bytes of a sequence.
  const uint64_t needed = out->window_blocks * window;
  const __uint128_t share = static_cast<__uint128_t>(bytes) * needed / (needed + out->full_blocks * full);
  out->window_pool_blocks =
      std::clamp<uint64_t>(static_cast<uint64_t>(share) / window, 1, (bytes - full) / window);
  out->pool_blocks = (bytes - out->window_pool_blocks * window) / full;
}

}  // namespace

kvc_status check_model(const kvc_model& model) {
  KVC_REQUIRE_RANGE(model.num_layers, 1, KVC_MODEL_MAX_LAYERS);
  KVC_REQUIRE_RANGE(model.num_kv_heads, 1, kMaxDim);
  KVC_REQUIRE_RANGE(model.head_dim, model.latent_dim != 0 ? 0 : 1, kMaxDim);
  KVC_REQUIRE_RANGE(model.v_head_dim, 0, kMaxDim);
  KVC_REQUIRE_RANGE(model.latent_dim, 0, kMaxDim);
  if (model.num_q_heads % model.num_kv_heads != 0) {
    return invalid("model.num_q_heads is %u; it must be a multiple of num_kv_heads, %u, or 0",
                   model.num_q_heads, model.num_kv_heads);
  }
  if (model.latent_dim != 0 && model.num_kv_heads != 1) {
    return invalid(
        "model.num_kv_heads is %u; with latent_dim %u there is one latent row for all heads: set it "
        "to 1",
        model.num_kv_heads, model.latent_dim);
  }
  if (model.window_kind > KVC_GROUP_CHUNKED_LOCAL || model.reserved != 0) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "model.window_kind is %u and model.reserved %u; the kind is 0, 1 (sliding window) or 2 "
                "(chunked local), the other is 0",
                model.window_kind, model.reserved);
  }
  for (uint32_t i = 0; i < std::size(model.window_layers); ++i) {
    const uint64_t bits = model.window_layers[i];
    if (bits == 0) continue;
    const uint32_t last = i * 64 + 63 - static_cast<uint32_t>(std::countl_zero(bits));
    if (last >= model.num_layers)
      return invalid("model.window_layers names layer %u of %u layers", last, model.num_layers);
    if (model.window_tokens == 0)
      return invalid("model.window_layers names layer %u, but window_tokens is 0; set both or neither", last);
  }
  return KVC_OK;
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
  const uint64_t chunk = query.chunk_tokens == 0 ? 1 : query.chunk_tokens;

  const uint32_t v_dim = model.v_head_dim == 0 ? model.head_dim : model.v_head_dim;
  const auto layer_bytes = [&](uint64_t of_tokens) {
    if (model.latent_dim != 0) return of_tokens * element.row_bytes(model.latent_dim);
    return model.num_kv_heads *
           (element.key_bytes(model.head_dim, of_tokens) + of_tokens * element.row_bytes(v_dim));
  };

  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  estimate.num_window_layers = count_window_layers(model);
  estimate.num_full_layers = model.num_layers - estimate.num_window_layers;
  estimate.bytes_per_token = model.num_layers * layer_bytes(1);
  estimate.full_block_bytes = estimate.num_full_layers * layer_bytes(block_size);
  estimate.window_block_bytes = estimate.num_window_layers * layer_bytes(block_size);
  if (query.channel_keys != 0) {
    estimate.residual_bytes = uint64_t{block_size} * model.num_layers * model.num_kv_heads * model.head_dim *
                              (dtype_bits(KVC_BFLOAT16) / 8);
  }

  const uint64_t blocks = ceil_div(tokens, block_size);
  const uint64_t span =
      model.window_tokens == 0 ? UINT64_MAX : window_span(model.window_tokens, chunk, block_size);
  if (estimate.num_full_layers != 0) estimate.full_blocks = blocks;
  if (estimate.num_window_layers != 0) estimate.window_blocks = std::min(blocks, span);

  size_t full_bytes, window_bytes;
  if (!checked_mul(estimate.full_blocks, estimate.full_block_bytes, &full_bytes) ||
      !checked_mul(estimate.window_blocks, estimate.window_block_bytes, &window_bytes) ||
      !checked_add(full_bytes, window_bytes, &estimate.sequence_bytes) ||
      !checked_add(estimate.sequence_bytes, estimate.residual_bytes, &estimate.sequence_bytes)) {
    return invalid(
        "%llu tokens in blocks of %llu + %llu bytes are more than 2^64 - 1 bytes; ask for fewer tokens",
        ull(tokens), ull(estimate.full_block_bytes), ull(estimate.window_block_bytes));
  }
  if (!checked_mul(num_sequences, estimate.sequence_bytes, &estimate.total_bytes)) {
    return invalid("%llu sequences of %llu bytes are more than 2^64 - 1 bytes; ask for fewer sequences",
                   ull(num_sequences), ull(estimate.sequence_bytes));
  }
  if (query.budget_bytes != 0) {
    const uint64_t share = query.budget_bytes / num_sequences;
    const uint64_t most = blocks_within(share - std::min(share, estimate.residual_bytes),
                                        estimate.full_block_bytes, estimate.window_block_bytes, span);
    // A token has at least one byte, so the product only overflows for "any number".
    estimate.max_tokens = most == UINT64_MAX ? most : most * block_size;
    estimate.max_sequences = query.budget_bytes / estimate.sequence_bytes;
    estimate.budget_bytes = query.budget_bytes;
    // Residual blocks of all sequences: less than total_bytes, so the product fits.
    const uint64_t residual = num_sequences * estimate.residual_bytes;
    size_pools(query.budget_bytes - std::min(query.budget_bytes, residual), &estimate);
  }
  *out = estimate;
  return KVC_OK;
}

}  // namespace kvc
