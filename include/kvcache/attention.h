/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_ATTENTION_H
#define KVCACHE_ATTENTION_H

/** @file kvcache/attention.h
 *  @brief Paged attention over a storage: prefill and decode, block-sparse attention, trees of draft
 *  tokens, merging of parts. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_attention.flags. */
enum {
  KVC_ATTENTION_NOT_CAUSAL = 1, /**< Queries also see later positions (encoders, cross attention). */
  /** Float32 and float16 queries may be computed like bfloat16 ones. Faster on some CPUs; a GPU ignores it.
   */
  KVC_ATTENTION_ALLOW_BF16 = 2
};

/** kvc_attention_launch.flags. */
enum {
  /** Every array of the call is in memory that the device reads. The call neither reads nor copies them: a
   *  captured graph reads their contents when it is replayed. Entries must be in range; the call cannot
   *  check them. */
  KVC_LAUNCH_ON_DEVICE = 1,
  KVC_LAUNCH_INVARIANT = 2, /**< The bits of a request's result do not depend on the rest of the batch. */
  KVC_LAUNCH_PLANNED = 4    /**< `plan` holds the plan of an earlier call. */
};

/** How a GPU runs attention. The CPU ignores it, except that KVC_LAUNCH_ON_DEVICE and KVC_LAUNCH_INVARIANT
 *  are UNSUPPORTED there. */
typedef struct kvc_attention_launch {
  size_t struct_size; /**< sizeof(kvc_attention_launch) */
  uint32_t flags;     /**< KVC_LAUNCH_* */
  uint32_t reserved;  /**< 0 */
  /** KVC_LAUNCH_ON_DEVICE: upper bound of the last of q_offsets in this call and all replays; at least 1. */
  uint64_t total_queries;
  /** KVC_LAUNCH_ON_DEVICE: upper bound of the queries of one request; 0 = total_queries. */
  uint64_t max_queries;
  /** KVC_LAUNCH_ON_DEVICE: upper bound of kv_lens; 0 = all that table_stride blocks hold. A request past
   *  one of the three bounds gets NaN in a replay. The others stay correct while q_offsets never decrease,
   *  and no other memory is touched. The product of num_requests, num_q_heads and max_queries or
   *  max_kv_len is at most 2^52. */
  uint64_t max_kv_len;
  /** Device memory aligned to 16, for the plan: the partition of the work, which depends on lengths only.
   *  The first layer of a step writes it. The other layers reuse it with KVC_LAUNCH_PLANNED, later in the
   *  same stream or graph. The result equals that of a call without a plan bit by bit. Calls that share a
   *  plan must agree in num_requests, heads, dtype, flags, window, sinks, the lengths (q_offsets,
   *  q_starts, kv_lens, total_queries, max_queries, max_kv_len), the storage's configuration and
   *  shared_tokens; if that is not 0, also in which of block_mask, alibi_slopes, mask and mask_starts are
   *  NULL. They may differ in q, out, layer, block_tables, scale, sink_logits and the contents of masks.
   *  out must be aligned to 4; 16-bit types need even strides. With the plan of another call, or memory
   *  that no call has written, results are NaN or undefined, but only memory of the call is touched.
   *  Nothing else may write to the plan. NULL = each call makes its own. */
  void* plan;
  uint64_t plan_bytes; /**< Bytes of plan, at least kvc_attention_info.plan_bytes. */
  /** Device memory aligned to 256, for intermediate results. No other work that can run at the same time
   *  may use it until the call is done. A captured graph keeps using it; graphs that never run at the same
   *  time may share it. NULL = memory of the library, which a captured graph holds until the storage is
   *  destroyed. */
  void* workspace;
  uint64_t workspace_bytes; /**< Bytes of workspace, at least kvc_attention_info.workspace_bytes. */
} kvc_attention_launch;

/** Queries and the keys that they attend to. Lengths, window and sinks are at most 2^31 - 1. Request r has
 *  queries q_offsets[r] .. q_offsets[r + 1] - 1. Its query i is at position q_starts[r] + i. */
