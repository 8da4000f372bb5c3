// SPDX-License-Identifier: Apache-2.0
#include "api/attention_args.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/guard.h"
#include "attention/visibility.h"

namespace kvc {
namespace {

// Whether some head reads the block.
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
    return invalid("request %zu, table entry %llu: no block %d; the storage has %llu", view.request, ull{j},
                   table[j], ull{layout.num_blocks});
  }
  return KVC_OK;
}

kvc_status check_request(const AttentionArgs& args, size_t r, bool later) {
  const uint64_t begin = args.q_offsets[r], end = args.q_offsets[r + 1];
  if (end < begin || (r == 0 && begin != 0) || end > (uint64_t{1} << 40))
    return invalid("q_offsets[%zu], %llu, after %llu", r + 1, ull{end}, ull{begin});
  const uint64_t queries = end - begin, kv_len = args.kv_lens[r];
  if (args.q_starts == nullptr && args.causal != 0 && queries > kv_len) {
    return invalid(
        "kv_lens[%zu] is %llu, less than its %llu queries, which it counts too: add the queries, or say in "
        "q_starts where they begin",
        r, ull{kv_len}, ull{queries});
  }
  const uint64_t q_start = args.q_starts != nullptr ? args.q_starts[r] : 0;
  if (kv_len > INT32_MAX || q_start > INT32_MAX || queries > INT32_MAX) {
    return invalid("request %zu: kv_lens is %llu, q_starts %llu, with %llu queries; each at most 2^31 - 1", r,
                   ull{kv_len}, ull{q_start}, ull{queries});
  }
  if (args.mask_starts != nullptr && args.mask_starts[r] > kv_len) {
    return invalid("mask_starts[%zu] is %llu; at most kv_lens[%zu], %llu", r, ull{args.mask_starts[r]}, r,
                   ull{kv_len});
  }
  if (queries == 0) return KVC_OK;
  const uint64_t blocks = ceil_div(kv_len, args.layout->block_size);
  if (args.block_mask != nullptr && ceil_div(blocks, 8) > args.block_mask_stride) {
    return invalid(
        "request %zu: %llu blocks need %llu bytes of block_mask; a row has %llu (block_mask_stride)", r,
        ull{blocks}, ull{ceil_div(blocks, 8)}, ull{args.block_mask_stride});
  }
  const RequestView view = view_request(args, r);
  const Reach reach = find_reach(args, view, 0, queries - 1);
  if (ceil_div(static_cast<uint64_t>(reach.end), args.layout->block_size) > args.table_stride) {
    return invalid(
        "request %zu: %lld tokens need %llu entries of block_tables; a row has %llu (table_stride)", r,
        static_cast<long long>(reach.end),
        ull{ceil_div(static_cast<uint64_t>(reach.end), args.layout->block_size)}, ull{args.table_stride});
  }
  KVC_TRY(check_entries(args, view, 0, reach.sinks, later));
  return check_entries(args, view, reach.low, reach.end, later);
}

// All requests begin with the same blocks, and no query stands before their end.
kvc_status check_shared(const AttentionArgs& a) {
  const uint64_t entries = ceil_div(a.shared_tokens, a.layout->block_size);
  if (entries > a.table_stride) {
    return invalid("shared_tokens is %llu; block_tables has room for %llu tokens (table_stride)",
                   ull{a.shared_tokens}, ull{a.table_stride * a.layout->block_size});
  }
  for (size_t r = 0; r < a.num_requests; ++r) {
    const int32_t* const table = a.block_tables + r * a.table_stride;
    for (uint64_t j = 0; j < entries; ++j) {
      if (table[j] == a.block_tables[j]) continue;
      return invalid("shared_tokens is %llu, but table entry %llu of request %zu is %d, and %d of request 0",
                     ull{a.shared_tokens}, ull{j}, r, table[j], a.block_tables[j]);
    }
    const uint64_t queries = a.q_offsets[r + 1] - a.q_offsets[r];
    if (queries == 0) continue;
    uint64_t end = a.kv_lens[r];  // at most
    if (a.causal != 0) end = a.q_starts != nullptr ? std::min(end, a.q_starts[r]) : end - queries;
    if (a.mask_starts != nullptr) end = std::min(end, a.mask_starts[r]);
    if (a.shared_tokens <= end) continue;
    return invalid("shared_tokens is %llu; request %zu has a query, or a mask, or its end at %llu",
                   ull{a.shared_tokens}, r, ull{end});
  }
  return KVC_OK;
}

