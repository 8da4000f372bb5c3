// SPDX-License-Identifier: Apache-2.0
// C functions of attention: validation of what is their own, then the device's operation.
#include "api/attention_args.h"
#include "attention/merge.h"
#include "attention/tree.h"

using kvc::fail;

namespace {

using ull = unsigned long long;

constexpr size_t kMaxTreeNodes = 65536;

// Whether the rows of block_mask have room for the blocks of every request.
kvc_status check_mask_rows(const kvc::Layout& layout, const kvc_backend_attention& a,
                           const kvc_block_choice& choice) {
  const auto needed = [&](uint64_t tokens) {
    return kvc::ceil_div(kvc::ceil_div(tokens, layout.block_size), 8);
  };
  if ((a.run.flags & KVC_LAUNCH_ON_DEVICE) != 0) {
    if (needed(a.run.max_kv_len) <= choice.block_mask_stride) return KVC_OK;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_block_choice.block_mask_stride is %zu bytes, %llu are needed for a max_kv_len of %llu",
                choice.block_mask_stride, ull{needed(a.run.max_kv_len)}, ull{a.run.max_kv_len});
  }
  for (size_t r = 0; r < a.num_requests; ++r) {
    if (needed(a.kv_lens[r]) <= choice.block_mask_stride) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: kvc_block_choice.block_mask_stride is %zu bytes, %llu are needed", r,
                choice.block_mask_stride, ull{needed(a.kv_lens[r])});
  }
  return KVC_OK;
}

// The caller's kernel, if it has one; UNSUPPORTED: it has none for this.
kvc_status attend_foreign(kvc_storage& storage, const kvc_backend_attention& attention, kvc_stream* stream) {
  if (storage.attention == nullptr) return KVC_ERROR_UNSUPPORTED;
  kvc_view k, v;
  kvc_status status = kvc_storage_view(&storage, KVC_PLANE_K, attention.layer, &k);
  if (status == KVC_OK && storage.layout.latent) {
    v = k;
    v.shape[3] = storage.layout.v_dim;
  } else if (status == KVC_OK) {
    status = kvc_storage_view(&storage, KVC_PLANE_V, attention.layer, &v);
  }
  void* handle = nullptr;
  if (status == KVC_OK && stream != nullptr) status = kvc_stream_handle(stream, &handle);
  return status == KVC_OK ? storage.attention(storage.attention_data, &attention, &k, &v, handle) : status;
}

}  // namespace

extern "C" {

kvc_status kvc_storage_attend(kvc_storage* s, const kvc_attention* attention, kvc_stream* stream) {
  return kvc::on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    kvc_backend_attention own;
    const kvc_status status = kvc::read_attention(storage, attention, stream != nullptr, &own);
    if (status != KVC_OK) return status;
    KVC_REQUIRE_ARRAY(own.q, kvc::num_queries(own));
    KVC_REQUIRE_ARRAY(own.out, kvc::num_queries(own));
    if (own.num_requests == 0) return KVC_OK;
    own.launch = &own.run;
    const kvc_status foreign = attend_foreign(storage, own, stream);
    if (foreign != KVC_ERROR_UNSUPPORTED) return foreign;
    return storage.backend->attend(storage.impl, &own, kvc::impl_of(stream));
  });
}

kvc_status kvc_storage_set_attention(kvc_storage* s, kvc_attention_kernel kernel, void* user_data) {
  return kvc::on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    storage.attention = kernel;
    storage.attention_data = user_data;
    return KVC_OK;
  });
}

kvc_status kvc_storage_explain(kvc_storage* s, const kvc_attention* attention, kvc_attention_info* plan) {
  return kvc::on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(plan);
    kvc_backend_attention own;
    kvc_attention_info found;
    kvc_status status = kvc::check_size<kvc_attention_info>(plan->struct_size, "kvc_attention_info");
    if (status == KVC_OK) status = kvc::read_attention(storage, attention, false, &own);
    if (status == KVC_OK) status = storage.backend->explain(storage.impl, &own, &found);
    if (status == KVC_OK) kvc::write_struct(found, plan);
    return status;
  });
}

