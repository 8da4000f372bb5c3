// SPDX-License-Identifier: Apache-2.0
// Arguments of a backend's operations. The library has checked and completed them: every field is valid and
// no default is left to fill in. They belong to the library and its backends alone, so that the structs of
// kvcache.h can grow without a new KVC_BACKEND_ABI; of those, only structs without a struct_size, which never
// grow, appear here.
#pragma once
#include <kvcache/types.h>

struct kvc_upload;

// Rotary embedding of rows.
typedef struct kvc_backend_rotary {
  const float* table;        // [table_rows][dim]: cosines, then sines; NULL: rows are not rotated
  const int64_t* table_row;  // [num_tokens] the table row of each token; NULL: row t for token t
  uint64_t table_rows;
  uint32_t dim, first;   // elements of a row that are rotated, and the first of them
  uint32_t interleaved;  // 1 = pairs are neighbours; 0 = pairs are dim / 2 apart
  uint32_t reserved;
} kvc_backend_rotary;

// Rows of keys and values in the caller's memory, and the slots that they belong to.
typedef struct kvc_backend_rows {
  void *k, *v;  // v NULL: the layout is latent
  uint64_t num_tokens;
  uint32_t first_layer, num_layers;
  int32_t dtype;       // of k and v
  uint32_t on_device;  // 1 = slots, block_table and rotary.table_row are the device's memory
  int64_t k_layer_stride, k_token_stride, k_head_stride;  // in elements
  int64_t v_layer_stride, v_token_stride, v_head_stride;
  const int64_t* slots;        // [num_tokens], -1 = skip the token; NULL: token t is position first_token + t
  const int32_t* block_table;  // of a request, from the block of its first token in this call
  uint64_t block_table_size;   // entries that the call reads
  uint64_t first_token;        // less than a block
  kvc_backend_rotary rotary;   // of keys, on their way into a store
} kvc_backend_rows;

// Rows compared with what is stored of them, element by element: kvc_quant_metrics is made of this.
typedef struct kvc_backend_errors {
  uint64_t bytes;                   // that the stored rows take, scales included
  uint64_t elements, finite;        // all elements; the finite ones, which the rest is about
  double signal, noise, max_error;  // sums of squares of elements and of errors; the largest error
} kvc_backend_errors;

// kvc_storage_swap_out and kvc_storage_swap_in.
typedef struct kvc_backend_swap {
  const kvc_block_copy* copies;
  uint64_t num_copies;  // 0 = copy nothing, but measure what the first swap would measure
  char* pages;          // a swap in only reads them; they do not overlap the slab
  uint64_t pages_size, page_bytes;
  uint32_t out;  // 1 = from blocks to pages
  uint32_t reserved;
} kvc_backend_swap;

// kvc_table_update.
typedef struct kvc_backend_table_update {
  const struct kvc_upload* uploads;
  uint64_t num_uploads;  // at most KVC_BACKEND_MAX_UPLOADS
  const kvc_table_change* changes;
  uint64_t num_changes;
  int32_t* tables;
  uint64_t group_stride, row_stride;
  const int32_t* positions_of;
  const int64_t* positions;
  int64_t* slots;
  uint64_t num_slots;
  const int32_t* lengths;
  int32_t *csr_offsets, *csr_blocks, *csr_last_tokens;
  uint32_t num_rows, block_size;
} kvc_backend_table_update;

#define KVC_BACKEND_MAX_UPLOADS 8u