// All that is known of arrays on the device.
kvc_status check_limits(const Layout& layout, kvc_backend_attention* a) {
  const uint64_t most = a->table_stride * layout.block_size;
  if (a->max_queries == 0) a->max_queries = a->total_queries;
  if (a->max_kv_len == 0) a->max_kv_len = most;
  if (a->total_queries == 0 || a->total_queries > INT32_MAX || a->max_queries > a->total_queries) {
    return invalid(
        "KVC_LAUNCH_ON_DEVICE: total_queries %llu, max_queries %llu; at least 1 of all, and of one "
        "request no more",
        ull{a->total_queries}, ull{a->max_queries});
  }
  if (a->max_kv_len > most || a->max_kv_len > INT32_MAX) {
    return invalid("max_kv_len is %llu; table_stride has room for %llu tokens", ull{a->max_kv_len},
                   ull{most});
  }
  if (a->shared_tokens > a->max_kv_len)
    return invalid("shared_tokens is %llu; max_kv_len is %llu", ull{a->shared_tokens}, ull{a->max_kv_len});
  // Far beyond all memory; what is worked out of it stays below 2^64.
  constexpr uint64_t kMost = uint64_t{1} << 52;
  if (product(product(a->num_requests, a->num_q_heads), std::max(a->max_kv_len, a->max_queries)) > kMost) {
    return invalid("%u requests, %u heads, max_kv_len %llu, max_queries %llu; their product is at most 2^52",
                   a->num_requests, a->num_q_heads, ull{a->max_kv_len}, ull{a->max_queries});
  }
  const uint64_t blocks = ceil_div(a->max_kv_len, layout.block_size);
  if (a->block_mask != nullptr && ceil_div(blocks, 8) > a->block_mask_stride) {
    return invalid("block_mask_stride is %llu bytes; the %llu blocks of max_kv_len, %llu, need %llu",
                   ull{a->block_mask_stride}, ull{blocks}, ull{a->max_kv_len}, ull{ceil_div(blocks, 8)});
  }
  return KVC_OK;
}

// A learned logit may be anything finite; one that is above all others by infinity leaves no result.
kvc_status check_sink_logits(const kvc_backend_attention& a) {
  for (uint32_t h = 0; a.sink_logits != nullptr && h < a.num_q_heads; ++h) {
    if (a.sink_logits[h] <= std::numeric_limits<float>::max()) continue;
    return invalid("kvc_attention.sink_logits[%u] is %g; it must be finite, or -infinity for none", h,
                   static_cast<double>(a.sink_logits[h]));
  }
  return KVC_OK;
}

// Strides of the rows of `name`; 0 becomes contiguous.
kvc_status resolve_strides(const char* name, const kvc_backend_attention& a, uint32_t dim, uint64_t* token,
                           uint64_t* head) {
  auto by_token = static_cast<int64_t>(*token), by_head = static_cast<int64_t>(*head);
  if (a.total_queries <= 1) by_token = 0;  // the stride of a dimension with one entry does not matter
  if (a.num_q_heads == 1) by_head = 0;
  if (by_token < 0 || by_head < 0) {
    return invalid("kvc_attention.%s_token_stride is %lld, %s_head_stride %lld; each at least 0", name,
                   static_cast<long long>(by_token), name, static_cast<long long>(by_head));
  }
  *head = by_head == 0 ? dim : static_cast<uint64_t>(by_head);
  *token = by_token == 0 ? product(*head, a.num_q_heads) : static_cast<uint64_t>(by_token);
  constexpr uint64_t kMost = uint64_t{1} << 60;
  const uint64_t tokens = product(*token, a.total_queries), heads = product(*head, a.num_q_heads);
  if (tokens < kMost && heads < kMost - tokens) return KVC_OK;
  return invalid(
      "kvc_attention.%s_token_stride is %llu for %llu queries, %s_head_stride %llu for %u heads; "
      "together below 2^60 elements",
      name, ull{*token}, ull{a.total_queries}, name, ull{*head}, a.num_q_heads);
}

