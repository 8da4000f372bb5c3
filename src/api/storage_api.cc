// SPDX-License-Identifier: Apache-2.0
// C functions that create, describe and destroy storages.
#include <kvcache/metrics.h>

#include "api/storage_handle.h"
#include "layout/parts.h"
#include "storage/host_memory.h"

using namespace kvc;

kvc_storage::kvc_storage(const Env& from)
    : account(from), env(account.env()), latencies(env, KVC_LATENCY_STORE, 2) {}

namespace {

kvc_storage_info describe(const kvc_storage_config& config, const Layout& layout,
                          const kvc_backend_memory& memory) {
  kvc_storage_info info = {};
  info.struct_size = sizeof info;
  info.data = memory.data;
  info.slab_bytes = layout.slab_bytes;
  info.block_bytes = layout.block_bytes;
  for (int p = 0; p < kNumPlanes; ++p)
    info.token_bytes += ceil_div(layout.plane(p).row_bytes, layout.tokens_per_row(p));
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
  info.residual_blocks = residual_blocks_of(config, layout);
  info.residual_bytes = residual_key_bytes(layout, info.residual_blocks);
  return info;
}

// The caller's memory in place, or memory of the device.
kvc_status find_memory(const kvc_storage_config& config, const Layout& layout, const kvc_backend& backend,
                       uint32_t device, kvc_backend_storage* parts) {
  if (config.memory == nullptr) {
    if (config.memory_kind == KVC_MEMORY_EXTERNAL)
      return invalid("memory_kind is KVC_MEMORY_EXTERNAL, but memory is NULL");
    if (config.memory_kind == KVC_MEMORY_MANAGED) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "a storage cannot be in KVC_MEMORY_MANAGED: its pages may move while a GPU reads them");
    }
    parts->zeroed = (config.flags & KVC_STORAGE_NOT_ZEROED) == 0;
    const kvc_backend_allocator* allocator =
        parts->allocator.allocate == nullptr ? nullptr : &parts->allocator;
    return backend.allocate(device, allocator, config.memory_kind, layout.slab_bytes, config.alignment,
                            &parts->memory);
  }
  if (config.memory_kind != KVC_MEMORY_DEFAULT && config.memory_kind != KVC_MEMORY_EXTERNAL) {
    return invalid(
        "memory_kind is %u, but memory is given; leave one of them out, or use KVC_MEMORY_EXTERNAL",
        config.memory_kind);
  }
  if (config.memory_size < layout.slab_bytes) {
    return invalid("the external memory has %zu bytes, %llu are needed", config.memory_size,
                   ull{layout.slab_bytes});
  }
  if (reinterpret_cast<uintptr_t>(config.memory) % config.alignment != 0)
    return invalid("the external memory is not aligned to %u bytes", config.alignment);
  parts->memory = {config.memory, layout.slab_bytes, config.alignment, KVC_MEMORY_EXTERNAL, {}};
  return KVC_OK;
}

void free_storage(kvc_storage* s) {
  const Env env = s->account.inner();
  s->~kvc_storage();
  env.release(env.allocator_data, s, sizeof(kvc_storage), alignof(kvc_storage));
}

// Takes parts.memory over, or gives it back.
kvc_status make_storage(const kvc_storage_config& config, const Env& env, const kvc_backend& backend,
                        uint32_t device, kvc_backend_storage parts, kvc_storage** storage) {
  void* const place = env.allocate(env.allocator_data, sizeof(kvc_storage), alignof(kvc_storage));
  if (place == nullptr) {
    release_memory(parts.memory);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes beside the storage's blocks",
                sizeof(kvc_storage));
  }
  auto* made = new (place) kvc_storage(env);
  made->account.add(sizeof(kvc_storage));
  parts.allocator = {made->env.allocator_data, made->env.allocate, made->env.release};
  if (const kvc_status status = backend.storage_create(device, &parts, &made->impl); status != KVC_OK) {
    free_storage(made);
    release_memory(parts.memory);
    return status;
  }
  made->backend = &backend, made->device = device;
  made->layout = *parts.layout;
  made->info = describe(config, *parts.layout, parts.memory);
  *storage = made;
  return KVC_OK;
}

}  // namespace