typedef struct kvc_attention {
  size_t struct_size; /**< sizeof(kvc_attention) */
  const void* q;      /**< [queries][num_q_heads][head_dim], or as q_token_stride and q_head_stride say. */
  /** [queries][num_q_heads][v_head_dim], or with strides. A query that sees no key gets zeros. */
  void* out;
  /** [queries][num_q_heads] natural log of the sum of exp(logit), sink logit included; -infinity for a
   *  query that sees no key and has no sink logit. NULL = not wanted. */
  float* lse;
  size_t num_requests;       /**< Number of requests. */
  const uint64_t* q_offsets; /**< [num_requests + 1], from 0, never decreasing. */
  /** [num_requests]; NULL = the queries are the last tokens: kv_lens[r] - number of queries. */
  const uint64_t* q_starts;
  const uint64_t* kv_lens; /**< [num_requests] tokens in the cache, those of the queries included. */
  /** [num_requests][table_stride] block ids. Entries that no query can see are ignored. */
  const int32_t* block_tables;
  size_t table_stride; /**< Entries from one request's table to the next. */
  uint32_t layer;      /**< Layer of the storage. */
  /** A multiple of num_heads. Query head h reads KV head h / (num_q_heads / num_heads). */
  uint32_t num_q_heads;
  int32_t dtype;   /**< Type of q and out: KVC_FLOAT32 (also 0), FLOAT16 or BFLOAT16. */
  uint32_t flags;  /**< KVC_ATTENTION_* */
  float scale;     /**< Factor of q . k, -1e30 .. 1e30; 0 = 1 / sqrt(head_dim). */
  float soft_cap;  /**< Logits become soft_cap * tanh(logit / soft_cap), 1e-30 .. 1e30; 0 = off. */
  uint64_t window; /**< Position p sees p - window + 1 .. p; 0 = no window. */
  uint64_t sinks;  /**< With a window: the first `sinks` positions are visible as well. */
  /** [num_q_heads] slope * (key position - query position) is added to the logit; NULL = off. */
  const float* alibi_slopes;
  /** Bit mask_offsets[r] + i * (kv_lens[r] - s) + j - s, lowest bit of a byte first, says whether query i
   *  of request r may see position j >= s = mask_starts[r]. All other rules apply too. NULL = off. */
  const uint8_t* mask;
  /** [num_requests] first bit of each request. The mask must hold the bits of all requests: the library
   *  cannot check its length. */
  const uint64_t* mask_offsets;
  /** [num_requests] first position that the mask covers, at most kv_lens[r]; NULL = 0. A tree of draft
   *  tokens after a long context needs bits for the tree only: see kvc_tree_mask. */
  const uint64_t* mask_starts;
  /** [num_requests][num_heads][block_mask_stride] block-sparse attention: bit j, lowest bit of a byte
   *  first, says whether the queries of a KV head may read block block_tables[r][j]. All other rules apply
   *  too. Without a stream, table entries that no head reads are ignored. All bits set equals NULL bit by
   *  bit. NULL = all blocks. */
  const uint8_t* block_mask;
  /** Bytes from one head's bits to the next: a bit per block of kv_lens[r] (on a device: max_kv_len). */
  size_t block_mask_stride;
  /** The first shared_tokens tokens are the same for all requests: all block_tables begin with the same
   *  entries, no causal query is before their end, and mask_starts, if given, are at least this. A GPU
   *  then reads them once for all queries and merges both parts (cascade attention). The result is the
   *  same except for rounding. The CPU ignores it. 0 = none. */
  uint64_t shared_tokens;
  /** [num_q_heads] a learned logit s per query head (gpt-oss), without a token or value: out = sum of
   *  exp(l_j) v_j / (sum of exp(l_j) + exp(s)), and lse is the log of that divisor. scale, soft_cap and
   *  ALiBi do not change s. Each is finite, or -infinity = none for this head. Give it to only one of
   *  several partial results that are merged. `sinks` is unrelated: it counts tokens.
   *  kvc_storage_select_blocks ignores it. NULL = off. */
  const float* sink_logits;
  /** Element e of head h of query t is at q + t * q_token_stride + h * q_head_stride + e, counted in
   *  elements of dtype: q may be a part of a larger array, such as the output of a fused QKV projection.
   *  At least 0. q_head_stride 0 = head_dim; q_token_stride 0 = num_q_heads * q_head_stride. Rows of q may
   *  overlap. The sum of queries and heads, each times its stride, is below 2^60. */
  int64_t q_token_stride, q_head_stride;
  /** The same for out and v_head_dim. Rows of out must not overlap: the smaller stride is at least
   *  v_head_dim, the larger one at least (entries - 1) * smaller + v_head_dim. The stride of a dimension
   *  with one entry is ignored. Gaps are not written. */
  int64_t out_token_stride, out_head_stride;
  const kvc_attention_launch* launch; /**< How a GPU runs it; NULL = defaults. */
} kvc_attention;

