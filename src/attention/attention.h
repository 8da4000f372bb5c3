// SPDX-License-Identifier: Apache-2.0
// Paged attention on the CPU: prefill and decode in one entry. For each request, query token i (position
// q_start + i) attends to the cached tokens [0, kv_len) that its mask lets through, read block by block
// through the block table. Online softmax in float32; a query that sees nothing gives zeros, and lse
// is -inf or its head's sink logit.
// Thread-safe: reads its arguments, writes `out` and `lse` of its own work items only.
#pragma once
#include "storage/rows.h"

namespace kvc {

struct AttentionArgs {
  const Layout* layout;
  const char* slab;
  const OpenKeys* open_keys;  // as in Stored
  uint32_t layer;
  int32_t q_dtype;       // of q and out: KVC_FLOAT32, KVC_FLOAT16 or KVC_BFLOAT16
  uint32_t num_q_heads;  // layout->num_heads groups of equal size; group g reads KV head g
  // Element e of head h of token t is t * token_stride + h * head_stride + e elements of q_dtype behind
  // these. Strides are never 0. Rows of `out` do not overlap, and what lies between them is not written.
  const void* q;  // rows of k_dim
  void* out;      // rows of v_dim
  uint64_t q_token_stride, q_head_stride;
  uint64_t out_token_stride, out_head_stride;
  float* lse;  // [tokens][num_q_heads] natural log-sum-exp of the scaled, masked logits; nullptr = not wanted
  size_t num_requests;
  const uint64_t* q_offsets;  // [num_requests + 1] into tokens
  const uint64_t* q_starts;   // [num_requests] position of the first query; nullptr = kv_len - queries
  const uint64_t* kv_lens;    // [num_requests]
  // [num_requests][table_stride]; an entry of a block in which no query sees a token may be anything, and so
  // may the contents of tokens that none sees.
  const int32_t* block_tables;
  size_t table_stride;
  float scale;                // of q . k
  bool causal;                // position p sees positions <= p; else all of [0, kv_len)
  uint64_t window;            // 0 = none; position p sees from p - window + 1 on (not causal: to the end) ...
  uint64_t sinks;             // ... and the first `sinks` positions
  float soft_cap;             // 0 = none; logits become cap * tanh(logit / cap)
  const float* alibi_slopes;  // [num_q_heads], or nullptr; adds slope * (kv position - query position)
  // [num_q_heads], or nullptr: one more logit of each query, as it is (no scale, no cap, no slope), which has
  // no value: exp of it counts in the softmax's denominator and in lse, once. -infinity = none.
  const float* sink_logits;
  // Bit mask, or nullptr: bit (mask_offsets[r] + i * (kv_len - mask_starts[r]) + j - mask_starts[r]) says
  // whether query i of request r sees position j >= mask_starts[r], in addition to the rules above
  // (little-endian bits).
  const uint8_t* mask;
  const uint64_t* mask_offsets;  // [num_requests] in bits
  const uint64_t* mask_starts;   // [num_requests], at most kv_len; nullptr = 0
  // [num_requests][num_heads][block_mask_stride], or nullptr: bit j says whether the queries of a KV head
  // read block j of the request's table at all.
  const uint8_t* block_mask;
  size_t block_mask_stride;
};

// The easy one to read, in double precision: what the others are tested against. One request after the other.
void attend_reference(const AttentionArgs& args);

// Scratch that attend() needs per worker, whatever the requests; a multiple of 64.
size_t attention_scratch_bytes(const Layout& layout, uint32_t num_q_heads);

// Runs job(data, i, worker) for all i < count, on any threads, and returns when all are done. Two jobs that
// run at the same time must differ in `worker`. run == nullptr: everything on the calling thread.
struct ParallelFor {
  void (*run)(void* context, size_t count, void (*job)(void* data, size_t i, size_t worker), void* data);
  void* context;
  size_t num_workers;  // job's `worker` is below this
};

// The fast one. `scratch` has num_workers * attention_scratch_bytes() bytes, aligned to 64. The same
// arguments, number of workers and instruction set give the same bits, whoever works on what.
void attend(const AttentionArgs& args, const ParallelFor& parallel_for, void* scratch);

// How attend() goes about this: all fields but struct_size.
kvc_attention_info explain_attention(const AttentionArgs& args, size_t num_workers);

}  // namespace kvc
