// SPDX-License-Identifier: Apache-2.0
// Shared prefixes: two calls of attention, one over the prefixes and one over what follows them, in float32,
// and a merge.
#include "kernels/attention.h"
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
  uint64_t workspace_bytes, schedule_bytes;
};

// A block per group.
KVC_KERNEL(kThreads, 8) describe_groups(CascadeArgs args, CascadeArrays arrays) {
  const uint32_t group = blockIdx.x;
  const uint64_t first = args.group_offsets[group], end = args.group_offsets[group + 1];
  for (uint64_t r = first + threadIdx.x; r < end; r += kThreads)
    arrays.kv_starts[r] = args.prefix_lens[group];
  if (threadIdx.x != 0) return;
  arrays.q_offsets[group] = args.attention.q_offsets[first];
  if (group + 1 == args.num_groups) arrays.q_offsets[group + 1] = args.attention.q_offsets[end];
  arrays.table_rows[group] = static_cast<uint32_t>(first);
}

uint64_t rows_of(const CascadeArgs& args, const AttentionLimits& limits) {
  return limits.total_queries * args.attention.num_q_heads;
}

// Results of one of the calls: rows side by side in the workspace, without the sink logits, which the merge
// counts.
void write_partial(float* out, float* lse, AttentionArgs* args) {
  args->out = out;
  args->lse = lse;
  args->out_dtype = KVC_FLOAT32;
  args->out_head_stride = args->v_dim;
  args->out_token_stride = uint64_t{args->num_q_heads} * args->v_dim;
  args->sink_logits = nullptr;
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
  write_partial(arrays.outs, arrays.lses, &prefix);
  return prefix;
}
AttentionLimits prefix_limits(const AttentionLimits& limits) {
  AttentionLimits prefix = limits;
  prefix.max_queries = limits.total_queries;
  return prefix;
}

AttentionArgs suffix_args(const CascadeArgs& args, const AttentionLimits& limits,
                          const CascadeArrays& arrays) {
  AttentionArgs suffix = args.attention;
  const uint64_t rows = rows_of(args, limits);
  suffix.kv_starts = arrays.kv_starts;
  write_partial(arrays.outs == nullptr ? nullptr : arrays.outs + rows * suffix.v_dim,
                arrays.lses == nullptr ? nullptr : arrays.lses + rows, &suffix);
  return suffix;
}

CascadeArrays carve(const CascadeArgs& args, const AttentionLimits& limits, const AttentionMemory& memory) {
  CascadeArrays arrays = {};
  Carver carver(memory.workspace), shared(memory.schedule);
  const uint64_t rows = rows_of(args, limits);
  carver.take(&arrays.q_offsets, uint64_t{args.num_groups} + 1);
  carver.take(&arrays.table_rows, args.num_groups);
  carver.take(&arrays.kv_starts, args.attention.num_requests);
  carver.take(&arrays.outs, 2 * rows * args.attention.v_dim);
  carver.take(&arrays.lses, 2 * rows);
  const AttentionArgs prefix = prefix_args(args, arrays), suffix = suffix_args(args, limits, arrays);
  const uint64_t of_prefix = attention_workspace_bytes(prefix, prefix_limits(limits));
  const uint64_t of_suffix = attention_workspace_bytes(suffix, limits);
  carver.take(&arrays.workspace, of_prefix < of_suffix ? of_suffix : of_prefix);
  arrays.workspace_bytes = carver.used();
  shared.take(&arrays.schedules[0], attention_schedule_bytes(prefix, prefix_limits(limits)));
  shared.take(&arrays.schedules[1], attention_schedule_bytes(suffix, limits));
  arrays.schedule_bytes = shared.used();
  return arrays;
}

}  // namespace

AttentionSupport cascade_support(const CascadeArgs& args, const AttentionLimits& limits) {
  const AttentionArgs& attention = args.attention;
  const auto refuse = [](const char* reason) {
    return AttentionSupport{AttentionPath::kUnsupported, reason};
  };
  if (attention.causal == 0) return refuse("a shared prefix without causality");
  if (attention.window != 0) return refuse("a shared prefix with a window");
  if (attention.alibi_slopes != nullptr) return refuse("a shared prefix with ALiBi");
  if (attention.block_mask != nullptr) return refuse("a shared prefix with a block mask");
  if (attention.kv_starts != nullptr) return refuse("a shared prefix of a part of a context");
  if (attention.mask != nullptr && attention.mask_starts == nullptr)
    return refuse("a shared prefix with a mask that begins in it");
  return attention_support(attention, limits);
}

uint64_t cascade_schedule_bytes(const CascadeArgs& args, const AttentionLimits& limits) {
  return carve(args, limits, {}).schedule_bytes;
}
uint64_t cascade_workspace_bytes(const CascadeArgs& args, const AttentionLimits& limits) {
  return carve(args, limits, {}).workspace_bytes;
}

int launch_cascade(const CascadeArgs& args, const AttentionLimits& limits, const AttentionMemory& memory,
                   Stream stream) {
  if (args.attention.num_requests == 0 || args.num_groups == 0) return 0;
  const CascadeArrays arrays = carve(args, limits, memory);
  const uint64_t rows = rows_of(args, limits);
  int error = launch(describe_groups, {args.num_groups}, kThreads, 0, stream, args, arrays);
  if (error != 0) return error;
  error = launch_attention(prefix_args(args, arrays), prefix_limits(limits),
                           {arrays.schedules[0], arrays.workspace, memory.scheduled}, stream);
  if (error != 0) return error;
  error = launch_attention(suffix_args(args, limits, arrays), limits,
                           {arrays.schedules[1], arrays.workspace, memory.scheduled}, stream);
  if (error != 0) return error;
  const AttentionArgs& attention = args.attention;
  MergeArgs merge = {};
  merge.outs = arrays.outs;
  merge.lses = arrays.lses;
  merge.num_partials = 2;
  merge.num_rows = rows;
  merge.num_queries = attention.q_offsets + attention.num_requests;
  merge.num_heads = attention.num_q_heads;
  merge.dim = attention.v_dim;
  merge.dtype = KVC_FLOAT32;
  merge.out_dtype = attention.out_dtype != 0 ? attention.out_dtype : attention.q_dtype;
  merge.out = attention.out;
  merge.out_token_stride = attention.out_token_stride;
  merge.out_head_stride = attention.out_head_stride;
  merge.lse = attention.lse;
  merge.sink_logits = attention.sink_logits;
  return launch_merge(merge, stream);
}

}  // namespace kvc::gpu