/** How kvc_storage_attend would run a call. */
typedef struct kvc_attention_info {
  size_t struct_size; /**< sizeof(kvc_attention_info) */
  /** GPU: "mma" (tensor cores) or "plain". CPU: the instruction set, "amx", "avx512-bf16", "avx512",
   *  "avx2" or "scalar". The environment variable KVC_KERNELS, read once, is an upper limit. */
  char kernels[16];
  char keys[16];        /**< How the kernels read keys: "tiles", "rows", or "converted" to float32 first. */
  char values[16];      /**< The same for values; "keys" = latent rows that are read once for both. */
  uint32_t num_workers; /**< Threads or multiprocessors that take part. */
  uint32_t sparse;      /**< 1 = a block mask hides some blocks. */
  /** Units of work (a request, some KV heads, some queries); 0 = decided on the device. */
  uint64_t num_pieces;
  /** Parts of the context after splitting the units, at least num_pieces; 0 = decided on the device. */
  uint64_t num_splits;
  /** Memory that the call takes and the storage keeps for the next one; less with
   *  kvc_attention_launch.plan. */
  uint64_t scratch_bytes;
  /** kvc_attention.shared_tokens if they are read once for all requests; else 0 (docs/GPU.md). */
  uint64_t shared_tokens;
  /** Least kvc_attention_launch.plan_bytes. Smaller bounds never need more. 0 on the CPU. */
  uint64_t plan_bytes;
  /** Least kvc_attention_launch.workspace_bytes. Smaller bounds never need more. 0 on the CPU. */
  uint64_t workspace_bytes;
  uint64_t selection_bytes; /**< The same for kvc_storage_select_blocks with this kvc_attention. */
} kvc_attention_info;

/** How kvc_storage_select_blocks picks blocks: exactly one of top_k, ratio and threshold is not 0. */
typedef struct kvc_block_choice {
  size_t struct_size; /**< sizeof(kvc_block_choice) */
  /** [num_blocks][num_heads][2][head_dim] of the layer, from kvc_storage_key_bounds. Bounds of blocks that
   *  are always kept are not read. */
  const uint16_t* bounds;
  /** Blocks that a KV head of a request reads. Blocks that are always kept count, and may be more. 0 = not
   *  by number. */
  uint64_t top_k;
  uint64_t sink_blocks; /**< Always keep the first sink_blocks blocks. */
  /** Always keep recent_blocks blocks up to the block of the request's first query (not causal: the last
   *  block), and all later ones; 0 = 1. */
  uint64_t recent_blocks;
  /** Out: as kvc_attention.block_mask. Of each row the bytes with a bit of a block of kv_lens[r] are
   *  written. */
  uint8_t* block_mask;
  /** Bytes from one head's bits to the next: a bit per block of kv_lens[r] (on a device: max_kv_len). */
  size_t block_mask_stride;
  /** Part of the blocks that a KV head of a request reads, above 0, at most 1: as top_k = ratio times the
   *  blocks that a query of the request can see, rounded up. Multiples of 2^-32; others are rounded down.
   *  0 = not by ratio. Since 0.3. */
  double ratio;
  /** Reads the blocks that may matter to some query: those whose bound is at most this below the largest
   *  bound of the same query and query head. Unit: logits, natural logarithms of weights. If bounds were
   *  exact, each token left out would weigh less than e^-threshold of the best one. Blocks that are always
   *  kept are not compared, and do not raise the largest bound. Above 0; infinity = all blocks. 0 = not by
   *  threshold. Since 0.3. */
  double threshold;
} kvc_block_choice;

