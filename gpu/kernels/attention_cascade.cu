// SPDX-License-Identifier: Apache-2.0
// Shared prefixes: one call of attention over the prefixes, one over what follows them, both in float32, and
// a merge.
#include "base/carver.h"
#include "kernels/attention_config.h"

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
  char* plans[2];        // in memory that calls may share
};

// A block per group.
KVC_KERNEL(kThreads, 8)
describe_groups(CascadeArgs args, CascadeArrays arrays, uint64_t total_queries) {
  const uint32_t group = blockIdx.x;
  const uint64_t first = args.group_offsets[group], end = args.group_offsets[group + 1];
  for (uint64_t r = first + threadIdx.x; r < end; r += kThreads)
    arrays.kv_starts[r] = args.prefix_lens[group];
  if (threadIdx.x != 0) return;
  // A request beyond the bounds gets NaN in the call for suffixes, and no other does.
  const auto offset_of = [&](uint64_t request) {
    const uint64_t offset = args.attention.q_offsets[request];
    return offset < total_queries ? offset : total_queries;
  };
  arrays.q_offsets[group] = offset_of(first);
  if (group + 1 == args.num_groups) arrays.q_offsets[group + 1] = offset_of(end);
  arrays.table_rows[group] = static_cast<uint32_t>(first);
}

// Results of one of the calls: contiguous rows in the workspace, without the sink logits, which the merge
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

AttentionArgs suffix_args(const CascadeArgs& args, uint64_t rows, const CascadeArrays& arrays) {
  AttentionArgs suffix = args.attention;
  suffix.kv_starts = arrays.kv_starts;
  write_partial(arrays.outs == nullptr ? nullptr : arrays.outs + rows * suffix.v_dim,
                arrays.lses == nullptr ? nullptr : arrays.lses + rows, &suffix);
  return suffix;
}

// Takes the arrays of a configured call from the memory of `shared` and `workspace`, if there is any.
CascadeArrays take_arrays(const CascadeConfig& config, const CascadeArgs& args, Carver<16>* shared,
                          Carver<16>* workspace) {
  CascadeArrays arrays = {};
  workspace->take(&arrays.q_offsets, uint64_t{args.num_groups} + 1);
  workspace->take(&arrays.table_rows, args.num_groups);
  workspace->take(&arrays.kv_starts, args.attention.num_requests);
  workspace->take(&arrays.outs, 2 * config.rows * args.attention.v_dim);
  workspace->take(&arrays.lses, 2 * config.rows);
  const uint64_t of_prefix = config.prefix.workspace_bytes, of_suffix = config.suffix.workspace_bytes;
  workspace->take(&arrays.workspace, of_prefix < of_suffix ? of_suffix : of_prefix);
  shared->take(&arrays.plans[0], config.prefix.plan_bytes);
  shared->take(&arrays.plans[1], config.suffix.plan_bytes);
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

CascadeConfig configure_cascade(const CascadeArgs& args, const AttentionLimits& limits) {
  CascadeConfig config = {};
  if (const char* reason = why_not_shared(args.attention); reason != nullptr) {
    config.prefix.support = config.suffix.support = {AttentionPath::kUnsupported, reason};
    return config;
  }
  CascadeArrays arrays = {};
  uint64_t given;  // kv_starts counts as given; nothing reads it
  arrays.kv_starts = &given;
  config.rows = limits.total_queries * args.attention.num_q_heads;
  config.prefix = configure_attention(prefix_args(args, arrays), prefix_limits(limits));
  config.suffix = configure_attention(suffix_args(args, config.rows, arrays), limits);
  Carver<16> shared(nullptr), workspace(nullptr);
  take_arrays(config, args, &shared, &workspace);
  config.plan_bytes = shared.used();
  config.workspace_bytes = workspace.used();
  return config;
}

int launch_cascade(const CascadeConfig& config, const CascadeArgs& args, const AttentionMemory& memory,
                   Stream stream) {
  if (args.attention.num_requests == 0 || args.num_groups == 0) return 0;
  Carver<16> shared(memory.plan), workspace(memory.workspace);
  const CascadeArrays arrays = take_arrays(config, args, &shared, &workspace);
  int error = launch(describe_groups, {args.num_groups}, kThreads, 0, stream, args, arrays,
                     config.suffix.limits.total_queries);
  if (error != 0) return error;
  error = launch_attention(config.prefix, prefix_args(args, arrays),
                           {arrays.plans[0], arrays.workspace, memory.planned}, stream);
  if (error != 0) return error;
  error = launch_attention(config.suffix, suffix_args(args, config.rows, arrays),
                           {arrays.plans[1], arrays.workspace, memory.planned}, stream);
  if (error != 0) return error;
  const AttentionArgs& attention = args.attention;
  MergeArgs merge = {};
  merge.outs = arrays.outs;
  merge.lses = arrays.lses;
  merge.num_partials = 2;
  merge.num_rows = config.rows;
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