// No two rows of `out` overlap: all rows along the smaller stride fit into the larger one.
kvc_status check_apart(const kvc_backend_attention& a, uint32_t dim) {
  const uint64_t token = a.out_token_stride, queries = a.total_queries;
  const uint64_t head = a.out_head_stride, heads = a.num_q_heads;
  const bool by_token = heads == 1 || (queries > 1 && token < head);  // the smaller stride
  const uint64_t smaller = by_token ? token : head, rows = by_token ? queries : heads;
  const uint64_t larger = by_token ? head : token, times = by_token ? heads : queries;
  const uint64_t extent = rows == 0 ? 0 : (rows - 1) * smaller + dim;
  if (rows > 1 && smaller < dim) {
    return invalid("kvc_attention.out_%s_stride is %llu; rows of %u elements overlap below %u",
                   by_token ? "token" : "head", ull{smaller}, dim, dim);
  }
  if (times > 1 && larger < extent) {
    return invalid("kvc_attention.out_%s_stride is %llu; %llu rows that are %llu apart need %llu elements",
                   by_token ? "head" : "token", ull{larger}, ull{rows}, ull{smaller}, ull{extent});
  }
  return KVC_OK;
}

kvc_status resolve_rows(const Layout& layout, kvc_backend_attention* a) {
  KVC_TRY(resolve_strides("q", *a, layout.k_dim, &a->q_token_stride, &a->q_head_stride));
  KVC_TRY(resolve_strides("out", *a, layout.v_dim, &a->out_token_stride, &a->out_head_stride));
  return check_apart(*a, layout.v_dim);
}

kvc_status check_scalars(const Layout& layout, const kvc_backend_attention& a) {
  KVC_TRY(check_layer(a.layer, layout.num_layers));
  if (a.num_q_heads == 0 || a.num_q_heads % layout.num_heads != 0 || a.num_q_heads > 65536) {
    return invalid("num_q_heads is %u; it must be a multiple of the storage's %u heads", a.num_q_heads,
                   layout.num_heads);
  }
  if (!is_float(a.q_dtype))
    return invalid("kvc_attention.dtype is %d (%s); it must be float32, float16 or bfloat16", a.q_dtype,
                   dtype_name(a.q_dtype));
  if (!(std::abs(a.scale) <= kMostFactor)) {
    return invalid("kvc_attention.scale is %g; it must be from %g to %g", static_cast<double>(a.scale),
                   static_cast<double>(-kMostFactor), static_cast<double>(kMostFactor));
  }
  KVC_TRY(check_factor("kvc_attention.soft_cap", a.soft_cap));
  if (a.window > INT32_MAX || a.sinks > INT32_MAX)
    return invalid("window %llu, sinks %llu; at most 2^31 - 1", ull{a.window}, ull{a.sinks});
  if (a.num_requests == 0) return KVC_OK;
  KVC_REQUIRE_POINTER(a.q_offsets);
  KVC_REQUIRE_POINTER(a.kv_lens);
  KVC_REQUIRE_ARRAY(a.block_tables, a.table_stride);
  if (a.mask != nullptr) KVC_REQUIRE_POINTER(a.mask_offsets);
  return KVC_OK;
}

// All that the host can read of the arrays; and the limits that follow from them.
kvc_status check_arrays(const kvc_storage& storage, bool later, kvc_backend_attention* a) {
  const AttentionArgs args{*a, &storage.layout, storage.slab(), nullptr};
  a->total_queries = a->max_queries = a->max_kv_len = 0;
  for (uint32_t r = 0; r < a->num_requests; ++r) {
    KVC_TRY(check_request(args, r, later));
    a->total_queries = a->q_offsets[r + 1];
    a->max_queries = std::max(a->max_queries, a->q_offsets[r + 1] - a->q_offsets[r]);
    a->max_kv_len = std::max(a->max_kv_len, a->kv_lens[r]);
  }
  if (a->shared_tokens != 0) {
    KVC_TRY(check_shared(args));
  }
  return check_sink_logits(*a);
}

