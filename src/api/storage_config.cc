// SPDX-License-Identifier: Apache-2.0
// A storage's configuration: defaults, ranges, the resulting layout, and the number of blocks in a fraction
// of memory.
#include <kvcache/device.h>

#include "api/storage_handle.h"
#include "layout/parts.h"

namespace kvc {
namespace {

kvc_status check_field(const char* name, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return KVC_OK;
  return invalid("kvc_storage_config.%s is %llu; %llu .. %llu", name, ull{value}, ull{least}, ull{most});
}

kvc_status check_types(const kvc_storage_config& config) {
  const bool quantized = is_quantized(config.dtype);
  if (!quantized && !is_float(config.dtype))
    return invalid(
        "kvc_storage_config.dtype is %d (%s); keys and values are stored as float, fp8, int8 or int4",
        config.dtype, dtype_name(config.dtype));
  constexpr uint32_t kKnown = KVC_STORAGE_LATENT | KVC_STORAGE_TILED_KEYS | KVC_STORAGE_ASYMMETRIC |
                              KVC_STORAGE_NOT_ZEROED | KVC_STORAGE_CHANNEL_KEYS | KVC_STORAGE_HADAMARD;
  if ((config.flags & ~kKnown) != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "storage flags %#x are not supported; clear them, or update the library",
                config.flags & ~kKnown);
  if ((config.flags & KVC_STORAGE_LATENT) != 0 && config.v_head_dim > config.head_dim) {
    return invalid("v_head_dim is %u, more than the %u elements of a latent row", config.v_head_dim,
                   config.head_dim);
  }
  if ((config.flags & KVC_STORAGE_TILED_KEYS) == 0) return KVC_OK;
  const uint32_t tile = 32 / dtype_bits(config.dtype);
  if (quantized || !head_major(config.layout) || config.block_size % kTileTokens != 0 ||
      config.head_dim % tile != 0 || (config.flags & KVC_STORAGE_LATENT) != 0) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "tiled keys need a float type, heads outside tokens, a block_size that is a multiple of %u, a "
        "head_dim that is a multiple of %u, and no latent rows",
        kTileTokens, tile);
  }
  return KVC_OK;
}

}  // namespace

kvc_status read_storage_config(const kvc_storage_config* config, kvc_storage_config* out) {
  KVC_REQUIRE_POINTER(config);
  KVC_TRY(read_struct(config, out));
  if (out->v_head_dim == 0) out->v_head_dim = out->head_dim;
  if (out->block_size == 0) out->block_size = 16;
  if (out->dtype == 0) out->dtype = KVC_FLOAT32;
  if (out->alignment == 0) out->alignment = 64;
  if (out->parallel_for != nullptr && out->num_threads == 0)
    return invalid("kvc_storage_config.parallel_for without num_threads; give the number of its workers");
  if (out->num_threads == 0) out->num_threads = 1;
  const struct {
    const char* name;
    uint64_t value, least, most;
  } ranges[] = {{"num_layers", out->num_layers, 1, 65536},
                {"num_heads", out->num_heads, 1, 65536},
                {"head_dim", out->head_dim, 1, kMaxRowElements},
                {"v_head_dim", out->v_head_dim, 1, kMaxRowElements},
                {"block_size", out->block_size, 1, kMaxBlockTokens},
                {"alignment", out->alignment, 16, 4096},
                {"num_threads", out->num_threads, 1, 256},
                {"layout", out->layout, 0, KVC_LAYOUT_BHLNC},
                {"num_blocks", out->num_blocks, 0, INT32_MAX},
                {"memory_kind", out->memory_kind, 0, KVC_MEMORY_MANAGED}};
  for (const auto& range : ranges) {
    KVC_TRY(check_field(range.name, range.value, range.least, range.most));
  }
  if (out->reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_storage_config.reserved is %u and must be 0", out->reserved);
  if ((out->alignment & (out->alignment - 1)) != 0)
    return invalid("kvc_storage_config.alignment is %u, not a power of two", out->alignment);
  return KVC_OK;
}

kvc_status lay_out(const kvc_storage_config& config, Layout* out) {
  KVC_TRY(check_types(config));
  LayoutShape shape = {};
  shape.preset = config.layout;
  shape.dtype = config.dtype;
  shape.num_layers = config.num_layers;
  shape.num_heads = config.num_heads;
  shape.block_size = config.block_size;
  shape.num_blocks = config.num_blocks;
  shape.k_dim = config.head_dim;
  shape.v_dim = config.v_head_dim;
  shape.latent = (config.flags & KVC_STORAGE_LATENT) != 0;
  shape.tiled_keys = (config.flags & KVC_STORAGE_TILED_KEYS) != 0;
  KVC_TRY(read_quantization(config, &shape));
  shape.alignment = config.alignment;
  *out = make_layout(shape);
  if (out->slab_bytes == 0 && config.num_blocks != 0) {
    return invalid("%llu blocks of %u layers are larger than the address space", ull{config.num_blocks},
                   config.num_layers);
  }
  return KVC_OK;
}

kvc_status count_blocks(const kvc_backend& backend, uint32_t device, kvc_storage_config* config) {
  if (config->memory_fraction == 0) return KVC_OK;
  if (!(config->memory_fraction > 0 && config->memory_fraction <= 1) || config->num_blocks != 0 ||
      config->memory != nullptr) {
    return invalid(
        "kvc_storage_config.memory_fraction is %g; above 0 and at most 1, with num_blocks 0 and no memory",
        static_cast<double>(config->memory_fraction));
  }
  kvc_backend_device info = {};
  KVC_TRY(backend.properties(device, &info));
  if (info.free_bytes == 0)
    return fail(KVC_ERROR_UNSUPPORTED, "%s does not tell its free memory; give num_blocks", backend.name);
  kvc_storage_config one = *config;
  one.num_blocks = 1;
  Layout layout;
  KVC_TRY(lay_out(one, &layout));
  const double bytes = static_cast<double>(info.free_bytes) * static_cast<double>(config->memory_fraction);
  config->num_blocks = static_cast<uint64_t>(bytes) / layout.block_bytes;
  if (config->num_blocks > INT32_MAX) config->num_blocks = INT32_MAX;
  if (config->num_blocks != 0) return KVC_OK;
  return fail(KVC_ERROR_OUT_OF_MEMORY, "%g of %llu free bytes is less than a block, %llu",
              static_cast<double>(config->memory_fraction), ull{info.free_bytes}, ull{layout.block_bytes});
}

}  // namespace kvc
