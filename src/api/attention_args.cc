// SPDX-License-Identifier: Apache-2.0
#include "api/attention_args.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/row_args.h"
#include "attention/visibility.h"

namespace kvc {
namespace {

using ull = unsigned long long;

// Whether some head reads the block. What is read later may be another mask by then.
bool is_read(const AttentionArgs& args, const RequestView& view, uint64_t block) {
  for (uint32_t head = 0; head < args.layout->num_heads; ++head) {
    if (reads_block(args, view, head, block)) return true;
  }
  return false;
}

// Table entries of positions [first, end).
kvc_status check_entries(const AttentionArgs& args, const RequestView& view, int64_t first, int64_t end,
                         bool later) {
  const Layout& layout = *args.layout;
  const int32_t* table = view.table;
  for (auto j = static_cast<uint64_t>(first) / layout.block_size;
       first < end && j < ceil_div(static_cast<uint64_t>(end), layout.block_size); ++j) {
    if (table[j] >= 0 && static_cast<uint64_t>(table[j]) < layout.num_blocks) continue;
    if (!later && !is_read(args, view, j)) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu, table entry %llu: no block %d; the storage has %llu", view.request, ull{j},
                table[j], ull{layout.num_blocks});
  }
  return KVC_OK;
}

kvc_status check_request(const AttentionArgs& args, size_t r, bool later) {
  const uint64_t begin = args.q_offsets[r], end = args.q_offsets[r + 1];
  if (end < begin || (r == 0 && begin != 0) || end > (uint64_t{1} << 40)) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "q_offsets[%zu], %llu, after %llu", r + 1, ull{end}, ull{begin});
  }
  const uint64_t queries = end - begin, kv_len = args.kv_lens[r];
  if (args.q_starts == nullptr && args.causal && queries > kv_len) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu has %llu queries and %llu cached tokens; give q_starts", r, ull{queries},
                ull{kv_len});
  }
  const uint64_t q_start = args.q_starts != nullptr ? args.q_starts[r] : 0;
  if (kv_len > INT32_MAX || q_start > INT32_MAX || queries > INT32_MAX) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: kv_lens is %llu, q_starts %llu, with %llu queries; each at most 2^31 - 1", r,
                ull{kv_len}, ull{q_start}, ull{queries});
  }
  if (args.mask_starts != nullptr && args.mask_starts[r] > kv_len) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "mask_starts[%zu] is %llu; at most kv_lens[%zu], %llu", r,
                ull{args.mask_starts[r]}, r, ull{kv_len});
  }
  if (queries == 0) return KVC_OK;
  const uint64_t blocks = ceil_div(kv_len, args.layout->block_size);
  if (args.block_mask != nullptr && ceil_div(blocks, 8) > args.block_mask_stride) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: block_mask_stride is %zu bytes; %llu blocks need %llu", r,
                args.block_mask_stride, ull{blocks}, ull{ceil_div(blocks, 8)});
  }
  const RequestView view = view_request(args, r);
  const Reach reach = find_reach(args, view, 0, queries - 1);
  if (ceil_div(static_cast<uint64_t>(reach.end), args.layout->block_size) > args.table_stride) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "request %zu: %lld tokens need more than table_stride, %zu entries", r,
                static_cast<long long>(reach.end), args.table_stride);
  }
  if (const kvc_status status = check_entries(args, view, 0, reach.sinks, later); status != KVC_OK)
    return status;
  return check_entries(args, view, reach.low, reach.end, later);
}