// Paged attention: prefill and decode. Query i of request r (position q_starts[r] + i) attends to the cached
// tokens [0, kv_lens[r]) that its masks let through, read block by block through the block table. A query
// that sees no token gives zeros, and -infinity or its head's sink logit as lse.
typedef struct kvc_backend_attention {
  // Element e of head h of query t is q[t * q_token_stride + h * q_head_stride + e], likewise in `out`.
  // Strides count elements and are never 0. Rows of `out` do not overlap; what lies between them is not
  // written.
  const void* q;  // rows of k_dim
  void* out;      // rows of v_dim
  float* lse;  // [queries][num_q_heads] natural log-sum-exp of the scaled, masked logits; NULL = not wanted
  uint64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride;
  int32_t q_dtype;  // of q and out: a float type
  uint32_t layer;
  uint32_t num_q_heads;  // groups of equal size; group g reads KV head g
  uint32_t num_requests;
  const uint64_t* q_offsets;  // [num_requests + 1] into queries
  const uint64_t* q_starts;   // [num_requests] position of the first query; NULL = kv_len - queries
  const uint64_t* kv_lens;    // [num_requests]
  // [num_requests][table_stride]. The entry of a block that no query sees may be anything, and so may the
  // contents of tokens that no query sees.
  const int32_t* block_tables;
  uint64_t table_stride;
  uint64_t window;            // 0 = none; position p sees from p - window + 1 on (not causal: to the end) ...
  uint64_t sinks;             // ... and the first `sinks` positions
  float scale;                // of q . k
  float soft_cap;             // 0 = none; logits become cap * tanh(logit / cap)
  const float* alibi_slopes;  // [num_q_heads], or NULL; adds slope * (kv position - query position)
  // [num_q_heads], or NULL: one more logit of each query, without a value and without scale, cap or slope. It
  // counts once in the softmax's denominator and in lse. -infinity = none.
  const float* sink_logits;
  // Bit mask, or NULL: bit (mask_offsets[r] + i * (kv_len - mask_starts[r]) + j - mask_starts[r]) says
  // whether query i of request r sees position j >= mask_starts[r], besides the rules above. Little-endian.
  const uint8_t* mask;
  const uint64_t* mask_offsets;  // [num_requests] in bits
  const uint64_t* mask_starts;   // [num_requests], at most kv_len; NULL = 0
  // [num_requests][num_heads][block_mask_stride], or NULL: bit j says whether the queries of a KV head read
  // block j of the request's table.
  const uint8_t* block_mask;
  uint64_t block_mask_stride;
  uint16_t causal;      // position p sees positions <= p; 0 = all of [0, kv_len)
  uint16_t allow_bf16;  // 1 = probabilities may be rounded to bfloat16 whatever q_dtype is

  // How a GPU does it.
  uint32_t on_device;      // 1 = all arrays are the device's memory; the host does not read them
  uint32_t invariant;      // 1 = the bits of a request do not depend on the rest of the batch
  uint32_t planned;        // 1 = `plan` holds the plan of an earlier call
  uint64_t total_queries;  // the most queries of all requests in this call and all replays ...
  uint64_t max_queries;    // ... queries of one request ...
  uint64_t max_kv_len;     // ... and tokens of one request
  uint64_t shared_tokens;  // the first tokens of all requests that are the same; 0 = none
  void *plan, *workspace;  // NULL = the library's own
  uint64_t plan_bytes, workspace_bytes;
} kvc_backend_attention;

// How a backend does it: kvc_storage_explain.
typedef struct kvc_backend_attention_info {
  const char *kernels, *keys, *values;
  uint32_t num_workers;
  uint32_t sparse;
  uint64_t num_pieces, num_splits;
  uint64_t scratch_bytes;
  uint64_t shared_tokens;
  uint64_t plan_bytes, workspace_bytes, selection_bytes;
} kvc_backend_attention_info;

// Which blocks attention should read: kvc_storage_select_blocks. Of the attention it reads queries, lengths
// and block tables; all else is NULL.
typedef struct kvc_backend_selection {
  const uint16_t* bounds;  // [num_blocks][num_heads][2: largest, smallest][k_dim] float16
  // How many of all blocks that a query reaches: the least number that is not below blocks * ratio / 2^32 (1
  // .. 2^32), or top_k if ratio is 0.
  uint64_t top_k, ratio;
  uint64_t sink_blocks, recent_blocks;
  uint8_t* block_mask;  // out: [num_requests][num_heads][block_mask_stride]
  uint64_t block_mask_stride;
  float threshold;  // finite, above 0: instead of a number, blocks so close to the best; 0 = off
  uint32_t reserved;
} kvc_backend_selection;

#ifdef __cplusplus
namespace kvc {

// Calls add(array, count) or add(array, rows, count, stride) for the host arrays of a call: those that a
// device or a stream copies when the call is enqueued. Masks are not among them: they may be as large as the
// queries, or not be written yet.
template <typename Add>
void for_each_host_array(kvc_backend_rows& rows, Add&& add) {
  add(rows.slots, rows.num_tokens);
  add(rows.block_table, rows.block_table_size);
  add(rows.rotary.table_row, rows.num_tokens);
}

template <typename Add>
void for_each_host_array(kvc_backend_attention& a, uint32_t block_size, Add&& add) {
  const uint64_t n = a.num_requests, blocks = (a.max_kv_len + block_size - 1) / block_size;
  add(a.q_offsets, n + 1);
  add(a.q_starts, n);
  add(a.kv_lens, n);
  add(a.block_tables, n, blocks < a.table_stride ? blocks : a.table_stride, a.table_stride);
  add(a.alibi_slopes, a.num_q_heads);
  add(a.sink_logits, a.num_q_heads);
  add(a.mask_offsets, n);
  add(a.mask_starts, n);
}

// The part of an attention call that select_blocks() reads.
inline kvc_backend_attention selection_part(kvc_backend_attention a) {
  a.out = nullptr;
  a.lse = nullptr;
  a.alibi_slopes = a.sink_logits = nullptr;
  a.mask = a.block_mask = nullptr;
  a.mask_offsets = a.mask_starts = nullptr;
  return a;
}

}  // namespace kvc
#endif
