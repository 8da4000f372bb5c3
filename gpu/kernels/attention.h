// SPDX-License-Identifier: Apache-2.0
// Paged attention on a device: what kvc_backend_attention says (the CPU's src/attention/reference.cc defines
// the result), in three kernels. They are enqueued one after the other and never wait for the host:
//
//   plan     divides the work into pieces, each a request and a tile of its rows (query, query head of one KV
//            head), and gives each thread block an equal share of all (piece, KV head, tile of 64 tokens)
//   attend   each thread block works through its share. A piece that lies in one share is written to `out`;
//            parts of the others go to the workspace
//   merge    merges parts by their log-sum-exp, always in the same order
//
// Calls whose requests have the same lengths may share a plan: a step with many layers makes one.
//
// The device reads all lengths: a captured graph may be replayed with others, within the bounds that the
// workspace was sized for. A request beyond them gets NaN. A piece sees only its own request. With
// `invariant` it is also cut at fixed numbers of tokens, so that its bits do not depend on the rest of the
// batch.
//
// Requests of at most kDecodeRows rows per KV head and larger ones are separate classes with their own
// kernels. There are two families of kernels (AttentionPath):
//   mma    tensor cores; 16-bit queries, head_dim 64, 128 or 256, or latent rows of 576 with values of 512
//   plain  everything else, and every device
//
// Arrays are the device's, unless a comment says the host's. Arguments are valid, as after the checks of the
// C API. A launch function returns 0 or the runtime's error code.
#pragma once
#include "backend/operations.h"
#include "kernels/divide.h"
#include "layout/layout.h"
#include "portable.h"

namespace kvc::gpu {

struct AttentionConfig;  // attention_config.h
struct CascadeConfig;

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

// Sets what the storage determines: planes, dims and scales of one layer. The slab is the device's memory.
void describe_storage(const Layout& layout, const char* slab, uint32_t layer, AttentionArgs* args);

// The most there can be in this call or, of a graph, in all replays. Memory is sized by it. The device checks
// it: a request beyond it gets NaN, and nothing else is touched.
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

// Looks at planes, dims, types and options, and whether arrays are given. For an unsupported call it sets
// only the reason.
AttentionConfig configure_attention(const AttentionArgs& args, const AttentionLimits& limits);

// Memory of a call, aligned to 16, with any contents.
struct AttentionMemory {
  void* plan;        // AttentionConfig::plan_bytes
  void* workspace;   // AttentionConfig::workspace_bytes, until the call is done
  uint32_t planned;  // 1 = `plan` holds the plan of an earlier call
};

// Enqueues all kernels, or those after the plan. With a plan of other num_requests, heads, causality, window,
// sinks or kernels, or with none at all, results are NaN. With a plan of other lengths or limits, pieces that
// it does not fit are NaN, and rows that it does not know may be anything.
int launch_attention(const AttentionConfig& config, const AttentionArgs& args, const AttentionMemory& memory,
                     Stream stream);

// Merges attention over disjoint sets of keys: outs [num_partials][num_rows][dim] of a float type, lses
// [num_partials][num_rows]. Row i is query i / num_heads and query head i % num_heads. lse (or nullptr) may
// be that of the first partial, and so may out, if it has the strides of outs.
struct MergeArgs {
  const void* outs;
  const float* lses;
  uint64_t num_partials, num_rows;
  const uint64_t* num_queries;  // merges the rows of this many queries; nullptr = all
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
// group, as one request without causality; then the rest of each request by itself; both are merged. Group g
// is requests group_offsets[g] .. group_offsets[g + 1] - 1. They share their first prefix_lens[g] tokens,
// which come before all of their queries.
struct CascadeArgs {
  AttentionArgs attention;
  uint32_t num_groups;
  const uint64_t* group_offsets;  // [num_groups + 1]
  const uint64_t* prefix_lens;    // [num_groups]
};
// Unsupported: windows, ALiBi, block masks, kv_starts, and a bit mask without mask_starts behind the
// prefixes. The plans of both parts lie one after the other.
CascadeConfig configure_cascade(const CascadeArgs& args, const AttentionLimits& limits);
int launch_cascade(const CascadeConfig& config, const CascadeArgs& args, const AttentionMemory& memory,
                   Stream stream);

}  // namespace kvc::gpu
