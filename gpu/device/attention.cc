// SPDX-License-Identifier: Apache-2.0
// Attention of a storage: kvc_attention becomes the arguments of kernels, its host arrays travel along.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/checked.h"
#include "device/device_storage.h"
#include "device/devices.h"

namespace kvc::gpu {
namespace {

AttentionArgs args_of(const Layout& layout, const char* slab, const kvc_attention& a) {
  AttentionArgs args = {};
  describe_storage(layout, slab, a.layer, &args);
  args.num_q_heads = a.num_q_heads;
  args.q_dtype = a.dtype;
  args.q = a.q;
  args.out = a.out;
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
  args.scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<float>(layout.k_dim));
  args.soft_cap = a.soft_cap;
  args.alibi_slopes = a.alibi_slopes;
  args.mask = a.mask;
  args.mask_offsets = a.mask_offsets;
  args.mask_starts = a.mask_starts;
  args.block_mask = a.block_mask;
  args.block_mask_stride = a.block_mask_stride;
  return args;
}

AttentionLimits limits_of(uint32_t device, const kvc_attention& a) {
  const runtime::Properties& properties = devices().properties[device];
  AttentionLimits limits = {};
  limits.num_multiprocessors = properties.num_processors;
  limits.shared_bytes = properties.shared_bytes;
  limits.has_mma = properties.has_mma ? 1 : 0;
  limits.invariant = (a.flags & KVC_ATTENTION_INVARIANT) != 0;
  if ((a.flags & KVC_ATTENTION_ON_DEVICE) != 0) {
    limits.total_queries = a.total_queries;
    limits.max_queries = a.max_queries;
    limits.max_kv_len = a.max_kv_len;
    return limits;
  }
  limits.total_queries = a.num_requests == 0 ? 0 : a.q_offsets[a.num_requests];
  for (size_t r = 0; r < a.num_requests; ++r) {
    limits.max_queries = std::max(limits.max_queries, a.q_offsets[r + 1] - a.q_offsets[r]);
    limits.max_kv_len = std::max(limits.max_kv_len, a.kv_lens[r]);
  }
  return limits;
}

kvc_status check_support(const AttentionArgs& args, const AttentionLimits& limits,
                         AttentionSupport* support) {
  *support = attention_support(args, limits);
  if (support->path != AttentionPath::kUnsupported) return KVC_OK;
  return refuse(KVC_ERROR_UNSUPPORTED, "attention on %s: %s", runtime::kName, support->reason);
}

// The call with a prefix that is read once for all requests, if it has one and the kernels can: the part that
// follows is of each request alone, so that a batch changes how its bits come about.
bool shares_prefix(const kvc_attention& a, const AttentionArgs& args, const AttentionLimits& limits) {
  if (a.shared_tokens == 0 || a.num_requests < 2 || limits.invariant != 0) return false;
  return cascade_support({args, 1, nullptr, nullptr}, limits).path != AttentionPath::kUnsupported;
}

}  // namespace

kvc_status DeviceStorage::attend(const kvc_attention& attention, DeviceStream* stream) {
  const AttentionLimits limits = limits_of(device_, attention);
  if (limits.total_queries == 0) return KVC_OK;
  AttentionArgs args = args_of(layout_, static_cast<const char*>(address_), attention);
  AttentionSupport support;
  KVC_TRY(check_support(args, limits, &support));

  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(call.address(args.q, "kvc_attention.q"));
  KVC_TRY(call.address(args.out, "kvc_attention.out"));
  KVC_TRY(call.address(args.lse, "kvc_attention.lse"));
  KVC_TRY(call.address(args.mask, "kvc_attention.mask"));
  KVC_TRY(call.address(args.block_mask, "kvc_attention.block_mask"));
  const size_t n = attention.num_requests;
  if ((attention.flags & KVC_ATTENTION_ON_DEVICE) != 0) {
    KVC_TRY(call.address(args.q_offsets, "kvc_attention.q_offsets"));
    KVC_TRY(call.address(args.q_starts, "kvc_attention.q_starts"));
    KVC_TRY(call.address(args.kv_lens, "kvc_attention.kv_lens"));
    KVC_TRY(call.address(args.block_tables, "kvc_attention.block_tables"));
    KVC_TRY(call.address(args.alibi_slopes, "kvc_attention.alibi_slopes"));
    KVC_TRY(call.address(args.mask_offsets, "kvc_attention.mask_offsets"));
    KVC_TRY(call.address(args.mask_starts, "kvc_attention.mask_starts"));
  } else {
    const uint64_t entries =
        std::min<uint64_t>(ceil_div(limits.max_kv_len, layout_.block_size), args.table_stride);
    size_t stride = args.table_stride;
    call.array(args.q_offsets, n + 1);
    call.array(args.q_starts, n);
    call.array(args.kv_lens, n);
    call.array(args.block_tables, n, entries, stride);
    call.array(args.alibi_slopes, args.num_q_heads);
    call.array(args.mask_offsets, n);
    call.array(args.mask_starts, n);
    args.table_stride = stride;
  }
  if (!shares_prefix(attention, args, limits)) {
    KVC_TRY(call.upload(attention_workspace_bytes(args, limits)));
    return call.end(launch_attention(args, limits, call.workspace(), call.stream()), "attention");
  }
  const uint64_t group[] = {0, n}, prefix[] = {attention.shared_tokens};  // all requests are one group
  CascadeArgs cascade = {args, 1, group, prefix};
  call.array(cascade.group_offsets, 2);
  call.array(cascade.prefix_lens, 1);
  KVC_TRY(call.upload(cascade_workspace_bytes(cascade, limits)));
  cascade.attention = args;  // with the arrays' addresses
  return call.end(launch_cascade(cascade, limits, call.workspace(), call.stream()), "attention");
}

kvc_status DeviceStorage::explain(const kvc_attention& attention, kvc_attention_plan* plan) {
  const AttentionLimits limits = limits_of(device_, attention);
  const AttentionArgs args = args_of(layout_, static_cast<const char*>(address_), attention);
  AttentionSupport support;
  KVC_TRY(check_support(args, limits, &support));
  *plan = {};
  plan->struct_size = sizeof *plan;
  std::snprintf(plan->kernels, sizeof plan->kernels, "%s",
                support.path == AttentionPath::kMma ? "mma" : "plain");
  std::snprintf(plan->keys, sizeof plan->keys, "%s", layout_.k.tiled() ? "tiles" : "rows");
  std::snprintf(plan->values, sizeof plan->values, "%s", layout_.latent ? "keys" : "rows");
  plan->num_workers = limits.num_multiprocessors;
  plan->sparse = attention.block_mask != nullptr;
  const bool shares = shares_prefix(attention, args, limits);
  plan->shared_tokens = shares ? attention.shared_tokens : 0;
  if (limits.total_queries == 0) return KVC_OK;
  plan->scratch_bytes = shares ? cascade_workspace_bytes({args, 1, nullptr, nullptr}, limits)
                               : attention_workspace_bytes(args, limits);
  return KVC_OK;
}

}  // namespace kvc::gpu
