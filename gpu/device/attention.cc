// SPDX-License-Identifier: Apache-2.0
// Attention of a storage: which kernels take a call, and what they get.
#include <cstdio>

#include "device/attention_args.h"
#include "device/device_storage.h"

namespace kvc::gpu {
namespace {

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
  KVC_TRY(find_arrays(layout_, attention, limits, call, &args));
  if (!shares_prefix(attention, args, limits)) {
    KVC_TRY(call.upload(attention_workspace_bytes(args, limits)));
    return call.end(launch_attention(args, limits, call.workspace(), call.stream()), "attention");
  }
  const uint64_t group[] = {0, attention.num_requests},
                 prefix[] = {attention.shared_tokens};  // all requests are one group
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
