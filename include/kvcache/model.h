/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_MODEL_H
#define KVCACHE_MODEL_H

/** @file kvcache/model.h
 *  @brief Models: the shape of their KV cache, configs of other engines, how much memory it takes, and rotary
 *  embedding. */

#include <kvcache/manager.h>
#include <kvcache/storage.h>
#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_model.rope_scaling: how rotary embeddings are extended past the trained context. */
enum {
  KVC_ROPE_NONE = 0,    /**< No extension. */
  KVC_ROPE_LINEAR = 1,  /**< Positions divided by rope_factor. */
  KVC_ROPE_DYNAMIC = 2, /**< NTK-aware, by the present length. */
  KVC_ROPE_YARN = 3,    /**< YaRN: by wavelength, with a ramp. */
  KVC_ROPE_LLAMA3 = 4,  /**< By wavelength, as Llama 3.1. */
  KVC_ROPE_LONGROPE = 5 /**< One factor per dimension; rope_factor is max_context / rope_original_context. */
};

/** kvc_model.rope_flags. */
enum {
  /** YaRN: the ends of the ramp are not rounded to whole pairs ("truncate": false). */
  KVC_MODEL_ROPE_EXACT_RAMP = 1,
  /** Layers without a window or chunks do not rotate: their frequencies are 0. Since 0.3. */
  KVC_MODEL_ROPE_WINDOW_ONLY = 2
};

/** kvc_rope_rows.flags. */
enum {
  /** Elements 2 i and 2 i + 1 form a pair, instead of i and i + rope_dim / 2. */
  KVC_ROPE_ROWS_INTERLEAVED = 1
};

/** Largest num_layers of a kvc_model. */
#define KVC_MODEL_MAX_LAYERS 512

/** Most models that kvc_model_register keeps. */
#define KVC_MODEL_MAX_REGISTERED 256

/** What the KV cache of a model depends on. Use a preset (kvc_model_find), read a config.json
 *  (kvc_model_from_config), or fill it in. */
