// SPDX-License-Identifier: Apache-2.0
// Attention of a storage: which kernels take a call, and what they get.
#include <cstdio>

#include "device/attention_args.h"
#include "device/device_storage.h"

namespace kvc::gpu {
namespace {

constexpr uint64_t kScheduleAlignment = 16;

kvc_status check_support(const AttentionSupport& support) {
  if (support.path != AttentionPath::kUnsupported) return KVC_OK;
  return refuse(KVC_ERROR_UNSUPPORTED, "attention on %s: %s", runtime::kName, support.reason);
}

// The call with a prefix that is read once for all requests, if it has one and the kernels can: the part that
// follows is of each request alone, so that a batch changes how its bits come about.
bool shares_prefix(const kvc_attention& a, const AttentionArgs& args, const AttentionLimits& limits) {
  if (a.shared_tokens == 0 || a.num_requests < 2 || limits.invariant != 0) return false;
  return cascade_support({args, 1, nullptr, nullptr}, limits).path != AttentionPath::kUnsupported;
}

// What attention of a storage is: one call, or with a prefix that is read once.
struct Work {
  AttentionLimits limits;
  AttentionArgs args;
  AttentionSupport support;
  bool shares;
  uint64_t schedule_bytes, workspace_bytes;
};

Work look_at(const Layout& layout, const void* slab, uint32_t device, const kvc_attention& attention) {
  Work work = {};
  work.limits = limits_of(device, attention);
  work.args = args_of(layout, static_cast<const char*>(slab), attention);
  work.support = attention_support(work.args, work.limits);
  work.shares = shares_prefix(attention, work.args, work.limits);
  if (work.limits.total_queries == 0 || attention.num_requests == 0) return work;
  const CascadeArgs cascade = {work.args, 1, nullptr, nullptr};
  work.schedule_bytes = work.shares ? cascade_schedule_bytes(cascade, work.limits)
                                    : attention_schedule_bytes(work.args, work.limits);
  work.workspace_bytes = work.shares ? cascade_workspace_bytes(cascade, work.limits)
                                     : attention_workspace_bytes(work.args, work.limits);
  if (attention.schedule == nullptr) work.workspace_bytes += work.schedule_bytes;
  return work;
}

kvc_status check_schedule(const kvc_attention& a, uint64_t needed) {
  using ull = unsigned long long;
  if (a.schedule == nullptr) {
    if ((a.flags & KVC_ATTENTION_SCHEDULED) == 0) return KVC_OK;
    return refuse(
        KVC_ERROR_INVALID_ARGUMENT,
        "KVC_ATTENTION_SCHEDULED without kvc_attention.schedule; give what an earlier call has filled");
  }
  if (reinterpret_cast<uintptr_t>(a.schedule) % kScheduleAlignment != 0) {
    return refuse(KVC_ERROR_INVALID_ARGUMENT, "kvc_attention.schedule is %p; a multiple of %llu", a.schedule,
                  ull{kScheduleAlignment});
  }
  if (reinterpret_cast<uintptr_t>(a.out) % 4 != 0) {  // other kernels, with a schedule of their own
    return refuse(KVC_ERROR_INVALID_ARGUMENT,
                  "kvc_attention.out is %p; with kvc_attention.schedule a multiple of 4", a.out);
  }
  if (a.schedule_bytes >= needed) return KVC_OK;
  return refuse(KVC_ERROR_INVALID_ARGUMENT,
                "kvc_attention.schedule_bytes is %llu; this call needs %llu, which kvc_storage_explain says",
                ull{a.schedule_bytes}, ull{needed});
}

}  // namespace

kvc_status DeviceStorage::attend(const kvc_attention& attention, DeviceStream* stream) {
  Work work = look_at(layout_, address_, device_, attention);
  if (work.limits.total_queries == 0) return KVC_OK;
  KVC_TRY(check_support(work.support));
  KVC_TRY(check_schedule(attention, work.schedule_bytes));

  Call call(device_, memory_, stream);
  KVC_TRY(call.begin());
  KVC_TRY(find_arrays(layout_, attention, work.limits, call, &work.args));
  AttentionMemory memory = {attention.schedule, nullptr, (attention.flags & KVC_ATTENTION_SCHEDULED) != 0};
  KVC_TRY(call.address(memory.schedule, "kvc_attention.schedule"));
  const uint64_t group[] = {0, attention.num_requests},
                 prefix[] = {attention.shared_tokens};  // all requests are one group
  CascadeArgs cascade = {work.args, 1, group, prefix};
  if (work.shares) {
    call.array(cascade.group_offsets, 2);
    call.array(cascade.prefix_lens, 1);
  }
  KVC_TRY(call.upload(work.workspace_bytes));
  memory.workspace = call.workspace();
  if (memory.schedule == nullptr)
    memory.schedule = call.workspace() + (work.workspace_bytes - work.schedule_bytes);
  cascade.attention = work.args;  // with the arrays' addresses
  return call.end(work.shares ? launch_cascade(cascade, work.limits, memory, call.stream())
                              : launch_attention(work.args, work.limits, memory, call.stream()),
                  "attention");
}

kvc_status DeviceStorage::explain(const kvc_attention& attention, kvc_attention_plan* plan) {
  const Work work = look_at(layout_, address_, device_, attention);
  KVC_TRY(check_support(work.support));
  *plan = {};
  plan->struct_size = sizeof *plan;
  std::snprintf(plan->kernels, sizeof plan->kernels, "%s",
                work.support.path == AttentionPath::kMma ? "mma" : "plain");
  std::snprintf(plan->keys, sizeof plan->keys, "%s", layout_.k.tiled() ? "tiles" : "rows");
  std::snprintf(plan->values, sizeof plan->values, "%s", layout_.latent ? "keys" : "rows");
  plan->num_workers = work.limits.num_multiprocessors;
  plan->sparse = attention.block_mask != nullptr;
  plan->shared_tokens = work.shares ? attention.shared_tokens : 0;
  plan->scratch_bytes = work.workspace_bytes;
  plan->schedule_bytes = work.schedule_bytes;
  return KVC_OK;
}

}  // namespace kvc::gpu
