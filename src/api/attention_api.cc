// SPDX-License-Identifier: Apache-2.0
// C functions of attention: the CPU attention is plugged into storages here.
#include "api/attention_args.h"
#include "attention/merge.h"
#include "attention/select.h"
#include "attention/tree.h"

using kvc::AttentionArgs;
using kvc::fail;
using kvc::Storage;

namespace {

using ull = unsigned long long;

constexpr size_t kMaxTreeNodes = 65536;

// Runs work(parallel_for, scratch) with `bytes` of scratch for each worker.
template <typename Work>
kvc_status with_scratch(Storage& storage, size_t bytes, Work&& work) {
  kvc::WorkerPool& workers = storage.workers();
  Storage::Scratch scratch(storage, workers.num_workers() * bytes);
  if (scratch.data() == nullptr) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu threads with %zu bytes", workers.num_workers(),
                bytes);
  }
  const kvc::ParallelFor parallel{
      [](void* context, size_t count, void (*job)(void*, size_t, size_t), void* data) {
        static_cast<kvc::WorkerPool*>(context)->run(count, job, data);
      },
      &workers, workers.num_workers()};
  work(parallel, scratch.data());
  return KVC_OK;
}

// Whether the rows of block_mask hold the blocks of every request that has queries.
kvc_status check_mask_rows(const AttentionArgs& args, const kvc_block_choice& choice) {
  for (size_t r = 0; r < args.num_requests; ++r) {
    const uint64_t bytes = kvc::ceil_div(kvc::ceil_div(args.kv_lens[r], args.layout->block_size), 8);
    if (bytes <= choice.block_mask_stride) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: kvc_block_choice.block_mask_stride is %zu bytes, %llu are needed", r,
                choice.block_mask_stride, ull{bytes});
  }
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_storage_attend(kvc_storage* s, const kvc_attention* attention, void* stream) {
  return kvc::on_storage(s, stream, [&](Storage& storage) -> kvc_status {
    AttentionArgs args;
    if (const kvc_status status = kvc::read_attention(storage, attention, &args); status != KVC_OK)
      return status;
    KVC_REQUIRE_ARRAY(args.q, kvc::num_queries(args));
    KVC_REQUIRE_ARRAY(args.out, kvc::num_queries(args));
    if (args.num_requests == 0) return KVC_OK;
    return with_scratch(
        storage, kvc::attention_scratch_bytes(storage.layout(), args.num_q_heads),
        [&](const kvc::ParallelFor& parallel, void* scratch) { kvc::attend(args, parallel, scratch); });
  });
}

kvc_status kvc_storage_explain(kvc_storage* s, const kvc_attention* attention, kvc_attention_plan* plan) {
  return kvc::on_storage(s, nullptr, [&](Storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(plan);
    if (const kvc_status status =
            kvc::check_size<kvc_attention_plan>(plan->struct_size, "kvc_attention_plan");
        status != KVC_OK)
      return status;
    AttentionArgs args;
    if (const kvc_status status = kvc::read_attention(storage, attention, &args); status != KVC_OK)
      return status;
    kvc::write_struct(kvc::explain_attention(args, storage.workers().num_workers()), plan);
    return KVC_OK;
  });
}

kvc_status kvc_storage_key_bounds(kvc_storage* s, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                                  uint16_t* bounds, void* stream) {
  return kvc::on_storage(s, stream, [&](Storage& storage) -> kvc_status {
    const kvc::Layout& layout = storage.layout();
    KVC_REQUIRE_ARRAY(blocks, num_blocks);
    KVC_REQUIRE_ARRAY(bounds, num_blocks);
    if (layer >= layout.num_layers)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "layer %u of %u", layer, layout.num_layers);
    for (size_t i = 0; i < num_blocks; ++i) {
      if (const kvc_status status = kvc::check_block(layout, i, blocks[i]); status != KVC_OK) return status;
    }
    const size_t of_block = size_t{layout.num_heads} * 2 * layout.k_dim;
    storage.workers().for_each(num_blocks, [&](size_t i, size_t) {
      const auto block = static_cast<uint64_t>(blocks[i]);
      kvc::find_key_bounds(layout, storage.slab(), layer, block, bounds + block * of_block);
    });
    return KVC_OK;
  });
}

kvc_status kvc_storage_select_blocks(kvc_storage* s, const kvc_attention* attention,
                                     const kvc_block_choice* choice, void* stream) {
  return kvc::on_storage(s, stream, [&](Storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(attention);
    KVC_REQUIRE_POINTER(choice);
    kvc_attention unmasked;
    kvc_block_choice own;
    kvc_status status = kvc::read_struct(attention, attention->struct_size, "kvc_attention", &unmasked);
    if (status != KVC_OK) return status;
    unmasked.mask = unmasked.block_mask = nullptr;
    status = kvc::read_struct(choice, choice->struct_size, "kvc_block_choice", &own);
    if (status != KVC_OK) return status;
    AttentionArgs args;
    status = kvc::read_attention(storage, &unmasked, &args);
    if (status != KVC_OK) return status;
    if (own.top_k == 0)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_block_choice.top_k is 0; give at least 1");
    status = check_mask_rows(args, own);
    if (status != KVC_OK) return status;
    KVC_REQUIRE_ARRAY(args.q, kvc::num_queries(args));
    if (args.num_requests == 0) return KVC_OK;
    KVC_REQUIRE_POINTER(own.bounds);
    KVC_REQUIRE_POINTER(own.block_mask);
    return with_scratch(storage, kvc::selection_scratch_bytes(args),
                        [&](const kvc::ParallelFor& parallel, void* scratch) {
                          kvc::select_blocks(args,
                                             {own.bounds, own.top_k, own.sink_blocks, own.recent_blocks,
                                              own.block_mask, own.block_mask_stride},
                                             parallel, scratch);
                        });
  });
}

kvc_status kvc_attention_merge(const void* outs, const float* lses, size_t num_partials, size_t num_rows,
                               uint32_t v_dim, int32_t dtype, void* out, float* lse) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_ARRAY(outs, num_partials * num_rows);
    KVC_REQUIRE_ARRAY(lses, num_partials * num_rows);
    KVC_REQUIRE_ARRAY(out, num_rows);
    if (dtype == 0) dtype = KVC_FLOAT32;
    if (!kvc::is_float(dtype)) return fail(KVC_ERROR_INVALID_ARGUMENT, "dtype %d is no float type", dtype);
    if (v_dim == 0 || v_dim > kvc::kMaxRowElements) {
      return fail(KVC_ERROR_INVALID_ARGUMENT, "v_dim is %u; 1 .. %u", v_dim, kvc::kMaxRowElements);
    }
    kvc::merge_partials(static_cast<const char*>(outs), lses, num_partials, num_rows, v_dim, dtype,
                        static_cast<char*>(out), lse);
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
    kvc::make_tree_mask(parents, num_nodes, mask, first_bit, depths);
    return KVC_OK;
  });
}

}  // extern "C"
