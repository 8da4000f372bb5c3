// SPDX-License-Identifier: Apache-2.0
// C functions of storages: configuration, validation of every slot and shape before anything is touched.
#include "api/storage_handle.h"
#include "device/host_memory.h"

using kvc::check_block;
using kvc::fail;
using kvc::Layout;
using kvc::on_storage;

namespace {

using ull = unsigned long long;

kvc_status check_range(const char* name, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return KVC_OK;
  return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_storage_config.%s is %llu; %llu .. %llu", name, ull{value},
              ull{least}, ull{most});
}

kvc_status read_config(const kvc_storage_config* config, kvc_storage_config* out) {
  KVC_REQUIRE_POINTER(config);
  if (const kvc_status status = kvc::read_struct(config, config->struct_size, "kvc_storage_config", out);
      status != KVC_OK)
    return status;
  if (out->v_head_dim == 0) out->v_head_dim = out->head_dim;
  if (out->block_size == 0) out->block_size = 16;
  if (out->dtype == 0) out->dtype = KVC_BFLOAT16;
  if (out->alignment == 0) out->alignment = 64;
  if (out->parallel_for != nullptr && out->num_threads == 0) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_storage_config.parallel_for without num_threads; give the number of its workers");
  }
  if (out->num_threads == 0) out->num_threads = 1;
  const struct {
    const char* name;
    uint64_t value, least, most;
  } ranges[] = {{"num_layers", out->num_layers, 1, 65536},
                {"num_heads", out->num_heads, 1, 65536},
                {"head_dim", out->head_dim, 1, kvc::kMaxRowElements},
                {"v_head_dim", out->v_head_dim, 1, kvc::kMaxRowElements},
                {"block_size", out->block_size, 1, 1024},
                {"alignment", out->alignment, 16, 4096},
                {"num_threads", out->num_threads, 1, 256},
                {"layout", out->layout, 0, KVC_LAYOUT_BHLNC},
                {"num_blocks", out->num_blocks, 0, INT32_MAX},
                {"memory_kind", out->memory_kind, 0, KVC_MEMORY_MANAGED}};
  for (const auto& range : ranges) {
    if (const kvc_status status = check_range(range.name, range.value, range.least, range.most);
        status != KVC_OK)
      return status;
  }
  if (out->reserved != 0) return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_storage_config.reserved is not 0");
  if ((out->alignment & (out->alignment - 1)) != 0) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_storage_config.alignment is %u, not a power of two",
                out->alignment);
  }
  return KVC_OK;
}

kvc_status check_types(const kvc_storage_config& config) {
  const bool quantized = kvc::is_quantized(config.dtype);
  if (!quantized && !kvc::is_float(config.dtype)) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_storage_config.dtype %d is no stored type", config.dtype);
  }
  constexpr uint32_t kKnown = KVC_STORAGE_LATENT | KVC_STORAGE_TILED_KEYS | KVC_STORAGE_ASYMMETRIC |
                              KVC_STORAGE_NOT_ZEROED | KVC_STORAGE_CHANNEL_KEYS | KVC_STORAGE_HADAMARD;
  if ((config.flags & ~kKnown) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "storage flags %#x are not supported", config.flags & ~kKnown);
  if ((config.flags & KVC_STORAGE_LATENT) != 0 && config.v_head_dim > config.head_dim) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "v_head_dim is %u, more than the %u elements of a latent row",
                config.v_head_dim, config.head_dim);
  }
  if ((config.flags & KVC_STORAGE_TILED_KEYS) == 0) return KVC_OK;
  const uint32_t tile = 32 / kvc::dtype_bits(config.dtype);
  if (quantized || !kvc::head_major(config.layout) || config.block_size % kvc::kTileTokens != 0 ||
      config.head_dim % tile != 0 || (config.flags & KVC_STORAGE_LATENT) != 0) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "tiled keys need a float type, heads outside tokens, a block_size that is a multiple of %u, a "
        "head_dim that is a multiple of %u, and no latent rows",
        kvc::kTileTokens, tile);
  }
  return KVC_OK;
}

kvc_status lay_out(const kvc_storage_config& config, Layout* out) {
  if (const kvc_status status = check_types(config); status != KVC_OK) return status;
  kvc::LayoutShape shape = {};
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
  if (const kvc_status status = kvc::read_quantization(config, &shape); status != KVC_OK) return status;
  shape.alignment = config.alignment;
  *out = kvc::make_layout(shape);
  if (out->slab_bytes == 0 && config.num_blocks != 0) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "%llu blocks of %u layers are larger than the address space",
                ull{config.num_blocks}, config.num_layers);
  }
  return KVC_OK;
}