/** An attention kernel of the caller. Enqueues on the runtime's stream what kvc_storage_attend was called
 *  for.
 *  @param[in] attention Checked; strides are not 0. A kernel must return UNSUPPORTED for a field that it
 *  does not know and that is set, such as sink_logits.
 *  @param[in] k, v As kvc_storage_view of attention->layer gives them; v of latent rows is the first
 *  v_head_dim elements of k.
 *  @param[in] stream A cudaStream_t or hipStream_t of the storage's device. On the CPU, without a stream:
 *  NULL, and the work is done on return.
 *  @return KVC_OK, an error, or UNSUPPORTED: then the library's own kernels run. Must not throw. */
typedef kvc_status (*kvc_attention_kernel)(void* user_data, const kvc_attention* attention, const kvc_view* k,
                                           const kvc_view* v, void* stream);

/** Paged attention: prefill and decode, any mix of requests. Accumulates in float32 (FlashAttention's
 *  online softmax, arXiv:2205.14135; split contexts are merged by log-sum-exp as in Flash-Decoding).
 *  Bfloat16 queries over bfloat16 values: probabilities may be rounded to bfloat16, as FlashAttention does,
 *  relative error about 2e-3. Other queries: every processor and device keeps the result to about 5e-5 for
 *  caches of floats, 5e-4 for integers.
 *  @return KVC_OK; INVALID_ARGUMENT (shapes, offsets; a visible table entry out of range; strides that are
 *  negative, too large or let rows of out overlap; a sink logit that is NaN or +infinity, unless
 *  KVC_LAUNCH_ON_DEVICE; a plan or workspace that is too small, misaligned or missing; with a plan, out
 *  not aligned to 4 or with odd strides); UNSUPPORTED; OUT_OF_MEMORY (scratch memory, or the stream's
 *  queue). Since 0.2. */
KVC_API kvc_status kvc_storage_attend(kvc_storage* s, const kvc_attention* attention, kvc_stream* stream);

/** Describes how kvc_storage_attend would run a call, and runs nothing. q and out may be NULL.
 *  @param[in,out] info The caller sets struct_size. @return As kvc_storage_attend. Since 0.2. */
KVC_API kvc_status kvc_storage_explain(kvc_storage* s, const kvc_attention* attention,
                                       kvc_attention_info* info);

/** Computes the largest and smallest value of each element over the keys of a block. They bound q . k for
 *  kvc_storage_select_blocks (Quest, arXiv:2406.10774). Call it once a block is full. The bounds stay
 *  valid while the keys stay, whoever shares the block. They are rounded outwards to float16. An element
 *  that is infinite or NaN in some key has NaN bounds, and its block is picked first. With
 *  KVC_STORAGE_HADAMARD they bound the transformed keys.
 *  @param[in]  blocks [num_blocks] distinct ids; all of their tokens are written.
 *  @param[out] bounds [blocks of the storage][num_heads][2: largest, smallest][head_dim] float16 of one
 *  layer. Only entries of `blocks` are written.
 *  @return KVC_OK; INVALID_ARGUMENT (layer, an id out of range; nothing is written), OUT_OF_MEMORY (the
 *  stream's queue). Since 0.2. */
