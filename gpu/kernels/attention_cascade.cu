// SPDX-License-Identifier: Apache-2.0
// Shared prefixes: two calls of attention, one over the prefixes and one over what follows them, in float32,
// and a merge.
#include "kernels/attention_plan.h"
#include "kernels/carver.h"

namespace kvc::gpu {
namespace {

constexpr uint32_t kThreads = 128;

struct CascadeArrays {
  uint64_t* q_offsets;   // [num_groups + 1] of the groups
  uint32_t* table_rows;  // [num_groups]
  uint64_t* kv_starts;   // [num_requests]
  float* outs;           // [2][queries][num_q_heads][v_dim]
  float* lses;           // [2][queries][num_q_heads]
  char* workspace;       // of both calls, one after the other
  char* schedules[2];    // in memory that calls share
};

// A block per group.
KVC_KERNEL(kThreads, 8)
describe_groups(CascadeArgs args, CascadeArrays arrays, uint64_t total_queries) {
  const uint32_t group = blockIdx.x;
  const uint64_t first = args.group_offsets[group], end = args.group_offsets[group + 1];
  for (uint64_t r = first + threadIdx.x; r < end; r += kThreads)
    arrays.kv_starts[r] = args.prefix_lens[group];
  if (threadIdx.x != 0) return;
  // A request beyond the bounds spoils its own results alone, in the part that follows.
  const auto offset_of = [&](uint64_t request) {
    const uint64_t offset = args.attention.q_offsets[request];
    return offset < total_queries ? offset : total_queries;
  };
  arrays.q_offsets[group] = offset_of(first);
  if (group + 1 == args.num_groups) arrays.q_offsets[group + 1] = offset_of(end);
  arrays.table_rows[group] = static_cast<uint32_t>(first);
}

AttentionArgs prefix_args(const CascadeArgs& args, const CascadeArrays& arrays) {
  AttentionArgs prefix = args.attention;
  prefix.num_requests = args.num_groups;
  prefix.causal = 0;
  prefix.q_offsets = arrays.q_offsets;
  prefix.q_starts = nullptr;
  prefix.kv_lens = args.prefix_lens;
  prefix.table_rows = arrays.table_rows;
  prefix.mask = nullptr;
  prefix.out = arrays.outs;
  prefix.lse = arrays.lses;
  prefix.out_dtype = KVC_FLOAT32;
  return prefix;
}
AttentionLimits prefix_limits(const AttentionLimits& limits) {
  AttentionLimits prefix = limits;
  prefix.max_queries = limits.total_queries;
  return prefix;
}

AttentionArgs suffix_args(const CascadeArgs& args, uint64_t rows, const CascadeArrays& arrays) {
  AttentionArgs suffix = args.attention;
  suffix.kv_starts = arrays.kv_starts;
  suffix.out = arrays.outs == nullptr ? nullptr : arrays.outs + rows * suffix.v_dim;
  suffix.lse = arrays.lses == nullptr ? nullptr : arrays.lses + rows;
  suffix.out_dtype = KVC_FLOAT32;
  return suffix;
}

// The arrays of a planned call, where the memory begins that `shared` and `workspace` carve up, if it is
// there.
CascadeArrays take_arrays(const CascadePlan& plan, const CascadeArgs& args, Carver* shared,
                          Carver* workspace) {
  CascadeArrays arrays = {};
  workspace->take(&arrays.q_offsets, uint64_t{args.num_groups} + 1);
  workspace->take(&arrays.table_rows, args.num_groups);
  workspace->take(&arrays.kv_starts, args.attention.num_requests);
  workspace->take(&arrays.outs, 2 * plan.rows * args.attention.v_dim);
  workspace->take(&arrays.lses, 2 * plan.rows);
  const uint64_t of_prefix = plan.prefix.workspace_bytes, of_suffix = plan.suffix.workspace_bytes;
  workspace->take(&arrays.workspace, of_prefix < of_suffix ? of_suffix : of_prefix);
  shared->take(&arrays.schedules[0], plan.prefix.schedule_bytes);
  shared->take(&arrays.schedules[1], plan.suffix.schedule_bytes);
  return arrays;
}

// Why a prefix cannot be shared, or nullptr.
const char* why_not_shared(const AttentionArgs& args) {
  if (args.causal == 0) return "a shared prefix without causality";
  if (args.window != 0) return "a shared prefix with a window";
  if (args.alibi_slopes != nullptr) return "a shared prefix with ALiBi";
  if (args.block_mask != nullptr) return "a shared prefix with a block mask";
  if (args.kv_starts != nullptr) return "a shared prefix of a part of a context";
  if (args.mask != nullptr && args.mask_starts == nullptr)
    return "a shared prefix with a mask that begins in it";
  return nullptr;
}

}  // namespace

CascadePlan plan_cascade(const CascadeArgs& args, const AttentionLimits& limits) {
  CascadePlan plan = {};
  if (const char* reason = why_not_shared(args.attention); reason != nullptr) {
    plan.prefix.support = plan.suffix.support = {AttentionPath::kUnsupported, reason};
    return plan;
  }
  const CascadeArrays arrays = {};
  plan.rows = limits.total_queries * args.attention.num_q_heads;
  plan.prefix = plan_attention(prefix_args(args, arrays), prefix_limits(limits));
  plan.suffix = plan_attention(suffix_args(args, plan.rows, arrays), limits);
  Carver shared(nullptr), workspace(nullptr);
  take_arrays(plan, args, &shared, &workspace);
  plan.schedule_bytes = shared.used();
  plan.workspace_bytes = workspace.used();
  return plan;
}

int launch_cascade(const CascadePlan& plan, const CascadeArgs& args, const AttentionMemory& memory,
                   Stream stream) {
  if (args.attention.num_requests == 0 || args.num_groups == 0) return 0;
  Carver shared(memory.schedule), workspace(memory.workspace);
  const CascadeArrays arrays = take_arrays(plan, args, &shared, &workspace);
  int error = launch(describe_groups, {args.num_groups}, kThreads, 0, stream, args, arrays,
                     plan.suffix.limits.total_queries);
  if (error != 0) return error;
  error = launch_attention(plan.prefix, prefix_args(args, arrays),
                           {arrays.schedules[0], arrays.workspace, memory.scheduled}, stream);
  if (error != 0) return error;
  error = launch_attention(plan.suffix, suffix_args(args, plan.rows, arrays),
                           {arrays.schedules[1], arrays.workspace, memory.scheduled}, stream);
  if (error != 0) return error;
  return launch_merge({arrays.outs, arrays.lses, 2, plan.rows, args.attention.v_dim, KVC_FLOAT32,
                       args.attention.out_dtype != 0 ? args.attention.out_dtype : args.attention.q_dtype,
                       args.attention.out, args.attention.lse},
                      stream);
}

}  // namespace kvc::gpu