kvc_storage_info describe(const kvc_storage_config& config, const Layout& layout,
                          const kvc_backend_memory& memory) {
  kvc_storage_info info = {};
  info.struct_size = sizeof info;
  info.data = memory.data;
  info.slab_bytes = layout.slab_bytes;
  info.block_bytes = layout.block_bytes;
  for (int p = 0; p < kvc::kNumPlanes; ++p)
    info.token_bytes += kvc::ceil_div(layout.plane(p).row_bytes, layout.tokens_per_row(p));
  info.token_bytes *= uint64_t{layout.num_layers} * layout.num_heads;
  info.num_blocks = layout.num_blocks;
  info.num_layers = layout.num_layers;
  info.num_heads = layout.num_heads;
  info.head_dim = layout.k_dim;
  info.v_head_dim = layout.v_dim;
  info.block_size = layout.block_size;
  info.dtype = config.dtype;
  info.layout = config.layout;
  info.flags = config.flags;
  info.scale_group = layout.scale_group;
  info.alignment = config.alignment;
  info.memory_kind = memory.kind;
  info.k_scale = layout.k_factor;
  info.v_scale = layout.v_factor;
  info.channel_tokens = layout.channel_tokens;
  info.open_blocks = kvc::open_blocks_of(config, layout);
  info.open_bytes = kvc::open_key_bytes(layout, info.open_blocks);
  return info;
}

// Gives num_blocks by memory_fraction.
kvc_status count_blocks(const kvc_backend& backend, uint32_t device, kvc_storage_config* config) {
  if (config->memory_fraction == 0) return KVC_OK;
  if (!(config->memory_fraction > 0 && config->memory_fraction <= 1) || config->num_blocks != 0 ||
      config->memory != nullptr) {
    return fail(
        KVC_ERROR_INVALID_ARGUMENT,
        "kvc_storage_config.memory_fraction is %g; above 0 and at most 1, with num_blocks 0 and no memory",
        static_cast<double>(config->memory_fraction));
  }
  kvc_device_info info = {};
  if (const kvc_status status = backend.properties(device, &info); status != KVC_OK) return status;
  if (info.free_bytes == 0)
    return fail(KVC_ERROR_UNSUPPORTED, "%s does not tell its free memory; give num_blocks", backend.name);
  kvc_storage_config one = *config;
  one.num_blocks = 1;
  Layout layout;
  if (const kvc_status status = lay_out(one, &layout); status != KVC_OK) return status;
  const double bytes = static_cast<double>(info.free_bytes) * static_cast<double>(config->memory_fraction);
  config->num_blocks = static_cast<uint64_t>(bytes) / layout.block_bytes;
  if (config->num_blocks > INT32_MAX) config->num_blocks = INT32_MAX;
  if (config->num_blocks != 0) return KVC_OK;
  return fail(KVC_ERROR_OUT_OF_MEMORY, "%g of %llu free bytes is less than a block, %llu",
              static_cast<double>(config->memory_fraction), ull{info.free_bytes}, ull{layout.block_bytes});
}

kvc_status check_slots(const Layout& layout, const kvc_rows& rows) {
  const bool unseen = (rows.flags & KVC_ROWS_ON_DEVICE) != 0;
  if (rows.slots != nullptr) {
    if (unseen) return KVC_OK;
    const uint64_t end = layout.num_blocks * layout.block_size;
    for (size_t t = 0; t < rows.num_tokens; ++t) {
      if (rows.slots[t] == -1 || static_cast<uint64_t>(rows.slots[t]) < end) continue;
      return fail(KVC_ERROR_INVALID_ARGUMENT, "slots[%zu] is %lld; -1 (skip) or 0 .. %llu", t,
                  static_cast<long long>(rows.slots[t]), ull{end - 1});
    }
    return KVC_OK;
  }
  if (rows.num_tokens == 0) return KVC_OK;
  KVC_REQUIRE_POINTER(rows.block_table);
  uint64_t end;
  if (!kvc::checked_add(rows.first_token, rows.num_tokens, &end) ||
      kvc::ceil_div(end, layout.block_size) > rows.block_table_size) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "tokens %llu + %zu go past the %zu entries of block_table",
                ull{rows.first_token}, rows.num_tokens, rows.block_table_size);
  }
  if (unseen) return KVC_OK;
  for (uint64_t j = rows.first_token / layout.block_size; j < kvc::ceil_div(end, layout.block_size); ++j) {
    if (const kvc_status status = check_block(layout, j, rows.block_table[j]); status != KVC_OK)
      return status;
  }
  return KVC_OK;
}

}  // namespace