typedef struct kvc_model {
  size_t struct_size; /**< sizeof(kvc_model) */
  char name[64];      /**< Name, as kvc_model_find takes it. Zero-terminated. */
  /** Layers with a KV cache or, in state_layers, with a state: 1 .. KVC_MODEL_MAX_LAYERS. A layer with both
   *  counts as two. Of an encoder-decoder model, those of the decoder. */
  uint32_t num_layers;
  uint32_t num_q_heads; /**< Query heads, a multiple of num_kv_heads; 0 = unknown. */
  /** KV heads per layer, 1 .. 65536. This and head_dim may be 0 if state_layers has all layers. */
  uint32_t num_kv_heads;
  uint32_t head_dim;   /**< Elements of a key, 1 .. 65536. */
  uint32_t v_head_dim; /**< Elements of a value; 0 = head_dim. */
  /** Multi-head latent attention: elements stored per layer and token instead of keys and values, at most
   *  65536. The values are the first latent_dim - rope_dim of them. num_kv_heads is 1; head_dim and
   *  v_head_dim are those of the query heads. 0 = keys and values are stored. */
  uint32_t latent_dim;
  uint32_t rope_dim;    /**< Elements that rotate (latent attention: the last ones); 0 = head_dim. */
  uint32_t vocab_size;  /**< Upper bound of token ids (kvc_manager_config.vocab_size). */
  uint64_t max_context; /**< Tokens of the longest sequence that the model's configuration allows. */
  /** Sliding window as kvc_group_config.window_tokens, or chunk: see window_kind; 0 = no layer has one. */
  uint64_t window_tokens;
  /** Layer l has the window if bit l % 64 of entry l / 64 is set. All 0 with window_tokens = every layer
   *  without a state. */
  uint64_t window_layers[KVC_MODEL_MAX_LAYERS / 64];
  /** Base of the rotary embedding. This and the doubles below are 1e-30 .. 1e30, or 0 where 0 is
   *  documented. Only those that the scaling uses are checked. 0 = the model has no rotary embedding. */
  double rope_theta;
  double rope_local_theta; /**< Base of the layers with a window; 0 = rope_theta. */
  double rope_factor;      /**< Factor of rope_scaling; 0 without one. */
  /** Trained context before the extension, if rope_scaling uses one; else 0. */
  uint64_t rope_original_context;
  /** KVC_ROPE_* of the layers without a window (of all layers if rope_local_theta is 0). */
  uint32_t rope_scaling;
  uint32_t rope_flags; /**< KVC_MODEL_ROPE_* */
  /** LLAMA3, YARN: pairs with fewer rotations within rope_original_context are divided by rope_factor
   *  (low_freq_factor, beta_slow); 0 = 1. */
  double rope_low_rotations;
  /** LLAMA3, YARN: pairs with more rotations are unchanged (high_freq_factor, beta_fast); 0 = 4 for
   *  LLAMA3, 32 for YARN. */
  double rope_high_rotations;
  /** Factor of cosines and sines; 0 = that of rope_scaling: YARN 0.1 ln(rope_factor) + 1, LONGROPE sqrt(1
   *  + ln(rope_factor) / ln(rope_original_context)), others 1. */
  double rope_attention_factor;
  /** What window_tokens is: 0 or KVC_GROUP_SLIDING_WINDOW = tokens of a sliding window,
   *  KVC_GROUP_CHUNKED_LOCAL = tokens of a chunk of chunked local attention. Since 0.3. */
  uint32_t window_kind;
  /** Cross-attention: layers that read keys and values of encoder tokens, at most KVC_MODEL_MAX_LAYERS. They
   *  come on top of num_layers, which counts their self-attention. 0 = none. Since 0.3. */
  uint32_t num_cross_layers;
  /** Layer l has a recurrent state in place of keys and values (Mamba, linear attention), by bits as in
   *  window_layers. Since 0.3. */
  uint64_t state_layers[KVC_MODEL_MAX_LAYERS / 64];
  /** Elements that the convolution of one state layer keeps, at most 2^32: its channels times (kernel - 1).
   *  The channels are those of the inner size (Mamba), of the inner size and 2 * groups * state size
   *  (Mamba-2), of two times all key heads and all value heads (gated delta net). Since 0.3. */
  uint64_t conv_elements;
  /** Elements of the recurrence of one state layer, at most 2^32: inner size * state size (Mamba), heads *
   *  head size * state size (Mamba-2), value heads * key size * value size (gated delta net). This or
   *  conv_elements is above 0 with state_layers. Since 0.3. */
  uint64_t recurrent_elements;
  uint64_t cross_tokens;   /**< Encoder tokens of a sequence, with num_cross_layers. Since 0.3. */
  uint32_t cross_kv_heads; /**< KV heads of a layer of cross-attention, at most 65536. Since 0.3. */
  uint32_t cross_head_dim; /**< Elements of its keys, and of its values, at most 65536. Since 0.3. */
} kvc_model;

/** Returns the number of models that kvc_model_get knows: presets, and registered ones. It never shrinks.
 *  Thread-safe. Since 0.2. */
KVC_API size_t kvc_model_count(void);

/** Returns a preset with all fields set, or a registered model. @param[in] index Below kvc_model_count().
 *  Presets come first, in an order that may change between versions; then the registered models, in the
 *  order of their first registration.
 *  @param[in,out] model The caller sets struct_size. @return KVC_OK, INVALID_ARGUMENT. Thread-safe. Since
 *  0.2. */
KVC_API kvc_status kvc_model_get(size_t index, kvc_model* model);

/** Finds a preset or a registered model. @param[in] name Its name ("llama-3.1-8b"); of a preset also an
 *  alias, or the repository of its numbers ("meta-llama/Llama-3.1-8B"). Upper and lower case are equal.
 *  @param[in,out] model The caller sets struct_size.
 *  @return KVC_OK; NOT_FOUND (the text has the nearest names); INVALID_ARGUMENT. Thread-safe. Since
 *  0.2. */
