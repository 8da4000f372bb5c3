// SPDX-License-Identifier: Apache-2.0
// C functions that write, read, copy and clear tokens and blocks of a storage. They check every slot, block
// and shape before anything is touched.
#include <kvcache/metrics.h>
#include <kvcache/model.h>

#include "api/row_args.h"
#include "api/storage_handle.h"

using namespace kvc;

namespace kvc {
namespace {

constexpr uint32_t kRowsFlags = KVC_ROWS_ON_DEVICE | KVC_ROWS_ROPE_INTERLEAVED;

// Slots, or the part of the block table that the call reads.
kvc_status read_slots(const Layout& layout, const kvc_rows& rows, kvc_backend_rows* out) {
  if (rows.slots != nullptr) {
    out->slots = rows.slots;
    const uint64_t end = layout.num_blocks * layout.block_size;
    for (size_t t = 0; out->on_device == 0 && t < rows.num_tokens; ++t) {
      if (rows.slots[t] == -1 || static_cast<uint64_t>(rows.slots[t]) < end) continue;
      return invalid("slots[%zu] is %lld; -1 (skip) or 0 .. %llu", t, static_cast<long long>(rows.slots[t]),
                     ull{end - 1});
    }
    return KVC_OK;
  }
  if (rows.num_tokens == 0) return KVC_OK;
  KVC_REQUIRE_POINTER(rows.block_table);
  uint64_t end;
  if (!checked_add(rows.first_token, rows.num_tokens, &end) ||
      ceil_div(end, layout.block_size) > rows.block_table_size) {
    return invalid("tokens %llu + %zu go past the %zu entries of block_table", ull{rows.first_token},
                   rows.num_tokens, rows.block_table_size);
  }
  const uint64_t first_block = rows.first_token / layout.block_size;
  out->block_table = rows.block_table + first_block;
  out->block_table_size = ceil_div(end, layout.block_size) - first_block;
  out->first_token = rows.first_token % layout.block_size;
  for (uint64_t j = first_block; out->on_device == 0 && j < ceil_div(end, layout.block_size); ++j) {
    KVC_TRY(check_block(layout, j, rows.block_table[j]));
  }
  return KVC_OK;
}

kvc_status read_rotary(const Layout& layout, const kvc_rows& rows, RowsUse use, kvc_backend_rows* out) {
  if (rows.rope_table == nullptr) return KVC_OK;
  if (use == RowsUse::kGather)
    return invalid("kvc_rows.rope_table with a gather, which gives keys as they are stored; leave it out");
  if (use == RowsUse::kMeasure)
    return invalid(
        "kvc_rows.rope_table with kvc_storage_measure; give it keys that kvc_rope_apply has rotated");
  out->rotary = {rows.rope_table,
                 rows.rope_rows,
                 rows.rope_table_rows,
                 rows.rope_dim != 0 ? rows.rope_dim : layout.k_dim,
                 rows.rope_first_element,
                 (rows.flags & KVC_ROWS_ROPE_INTERLEAVED) != 0,
                 0};
  return check_rotary(out->rotary, layout.k_dim, rows.num_tokens, out->on_device != 0);
}

}  // namespace

kvc_status check_blocks(const Layout& layout, const int32_t* blocks, size_t num_blocks) {
  KVC_REQUIRE_MEMORY(blocks, num_blocks);
  for (size_t i = 0; i < num_blocks; ++i) {
    KVC_TRY(check_block(layout, i, blocks[i]));
  }
  return KVC_OK;
}

kvc_status read_rows(const Layout& layout, const kvc_rows* rows, RowsUse use, kvc_backend_rows* out) {
  KVC_REQUIRE_POINTER(rows);
  kvc_rows own;
  KVC_TRY(read_struct(rows, &own));
  *out = {};
  out->k = own.k;
  out->v = own.v;
  out->num_tokens = own.num_tokens;
  out->first_layer = own.first_layer;
  out->num_layers = own.num_layers != 0 ? own.num_layers : 1;
  out->dtype = own.dtype != 0 ? own.dtype : KVC_FLOAT32;
  out->on_device = (own.flags & KVC_ROWS_ON_DEVICE) != 0;
  if (!is_float(out->dtype))
    return invalid("kvc_rows.dtype is %d (%s); it must be float32, float16 or bfloat16", out->dtype,
                   dtype_name(out->dtype));
  if ((own.flags & ~kRowsFlags) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_rows.flags %#x are not supported", own.flags & ~kRowsFlags);
  if (out->first_layer >= layout.num_layers || out->num_layers > layout.num_layers - out->first_layer)
    return invalid("first_layer is %u and num_layers %u; the storage has %u layers, from 0 on",
                   out->first_layer, out->num_layers, layout.num_layers);
  KVC_REQUIRE_ARRAY(own.k, own.num_tokens);
  KVC_REQUIRE_MEMORY(own.k, product(own.num_tokens, size_t{layout.num_heads} * (layout.k_dim + layout.v_dim) *
                                                        out->num_layers * sizeof(float)));
  if (layout.latent) {
    if (own.v != nullptr) return invalid("v must be NULL: a latent storage has no value plane");
  } else {
    KVC_REQUIRE_ARRAY(own.v, own.num_tokens);
  }
  const auto resolve = [&](const char* name, uint32_t dim, int64_t* layer, int64_t* token, int64_t* head) {
    if (*head == 0) *head = dim;
    if (*token == 0) *token = int64_t{dim} * layout.num_heads;
    if (*layer == 0)  // what overflows is refused below
      static_cast<void>(__builtin_mul_overflow(*token, own.num_tokens, layer));
    return check_strides(name, *layer, out->num_layers, *token, own.num_tokens, *head, layout.num_heads);
  };
  out->k_layer_stride = own.k_layer_stride, out->k_token_stride = own.k_token_stride;
  out->k_head_stride = own.k_head_stride;
  out->v_layer_stride = own.v_layer_stride, out->v_token_stride = own.v_token_stride;
  out->v_head_stride = own.v_head_stride;
  KVC_TRY(
      resolve("kvc_rows.k", layout.k_dim, &out->k_layer_stride, &out->k_token_stride, &out->k_head_stride));
  KVC_TRY(
      resolve("kvc_rows.v", layout.v_dim, &out->v_layer_stride, &out->v_token_stride, &out->v_head_stride));
  KVC_TRY(read_rotary(layout, own, use, out));
  return read_slots(layout, own, out);
}

}  // namespace kvc

namespace {

kvc_status move_rows(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream, RowsUse use,
                     decltype(kvc_backend::store) kvc_backend::*move) {
  return on_storage(s, stream, [&](kvc_storage& storage) {
    kvc_backend_rows own;
    KVC_TRY(read_rows(storage.layout, rows, use, &own));
    return (storage.backend->*move)(storage.impl, &own, impl_of(stream));
  });
}

}  // namespace

extern "C" {

kvc_status kvc_storage_store(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream) {
  const Timed timed(latency_of(s, KVC_LATENCY_STORE));
  return move_rows(s, rows, stream, RowsUse::kStore, &kvc_backend::store);
}

kvc_status kvc_storage_gather(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream) {
  const Timed timed(latency_of(s, KVC_LATENCY_GATHER));
  return move_rows(s, rows, stream, RowsUse::kGather, &kvc_backend::gather);
}

kvc_status kvc_storage_copy_blocks(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies,
                                   kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_MEMORY(copies, num_copies);
    for (size_t i = 0; i < num_copies; ++i) {
      for (const int32_t block : {copies[i].source, copies[i].destination}) {
        KVC_TRY(check_block(storage.layout, i, block));
      }
    }
    return storage.backend->copy_blocks(storage.impl, copies, num_copies, impl_of(stream));
  });
}

kvc_status kvc_storage_zero_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                   kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_TRY(check_blocks(storage.layout, blocks, num_blocks));
    return storage.backend->zero_blocks(storage.impl, blocks, num_blocks, impl_of(stream));
  });
}

}  // extern "C"
