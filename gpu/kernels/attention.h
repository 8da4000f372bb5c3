// SPDX-License-Identifier: Apache-2.0
// Paged attention on a device: what kvc_attention says (the CPU's src/attention/reference.cc defines the
// result), as three kernels that are enqueued one after the other and never wait for the host:
//
//   schedule   cuts the work into pieces, a request and a tile of its rows (query, query head of one KV
//   head),
//              and gives each block of the device an equal share of all (piece, KV head, tile of 64 tokens)
//   attend     each block goes through its share; a piece that lies in one share is written to `out`, parts
//              of the others go to the workspace
//   merge      parts become the result, weighted by their log-sum-exp, always in the same order
//
// Calls whose requests have the same lengths may share a schedule, so that a step with many layers makes one.
//
// All lengths are read on the device: what was captured in a graph may be replayed with others, within the
// bounds that the workspace was sized for; a request beyond them gets NaN. A piece sees its own request
// alone; with `invariant` it is also cut at fixed numbers of tokens, and its bits do not depend on what else
// is in the batch.
//
// Requests of at most kDecodeRows rows per KV head and those with more are separate classes with kernels of
// their own. Two families of kernels (attention_path):
//   mma    tensor cores; 16-bit queries, head_dim 64, 128 or 256, or latent rows of 576 with values of 512
//   plain  everything else, and every device
//
// Arrays are the device's, unless they are said to be the host's. Arguments are valid, as after the checks of
// the C API. A launch function returns 0 or the runtime's error code.
#pragma once
#include "backend/operations.h"
#include "kernels/divide.h"
#include "layout/layout.h"
#include "portable.h"

namespace kvc::gpu {

struct AttentionPlan;  // attention_plan.h
struct CascadePlan;

inline constexpr uint32_t kAttentionTile = 64;  // tokens
inline constexpr uint32_t kDecodeRows = 16;
inline constexpr uint32_t kInvariantTiles = 32;  // per part, with `invariant`

// One layer of a plane: row (block, head, token) begins at data + block * .. + head * .. + token * ...
struct AttentionPlane {
  const char* data;
  uint64_t block, head, token;  // byte strides
  int32_t dtype;
  uint32_t element_tile;  // as in Plane
};

// A call, with the planes of its layer.
struct AttentionArgs : kvc_backend_attention {
  AttentionPlane k, v, k_scale, v_scale;
  uint32_t num_heads;
  SmallDivisor block_size;  // positions are below 2^31
  uint32_t k_dim, v_dim;
  uint32_t latent;       // values are the first v_dim elements of the keys
  uint32_t scale_group;  // elements per scale; 0 = no scales in the planes
  uint32_t asymmetric;   // (scale, offset) instead of scales
  uint32_t hadamard;
  uint32_t channel_tokens;   // not supported unless 0
  float k_factor, v_factor;  // scale of all keys, of all values; 0 = none

  int32_t out_dtype;           // 0 = q_dtype
  const uint64_t* kv_starts;   // [num_requests] positions below are not read, or nullptr; not with sinks
  const uint32_t* table_rows;  // [num_requests] table row of a request, or nullptr = the request's number
};

// Sets what a storage says: planes, dims and scales of one layer, whose slab is the device's memory.
void describe_storage(const Layout& layout, const char* slab, uint32_t layer, AttentionArgs* args);

// How much there can be: in this call, or in all replays of a graph. Memory has this size. The device checks
// it: of a request that goes beyond, results are NaN, and nothing else is touched.
struct AttentionBounds {
  uint64_t total_queries;  // of all requests
  uint64_t max_queries;    // of one request
  uint64_t max_kv_len;     // of one request
};

// The device, and the bounds.
struct AttentionLimits : AttentionBounds {
  uint32_t num_multiprocessors;
  uint32_t shared_bytes;  // of a block, opted in
  uint32_t has_mma;       // mma.m16n8k16 and 16-byte asynchronous copies: compute capability 8.0 and above
  uint32_t invariant;     // 1 = the bits of a request do not depend on the batch
};

enum class AttentionPath : int32_t { kUnsupported, kPlain, kMma };
struct AttentionSupport {
  AttentionPath path;
  const char* reason;  // kUnsupported: what is not supported; kPlain: why not kMma
};

// Looks at the planes, dims, types and options; arrays count as given or not. An unsupported call has no more
// in its plan than the reason.
AttentionPlan plan_attention(const AttentionArgs& args, const AttentionLimits& limits);

// Memory of a call, aligned to 16; it need not be cleared.
struct AttentionMemory {
  void* schedule;      // AttentionPlan::plan_bytes
  void* workspace;     // AttentionPlan::workspace_bytes, until the call is done
  uint32_t scheduled;  // 1 = `schedule` holds what an earlier call has made: it is not made again
};

// All kernels, or those after the schedule. A schedule of a call with other num_requests, heads, causality,
// window or sinks, of another kernel, or none at all makes results NaN; one of other lengths or limits those
// of pieces that it does not fit, and of rows that it does not know they may be anything.
int launch_attention(const AttentionPlan& plan, const AttentionArgs& args, const AttentionMemory& memory,
                     Stream stream);

// Attention over disjoint sets of keys becomes attention over all of them: outs [num_partials][num_rows][dim]
// of a float type, lses [num_partials][num_rows]. Row i is query i / num_heads and query head i % num_heads.
// lse (or nullptr) may be that of the first partial, and so may out, if its strides are those of outs.
struct MergeArgs {
  const void* outs;
  const float* lses;
  uint64_t num_partials, num_rows;
  const uint64_t* num_queries;  // of the rows those of so many queries are merged, or nullptr = all
  uint32_t num_heads;
  uint32_t dim;
  int32_t dtype, out_dtype;  // out_dtype 0 = dtype
  void* out;
  uint64_t out_token_stride, out_head_stride;  // as in AttentionArgs
  float* lse;
  const float* sink_logits;  // [num_heads], or nullptr; the partials do not count them
};
int launch_merge(const MergeArgs& args, Stream stream);

// Attention of requests that share their first blocks: the shared part is read once for all queries of a
// group, as one request without causality, the rest of each request by itself, and both are merged. Requests
// group_offsets[g] .. group_offsets[g + 1] - 1 are group g; the first prefix_lens[g] tokens of all of them
// are those of its first one, and lie before all of its queries.
struct CascadeArgs {
  AttentionArgs attention;
  uint32_t num_groups;
  const uint64_t* group_offsets;  // [num_groups + 1]
  const uint64_t* prefix_lens;    // [num_groups]
};
// Unsupported: windows, ALiBi, block masks, kv_starts, and a bit mask without mask_starts, which lie behind
// the prefixes. The schedules of both parts lie one after the other.
CascadePlan plan_cascade(const CascadeArgs& args, const AttentionLimits& limits);
int launch_cascade(const CascadePlan& plan, const CascadeArgs& args, const AttentionMemory& memory,
                   Stream stream);

}  // namespace kvc::gpu