KVC_API kvc_status kvc_model_find(const char* name, kvc_model* model);

/** Registers a model: kvc_model_find and kvc_model_get know it from now on, in all threads of the process.
 *  It replaces the registered model of the same name (upper and lower case are equal), which keeps its
 *  index. A model is never removed. For a config.json, call kvc_model_from_config, set the name, and
 *  register the result.
 *  @param[in] model Copied. Its name has 1 .. 63 printable ASCII characters without spaces, and is no name,
 *  alias or repository of a preset: put a part of your own in front ("my-company/chat-7b"), since later
 *  versions have more presets. max_context is at least 1. The other fields are checked as by
 *  kvc_estimate_memory and, unless rope_theta is 0, as by kvc_model_rope.
 *  @return KVC_OK; INVALID_ARGUMENT (a name or field; the text has the value and the fix), UNSUPPORTED (an
 *  unknown rope_scaling or flag), LIMIT (KVC_MODEL_MAX_REGISTERED other names). A failed call changes
 *  nothing. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_model_register(const kvc_model* model);

/** Reads a Hugging Face config.json: Llama, Mistral, Mixtral, Phi, Phi-3, Qwen2, Qwen3 (also MoE), Gemma 2,
 *  Gemma 3, Llama 4, DeepSeek-V3, gpt-oss, Jamba, Qwen3-Next, Granite 4 hybrids and Whisper, also within
 *  "text_config"; or the config.json that sharktank exports for Shortfin (with "paged_kv_cache"), which has
 *  no query heads, vocabulary and rotary embedding. The name is "_name_or_path" (Shortfin: "module_name") or
 *  else the architecture. The factors of LongRoPE have no field in kvc_model: pass them to kvc_model_rope.
 *  @param[in]     json  Text of the file. Not kept.
 *  @param[in]     size  Bytes of the text.
 *  @param[in,out] model The caller sets struct_size. Nothing is written on failure.
 *  @return KVC_OK; INVALID_ARGUMENT (not JSON, an unknown architecture, a field that is missing or out of
 *  range: the text names the field, its value and the fix), OUT_OF_MEMORY. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_model_from_config(const char* json, size_t size, kvc_model* model);

/** Reads the config.json that sharktank exports for Shortfin (its paged_kv_cache), and sets fields of both
 *  configurations; the others stay as they are. One manager serves all devices: a block id means the same
 *  page in each of their storages. A storage of this configuration has Shortfin's pages, [layer][key,
 *  value][head][token][element], without gaps if alignment divides the bytes of a layer's keys.
 *  @param[in]     json        Text of the file. Not kept.
 *  @param[in]     size        Bytes of the text.
 *  @param[in]     device      Index of the storage: below *num_devices. Each device has some of the layers
 *  (paged_kv_block_size_elements_per_device), in ascending order.
 *  @param[in,out] manager     The caller sets struct_size. Sets num_blocks, block_size (block_seq_stride) and
 *  max_request_tokens (max_seq_len). NULL = not wanted.
 *  @param[in,out] storage     The caller sets struct_size. Sets num_blocks, num_layers, num_heads, head_dim,
 *  block_size, dtype, and layout (KVC_LAYOUT_BLHNC). NULL = not wanted.
 *  @param[out]    num_devices Devices of the file, at least 1. NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT (not JSON, a field that is missing, out of range or of an unknown type:
 *  the text names the field, its value and the fix; no such device), OUT_OF_MEMORY. A failed call changes
 *  nothing. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_config_from_shortfin(const char* json, size_t size, uint32_t device,
                                            kvc_manager_config* manager, kvc_storage_config* storage,
                                            uint32_t* num_devices);

/* ---------------------------------------------------------------- memory */