// All requests begin with the same blocks, and no query stands before their end.
kvc_status check_shared(const kvc_backend_attention& a, const AttentionArgs& args) {
  const uint64_t entries = ceil_div(a.shared_tokens, args.layout->block_size);
  if (entries > a.table_stride) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "shared_tokens is %llu; table_stride has room for %llu",
                ull{a.shared_tokens}, ull{uint64_t{a.table_stride} * args.layout->block_size});
  }
  for (size_t r = 0; r < a.num_requests; ++r) {
    const int32_t* const table = a.block_tables + r * a.table_stride;
    for (uint64_t j = 0; j < entries; ++j) {
      if (table[j] == a.block_tables[j]) continue;
      return fail(KVC_ERROR_INVALID_ARGUMENT,
                  "shared_tokens is %llu, but table entry %llu of request %zu is %d, and %d of request 0",
                  ull{a.shared_tokens}, ull{j}, r, table[j], a.block_tables[j]);
    }
    const uint64_t queries = a.q_offsets[r + 1] - a.q_offsets[r];
    if (queries == 0) continue;
    uint64_t end = a.kv_lens[r];  // at most
    if (args.causal) end = a.q_starts != nullptr ? std::min(end, a.q_starts[r]) : end - queries;
    if (a.mask_starts != nullptr) end = std::min(end, a.mask_starts[r]);
    if (a.shared_tokens <= end) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "shared_tokens is %llu; request %zu has a query, or a mask, or its end at %llu",
                ull{a.shared_tokens}, r, ull{end});
  }
  return KVC_OK;
}

// What is known of arrays on the device.
kvc_status check_bounds(const Layout& layout, kvc_backend_attention* a) {
  const uint64_t most = uint64_t{a->table_stride} * layout.block_size;
  if (a->run.max_queries == 0) a->run.max_queries = a->run.total_queries;
  if (a->run.max_kv_len == 0) a->run.max_kv_len = most;
  if (a->run.total_queries == 0 || a->run.total_queries > INT32_MAX ||
      a->run.max_queries > a->run.total_queries) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "KVC_LAUNCH_ON_DEVICE: total_queries %llu, max_queries %llu; at least 1 of all, and of one "
                "request no more",
                ull{a->run.total_queries}, ull{a->run.max_queries});
  }
  if (a->run.max_kv_len > most || a->run.max_kv_len > INT32_MAX) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "max_kv_len is %llu; table_stride has room for %llu tokens",
                ull{a->run.max_kv_len}, ull{most});
  }
  if (a->shared_tokens > a->run.max_kv_len) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "shared_tokens is %llu; max_kv_len is %llu",
                ull{a->shared_tokens}, ull{a->run.max_kv_len});
  }
  // Far beyond all memory; what is worked out of it stays below 2^64.
  constexpr uint64_t kMost = uint64_t{1} << 52;
  if (product(product(a->num_requests, a->num_q_heads), std::max(a->run.max_kv_len, a->run.max_queries)) >
      kMost) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "%zu requests, %u heads, max_kv_len %llu, max_queries %llu; their product is at most 2^52",
                a->num_requests, a->num_q_heads, ull{a->run.max_kv_len}, ull{a->run.max_queries});
  }
  const uint64_t blocks = ceil_div(a->run.max_kv_len, layout.block_size);
  if (a->block_mask != nullptr && ceil_div(blocks, 8) > a->block_mask_stride) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "block_mask_stride is %zu bytes; the %llu blocks of max_kv_len, %llu, need %llu",
                a->block_mask_stride, ull{blocks}, ull{a->run.max_kv_len}, ull{ceil_div(blocks, 8)});
  }
  return KVC_OK;
}

// A learned logit may be anything finite; one that is above all others by infinity leaves no result.
kvc_status check_sink_logits(const kvc_backend_attention& a) {
  for (uint32_t h = 0; a.sink_logits != nullptr && h < a.num_q_heads; ++h) {
    if (a.sink_logits[h] <= std::numeric_limits<float>::max()) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention.sink_logits[%u] is %g; it must be finite, or -infinity for none", h,
                static_cast<double>(a.sink_logits[h]));
  }
  return KVC_OK;
}

