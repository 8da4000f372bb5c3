// SPDX-License-Identifier: Apache-2.0
// How a storage quantizes, read from its configuration: scales, channel keys, Hadamard transform.
#include <bit>

#include "api/storage_handle.h"

namespace kvc {
namespace {

constexpr uint32_t kLeastGroup = 4;
constexpr uint32_t kDefaultResidualBlocks = 64;

// k_scale and v_scale: whether there may be any, and which there are.
kvc_status read_factors(const kvc_storage_config& config, bool integers, LayoutShape* shape) {
  KVC_TRY(check_factor("kvc_storage_config.k_scale", config.k_scale));
  KVC_TRY(check_factor("kvc_storage_config.v_scale", config.v_scale));
  const bool given = config.k_scale != 0 || config.v_scale != 0;
  if (shape->latent && config.v_scale != 0)
    return invalid("v_scale is %g: latent rows have k_scale alone", static_cast<double>(config.v_scale));
  if (given && (!is_quantized(shape->dtype) || config.scale_group != 0 || shape->asymmetric ||
                shape->channel_tokens != 0)) {
    return invalid(
        "k_scale and v_scale are for fp8, int8 and int4 without scale_group, asymmetry and channel "
        "keys: leave them 0");
  }
  if (given && integers && (config.k_scale == 0 || (config.v_scale == 0 && !shape->latent))) {
    return invalid("k_scale is %g, v_scale is %g: %s needs both, or neither for scales in the blocks",
                   static_cast<double>(config.k_scale), static_cast<double>(config.v_scale),
                   dtype_name(shape->dtype));
  }
  const bool fp8 = is_quantized(shape->dtype) && !integers;
  if (!given && (!fp8 || config.scale_group != 0)) return KVC_OK;
  shape->k_factor = config.k_scale != 0 ? config.k_scale : 1;
  if (!shape->latent) shape->v_factor = config.v_scale != 0 ? config.v_scale : 1;
  return KVC_OK;
}

kvc_status read_channel_keys(const kvc_storage_config& config, bool integers, LayoutShape* shape) {
  if ((config.flags & KVC_STORAGE_CHANNEL_KEYS) == 0) {
    if (config.channel_tokens == 0 && config.residual_blocks == 0) return KVC_OK;
    return invalid("channel_tokens is %u and residual_blocks %u; they need KVC_STORAGE_CHANNEL_KEYS",
                   config.channel_tokens, config.residual_blocks);
  }
  if (!integers || shape->latent) {
    return fail(KVC_ERROR_UNSUPPORTED, "channel keys need int8 or int4 and no latent rows; the type is %s%s",
                dtype_name(shape->dtype), shape->latent ? ", latent" : "");
  }
  if (shape->block_size > kMaxPageTokens) {
    return fail(KVC_ERROR_UNSUPPORTED, "channel keys in blocks of %u tokens; at most %u", shape->block_size,
                kMaxPageTokens);
  }
  shape->channel_tokens = config.channel_tokens == 0 ? shape->block_size : config.channel_tokens;
  if (shape->block_size % shape->channel_tokens != 0) {
    return invalid("channel_tokens is %u; a divisor of block_size, %u", shape->channel_tokens,
                   shape->block_size);
  }
  if (config.residual_blocks > kMaxResidualBlocks)
    return invalid("residual_blocks is %u; at most %u", config.residual_blocks, kMaxResidualBlocks);
  return KVC_OK;
}

}  // namespace

kvc_status check_factor(const char* name, float factor) {
  if (factor == 0 || (factor >= kLeastFactor && factor <= kMostFactor)) return KVC_OK;
  return invalid("%s is %g; 0, or %g .. %g", name, static_cast<double>(factor),
                 static_cast<double>(kLeastFactor), static_cast<double>(kMostFactor));
}

kvc_status read_quantization(const kvc_storage_config& config, LayoutShape* shape) {
  const bool quantized = is_quantized(config.dtype);
  const bool integers = config.dtype == KVC_INT8 || config.dtype == KVC_INT4;
  if (config.scale_group != 0 && !quantized)
    return invalid("scale_group is %u, but %s has no scales", config.scale_group, dtype_name(config.dtype));
  if (config.scale_group != 0 && config.scale_group < kLeastGroup)
    return invalid("scale_group is %u; at least %u", config.scale_group, kLeastGroup);
  shape->asymmetric = (config.flags & KVC_STORAGE_ASYMMETRIC) != 0;
  if (shape->asymmetric && !integers) return invalid("%s has no asymmetric form", dtype_name(config.dtype));
  shape->hadamard = (config.flags & KVC_STORAGE_HADAMARD) != 0;
  if (shape->hadamard && (!quantized || shape->latent || !std::has_single_bit(config.head_dim) ||
                          !std::has_single_bit(config.v_head_dim))) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "KVC_STORAGE_HADAMARD needs a quantized type, powers of two as head_dim and v_head_dim, and no "
        "latent rows; they are %s, %u, %u%s",
        dtype_name(config.dtype), config.head_dim, config.v_head_dim, shape->latent ? ", latent" : "");
  }
  KVC_TRY(read_channel_keys(config, integers, shape));
  KVC_TRY(read_factors(config, integers, shape));
  if (!quantized || shape->k_factor != 0) return KVC_OK;
  const uint32_t longest = std::max(config.head_dim, config.v_head_dim);
  shape->scale_group = config.scale_group == 0 ? longest : std::min(config.scale_group, longest);
  return KVC_OK;
}

uint32_t residual_blocks_of(const kvc_storage_config& config, const Layout& layout) {
  if (layout.channel_tokens == 0) return 0;
  const uint32_t wanted = config.residual_blocks == 0 ? kDefaultResidualBlocks : config.residual_blocks;
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, layout.num_blocks));
}

}  // namespace kvc