/** Question for kvc_estimate_memory, and the memory of a manager (kvc_manager_config.memory). */
typedef struct kvc_memory_query {
  size_t struct_size;     /**< sizeof(kvc_memory_query) */
  const kvc_model* model; /**< Its name, vocabulary and rope fields are ignored. */
  uint64_t tokens;        /**< Tokens of each sequence; 0 = model->max_context. */
  uint64_t num_sequences; /**< Sequences that share nothing; 0 = 1. */
  /** Memory for blocks and residual_bytes. 0 = memory_fraction; if that is 0 too, there is no budget, and
   *  what needs one is 0 in the estimate. */
  uint64_t budget_bytes;
  /** Most tokens of a sequence that one step writes: 0 = 1 (decoding); the chunk of a chunked prefill; or
   *  `tokens` for prompts that are written at once. Layers with a window hold up to this many tokens more. */
  uint64_t chunk_tokens;
  int32_t dtype; /**< KVC_FLOAT32 (also 0), FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT8 or INT4. */
  uint32_t block_size; /**< Tokens per block, 1 .. 1024; 0 = 16. */
  /** int8, int4, fp8: elements that share a scale of 4 bytes, counted from the start of each key, value or
   *  latent row. 0 = int8 and int4: one scale per row; fp8: no scales in the blocks. Other types: 0. */
  uint32_t scale_group;
  uint32_t asymmetric;     /**< 1 = a scale and an offset, 8 bytes. Needs scales. */
  uint32_t tensor_scales;  /**< 1 = int8 and int4 with k_scale and v_scale: no scales in the blocks. */
  uint32_t channel_keys;   /**< 1 = int8 and int4 with KVC_STORAGE_CHANNEL_KEYS. */
  uint32_t channel_tokens; /**< As in kvc_storage_config. */
  /** Instead of budget_bytes: this part of kvc_device_info.free_bytes, above 0 and at most 1. */
  float memory_fraction;
  const char* device; /**< Device of memory_fraction; NULL = "cpu". */
  /** State layers: a sequence keeps a copy of their state every so many tokens, a multiple of block_size
   *  (kvc_group_config.retention_tokens of the state group); 0 = none is planned for. Other models ignore
   *  this and the two below. Since 0.3. */
  uint64_t checkpoint_tokens;
  /** Types of conv_elements and recurrent_elements: KVC_FLOAT32, FLOAT16 or BFLOAT16. 0 = dtype if it is one
   *  of these or 0, else BFLOAT16. Since 0.3. */
  int32_t conv_dtype;
  int32_t recurrent_dtype; /**< Since 0.3. */
  /** Layers with a window or chunks: kvc_group_config.retention_tokens of their group, a multiple of
   *  block_size. 0 = block_size: a hit may end at every block, as long as there is room for its window;
   *  KVC_NO_RETENTION, as any value above 2^32: only at the ends of prompts and requests, which is a group's
   *  0. Other models ignore this. Since 0.3. */
  uint64_t retention_tokens;
} kvc_memory_query;

/** Answer of kvc_estimate_memory, in bytes and blocks. Layers with keys and values form the full group, or
 *  with a window the window group; those with a state the state group; cross-attention the cross group. A
 *  group without layers has zeros. A manager has those with layers in this order. */