namespace kvc {

kvc_status check_blocks(const Layout& layout, const int32_t* blocks, size_t num_blocks) {
  KVC_REQUIRE_MEMORY(blocks, num_blocks);
  for (size_t i = 0; i < num_blocks; ++i) {
    if (const kvc_status status = check_block(layout, i, blocks[i]); status != KVC_OK) return status;
  }
  return KVC_OK;
}

kvc_status read_rows(const Layout& layout, const kvc_rows* rows, kvc_rows* out) {
  KVC_REQUIRE_POINTER(rows);
  if (const kvc_status status = kvc::read_struct(rows, rows->struct_size, "kvc_rows", out); status != KVC_OK)
    return status;
  if (out->num_layers == 0) out->num_layers = 1;
  if (out->dtype == 0) out->dtype = KVC_FLOAT32;
  if (!kvc::is_float(out->dtype))
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_rows.dtype %d is no float type", out->dtype);
  if ((out->flags & ~uint32_t{KVC_ROWS_ON_DEVICE}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_rows.flags %#x are not supported",
                out->flags & ~uint32_t{KVC_ROWS_ON_DEVICE});
  if (out->first_layer >= layout.num_layers || out->num_layers > layout.num_layers - out->first_layer) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "layers %u + %u of %u", out->first_layer, out->num_layers,
                layout.num_layers);
  }
  KVC_REQUIRE_ARRAY(out->k, out->num_tokens);
  KVC_REQUIRE_MEMORY(out->k,
                     kvc::product(out->num_tokens, size_t{layout.num_heads} * (layout.k_dim + layout.v_dim) *
                                                       out->num_layers * sizeof(float)));
  if (layout.latent) {
    if (out->v != nullptr)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "v must be NULL: a latent storage has no value plane");
  } else {
    KVC_REQUIRE_ARRAY(out->v, out->num_tokens);
  }
  const auto fill = [&](int64_t& layer_stride, int64_t& token, int64_t& head, uint32_t dim) {
    if (head == 0) head = dim;
    if (token == 0) token = int64_t{dim} * layout.num_heads;
    if (layer_stride == 0) layer_stride = token * static_cast<int64_t>(out->num_tokens);
  };
  fill(out->k_layer_stride, out->k_token_stride, out->k_head_stride, layout.k_dim);
  fill(out->v_layer_stride, out->v_token_stride, out->v_head_stride, layout.v_dim);
  return check_slots(layout, *out);
}

}  // namespace kvc

namespace {

// The caller's memory in place, or memory of the device.
kvc_status find_memory(const kvc_storage_config& config, const Layout& layout, const kvc_backend& backend,
                       uint32_t device, kvc_backend_storage* parts) {
  if (config.memory == nullptr) {
    if (config.memory_kind == KVC_MEMORY_EXTERNAL)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "memory_kind is KVC_MEMORY_EXTERNAL, but memory is NULL");
    if (config.memory_kind == KVC_MEMORY_MANAGED) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "no storage lies in KVC_MEMORY_MANAGED, whose pages move away from under kernels of a GPU");
    }
    parts->zeroed = (config.flags & KVC_STORAGE_NOT_ZEROED) == 0;
    const kvc_allocator* allocator = parts->allocator.allocate == nullptr ? nullptr : &parts->allocator;
    return backend.allocate(device, allocator, config.memory_kind, layout.slab_bytes, config.alignment,
                            &parts->memory);
  }
  if (config.memory_kind != KVC_MEMORY_DEFAULT && config.memory_kind != KVC_MEMORY_EXTERNAL) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "memory_kind is %u, but memory is given; leave one of them out, or use KVC_MEMORY_EXTERNAL",
                config.memory_kind);
  }
  if (config.memory_size < layout.slab_bytes) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "the foreign memory has %zu bytes, %llu are needed",
                config.memory_size, ull{layout.slab_bytes});
  }
  if (reinterpret_cast<uintptr_t>(config.memory) % config.alignment != 0) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "the foreign memory is not aligned to %u bytes",
                config.alignment);
  }
  parts->memory = {config.memory, layout.slab_bytes, config.alignment, KVC_MEMORY_EXTERNAL, {}};
  return KVC_OK;
}

