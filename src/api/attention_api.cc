// SPDX-License-Identifier: Apache-2.0
// kvc_storage_attend: validation, defaults, and the CPU attention that is plugged in here.
#include <cmath>

#include "api/storage_handle.h"
#include "attention/attention.h"
#include "attention/visibility.h"

using kvc::AttentionArgs;
using kvc::fail;
using kvc::Layout;

namespace {

using ull = unsigned long long;

// Table entries of positions [first, end).
kvc_status check_entries(const AttentionArgs& args, size_t request, int64_t first, int64_t end) {
  const Layout& layout = *args.layout;
  const int32_t* table = args.block_tables + request * args.table_stride;
  for (auto j = static_cast<uint64_t>(first) / layout.block_size;
       first < end && j < kvc::ceil_div(static_cast<uint64_t>(end), layout.block_size); ++j) {
    if (table[j] >= 0 && static_cast<uint64_t>(table[j]) < layout.num_blocks) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu, table entry %llu: no block %d; the storage has %llu", request, ull{j}, table[j],
                ull{layout.num_blocks});
  }
  return KVC_OK;
}

kvc_status check_request(const AttentionArgs& args, size_t r) {
  const uint64_t begin = args.q_offsets[r], end = args.q_offsets[r + 1];
  if (end < begin || (r == 0 && begin != 0) || end > (uint64_t{1} << 40)) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "q_offsets[%zu], %llu, after %llu", r + 1, ull{end}, ull{begin});
  }
  const uint64_t queries = end - begin, kv_len = args.kv_lens[r];
  if (args.q_starts == nullptr && queries > kv_len) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu has %llu queries and %llu cached tokens; give q_starts", r, ull{queries},
                ull{kv_len});
  }
  const uint64_t q_start = args.q_starts == nullptr ? kv_len - queries : args.q_starts[r];
  if (kv_len > INT32_MAX || q_start > INT32_MAX || queries > INT32_MAX) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: %llu tokens, queries from %llu on; at most 2^31 - 1", r, ull{kv_len},
                ull{q_start});
  }
  if (queries == 0) return KVC_OK;
  const kvc::Reach reach = kvc::find_reach(args, kvc::view_request(args, r), 0, queries - 1);
  if (kvc::ceil_div(static_cast<uint64_t>(reach.end), args.layout->block_size) > args.table_stride) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: %lld tokens need more than table_stride, %zu entries", r,
                static_cast<long long>(reach.end), args.table_stride);
  }
  if (const kvc_status status = check_entries(args, r, 0, reach.sinks); status != KVC_OK) return status;
  return check_entries(args, r, reach.low, reach.end);
}

kvc_status check(const Layout& layout, const kvc_attention& a) {
  if (a.layer >= layout.num_layers)
    return fail(KVC_ERROR_INVALID_ARGUMENT, "layer %u of %u", a.layer, layout.num_layers);
  if (a.num_q_heads == 0 || a.num_q_heads % layout.num_heads != 0 || a.num_q_heads > 65536) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "num_q_heads is %u; a multiple of the storage's %u heads",
                a.num_q_heads, layout.num_heads);
  }
  if (!kvc::is_float(a.dtype))
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention.dtype %d is no float type", a.dtype);
  if ((a.flags & ~uint32_t{KVC_ATTENTION_NOT_CAUSAL}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "attention flags %#x are not supported", a.flags);
  if (!std::isfinite(a.scale) || !std::isfinite(a.soft_cap) || a.soft_cap < 0) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "scale %g, soft_cap %g: finite, and the cap not negative",
                static_cast<double>(a.scale), static_cast<double>(a.soft_cap));
  }
  if (a.window > INT32_MAX || a.sinks > INT32_MAX)
    return fail(KVC_ERROR_INVALID_ARGUMENT, "window %llu, sinks %llu; at most 2^31 - 1", ull{a.window},
                ull{a.sinks});
  if (a.num_requests == 0) return KVC_OK;
  if (a.num_requests > UINT32_MAX)
    return fail(KVC_ERROR_INVALID_ARGUMENT, "%zu requests; at most 2^32 - 1", a.num_requests);
  KVC_REQUIRE_POINTER(a.q_offsets);
  KVC_REQUIRE_POINTER(a.kv_lens);
  KVC_REQUIRE_POINTER(a.block_tables);
  if (a.mask != nullptr) KVC_REQUIRE_POINTER(a.mask_offsets);
  return KVC_OK;
}

kvc_status check_requests(const AttentionArgs& args) {
  for (size_t r = 0; r < args.num_requests; ++r) {
    if (const kvc_status status = check_request(args, r); status != KVC_OK) return status;
  }
  KVC_REQUIRE_ARRAY(args.q, args.q_offsets[args.num_requests]);
  KVC_REQUIRE_ARRAY(args.out, args.q_offsets[args.num_requests]);
  return KVC_OK;
}

AttentionArgs args_of(kvc::Storage& storage, const kvc_attention& a) {
  AttentionArgs args = {};
  args.layout = &storage.layout();
  args.slab = storage.slab();
  args.open_keys = storage.open_keys();
  args.layer = a.layer;
  args.q_dtype = a.dtype;
  args.num_q_heads = a.num_q_heads;
  args.q = a.q;
  args.out = a.out;
  args.lse = a.lse;
  args.num_requests = a.num_requests;
  args.q_offsets = a.q_offsets;
  args.q_starts = a.q_starts;
  args.kv_lens = a.kv_lens;
  args.block_tables = a.block_tables;
  args.table_stride = a.table_stride;
  args.scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<float>(storage.layout().k_dim));
  args.causal = (a.flags & KVC_ATTENTION_NOT_CAUSAL) == 0;
  args.window = a.window;
  args.sinks = a.sinks;
  args.soft_cap = a.soft_cap;
  args.alibi_slopes = a.alibi_slopes;
  args.mask = a.mask;
  args.mask_offsets = a.mask_offsets;
  return args;
}

}  // namespace

extern "C" kvc_status kvc_storage_attend(kvc_storage* s, const kvc_attention* attention, void* stream) {
  return kvc::on_storage(s, stream, [&](kvc::Storage& storage) -> kvc_status {
    KVC_REQUIRE_POINTER(attention);
    kvc_attention own;
    if (const kvc_status status = kvc::read_struct(attention, attention->struct_size, "kvc_attention", &own);
        status != KVC_OK)
      return status;
    if (own.dtype == 0) own.dtype = KVC_FLOAT32;
    if (const kvc_status status = check(storage.layout(), own); status != KVC_OK) return status;
    if (own.num_requests == 0) return KVC_OK;
    const AttentionArgs args = args_of(storage, own);
    if (const kvc_status status = check_requests(args); status != KVC_OK) return status;
    kvc::WorkerPool& workers = storage.workers();
    const size_t bytes = kvc::attention_scratch_bytes(storage.layout(), own.num_q_heads);
    kvc::Storage::Scratch scratch(storage, workers.num_workers() * bytes);
    if (scratch.data() == nullptr)
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu threads with %zu bytes", workers.num_workers(),
                  bytes);
    const kvc::ParallelFor parallel{
        [](void* context, size_t count, void (*job)(void*, size_t, size_t), void* data) {
          static_cast<kvc::WorkerPool*>(context)->run(count, job, data);
        },
        &workers, workers.num_workers()};
    const auto lock = storage.read_lock();
    kvc::attend(args, parallel, scratch.data());
    return KVC_OK;
  });
}