typedef struct kvc_memory_estimate {
  size_t struct_size; /**< sizeof(kvc_memory_estimate) */
  /** Keys and values of one token in the full and the window group, as if no layer had a window. */
  uint64_t bytes_per_token;
  uint64_t full_block_bytes;   /**< One block of the full group, all its layers. */
  uint64_t window_block_bytes; /**< One block of the window group, all its layers. */
  uint64_t full_blocks;        /**< Blocks of a sequence in the full group: ceil(tokens / block_size). */
  /** Most blocks of a sequence in the window group while it grows to `tokens`: min(ceil(tokens / block_size),
   *  ceil((window_tokens - 1) / block_size) + ceil((chunk_tokens - 1) / block_size) + 1). */
  uint64_t window_blocks;
  /** The sum of blocks * block bytes of all groups, and residual_bytes. */
  uint64_t sequence_bytes;
  uint64_t total_bytes; /**< num_sequences * sequence_bytes. */
  /** Largest `tokens` for which num_sequences sequences fit the budget: a multiple of block_size, possibly
   *  above max_context. 0 = not one block fits; UINT64_MAX = any length fits (no full group). */
  uint64_t max_tokens;
  /** Largest num_sequences of `tokens` tokens that fits the budget; may be 0. Pools are divided for them if
   *  the query asks for as many: see pool_blocks. */
  uint64_t max_sequences;
  uint32_t num_full_layers;   /**< Layers of the full group. */
  uint32_t num_window_layers; /**< Layers of the window group. */
  /** channel_keys: the bfloat16 keys of a sequence's residual block in all layers, and of the open block of
   *  cross-attention. Else 0. */
  uint64_t residual_bytes;
  uint64_t budget_bytes; /**< The budget: that of the query, or memory_fraction of the free memory. */
  /** Blocks that the budget pays for after residual_bytes of num_sequences sequences: of the pool of the
   *  first group. A manager gets as many from kvc_manager_config.memory. Groups whose blocks have equal sizes
   *  share one pool. Otherwise each has its own. First it gets what num_sequences running sequences of
   *  `tokens` tokens need (blocks * block bytes), or its share of the budget if that is too small. What is
   *  left is divided by what a cached sequence keeps: the same blocks, but of a window group with
   *  retention_tokens a sixth of those that hits at all multiples need, if that is more (docs/BENCHMARKS.md).
   *  The first pool gets the rest. So `tokens` and checkpoint_tokens decide how many states there
   *  are, and with them how many requests run at once. 0 = the budget is below one block of each pool. */
  uint64_t pool_blocks;
  /** Blocks of the window group's own pool; 0 = it takes from an earlier group's, or is the first. */
  uint64_t window_pool_blocks;
  uint64_t state_block_bytes; /**< The state of all state layers after some number of tokens. Since 0.3. */
  uint64_t cross_block_bytes; /**< One block of encoder tokens in all layers that read them. Since 0.3. */
  /** Most blocks of a sequence in the state group: 2, or 1 if `tokens` are one block, and a checkpoint for
   *  every checkpoint_tokens. Since 0.3. */
  uint64_t state_blocks;
  uint64_t cross_blocks; /**< ceil(cross_tokens / block_size). Since 0.3. */
  /** As window_pool_blocks, of the state and the cross group. Since 0.3. */
  uint64_t state_pool_blocks;
  uint64_t cross_pool_blocks; /**< Since 0.3. */
  uint32_t num_state_layers;  /**< Layers of the state group. Since 0.3. */
  uint32_t num_cross_layers;  /**< Layers of the cross group. Since 0.3. */
  uint32_t num_pools;         /**< Pools that the groups take from, whatever the budget. Since 0.3. */
  uint32_t window_pool;       /**< Pool of the window group; the first group's is 0. Since 0.3. */
  uint32_t state_pool;        /**< Pool of the state group. Since 0.3. */
  uint32_t cross_pool;        /**< Pool of the cross group. Since 0.3. */
} kvc_memory_estimate;

/** Computes the memory of sequences and, with a budget, what fits. Exact for blocks that hold only the
 *  elements and scales of their tokens: a row of n elements takes ceil(n * bits / 8) bytes and 4 (or 8)
 *  for each scale. channel_tokens tokens share the scales of channels (rounded up in bytes_per_token).
 *  Sequences share nothing. Blocks that stay cached for reuse come on top.
 *  @param[in]     query    What to store.
 *  @param[in,out] estimate The caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range, a result above 2^64 - 1), UNSUPPORTED. With
 *  memory_fraction also NOT_FOUND (device), UNSUPPORTED (its free memory is unknown). Thread-safe. Since
 *  0.2. */
