// SPDX-License-Identifier: Apache-2.0
// C functions that carry cached prefixes and their bytes into another block size.
#include <kvcache/rebuild.h>

#include "api/create.h"
#include "api/storage_handle.h"

using namespace kvc;

namespace kvc {

kvc_status rebuild_manager(kvc_manager* old, const kvc_manager_config* config, Env env, kvc_rebuild* rebuild,
                           kvc_manager** manager) {
  KVC_REQUIRE_POINTER(config);
  KVC_REQUIRE_POINTER(rebuild);
  KVC_REQUIRE_POINTER(manager);
  kvc_manager_config wanted;
  KVC_TRY(read_struct(config, &wanted));
  if (wanted.record_bytes != 0) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "record_bytes is %llu: a rebuilt manager begins with cached content, which no log holds; set it to 0",
        ull(wanted.record_bytes));
  }
  kvc_rebuild own;
  KVC_TRY(read_struct(rebuild, &own));
  KVC_REQUIRE_ARRAY(own.copies, own.copy_capacity);
  KVC_REQUIRE_ARRAY(own.namespaces, own.namespace_capacity);
  kvc_manager* made = nullptr;
  KVC_TRY(create_manager(config, env, &made));
  const kvc_status status = made->impl->take_over(*old->impl, &own);
  if (status == KVC_OK || status == KVC_ERROR_BUFFER_TOO_SMALL) write_struct(own, rebuild);
  if (status == KVC_OK)
    *manager = made;
  else
    kvc_manager_destroy(made);
  return status;
}

namespace {

kvc_status check_equal(const char* name, uint64_t from, uint64_t to) {
  if (from == to) return KVC_OK;
  return invalid("%s is %llu in the old storage and %llu in the new one; they must be equal", name, ull(from),
                 ull(to));
}

// Rows of both storages have the same bytes.
kvc_status check_alike(const kvc_storage& from, const kvc_storage& to) {
  for (const kvc_storage* s : {&from, &to}) {
    if (std::strcmp(s->backend->name, "cpu") != 0) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "a storage of %s: tokens are copied in host memory only; gather and store them",
                  s->backend->name);
    }
    if (s->layout.k.tiled() || s->layout.channel_tokens != 0) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "tokens of %s share bytes and cannot be copied one by one; gather and store them",
                  s->layout.k.tiled() ? "tiled keys" : "channel keys");
    }
  }
  const kvc_storage_info &a = from.info, &b = to.info;
  KVC_TRY(check_equal("num_layers", a.num_layers, b.num_layers));
  KVC_TRY(check_equal("num_heads", a.num_heads, b.num_heads));
  KVC_TRY(check_equal("head_dim", a.head_dim, b.head_dim));
  KVC_TRY(check_equal("v_head_dim", a.v_head_dim, b.v_head_dim));
  KVC_TRY(check_equal("dtype", static_cast<uint64_t>(a.dtype), static_cast<uint64_t>(b.dtype)));
  KVC_TRY(check_equal("flags", a.flags & ~KVC_STORAGE_NOT_ZEROED, b.flags & ~KVC_STORAGE_NOT_ZEROED));
  KVC_TRY(check_equal("scale_group", a.scale_group, b.scale_group));
  if (a.k_scale == b.k_scale && a.v_scale == b.v_scale) return KVC_OK;
  return invalid("k_scale and v_scale are %g and %g in the old storage, %g and %g in the new one", a.k_scale,
                 a.v_scale, b.k_scale, b.v_scale);
}

kvc_status check_part(size_t entry, const char* which, const Layout& layout, int32_t block, uint32_t offset,
                      uint32_t num_tokens) {
  KVC_TRY(check_block(layout, entry, block));
  if (offset <= layout.block_size && num_tokens <= layout.block_size - offset) return KVC_OK;
  return invalid("entry %zu: tokens %u + %u go past the %u of a block of the %s storage", entry, offset,
                 num_tokens, layout.block_size, which);
}

// All heads of some tokens in one plane and layer.
void copy_rows(const kvc_storage& from, kvc_storage& to, int plane, uint32_t layer,
               const kvc_token_copy& copy) {
  const Plane &a = from.layout.plane(plane), &b = to.layout.plane(plane);
  for (uint32_t head = 0; head < from.layout.num_heads; ++head) {
    for (uint32_t t = 0; t < copy.num_tokens; ++t) {
      std::memcpy(
          to.slab() + b.offset(layer, static_cast<uint64_t>(copy.destination), head, copy.new_offset + t),
          from.slab() + a.offset(layer, static_cast<uint64_t>(copy.source), head, copy.offset + t),
          a.row_bytes);
    }
  }
}

}  // namespace
}  // namespace kvc

extern "C" {

kvc_status kvc_manager_rebuild(kvc_manager* m, const kvc_manager_config* config, kvc_rebuild* rebuild,
                               kvc_manager** manager) {
  return on_manager(m, [&](Manager&) { return rebuild_manager(m, config, default_env(), rebuild, manager); });
}

kvc_status kvc_storage_copy_tokens(kvc_storage* from, kvc_storage* to, const kvc_token_copy* copies,
                                   size_t num_copies) {
  return on_storage(from, [&](kvc_storage& source) -> kvc_status {
    if (to == nullptr) return invalid("the storage to copy to is NULL");
    if (from == to) return invalid("both storages are the same; use kvc_storage_copy_blocks");
    KVC_REQUIRE_ARRAY(copies, num_copies);
    KVC_TRY(check_alike(source, *to));
    for (size_t i = 0; i < num_copies; ++i) {
      const kvc_token_copy& copy = copies[i];
      KVC_TRY(check_part(i, "old", source.layout, copy.source, copy.offset, copy.num_tokens));
      KVC_TRY(check_part(i, "new", to->layout, copy.destination, copy.new_offset, copy.num_tokens));
    }
    for (int plane = 0; plane < kNumPlanes; ++plane) {
      if (!source.layout.plane(plane).exists()) continue;
      for (size_t i = 0; i < num_copies; ++i) {
        for (uint32_t layer = 0; layer < source.layout.num_layers; ++layer)
          copy_rows(source, *to, plane, layer, copies[i]);
      }
    }
    return KVC_OK;
  });
}

}  // extern "C"