// Takes parts.memory over, or gives it back.
kvc_status make_storage(const kvc_storage_config& config, const kvc::Env& env, const kvc_backend& backend,
                        uint32_t device, const kvc_backend_storage& parts, kvc_storage** storage) {
  void* place = env.allocate(env.allocator_data, sizeof(kvc_storage), alignof(kvc_storage));
  if (place == nullptr) {
    kvc::release_memory(parts.memory);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes beside the storage's blocks",
                sizeof(kvc_storage));
  }
  void* impl;
  if (const kvc_status status = backend.storage_create(device, &parts, &impl); status != KVC_OK) {
    env.release(env.allocator_data, place, sizeof(kvc_storage), alignof(kvc_storage));
    kvc::release_memory(parts.memory);
    return status;
  }
  *storage = new (place)
      kvc_storage{&backend, impl, device, env, *parts.layout, describe(config, *parts.layout, parts.memory)};
  return KVC_OK;
}

}  // namespace

void kvc::release_storage(kvc_storage* s) {
  if (s->num_users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const Env env = s->env;
  s->backend->storage_destroy(s->impl);
  env.release(env.allocator_data, s, sizeof(kvc_storage), alignof(kvc_storage));
}

extern "C" {

kvc_status kvc_storage_create(const kvc_storage_config* config, kvc_storage** storage) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(storage);
    kvc_storage_config own;
    if (const kvc_status status = read_config(config, &own); status != KVC_OK) return status;
    if (own.num_blocks == 0 && own.memory_fraction == 0)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_storage_config.num_blocks is 0; at least 1");
    const kvc_backend* backend;
    uint32_t device;
    if (const kvc_status status = kvc::find_device(own.device, &backend, &device); status != KVC_OK)
      return status;
    if (const kvc_status status = count_blocks(*backend, device, &own); status != KVC_OK) return status;
    Layout layout;
    if (const kvc_status status = lay_out(own, &layout); status != KVC_OK) return status;
    kvc::Env env = kvc::default_env();
    if (const kvc_status status = kvc::read_allocator(own.allocator, &env); status != KVC_OK) return status;

    kvc_backend_storage parts = {};
    parts.layout = &layout;
    parts.num_threads = own.num_threads;
    parts.parallel_for = own.parallel_for;
    parts.parallel_context = own.parallel_context;
    parts.open_blocks = kvc::open_blocks_of(own, layout);
    if (own.allocator != nullptr)
      parts.allocator = {sizeof parts.allocator, env.allocator_data, env.allocate, env.release};
    const kvc_status status = find_memory(own, layout, *backend, device, &parts);
    return status == KVC_OK ? make_storage(own, env, *backend, device, parts, storage) : status;
  });
}

void kvc_storage_destroy(kvc_storage* s) {
  if (s == nullptr) return;
  s->backend->storage_wait(s->impl);
  kvc::release_storage(s);
}

kvc_status kvc_storage_properties(kvc_storage* s, kvc_storage_info* info) {
  return on_storage(s, [&](kvc_storage&) -> kvc_status {
    KVC_REQUIRE_POINTER(info);
    if (const kvc_status status = kvc::check_size<kvc_storage_info>(info->struct_size, "kvc_storage_info");
        status != KVC_OK)
      return status;
    kvc::write_struct(s->info, info);
    return KVC_OK;
  });
}

kvc_status kvc_storage_size(const kvc_storage_config* config, uint64_t* block_bytes, uint64_t* slab_bytes) {
  return kvc::guarded([&]() -> kvc_status {
    kvc_storage_config own;
    if (const kvc_status status = read_config(config, &own); status != KVC_OK) return status;
    Layout layout;
    if (const kvc_status status = lay_out(own, &layout); status != KVC_OK) return status;
    if (block_bytes != nullptr) *block_bytes = layout.block_bytes;
    if (slab_bytes != nullptr) *slab_bytes = layout.slab_bytes;
    return KVC_OK;
  });
}