// The caller's struct as the one that backends take, with defaults filled in but for strides.
kvc_status translate(const Layout& layout, const kvc_attention& a, kvc_backend_attention* out) {
  kvc_attention_launch launch = {};
  if (a.launch != nullptr) KVC_TRY(read_struct(a.launch, &launch));
  constexpr uint32_t kKnown = KVC_ATTENTION_NOT_CAUSAL | KVC_ATTENTION_ALLOW_BF16;
  if ((a.flags & ~kKnown) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "attention flags %#x are not supported", a.flags & ~kKnown);
  constexpr uint32_t kKnownOfLaunch = KVC_LAUNCH_ON_DEVICE | KVC_LAUNCH_INVARIANT | KVC_LAUNCH_PLANNED;
  if ((launch.flags & ~kKnownOfLaunch) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "launch flags %#x are not supported", launch.flags & ~kKnownOfLaunch);
  if (launch.reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_attention_launch.reserved is %u and must be 0", launch.reserved);
  if (a.num_requests > UINT32_MAX) return invalid("%zu requests; at most 2^32 - 1", a.num_requests);
  out->q = a.q;
  out->out = a.out;
  out->lse = a.lse;
  out->q_token_stride = static_cast<uint64_t>(a.q_token_stride);
  out->q_head_stride = static_cast<uint64_t>(a.q_head_stride);
  out->out_token_stride = static_cast<uint64_t>(a.out_token_stride);
  out->out_head_stride = static_cast<uint64_t>(a.out_head_stride);
  out->q_dtype = a.dtype != 0 ? a.dtype : KVC_FLOAT32;
  out->layer = a.layer;
  out->num_q_heads = a.num_q_heads;
  out->num_requests = static_cast<uint32_t>(a.num_requests);
  out->q_offsets = a.q_offsets;
  out->q_starts = a.q_starts;
  out->kv_lens = a.kv_lens;
  out->block_tables = a.block_tables;
  out->table_stride = a.table_stride;
  out->window = a.window;
  out->sinks = a.sinks;
  out->scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<float>(layout.k_dim));
  out->soft_cap = a.soft_cap;
  out->alibi_slopes = a.alibi_slopes;
  out->sink_logits = a.sink_logits;
  out->mask = a.mask;
  out->mask_offsets = a.mask_offsets;
  out->mask_starts = a.mask_starts;
  out->block_mask = a.block_mask;
  out->block_mask_stride = a.block_mask_stride;
  out->causal = (a.flags & KVC_ATTENTION_NOT_CAUSAL) == 0;
  out->allow_bf16 = (a.flags & KVC_ATTENTION_ALLOW_BF16) != 0;
  out->shared_tokens = a.shared_tokens;
  out->on_device = (launch.flags & KVC_LAUNCH_ON_DEVICE) != 0;
  out->invariant = (launch.flags & KVC_LAUNCH_INVARIANT) != 0;
  out->planned = (launch.flags & KVC_LAUNCH_PLANNED) != 0;
  out->total_queries = launch.total_queries;
  out->max_queries = launch.max_queries;
  out->max_kv_len = launch.max_kv_len;
  out->plan = launch.plan;
  out->plan_bytes = launch.plan_bytes;
  out->workspace = launch.workspace;
  out->workspace_bytes = launch.workspace_bytes;
  return KVC_OK;
}

// Whether the rows of block_mask have room for the blocks of every request.
kvc_status check_mask_rows(const Layout& layout, const kvc_backend_attention& a,
                           const kvc_backend_selection& selection) {
  const uint64_t needed = ceil_div(ceil_div(a.max_kv_len, layout.block_size), 8);
  if (needed <= selection.block_mask_stride) return KVC_OK;
  return invalid("kvc_block_choice.block_mask_stride is %llu bytes; %llu are needed for %s of %llu tokens",
                 ull{selection.block_mask_stride}, ull{needed},
                 a.on_device != 0 ? "a max_kv_len" : "a request", ull{a.max_kv_len});
}