// Strides of the rows of `name`, 0 = contiguous.
kvc_status resolve_strides(const char* name, const kvc_backend_attention& a, uint32_t dim, int64_t* token,
                           int64_t* head) {
  if (num_queries(a) <= 1) *token = 0;  // of what there is only one, the stride does not matter
  if (a.num_q_heads == 1) *head = 0;
  if (*token < 0 || *head < 0) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention.%s_token_stride is %lld, %s_head_stride %lld; each at least 0", name,
                static_cast<long long>(*token), name, static_cast<long long>(*head));
  }
  if (*head == 0) *head = dim;
  if (*token == 0)  // what overflows is refused below
    static_cast<void>(__builtin_mul_overflow(*head, int64_t{a.num_q_heads}, token));
  constexpr uint64_t kMost = uint64_t{1} << 60;
  const uint64_t tokens = product(static_cast<uint64_t>(*token), num_queries(a)),
                 heads = product(static_cast<uint64_t>(*head), a.num_q_heads);
  if (tokens < kMost && heads < kMost - tokens) return KVC_OK;
  return fail(
      KVC_ERROR_INVALID_ARGUMENT,
      "kvc_attention.%s_token_stride is %lld for %llu queries, %s_head_stride %lld for %u heads; together "
      "below 2^60 elements",
      name, static_cast<long long>(*token), ull{num_queries(a)}, name, static_cast<long long>(*head),
      a.num_q_heads);
}

// That no two rows of `out` overlap: all rows along the smaller stride fit into the larger one.
kvc_status check_apart(const kvc_backend_attention& a, uint32_t dim) {
  const uint64_t token = static_cast<uint64_t>(a.out_token_stride), queries = num_queries(a);
  const uint64_t head = static_cast<uint64_t>(a.out_head_stride), heads = a.num_q_heads;
  // Of what there is only one, the stride does not matter.
  const bool by_token = heads == 1 || (queries > 1 && token < head);  // the smaller stride
  const uint64_t smaller = by_token ? token : head, rows = by_token ? queries : heads;
  const uint64_t larger = by_token ? head : token, times = by_token ? heads : queries;
  const uint64_t extent = rows == 0 ? 0 : (rows - 1) * smaller + dim;
  if (rows > 1 && smaller < dim) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention.out_%s_stride is %llu; rows of %u elements overlap below %u",
                by_token ? "token" : "head", ull{smaller}, dim, dim);
  }
  if (times > 1 && larger < extent) {
    return fail(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention.out_%s_stride is %llu; %llu rows that are %llu apart need %llu elements",
                by_token ? "head" : "token", ull{larger}, ull{rows}, ull{smaller}, ull{extent});
  }
  return KVC_OK;
}

// Where the rows of queries and results lie; the number of queries is known to be right.
kvc_status resolve_rows(const Layout& layout, kvc_backend_attention* a) {
  kvc_status status = resolve_strides("q", *a, layout.k_dim, &a->q_token_stride, &a->q_head_stride);
  if (status == KVC_OK)
    status = resolve_strides("out", *a, layout.v_dim, &a->out_token_stride, &a->out_head_stride);
  return status == KVC_OK ? check_apart(*a, layout.v_dim) : status;
}

kvc_status check(const Layout& layout, const kvc_backend_attention& a) {
  if (a.layer >= layout.num_layers)
    return fail(KVC_ERROR_INVALID_ARGUMENT, "layer %u of %u", a.layer, layout.num_layers);
  if (a.num_q_heads == 0 || a.num_q_heads % layout.num_heads != 0 || a.num_q_heads > 65536) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "num_q_heads is %u; a multiple of the storage's %u heads",
                a.num_q_heads, layout.num_heads);
  }
  if (!is_float(a.dtype))
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention.dtype %d is no float type", a.dtype);
  if ((a.flags & ~uint32_t{KVC_ATTENTION_NOT_CAUSAL}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "attention flags %#x are not supported", a.flags);
  constexpr uint32_t kKnown = KVC_LAUNCH_ON_DEVICE | KVC_LAUNCH_INVARIANT | KVC_LAUNCH_PLANNED;
  if ((a.run.flags & ~kKnown) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "launch flags %#x are not supported", a.run.flags & ~kKnown);
  if (!(std::abs(a.scale) <= kMostFactor)) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention.scale is %g; it must be from %g to %g",
                static_cast<double>(a.scale), static_cast<double>(-kMostFactor),
                static_cast<double>(kMostFactor));
  }
  if (const kvc_status status = check_factor("kvc_attention.soft_cap", a.soft_cap); status != KVC_OK)
    return status;
  if (a.window > INT32_MAX || a.sinks > INT32_MAX)
    return fail(KVC_ERROR_INVALID_ARGUMENT, "window %llu, sinks %llu; at most 2^31 - 1", ull{a.window},
                ull{a.sinks});
  if (a.num_requests == 0) return KVC_OK;
  if (a.num_requests > UINT32_MAX)
    return fail(KVC_ERROR_INVALID_ARGUMENT, "%zu requests; at most 2^32 - 1", a.num_requests);
  KVC_REQUIRE_POINTER(a.q_offsets);
  KVC_REQUIRE_POINTER(a.kv_lens);
  KVC_REQUIRE_ARRAY(a.block_tables, a.table_stride);
  if (a.mask != nullptr) KVC_REQUIRE_POINTER(a.mask_offsets);
  return KVC_OK;
}

}  // namespace