kvc_status kvc_storage_view(kvc_storage* s, int32_t plane, uint32_t layer, kvc_view* view) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(view);
    const Layout& layout = storage.layout;
    if (plane < 0 || plane >= kvc::kNumPlanes || layer >= layout.num_layers) {
      return fail(KVC_ERROR_INVALID_ARGUMENT, "plane %d of %d, layer %u of %u", plane, kvc::kNumPlanes, layer,
                  layout.num_layers);
    }
    const kvc::Plane& p = layout.plane(plane);
    if (!p.exists()) return fail(KVC_ERROR_NOT_FOUND, "this storage has no plane %d", plane);
    if (p.tiled()) return fail(KVC_ERROR_UNSUPPORTED, "tiled keys are no array with strides");
    const bool packed = p.dtype == KVC_INT4;
    kvc_view out = {};
    out.data = storage.slab() + p.offset(layer, 0, 0, 0);
    out.dtype = packed ? KVC_UINT8 : p.dtype;
    out.ndim = 4;
    const int64_t shape[] = {static_cast<int64_t>(layout.num_blocks), layout.num_heads,
                             layout.block_size / layout.tokens_per_row(plane),
                             packed ? p.row_bytes : p.num_elements};
    const int64_t strides[] = {static_cast<int64_t>(p.block), static_cast<int64_t>(p.head),
                               static_cast<int64_t>(p.token), packed ? 1 : kvc::dtype_bits(p.dtype) / 8};
    std::memcpy(out.shape, shape, sizeof shape);
    std::memcpy(out.strides, strides, sizeof strides);
    *view = out;
    return KVC_OK;
  });
}

kvc_status kvc_storage_runs(kvc_storage* s, int32_t block, const kvc_selection* selection, kvc_run* runs,
                            size_t capacity, size_t* count) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(count);
    KVC_REQUIRE_ARRAY(runs, capacity);
    const Layout& layout = storage.layout;
    if (const kvc_status status = check_block(layout, 0, block); status != KVC_OK) return status;
    kvc_selection part = {0, layout.num_layers, 0, layout.num_heads, 0, layout.block_size};
    if (selection != nullptr) part = *selection;
    const auto inside = [](uint32_t first, uint32_t num, uint32_t end) {
      return first <= end && num <= end - first;
    };
    if (!inside(part.first_layer, part.num_layers, layout.num_layers) ||
        !inside(part.first_head, part.num_heads, layout.num_heads) ||
        !inside(part.first_token, part.num_tokens, layout.block_size)) {
      return fail(KVC_ERROR_INVALID_ARGUMENT,
                  "the selection goes past the %u layers, %u heads or %u tokens of a block",
                  layout.num_layers, layout.num_heads, layout.block_size);
    }
    if (storage.backend->is_open(storage.impl, block) != 0) {
      return fail(KVC_ERROR_BUSY, "block %d is open: its keys are not in the slab; kvc_storage_seal_blocks",
                  block);
    }
    const size_t needed = kvc::layout_runs(layout, static_cast<uint64_t>(block), part, nullptr, 0);
    if (needed > capacity) {
      *count = needed;
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu runs, room for %zu", needed, capacity);
    }
    *count = kvc::layout_runs(layout, static_cast<uint64_t>(block), part, runs, capacity);
    return KVC_OK;
  });
}

kvc_status kvc_storage_store(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) {
    kvc_rows own;
    const kvc_status status = kvc::read_rows(storage.layout, rows, &own);
    if (status != KVC_OK) return status;
    return storage.backend->store(storage.impl, &own, kvc::impl_of(stream));
  });
}

kvc_status kvc_storage_gather(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) {
    kvc_rows own;
    const kvc_status status = kvc::read_rows(storage.layout, rows, &own);
    if (status != KVC_OK) return status;
    return storage.backend->gather(storage.impl, &own, kvc::impl_of(stream));
  });
}

kvc_status kvc_storage_copy_blocks(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies,
                                   kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_MEMORY(copies, num_copies);
    for (size_t i = 0; i < num_copies; ++i) {
      for (const int32_t block : {copies[i].source, copies[i].destination}) {
        if (const kvc_status status = check_block(storage.layout, i, block); status != KVC_OK) return status;
      }
    }
    return storage.backend->copy_blocks(storage.impl, copies, num_copies, kvc::impl_of(stream));
  });
}

kvc_status kvc_storage_zero_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                   kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    if (const kvc_status status = kvc::check_blocks(storage.layout, blocks, num_blocks); status != KVC_OK)
      return status;
    return storage.backend->zero_blocks(storage.impl, blocks, num_blocks, kvc::impl_of(stream));
  });
}

}  // extern "C"