KVC_API kvc_status kvc_estimate_memory(const kvc_memory_query* query, kvc_memory_estimate* estimate);

/* ---------------------------------------------------------------- rotary embedding */

/** Computes the angles by which the pairs of a layer's rotary embedding rotate per position (RoPE:
 *  arXiv:2104.09864; YaRN: arXiv:2309.00071; LongRoPE: arXiv:2402.13753), in double precision.
 *  @param[in]  model   Reads rope_*, head_dim, rope_dim, max_context and the windows.
 *  @param[in]  layer   Below num_layers, without a state. Layers with a window may have their own base.
 *  @param[in]  length  DYNAMIC: present tokens of the sequence. Others ignore it.
 *  @param[in]  factors LONGROPE: [rope_dim / 2], each 1e-30 .. 1e30, from config.json: short_factor up to
 *  rope_original_context tokens, long_factor beyond. Others: NULL.
 *  @param[out] frequencies [num_frequencies] radians per position.
 *  @param[in]  num_frequencies rope_dim / 2 of the model.
 *  @param[out] attention_factor For kvc_rope_table. (A model may also scale its logits:
 *  kvc_attention.scale.)
 *  @return KVC_OK; INVALID_ARGUMENT (a field or num_frequencies out of range), UNSUPPORTED (LONGROPE
 *  without factors, an unknown scaling or flag). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_model_rope(const kvc_model* model, uint32_t layer, uint64_t length,
                                  const double* factors, double* frequencies, size_t num_frequencies,
                                  double* attention_factor);

/** Computes cosines and sines for kvc_rope_apply and kvc_rows.rope_table: once per step for all layers
 *  with the same frequencies, or once for all positions. Angles are computed in double precision and are
 *  exact at any position.
 *  @param[in]  positions [num_positions], of any sign; NULL = 0, 1, 2, ...
 *  @param[out] table     [num_positions][2][num_frequencies] cosines, then sines, both times
 *  attention_factor.
 *  @return KVC_OK; INVALID_ARGUMENT (NULL, an attention_factor or frequency that is NaN or outside -1e30
 *  .. 1e30, a position past 2^40). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_rope_table(const double* frequencies, size_t num_frequencies, double attention_factor,
                                  const int64_t* positions, size_t num_positions, float* table);

/** Rows for kvc_rope_apply. Element (t, h, e) is at x + t * token_stride + h * head_stride + e, counted in
 *  elements. */
typedef struct kvc_rope_rows {
  size_t struct_size;       /**< sizeof(kvc_rope_rows) */
  void* x;                  /**< [num_tokens][num_heads][head_dim], rotated in place. */
  size_t num_tokens;        /**< Number of tokens. */
  const float* table;       /**< [table_rows][rope_dim] from kvc_rope_table. */
  size_t table_rows;        /**< Rows of the table. */
  const int64_t* table_row; /**< [num_tokens] row of the table for each token; NULL = row t for token t. */
  uint32_t num_heads;       /**< Query heads, KV heads, or 1 for a latent row. */
  uint32_t head_dim;        /**< Elements of a row. */
  uint32_t rope_dim;        /**< Elements that rotate, even; 0 = head_dim. */
  uint32_t first_element;   /**< The first of them. Latent rows: latent_dim - rope_dim. */
  int32_t dtype;            /**< Type of x: KVC_FLOAT32 (also 0), FLOAT16 or BFLOAT16. Computed in float32. */
  uint32_t flags;           /**< KVC_ROPE_ROWS_* */
  int64_t token_stride;     /**< 0 = num_heads * head_stride. */
  int64_t head_stride;      /**< 0 = head_dim. */
} kvc_rope_rows;

/** Rotates queries or keys in place: each pair (a, b) becomes (a cos - b sin, b cos + a sin). Rows must
 *  not overlap.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range, a row outside the table; nothing is changed),
 *  UNSUPPORTED. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_rope_apply(const kvc_rope_rows* rows);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_MODEL_H */