KVC_API kvc_status kvc_storage_key_bounds(kvc_storage* s, uint32_t layer, const int32_t* blocks,
                                          size_t num_blocks, uint16_t* bounds, kvc_stream* stream);

/** Picks for each request and KV head the blocks with the highest bounds on scale * q . k, over the
 *  queries of the request and the query heads of that KV head; of equal blocks the first. With
 *  kvc_block_choice.threshold: all blocks whose bound is close to the largest one of some query. Bounds
 *  are summed in float32 in a device-specific order: blocks whose sums differ in the last bits may change
 *  places between devices, equal ones never do. Soft cap, ALiBi and masks are ignored. Blocks outside all
 *  windows are never picked. If top_k or ratio covers all reachable blocks, or threshold is infinity, all
 *  bits are set and attention is dense.
 *  @param[in] attention The call to come. out, its strides, lse, mask, block_mask and sink_logits are
 *  ignored. Then set its block_mask to choice->block_mask for kvc_storage_attend.
 *  @param[in] choice    How many blocks to pick, and where to write.
 *  @return As kvc_storage_attend; INVALID_ARGUMENT (none or several of top_k, ratio and threshold; one that
 *  is out of range or NaN; block_mask_stride or workspace too small). Since 0.2. */
KVC_API kvc_status kvc_storage_select_blocks(kvc_storage* s, const kvc_attention* attention,
                                             const kvc_block_choice* choice, kvc_stream* stream);

/** Installs another kernel for the attention of this storage. No call on the storage may run. The
 *  library's own kernels still run for tiled keys, which have no view, and for streams of the CPU.
 *  @param[in] kernel NULL = restore the library's own.
 *  @param[in] user_data Passed to the kernel. @return KVC_OK, INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_storage_set_attention(kvc_storage* s, kvc_attention_kernel kernel, void* user_data);

/** Partial results of the same queries over disjoint sets of keys, such as parts of a context in several
 *  storages. */
typedef struct kvc_attention_partials {
  size_t struct_size; /**< sizeof(kvc_attention_partials) */
  const void* outs;   /**< [num_partials][num_rows][v_dim]; one row per query and head. */
  /** [num_partials][num_rows] as kvc_attention.lse. Where it is -infinity, the row of outs is not read. */
  const float* lses;
  size_t num_partials; /**< May be 0. */
  size_t num_rows;     /**< Rows of each partial result. */
  uint32_t v_dim;      /**< Elements of a row, 1 .. 8192. */
  int32_t dtype;       /**< Type of outs and out: KVC_FLOAT32 (also 0), FLOAT16 or BFLOAT16. */
} kvc_attention_partials;

/** Merges partial results into the result over all keys. Computes in float32. Only one partial result may
 *  include sink logits.
 *  @param[out] out [num_rows][v_dim]; zeros in a row that saw no key. May be outs.
 *  @param[out] lse [num_rows]; may be lses; NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT (NULL, dtype, v_dim). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_attention_merge(const kvc_attention_partials* partials, void* out, float* lse);

/** Writes the bits of kvc_attention.mask for a tree of draft tokens. Node i is at position start + i. It
 *  sees itself, its ancestors and, with kvc_attention.mask_starts[r] = start, all positions before the
 *  tree. Its rotary position is start + depths[i].
 *  @param[in]  parents   [num_nodes] parent of each node, less than the node; -1 = the last token before
 *  the tree.
 *  @param[in]  num_nodes At most 65,536.
 *  @param[out] mask      Bits first_bit .. first_bit + num_nodes * num_nodes - 1 are written, row by row.
 *  Other bits stay.
 *  @param[in]  first_bit kvc_attention.mask_offsets[r].
 *  @param[out] depths    [num_nodes] 0 for a node without a parent; NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_tree_mask(const int32_t* parents, size_t num_nodes, uint8_t* mask, uint64_t first_bit,
                                 int32_t* depths);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_ATTENTION_H */
