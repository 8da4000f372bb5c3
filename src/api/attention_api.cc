// SPDX-License-Identifier: Apache-2.0
// C functions of attention: they check arguments, then call the backend.
#include <kvcache/device.h>

#include "api/attention_args.h"
#include "attention/merge.h"
#include "attention/tree.h"

using namespace kvc;

namespace {

constexpr size_t kMaxTreeNodes = 65536;

// The caller's kernel; UNSUPPORTED: it does not do this call.
kvc_status attend_external(kvc_storage& storage, const kvc_attention& attention, kvc_stream* stream) {
  kvc_view k, v;
  void* handle = nullptr;
  KVC_TRY(kvc_storage_view(&storage, KVC_PLANE_K, attention.layer, &k));
  if (storage.layout.latent) {
    v = k;
    v.shape[3] = storage.layout.v_dim;
  } else {
    KVC_TRY(kvc_storage_view(&storage, KVC_PLANE_V, attention.layer, &v));
  }
  if (stream != nullptr) KVC_TRY(kvc_stream_handle(stream, &handle));
  return storage.attention(storage.attention_data, &attention, &k, &v, handle);
}

kvc_attention_info translate(const kvc_backend_attention_info& from) {
  kvc_attention_info to = {};
  std::strncpy(to.kernels, from.kernels, sizeof to.kernels - 1);
  std::strncpy(to.keys, from.keys, sizeof to.keys - 1);
  std::strncpy(to.values, from.values, sizeof to.values - 1);
  to.num_workers = from.num_workers;
  to.sparse = from.sparse;
  to.num_pieces = from.num_pieces;
  to.num_splits = from.num_splits;
  to.scratch_bytes = from.scratch_bytes;
  to.shared_tokens = from.shared_tokens;
  to.plan_bytes = from.plan_bytes;
  to.workspace_bytes = from.workspace_bytes;
  to.selection_bytes = from.selection_bytes;
  return to;
}

}  // namespace

extern "C" {

kvc_status kvc_storage_attend(kvc_storage* s, const kvc_attention* attention, kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    kvc_backend_attention a;
    KVC_TRY(read_attention(storage, attention,
                           stream != nullptr ? AttentionUse::kEnqueue : AttentionUse::kNow, &a));
    KVC_REQUIRE_ARRAY(a.q, a.total_queries);
    KVC_REQUIRE_ARRAY(a.out, a.total_queries);
    if (a.num_requests == 0) return KVC_OK;
    if (storage.attention != nullptr) {
      kvc_attention_launch launch;
      const kvc_attention own = complete_attention(attention, a, &launch);
      const kvc_status external = attend_external(storage, own, stream);
      if (external != KVC_ERROR_UNSUPPORTED) return external;
    }
    return storage.backend->attend(storage.impl, &a, impl_of(stream));
  });
}

kvc_status kvc_storage_set_attention(kvc_storage* s, kvc_attention_kernel kernel, void* user_data) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    storage.attention = kernel;
    storage.attention_data = user_data;
    return KVC_OK;
  });
}

kvc_status kvc_storage_explain(kvc_storage* s, const kvc_attention* attention, kvc_attention_info* info) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    return answer(info, [&](kvc_attention_info* out) -> kvc_status {
      kvc_backend_attention a;
      kvc_backend_attention_info found = {};
      KVC_TRY(read_attention(storage, attention, AttentionUse::kNow, &a));
      KVC_TRY(storage.backend->explain(storage.impl, &a, &found));
      *out = translate(found);
      return KVC_OK;
    });
  });
}

kvc_status kvc_storage_key_bounds(kvc_storage* s, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                                  uint16_t* bounds, kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_ARRAY(bounds, num_blocks);
    KVC_TRY(check_layer(layer, storage.layout.num_layers));
    KVC_TRY(check_blocks(storage.layout, blocks, num_blocks));
    return storage.backend->key_bounds(storage.impl, layer, blocks, num_blocks, bounds, impl_of(stream));
  });
}

kvc_status kvc_storage_select_blocks(kvc_storage* s, const kvc_attention* attention,
                                     const kvc_block_choice* choice, kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    kvc_backend_attention a;
    kvc_backend_selection selection;
    KVC_TRY(read_selection(storage, attention, choice, &a, &selection));
    KVC_REQUIRE_ARRAY(a.q, a.total_queries);
    if (a.num_requests == 0) return KVC_OK;
    return storage.backend->select_blocks(storage.impl, &a, &selection, impl_of(stream));
  });
}

kvc_status kvc_attention_merge(const kvc_attention_partials* partials, void* out, float* lse) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(partials);
    kvc_attention_partials own;
    KVC_TRY(read_struct(partials, &own));
    if (own.dtype == 0) own.dtype = KVC_FLOAT32;
    if (!is_float(own.dtype))
      return invalid("dtype is %d (%s); it must be float32, float16 or bfloat16", own.dtype,
                     dtype_name(own.dtype));
    if (own.v_dim == 0 || own.v_dim > kMaxRowElements)
      return invalid("v_dim is %u; 1 .. %u", own.v_dim, kMaxRowElements);
    const size_t rows = product(own.num_partials, own.num_rows);
    const size_t row_bytes = own.v_dim * dtype_bits(own.dtype) / 8;
    KVC_REQUIRE_MEMORY(own.lses, rows);
    KVC_REQUIRE_MEMORY(own.outs, product(rows, row_bytes));
    KVC_REQUIRE_MEMORY(out, product(own.num_rows, row_bytes));
    merge_partials(static_cast<const char*>(own.outs), own.lses, own.num_partials, own.num_rows, own.v_dim,
                   own.dtype, static_cast<char*>(out), lse);
    return KVC_OK;
  });
}

kvc_status kvc_tree_mask(const int32_t* parents, size_t num_nodes, uint8_t* mask, uint64_t first_bit,
                         int32_t* depths) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_ARRAY(parents, num_nodes);
    KVC_REQUIRE_ARRAY(mask, num_nodes);
    if (num_nodes > kMaxTreeNodes) return invalid("%zu nodes; at most %zu", num_nodes, kMaxTreeNodes);
    for (size_t i = 0; i < num_nodes; ++i) {
      if (parents[i] >= -1 && parents[i] < static_cast<int64_t>(i)) continue;
      return invalid("parents[%zu] is %d; -1, or a node before it", i, parents[i]);
    }
    if (first_bit > UINT64_MAX - num_nodes * num_nodes) {
      return invalid("first_bit is %llu: the last bits of %zu nodes are past 2^64", ull(first_bit),
                     num_nodes);
    }
    make_tree_mask(parents, num_nodes, mask, first_bit, depths);
    return KVC_OK;
  });
}

}  // extern "C"