void kvc::release_storage(kvc_storage* s) {
  if (s->num_users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  s->backend->storage_destroy(s->impl);
  free_storage(s);
}

extern "C" {

kvc_status kvc_storage_create(const kvc_storage_config* config, kvc_storage** storage) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(storage);
    kvc_storage_config own;
    KVC_TRY(read_storage_config(config, &own));
    if (own.num_blocks == 0 && own.memory_fraction == 0)
      return invalid("kvc_storage_config.num_blocks is 0; at least 1");
    const kvc_backend* backend;
    uint32_t device;
    KVC_TRY(find_device(own.device, &backend, &device));
    KVC_TRY(count_blocks(*backend, device, &own));
    Layout layout;
    KVC_TRY(lay_out(own, &layout));
    Env env = default_env();
    KVC_TRY(read_allocator(own.allocator, &env));

    kvc_backend_storage parts = {};
    parts.layout = &layout;
    parts.num_threads = own.num_threads;
    parts.parallel_for = own.parallel_for;
    parts.parallel_context = own.parallel_context;
    parts.residual_blocks = residual_blocks_of(own, layout);
    if (own.allocator != nullptr) parts.allocator = {env.allocator_data, env.allocate, env.release};
    KVC_TRY(find_memory(own, layout, *backend, device, &parts));
    return make_storage(own, env, *backend, device, parts, storage);
  });
}

void kvc_storage_destroy(kvc_storage* s) {
  if (s == nullptr) return;
  s->backend->storage_wait(s->impl);
  release_storage(s);
}

kvc_status kvc_storage_properties(kvc_storage* s, kvc_storage_info* info) {
  return on_storage(s, [&](kvc_storage& storage) {
    return answer(info, [&](kvc_storage_info* out) -> kvc_status {
      *out = storage.info;
      return KVC_OK;
    });
  });
}

kvc_status kvc_storage_size(const kvc_storage_config* config, uint64_t* block_bytes, uint64_t* slab_bytes) {
  return guarded([&]() -> kvc_status {
    kvc_storage_config own;
    KVC_TRY(read_storage_config(config, &own));
    Layout layout;
    KVC_TRY(lay_out(own, &layout));
    if (block_bytes != nullptr) *block_bytes = layout.block_bytes;
    if (slab_bytes != nullptr) *slab_bytes = layout.slab_bytes;
    return KVC_OK;
  });
}

kvc_status kvc_storage_trim(kvc_storage* s, uint64_t* device_bytes, uint64_t* host_bytes) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    uint64_t on_device = 0, on_host = 0;
    KVC_TRY(storage.backend->trim(storage.impl, &on_device, &on_host));
    if (device_bytes != nullptr) *device_bytes = on_device;
    if (host_bytes != nullptr) *host_bytes = on_host;
    return KVC_OK;
  });
}

kvc_status kvc_storage_view(kvc_storage* s, int32_t plane, uint32_t layer, kvc_view* view) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(view);
    const Layout& layout = storage.layout;
    if (plane < 0 || plane >= kNumPlanes)
      return invalid("plane is %d; 0 (keys) to %d (scales of the values)", plane, kNumPlanes - 1);
    KVC_TRY(check_layer(layer, layout.num_layers));
    const Plane& p = layout.plane(plane);
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
                               static_cast<int64_t>(p.token), packed ? 1 : dtype_bits(p.dtype) / 8};
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
    KVC_TRY(check_block(layout, 0, block));
    kvc_selection part = {0, layout.num_layers, 0, layout.num_heads, 0, layout.block_size};
    if (selection != nullptr) part = *selection;
    const auto inside = [](uint32_t first, uint32_t num, uint32_t end) {
      return first <= end && num <= end - first;
    };
    if (!inside(part.first_layer, part.num_layers, layout.num_layers) ||
        !inside(part.first_head, part.num_heads, layout.num_heads) ||
        !inside(part.first_token, part.num_tokens, layout.block_size)) {
      return invalid("the selection goes past the %u layers, %u heads or %u tokens of a block",
                     layout.num_layers, layout.num_heads, layout.block_size);
    }
    if (storage.backend->is_residual(storage.impl, block) != 0) {
      return fail(
          KVC_ERROR_BUSY,
          "block %d is residual: its keys are not in the slab; call kvc_storage_quantize_blocks first",
          block);
    }
    const size_t needed = layout_runs(layout, static_cast<uint64_t>(block), part, nullptr, 0);
    if (needed > capacity) {
      *count = needed;
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu runs, room for %zu", needed, capacity);
    }
    *count = layout_runs(layout, static_cast<uint64_t>(block), part, runs, capacity);
    return KVC_OK;
  });
}

}  // extern "C"
