// SPDX-License-Identifier: Apache-2.0
// Attention of a storage: which kernels run, and with which memory.
#include <kvcache/attention.h>

#include "backend/attention_args.h"
#include "backend/device_storage.h"
#include "kernels/attention_config.h"
#include "kernels/select.h"

namespace kvc::gpu {
namespace {

constexpr uint64_t kPlanAlignment = 16;

// A call before anything is enqueued. Explaining it, counting its bytes and launching it read this.
struct Work {
  AttentionLimits limits;
  AttentionArgs args;      // with the caller's addresses
  bool shares;             // a prefix is read once for all requests
  AttentionConfig config;  // unless it shares
  CascadeConfig cascade;
  AttentionSupport support;
  uint64_t plan_bytes;
  uint64_t kernel_bytes;    // of workspace: what the kernels use, ...
  uint64_t own_plan_bytes;  // ... then the plan, if the caller gives none
  uint64_t bytes;           // both, and the copies of host arrays

  bool is_empty() const { return limits.total_queries == 0 || args.num_requests == 0; }
};

// All requests of a call are one group that shares its first tokens.
struct OneGroup {
  explicit OneGroup(const kvc_backend_attention& a) : offsets{0, a.num_requests}, prefix{a.shared_tokens} {}

  CascadeArgs args(const AttentionArgs& attention) const { return {attention, 1, offsets, prefix}; }
  uint64_t offsets[2], prefix[1];
};

void list_host_arrays(const OneGroup&, HostArrays* arrays, CascadeArgs* args) {
  arrays->add(args->group_offsets, 2);
  arrays->add(args->prefix_lens, 1);
}

Work prepare(const Layout& layout, const void* slab, uint32_t device,
             const kvc_backend_attention& attention) {
  Work work = {};
  work.limits = limits_of(device, attention);
  work.args = args_of(layout, slab, attention);
  const OneGroup group(attention);
  CascadeArgs cascade = group.args(work.args);
  // With a shared prefix, the bits of a request depend on the batch.
  if (attention.shared_tokens != 0 && attention.num_requests > 1 && work.limits.invariant == 0) {
    work.cascade = configure_cascade(cascade, work.limits);
    work.support = work.cascade.suffix.support;
    work.shares = work.support.path != AttentionPath::kUnsupported;
  }
  if (!work.shares) {
    work.config = configure_attention(work.args, work.limits);
    work.support = work.config.support;
  }
  if (work.is_empty() || work.support.path == AttentionPath::kUnsupported) return work;
  work.plan_bytes = work.shares ? work.cascade.plan_bytes : work.config.plan_bytes;
  work.kernel_bytes = work.shares ? work.cascade.workspace_bytes : work.config.workspace_bytes;
  work.own_plan_bytes = attention.plan == nullptr ? work.plan_bytes : 0;
  HostArrays arrays;
  list_host_arrays(layout, &arrays, &cascade.attention);
  if (work.shares) list_host_arrays(group, &arrays, &cascade);
  work.bytes = Call::needed(work.kernel_bytes + work.own_plan_bytes, arrays);
  return work;
}

kvc_status check_support(const AttentionSupport& support) {
  if (support.path != AttentionPath::kUnsupported) return KVC_OK;
  return refuse(KVC_ERROR_UNSUPPORTED, "attention on %s: %s", runtime::kName, support.reason);
}

kvc_status check_plan(const kvc_backend_attention& a, uint32_t v_dim, uint64_t needed) {
  using ull = unsigned long long;
  if (a.plan == nullptr) {
    if (a.planned == 0) return KVC_OK;
    return refuse(
        KVC_ERROR_INVALID_ARGUMENT,
        "KVC_LAUNCH_PLANNED without kvc_attention_launch.plan; give what an earlier call has filled");
  }
  if (reinterpret_cast<uintptr_t>(a.plan) % kPlanAlignment != 0) {
    return refuse(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention_launch.plan is %p; a multiple of %llu", a.plan,
                  ull{kPlanAlignment});
  }
  // Kernels that write other results have other plans.
  if (reinterpret_cast<uintptr_t>(a.out) % 4 != 0) {
    return refuse(KVC_ERROR_INVALID_ARGUMENT,
                  "kvc_attention.out is %p; with kvc_attention_launch.plan a multiple of 4", a.out);
  }
  const bool by_pairs = a.q_dtype != KVC_FLOAT32 && v_dim % 2 == 0;
  if (by_pairs && (a.out_token_stride | a.out_head_stride) % 2 != 0) {
    return refuse(
        KVC_ERROR_INVALID_ARGUMENT,
        "kvc_attention.out_token_stride is %llu, out_head_stride %llu; with kvc_attention_launch.plan even",
        ull{a.out_token_stride}, ull{a.out_head_stride});
  }
  if (a.plan_bytes >= needed) return KVC_OK;
  return refuse(
      KVC_ERROR_INVALID_ARGUMENT,
      "kvc_attention_launch.plan_bytes is %llu; this call needs %llu, which kvc_storage_explain says",
      ull{a.plan_bytes}, ull{needed});
}

}  // namespace

kvc_status DeviceStorage::attend(const kvc_backend_attention& attention, DeviceStream* stream) {
  const Work work = prepare(layout_, address_, device_, attention);
  if (work.is_empty()) return KVC_OK;
  KVC_TRY(check_support(work.support));
  KVC_TRY(check_plan(attention, layout_.v_dim, work.plan_bytes));
  KVC_TRY(check_workspace(attention, work.bytes, "workspace_bytes"));

  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  const OneGroup group(attention);
  CascadeArgs args = group.args(work.args);
  KVC_TRY(find_arrays(layout_, call, &args.attention));
  if (work.shares) list_host_arrays(group, &call.arrays(), &args);
  AttentionMemory memory = {attention.plan, nullptr, attention.planned};
  char* given = static_cast<char*>(attention.workspace);
  KVC_TRY(call.address(memory.plan, "kvc_attention_launch.plan"));
  KVC_TRY(call.address(given, "kvc_attention_launch.workspace"));
  KVC_TRY(call.upload(work.kernel_bytes + work.own_plan_bytes, given));
  memory.workspace = call.workspace();
  if (memory.plan == nullptr) memory.plan = call.workspace() + work.kernel_bytes;
  return call.end(work.shares ? launch_cascade(work.cascade, args, memory, call.stream())
                              : launch_attention(work.config, args.attention, memory, call.stream()),
                  "attention");
}

kvc_status DeviceStorage::explain(const kvc_backend_attention& attention, kvc_backend_attention_info* info) {
  const Work work = prepare(layout_, address_, device_, attention);
  KVC_TRY(check_support(work.support));
  info->kernels = work.support.path == AttentionPath::kMma ? "mma" : "plain";
  info->keys = layout_.k.tiled() ? "tiles" : "rows";
  info->values = layout_.latent ? "keys" : "rows";
  info->num_workers = work.limits.num_multiprocessors;
  info->sparse = attention.block_mask != nullptr;
  info->shared_tokens = work.shares ? attention.shared_tokens : 0;
  info->scratch_bytes = work.kernel_bytes + work.own_plan_bytes;
  info->plan_bytes = work.plan_bytes;
  info->workspace_bytes = work.bytes;
  info->selection_bytes = selection_bytes(attention);
  return KVC_OK;
}

}  // namespace kvc::gpu