// How many blocks, or how close to the best, from a choice with exactly one of the three ways.
kvc_status translate_mode(const kvc_block_choice& choice, kvc_backend_selection* selection) {
  const int modes = int{choice.top_k != 0} + int{choice.ratio != 0} + int{choice.threshold != 0};
  if (modes != 1) {
    return invalid(
        "kvc_block_choice.top_k is %llu, ratio is %g and threshold is %g; set exactly one of them, and leave "
        "the others 0",
        ull{choice.top_k}, choice.ratio, choice.threshold);
  }
  if (!(choice.ratio >= 0 && choice.ratio <= 1))
    return invalid("kvc_block_choice.ratio is %g; give a number above 0 and at most 1", choice.ratio);
  if (!(choice.threshold >= 0)) {
    return invalid("kvc_block_choice.threshold is %g; give a number above 0, or infinity for all blocks",
                   choice.threshold);
  }
  if (choice.ratio != 0)
    selection->ratio = std::max(static_cast<uint64_t>(std::ldexp(choice.ratio, 32)), uint64_t{1});
  if (choice.threshold > double{std::numeric_limits<float>::max()})
    selection->top_k = UINT64_MAX;
  else if (choice.threshold != 0)  // a tiny one stays above 0
    selection->threshold = std::max(static_cast<float>(choice.threshold), std::numeric_limits<float>::min());
  return KVC_OK;
}

}  // namespace

kvc_status read_attention(const kvc_storage& storage, const kvc_attention* attention, AttentionUse use,
                          kvc_backend_attention* out) {
  KVC_REQUIRE_POINTER(attention);
  kvc_attention own;
  kvc_backend_attention a = {};
  KVC_TRY(read_struct(attention, &own));
  KVC_TRY(translate(storage.layout, own, &a));
  if (use == AttentionUse::kSelect) {
    a.mask = a.block_mask = nullptr;
    a.sink_logits = nullptr;
    a.out_token_stride = a.out_head_stride = 0;
  }
  KVC_TRY(check_scalars(storage.layout, a));
  KVC_TRY(a.on_device != 0 ? check_limits(storage.layout, &a)
                           : check_arrays(storage, use == AttentionUse::kEnqueue, &a));
  KVC_TRY(resolve_rows(storage.layout, &a));
  *out = use == AttentionUse::kSelect ? selection_part(a) : a;
  return KVC_OK;
}

kvc_status read_selection(const kvc_storage& storage, const kvc_attention* attention,
                          const kvc_block_choice* choice, kvc_backend_attention* out,
                          kvc_backend_selection* selection) {
  KVC_REQUIRE_POINTER(attention);
  KVC_REQUIRE_POINTER(choice);
  kvc_block_choice own;
  KVC_TRY(read_struct(choice, &own));
  KVC_TRY(read_attention(storage, attention, AttentionUse::kSelect, out));
  *selection = {
      own.bounds, own.top_k, 0, own.sink_blocks, own.recent_blocks, own.block_mask, own.block_mask_stride,
      0,          0};
  KVC_TRY(translate_mode(own, selection));
  KVC_TRY(check_mask_rows(storage.layout, *out, *selection));
  if (out->num_requests == 0) return KVC_OK;
  KVC_REQUIRE_POINTER(selection->bounds);
  KVC_REQUIRE_POINTER(selection->block_mask);
  return KVC_OK;
}

kvc_attention complete_attention(const kvc_attention* attention, const kvc_backend_attention& a,
                                 kvc_attention_launch* launch) {
  kvc_attention out = {};
  static_cast<void>(read_struct(attention, &out));
  out.dtype = a.q_dtype;
  out.scale = a.scale;
  out.q_token_stride = static_cast<int64_t>(a.q_token_stride);
  out.q_head_stride = static_cast<int64_t>(a.q_head_stride);
  out.out_token_stride = static_cast<int64_t>(a.out_token_stride);
  out.out_head_stride = static_cast<int64_t>(a.out_head_stride);
  *launch = {sizeof *launch,
             (a.on_device != 0 ? uint32_t{KVC_LAUNCH_ON_DEVICE} : 0) |
                 (a.invariant != 0 ? uint32_t{KVC_LAUNCH_INVARIANT} : 0) |
                 (a.planned != 0 ? uint32_t{KVC_LAUNCH_PLANNED} : 0),
             0,
             a.total_queries,
             a.max_queries,
             a.max_kv_len,
             a.plan,
             a.plan_bytes,
             a.workspace,
             a.workspace_bytes};
  out.launch = launch;
  return out;
}

}  // namespace kvc