uint64_t num_queries(const kvc_backend_attention& a) {
  if ((a.run.flags & KVC_LAUNCH_ON_DEVICE) != 0) return a.run.total_queries;
  return a.num_requests == 0 ? 0 : a.q_offsets[a.num_requests];
}

AttentionArgs args_of(const Layout& layout, const char* slab, const kvc_backend_attention& a) {
  AttentionArgs args = {};
  args.layout = &layout;
  args.slab = slab;
  args.layer = a.layer;
  args.q_dtype = a.dtype;
  args.num_q_heads = a.num_q_heads;
  args.q = a.q;
  args.out = a.out;
  args.q_token_stride = static_cast<uint64_t>(a.q_token_stride);
  args.q_head_stride = static_cast<uint64_t>(a.q_head_stride);
  args.out_token_stride = static_cast<uint64_t>(a.out_token_stride);
  args.out_head_stride = static_cast<uint64_t>(a.out_head_stride);
  args.lse = a.lse;
  args.num_requests = a.num_requests;
  args.q_offsets = a.q_offsets;
  args.q_starts = a.q_starts;
  args.kv_lens = a.kv_lens;
  args.block_tables = a.block_tables;
  args.table_stride = a.table_stride;
  args.scale = a.scale;
  args.causal = (a.flags & KVC_ATTENTION_NOT_CAUSAL) == 0;
  args.window = a.window;
  args.sinks = a.sinks;
  args.soft_cap = a.soft_cap;
  args.alibi_slopes = a.alibi_slopes;
  args.sink_logits = a.sink_logits;
  args.mask = a.mask;
  args.mask_offsets = a.mask_offsets;
  args.mask_starts = a.mask_starts;
  args.block_mask = a.block_mask;
  args.block_mask_stride = a.block_mask_stride;
  return args;
}

kvc_status read_attention(const kvc_storage& storage, const kvc_attention* attention, bool later,
                          kvc_backend_attention* out) {
  KVC_REQUIRE_POINTER(attention);
  kvc_backend_attention own = {};
  KVC_TRY(read_struct<kvc_attention>(attention, attention->struct_size, "kvc_attention", &own));
  if (own.launch != nullptr) {
    KVC_TRY(read_struct(own.launch, own.launch->struct_size, "kvc_attention_launch", &own.run));
  }
  if (own.dtype == 0) own.dtype = KVC_FLOAT32;
  if (own.scale == 0) own.scale = 1 / std::sqrt(static_cast<float>(storage.layout.k_dim));
  if (const kvc_status status = check(storage.layout, own); status != KVC_OK) return status;
  if ((own.run.flags & KVC_LAUNCH_ON_DEVICE) != 0) {
    kvc_status status = check_bounds(storage.layout, &own);
    if (status == KVC_OK) status = resolve_rows(storage.layout, &own);
    if (status == KVC_OK) *out = own;
    return status;
  }
  const AttentionArgs args = args_of(storage.layout, storage.slab(), own);
  for (size_t r = 0; r < args.num_requests; ++r) {
    if (const kvc_status status = check_request(args, r, later); status != KVC_OK) return status;
  }
  if (own.shared_tokens != 0) {
    if (const kvc_status status = check_shared(own, args); status != KVC_OK) return status;
  }
  kvc_status status = check_sink_logits(own);
  if (status == KVC_OK) status = resolve_rows(storage.layout, &own);
  if (status == KVC_OK) *out = own;
  return status;
}

}  // namespace kvc