kvc_status kvc_storage_key_bounds(kvc_storage* s, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                                  uint16_t* bounds, kvc_stream* stream) {
  return kvc::on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_ARRAY(bounds, num_blocks);
    if (layer >= storage.layout.num_layers)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "layer %u of %u", layer, storage.layout.num_layers);
    if (const kvc_status status = kvc::check_blocks(storage.layout, blocks, num_blocks); status != KVC_OK)
      return status;
    return storage.backend->key_bounds(storage.impl, layer, blocks, num_blocks, bounds, kvc::impl_of(stream));
  });
}

kvc_status kvc_storage_select_blocks(kvc_storage* s, const kvc_attention* attention,
                                     const kvc_block_choice* choice, kvc_stream* stream) {
  return kvc::on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(attention);
    KVC_REQUIRE_POINTER(choice);
    kvc_attention unmasked;
    kvc_backend_attention own;
    kvc_block_choice own_choice;
    kvc_status status = kvc::read_struct(attention, attention->struct_size, "kvc_attention", &unmasked);
    if (status != KVC_OK) return status;
    unmasked.mask = unmasked.block_mask = nullptr;
    unmasked.sink_logits = nullptr;
    unmasked.out_token_stride = unmasked.out_head_stride = 0;
    status = kvc::read_struct(choice, choice->struct_size, "kvc_block_choice", &own_choice);
    if (status == KVC_OK) status = kvc::read_attention(storage, &unmasked, false, &own);
    if (status == KVC_OK) status = check_mask_rows(storage.layout, own, own_choice);
    if (status != KVC_OK) return status;
    if (own_choice.top_k == 0)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_block_choice.top_k is 0; give at least 1");
    KVC_REQUIRE_ARRAY(own.q, kvc::num_queries(own));
    if (own.num_requests == 0) return KVC_OK;
    KVC_REQUIRE_POINTER(own_choice.bounds);
    KVC_REQUIRE_POINTER(own_choice.block_mask);
    return storage.backend->select_blocks(storage.impl, &own, &own_choice, kvc::impl_of(stream));
  });
}

kvc_status kvc_attention_merge(const kvc_attention_partials* partials, void* out, float* lse) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(partials);
    kvc_attention_partials own;
    KVC_TRY(kvc::read_struct(partials, partials->struct_size, "kvc_attention_partials", &own));
    if (own.dtype == 0) own.dtype = KVC_FLOAT32;
    if (!kvc::is_float(own.dtype))
      return fail(KVC_ERROR_INVALID_ARGUMENT, "dtype %d is no float type", own.dtype);
    if (own.v_dim == 0 || own.v_dim > kvc::kMaxRowElements) {
      return fail(KVC_ERROR_INVALID_ARGUMENT, "v_dim is %u; 1 .. %u", own.v_dim, kvc::kMaxRowElements);
    }
    const size_t rows = kvc::product(own.num_partials, own.num_rows);
    const size_t row_bytes = own.v_dim * kvc::dtype_bits(own.dtype) / 8;
    KVC_REQUIRE_MEMORY(own.lses, rows);
    KVC_REQUIRE_MEMORY(own.outs, kvc::product(rows, row_bytes));
    KVC_REQUIRE_MEMORY(out, kvc::product(own.num_rows, row_bytes));
    kvc::merge_partials(static_cast<const char*>(own.outs), own.lses, own.num_partials, own.num_rows,
                        own.v_dim, own.dtype, static_cast<char*>(out), lse);
    return KVC_OK;
  });
}

kvc_status kvc_tree_mask(const int32_t* parents, size_t num_nodes, uint8_t* mask, uint64_t first_bit,
                         int32_t* depths) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_ARRAY(parents, num_nodes);
    KVC_REQUIRE_ARRAY(mask, num_nodes);
    if (num_nodes > kMaxTreeNodes)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "%zu nodes; at most %zu", num_nodes, kMaxTreeNodes);
    for (size_t i = 0; i < num_nodes; ++i) {
      if (parents[i] >= -1 && parents[i] < static_cast<int64_t>(i)) continue;
      return fail(KVC_ERROR_INVALID_ARGUMENT, "parents[%zu] is %d; -1, or a node before it", i, parents[i]);
    }
    if (first_bit > UINT64_MAX - num_nodes * num_nodes) {
      return fail(KVC_ERROR_INVALID_ARGUMENT, "first_bit is %llu: the last bits of %zu nodes are past 2^64",
                  static_cast<unsigned long long>(first_bit), num_nodes);
    }
    kvc::make_tree_mask(parents, num_nodes, mask, first_bit, depths);
    return KVC_OK;
  });
}

}  // extern "C"
