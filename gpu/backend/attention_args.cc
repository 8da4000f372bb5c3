// SPDX-License-Identifier: Apache-2.0
#include "backend/attention_args.h"

#include <algorithm>

#include "backend/devices.h"
#include "base/checked.h"

namespace kvc::gpu {

AttentionArgs args_of(const Layout& layout, const char* slab, const kvc_backend_attention& a) {
  AttentionArgs args = {};
  describe_storage(layout, slab, a.layer, &args);
  args.num_q_heads = a.num_q_heads;
  args.q_dtype = a.dtype;
  args.q = a.q;
  args.q_token_stride = static_cast<uint64_t>(a.q_token_stride);
  args.q_head_stride = static_cast<uint64_t>(a.q_head_stride);
  args.out = a.out;
  args.out_token_stride = static_cast<uint64_t>(a.out_token_stride);
  args.out_head_stride = static_cast<uint64_t>(a.out_head_stride);
  args.lse = a.lse;
  args.num_requests = static_cast<uint32_t>(a.num_requests);
  args.causal = (a.flags & KVC_ATTENTION_NOT_CAUSAL) == 0;
  args.q_offsets = a.q_offsets;
  args.q_starts = a.q_starts;
  args.kv_lens = a.kv_lens;
  args.block_tables = a.block_tables;
  args.table_stride = a.table_stride;
  args.window = a.window;
  args.sinks = a.sinks;
  args.scale = a.scale;
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

AttentionLimits limits_of(uint32_t device, const kvc_backend_attention& a) {
  const runtime::Properties& properties = devices().properties[device];
  AttentionLimits limits = {};
  limits.num_multiprocessors = properties.num_processors;
  limits.shared_bytes = properties.shared_bytes;
  limits.has_mma = properties.has_mma ? 1 : 0;
  limits.invariant = (a.run.flags & KVC_LAUNCH_INVARIANT) != 0;
  if ((a.run.flags & KVC_LAUNCH_ON_DEVICE) != 0) {
    limits.total_queries = a.run.total_queries;
    limits.max_queries = a.run.max_queries;
    limits.max_kv_len = a.run.max_kv_len;
    return limits;
  }
  limits.total_queries = a.num_requests == 0 ? 0 : a.q_offsets[a.num_requests];
  for (size_t r = 0; r < a.num_requests; ++r) {
    limits.max_queries = std::max(limits.max_queries, a.q_offsets[r + 1] - a.q_offsets[r]);
    limits.max_kv_len = std::max(limits.max_kv_len, a.kv_lens[r]);
  }
  return limits;
}

kvc_status find_arrays(const kvc_backend_attention& attention, Call& call, AttentionArgs* args) {
  KVC_TRY(call.address(args->q, "kvc_attention.q"));
  KVC_TRY(call.address(args->out, "kvc_attention.out"));
  KVC_TRY(call.address(args->lse, "kvc_attention.lse"));
  KVC_TRY(call.address(args->mask, "kvc_attention.mask"));
  KVC_TRY(call.address(args->block_mask, "kvc_attention.block_mask"));
  if ((attention.run.flags & KVC_LAUNCH_ON_DEVICE) == 0) return KVC_OK;
  KVC_TRY(call.address(args->q_offsets, "kvc_attention.q_offsets"));
  KVC_TRY(call.address(args->q_starts, "kvc_attention.q_starts"));
  KVC_TRY(call.address(args->kv_lens, "kvc_attention.kv_lens"));
  KVC_TRY(call.address(args->block_tables, "kvc_attention.block_tables"));
  KVC_TRY(call.address(args->alibi_slopes, "kvc_attention.alibi_slopes"));
  KVC_TRY(call.address(args->sink_logits, "kvc_attention.sink_logits"));
  KVC_TRY(call.address(args->mask_offsets, "kvc_attention.mask_offsets"));
  return call.address(args->mask_starts, "kvc_attention.mask_starts");
}

void list_host_arrays(const Layout& layout, const kvc_backend_attention& attention,
                      const AttentionLimits& limits, HostArrays* arrays, AttentionArgs* args) {
  if ((attention.run.flags & KVC_LAUNCH_ON_DEVICE) != 0) return;
  const size_t n = attention.num_requests;
  const uint64_t entries =
      std::min<uint64_t>(ceil_div(limits.max_kv_len, layout.block_size), args->table_stride);
  size_t stride = args->table_stride;
  arrays->add(args->q_offsets, n + 1);
  arrays->add(args->q_starts, n);
  arrays->add(args->kv_lens, n);
  arrays->add(args->block_tables, n, entries, stride);
  arrays->add(args->alibi_slopes, args->num_q_heads);
  arrays->add(args->sink_logits, args->num_q_heads);
  arrays->add(args->mask_offsets, n);
  arrays->add(args->mask_starts, n);
  args->table_stride = stride;
}

kvc_status check_workspace(const kvc_backend_attention& a, uint64_t needed, const char* needed_by) {
  using ull = unsigned long long;
  if (a.run.workspace == nullptr) {
    if (a.run.workspace_bytes == 0) return KVC_OK;
    return refuse(KVC_ERROR_INVALID_ARGUMENT,
                  "kvc_attention_launch.workspace_bytes is %llu and workspace is NULL; give both or neither",
                  ull{a.run.workspace_bytes});
  }
  if (reinterpret_cast<uintptr_t>(a.run.workspace) % kWorkspaceAlignment != 0) {
    return refuse(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention_launch.workspace is %p; a multiple of %llu",
                  a.run.workspace, ull{kWorkspaceAlignment});
  }
  if (a.run.workspace_bytes >= needed) return KVC_OK;
  return refuse(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention_launch.workspace_bytes is %llu; this call needs %llu: kvc_attention_info.%s",
                ull{a.run.workspace_bytes}, ull{needed}, needed_by);
}

}  // namespace kvc::gpu
