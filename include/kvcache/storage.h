/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_STORAGE_H
#define KVCACHE_STORAGE_H

/** @file kvcache/storage.h
 *  @brief Storage: memory for the keys and values of a pool's blocks, and the calls that move and quantize
 *  them.
 *
 *  Row: the elements of one (layer, token, KV head). Plane: all rows of one kind, such as keys. Run: a
 *  contiguous range of bytes. Residual block: with KVC_STORAGE_CHANNEL_KEYS, a layer of a block whose keys
 *  are not quantized yet. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_storage_config.layout: the order of [L layer, B block, H head, N token, C content of a row],
 *  outermost first. */
enum {
  /** Layer first, heads outside tokens: the rows of a (block, head) are contiguous. */
  KVC_LAYOUT_LBHNC = 0,
  KVC_LAYOUT_LBNHC = 1, /**< Layer first, tokens outside heads: the rows of a token are contiguous. */
  KVC_LAYOUT_BLHNC = 2, /**< Block first, heads outside tokens: the bytes of a block are contiguous. */
  KVC_LAYOUT_BLNHC = 3, /**< Block first, tokens outside heads. */
  /** Block first, heads outside layers: some heads of a block are contiguous (tensor parallelism). */
  KVC_LAYOUT_BHLNC = 4
};

/** kvc_storage_config.flags. */
enum {
  /** Multi-head latent attention: the values are the first v_head_dim elements of the keys. There is no
   *  value plane. */
  KVC_STORAGE_LATENT = 1,
  /** Keys are stored in tiles [head_dim / t][16 tokens][t elements], where t elements take 4 bytes, for
   *  CPU attention. Needs a float type, heads outside tokens, a block_size that is a multiple of 16, keys
   *  of a multiple of 4 bytes, and no latent rows. Tiled planes have no view. */
  KVC_STORAGE_TILED_KEYS = 2,
  KVC_STORAGE_ASYMMETRIC = 4, /**< Integer types: a scale and an offset per group, instead of a scale. */
  /** Do not clear the storage's own memory at creation. Slots never stored hold undefined values. */
  KVC_STORAGE_NOT_ZEROED = 8,
  /** INT8 and INT4: keys have one scale per channel (element of a row) over the tokens of a block, instead
   *  of one per row (KIVI, arXiv:2402.02750). It is more accurate for models with few large channels. A
   *  layer of a block is *residual*, its keys in bfloat16 beside the blocks, until all of its tokens are
   *  stored; then it is quantized. See residual_blocks. Not for latent rows. */
  KVC_STORAGE_CHANNEL_KEYS = 16,
  /** FP8 and integer types: each row is transformed by the orthonormal Walsh-Hadamard matrix before it is
   *  quantized, which spreads a large element over its row. Gather and attention reverse the transform;
   *  queries are transformed like keys. A row with NaN or infinity comes back as NaN (FP8) or zeros. Needs
   *  powers of two as head_dim and v_head_dim, and no latent rows. */
  KVC_STORAGE_HADAMARD = 32
};

/** Planes of a storage. The scales are float32: one per group of a row, or (scale, offset) pairs. With
 *  KVC_STORAGE_CHANNEL_KEYS there is one per key channel and channel_tokens tokens. */
enum {
  KVC_PLANE_K = 0,       /**< Keys. */
  KVC_PLANE_V = 1,       /**< Values. */
  KVC_PLANE_K_SCALE = 2, /**< Scales of the keys. */
  KVC_PLANE_V_SCALE = 3  /**< Scales of the values. */
};

/** kvc_rows.flags. */
enum {
  /** GPU only: slots, block_table and rope_rows are in memory that the device reads, as with
   *  KVC_LAUNCH_ON_DEVICE. */
  KVC_ROWS_ON_DEVICE = 1,
  /** With rope_table: elements 2 i and 2 i + 1 form a pair, instead of i and i + rope_dim / 2. */
  KVC_ROWS_ROPE_INTERLEAVED = 2
};

/** Shape, type and place of a storage. num_layers, num_heads, head_dim and num_blocks have no default. */
typedef struct kvc_storage_config {
  size_t struct_size; /**< sizeof(kvc_storage_config) */
  /** Blocks 0 .. num_blocks - 1, as many as the manager's pool; 0 with memory_fraction. */
  uint64_t num_blocks;
  uint32_t num_layers; /**< Layers of the group, 1 .. 65536. */
  uint32_t num_heads;  /**< KV heads, 1 .. 65536; 1 for latent attention. */
  uint32_t head_dim;   /**< Elements of a key row, 1 .. 8192. */
  uint32_t v_head_dim; /**< Elements of a value row; 0 = head_dim. */
  /** Tokens per block, 1 .. 1024; 0 = 16. On the CPU up to 1,048,576, except with
   *  KVC_STORAGE_CHANNEL_KEYS: one block may hold a whole request, for engines without a kvc_manager. */
  uint32_t block_size;
  int32_t dtype;   /**< KVC_FLOAT32 (also 0), FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT8 or INT4. */
  uint32_t layout; /**< KVC_LAYOUT_* */
  uint32_t flags;  /**< KVC_STORAGE_* */
  /** Elements of a row that share a scale, at least 4. 0 = integer types: the whole row; FP8: no scales in
   *  the blocks, see k_scale. Other types: 0. */
  uint32_t scale_group;
  /** Alignment in bytes of the keys and of the values of each block and layer (KVC_LAYOUT_BHLNC: and head),
   *  a power of two, 16 .. 4096; 0 = 64. */
  uint32_t alignment;
  /** Threads of one call, the caller included, 1 .. 256; 0 = 1. With parallel_for: its workers, not 0. */
  uint32_t num_threads;
  /** KVC_MEMORY_* of the storage's own memory. With `memory`: 0 or KVC_MEMORY_EXTERNAL. */
  uint32_t memory_kind;
  /** External memory aligned to `alignment`, valid until kvc_storage_destroy. NULL = own memory. */
  void* memory;
  size_t memory_size;             /**< Bytes of `memory`, at least kvc_storage_info.slab_bytes. */
  const kvc_allocator* allocator; /**< For own memory. NULL = the device's, in huge pages if it has them. */
  const char* device;             /**< Device of the memory and the work; NULL = "cpu". */
  /** Runs the work on threads of the caller: calls job(data, i, worker) once for each i < count, and
   *  returns when all have returned. worker < num_threads. Jobs of one call that run at the same time have
   *  different workers. The calling thread may run any of them. The result equals that of num_threads
   *  threads bit by bit. Every function of the storage may call it, as may the threads of streams; several
   *  may call it at once. It must not throw. NULL = threads of the library. */
  void (*parallel_for)(void* parallel_context, size_t count, void (*job)(void* data, size_t i, size_t worker),
                       void* data);
  void* parallel_context; /**< Passed to parallel_for. */
  /** One scale for all keys, one for all values, 1e-30 .. 1e30: x is stored as x / scale, clamped. FP8
   *  without scale_group: 0 = 1. INT8 and INT4 without scale_group, asymmetry or channel keys: set both
   *  (latent rows: k_scale), or 0 = scales in the blocks. Other types: 0. */
  float k_scale, v_scale;
  /** KVC_STORAGE_CHANNEL_KEYS: tokens that share a channel's scale, a divisor of block_size; 0 = all. */
  uint32_t channel_tokens;
  /** KVC_STORAGE_CHANNEL_KEYS: residual blocks per layer, at most 65,535; 0 = 64. Set it to the number of
   *  sequences that decode at once. If more are needed, the one that was stored to longest ago is
   *  quantized early, which costs accuracy only. */
  uint32_t residual_blocks;
  /** With num_blocks 0 and own memory: use this part of kvc_device_info.free_bytes, above 0 and at most 1. */
  float memory_fraction;
  uint32_t reserved; /**< 0 */
} kvc_storage_config;

/** Properties of a storage, with defaults filled in. */
typedef struct kvc_storage_info {
  size_t struct_size;   /**< sizeof(kvc_storage_info) */
  void* data;           /**< First byte of the slab. */
  uint64_t slab_bytes;  /**< Bytes of all blocks. */
  uint64_t block_bytes; /**< Bytes of one block in all layers, with scales and padding. */
  uint64_t token_bytes; /**< Bytes of one token in all layers, with scales, without padding. */
  uint64_t num_blocks;  /**< As in kvc_storage_config, like the fields below. */
  uint32_t num_layers, num_heads, head_dim, v_head_dim, block_size; /**< As configured. */
  int32_t dtype;                                                    /**< As configured. */
  uint32_t layout, flags, scale_group, alignment;                   /**< As configured. */
  uint32_t memory_kind;                     /**< The actual KVC_MEMORY_*, never KVC_MEMORY_DEFAULT. */
  uint32_t reserved;                        /**< 0 */
  uint64_t residual_bytes;                  /**< Bytes beside the slab for the keys of residual blocks. */
  float k_scale, v_scale;                   /**< 0 = the scales are in the blocks, or there are none. */
  uint32_t channel_tokens, residual_blocks; /**< As configured. */
} kvc_storage_info;

/** Rows to store or to gather: keys and values of tokens in some layers. Element (l, t, h, e) of k is at k
 *  + l * k_layer_stride + t * k_token_stride + h * k_head_stride + e, counted in elements; likewise v.
 *  Strides may be negative. The sum of layers, tokens and heads, each times the size of its stride, is
 *  below 2^60. Rows of a gather must not overlap; this is not checked. */
typedef struct kvc_rows {
  size_t struct_size; /**< sizeof(kvc_rows) */
  void* k; /**< [num_layers][num_tokens][num_heads][head_dim]. A store only reads it; a gather writes it. */
  void* v; /**< [num_layers][num_tokens][num_heads][v_head_dim]. NULL for latent attention. */
  size_t num_tokens;    /**< Number of tokens. */
  uint32_t first_layer; /**< Layer of the storage for l = 0. */
  uint32_t num_layers;  /**< Number of layers; 0 = 1. */
  int32_t dtype;        /**< Type of k and v: KVC_FLOAT32 (also 0), FLOAT16 or BFLOAT16. */
  uint32_t flags;       /**< KVC_ROWS_* */
  int64_t k_layer_stride, k_token_stride, k_head_stride; /**< 0 = contiguous. */
  int64_t v_layer_stride, v_token_stride, v_head_stride; /**< 0 = contiguous. */
  /** [num_tokens] slot of each token, as in kvc_step.slots; -1 = skip the token (a gather leaves its rows
   *  unchanged). Slots must be unique within a store; of rows with the same slot any may remain. NULL = use
   *  block_table. */
  const int64_t* slots;
  /** [block_table_size] block ids of a request; token t is at position first_token + t. Entries that no
   *  token needs are ignored. */
  const int32_t* block_table;
  size_t block_table_size; /**< Entries of block_table. */
  uint64_t first_token;    /**< Position of token 0. */
  /** [rope_table_rows][rope_dim] from kvc_rope_table, in memory like k: a store rotates the keys as
   *  kvc_rope_apply would, in all layers. NULL = store the keys unchanged and ignore the fields below.
   *  Gathers and measurements refuse it: stored keys are rotated already. */
  const float* rope_table;
  /** [num_tokens] row of rope_table for each token; NULL = row t for token t. Rows of skipped tokens must
   *  be in range too. With KVC_ROWS_ON_DEVICE the call cannot check it, and a token whose row is out of
   *  range gets some other row of the table. */
  const int64_t* rope_rows;
  size_t rope_table_rows;      /**< Rows of rope_table. */
  uint32_t rope_dim;           /**< Elements of a key that rotate, even; 0 = all. */
  uint32_t rope_first_element; /**< The first of them. Latent rows: latent_dim - rope_dim. */
} kvc_rows;

/** A part of a block: [first, first + num) of layers, heads and tokens. Frozen. */
typedef struct kvc_selection {
  /** First index and count of each. */
  uint32_t first_layer, num_layers, first_head, num_heads, first_token, num_tokens;
} kvc_selection;

/* ---------------------------------------------------------------- create */

/** Creates a storage in its own memory or in external memory. A storage knows no requests: callers address
 *  it by the block ids and slots of a manager with the same block_size. Any thread may call its functions.
 *  The caller orders calls that touch the same bytes.
 *  @param[in]  config  Shape, type and place.
 *  @param[out] storage Free it with kvc_storage_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range, external memory too small or misaligned),
 *  NOT_FOUND (device), UNSUPPORTED (a combination or a kind of memory that this build or device lacks),
 *  OUT_OF_MEMORY (memory or threads). Since 0.2. */
KVC_API kvc_status kvc_storage_create(const kvc_storage_config* config, kvc_storage** storage);

/** Waits for the work that streams have on the storage, and frees it. The caller keeps external memory.
 *  Memory with exported tensors (kvc_storage_export_dlpack) is freed with the last tensor. NULL is
 *  ignored. No other call on the storage may run. Since 0.2. */
KVC_API void kvc_storage_destroy(kvc_storage* s);

/** Properties of a storage. @param[out] info The caller sets struct_size. @return KVC_OK,
 *  INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_storage_properties(kvc_storage* s, kvc_storage_info* info);

/** Computes the bytes that kvc_storage_create needs. num_blocks may be 0 if only block_bytes is wanted.
 *  @param[out] block_bytes Bytes of one block in all layers. @param[out] slab_bytes Bytes of num_blocks.
 *  Either may be NULL.
 *  @return KVC_OK, INVALID_ARGUMENT, UNSUPPORTED. Since 0.2. */
KVC_API kvc_status kvc_storage_size(const kvc_storage_config* config, uint64_t* block_bytes,
                                    uint64_t* slab_bytes);

/** Gives back memory that calls of the storage have left for later calls: scratch memory on the CPU; on a
 *  GPU the idle pieces of its workspace, and of pinned memory for copies of host arrays (docs/GPU.md,
 *  "Workspace"). The blocks stay as they are. Pieces that a captured graph uses stay too, until the storage
 *  is destroyed. If there are others, a GPU waits for all work on the device; a capture goes on. Later calls
 *  allocate again: use it when a load has passed, not between steps.
 *  @param[out] device_bytes Memory of a GPU that was freed. @param[out] host_bytes Memory of the host that
 *  was freed. Either may be NULL.
 *  @return KVC_OK; INVALID_ARGUMENT, OUT_OF_MEMORY (nothing is freed), DEVICE. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_storage_trim(kvc_storage* s, uint64_t* device_bytes, uint64_t* host_bytes);

/* ---------------------------------------------------------------- views of the memory */

/** Describes a plane of one layer as an array [num_blocks, num_heads, block_size, elements of a row] in
 *  the slab; INT4 rows as bytes (KVC_UINT8). @param[in] plane KVC_PLANE_*.
 *  @return KVC_OK; INVALID_ARGUMENT; UNSUPPORTED for tiled keys; NOT_FOUND if there is no such plane.
 *  Since 0.2. */
KVC_API kvc_status kvc_storage_view(kvc_storage* s, int32_t plane, uint32_t layer, kvc_view* view);

/** Exports the plane of kvc_storage_view as a DLPack tensor for NumPy, PyTorch, JAX and others. Nothing is
 *  copied: both sides see each other's writes. The tensor keeps the memory, its allocator and external
 *  memory in use until its deleter is called, even past kvc_storage_destroy. Calls on the storage do not
 *  wait for users of the tensor.
 *  @param[out] tensor A `DLManagedTensor *` (unversioned; capsule name "dltensor"). Call
 *  tensor->deleter(tensor) once, in any thread.
 *  @return As kvc_storage_view, and OUT_OF_MEMORY. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_storage_export_dlpack(kvc_storage* s, int32_t plane, uint32_t layer, void** tensor);

/** Lists the bytes of a part of a block as runs, ascending, with adjacent runs joined: what to send, save
 *  or register. Tiled keys give whole tiles. Channel keys give the scales of all tokens that share them,
 *  and the block must not be residual (kvc_storage_quantize_blocks).
 *  @param[in]  selection Layers, heads and tokens; NULL = the whole block.
 *  @param[out] runs      [capacity]. @param[out] count Number of runs.
 *  @return KVC_OK; INVALID_ARGUMENT; BUSY (a residual block); BUFFER_TOO_SMALL (count is what is needed).
 *  Since 0.2. */
KVC_API kvc_status kvc_storage_runs(kvc_storage* s, int32_t block, const kvc_selection* selection,
                                    kvc_run* runs, size_t capacity, size_t* count);

/* ---------------------------------------------------------------- store and gather */

/** Writes keys and values of tokens to their slots, converted to the stored type. With rope_table it
 *  rotates the keys first. It checks all arguments before it writes.
 *
 *  Integer types store NaN as 0; asymmetric ones as the nearest value. FP8 keeps NaN. An infinity becomes
 *  the largest finite magnitude of the elements that share its scale, or FLT_MAX if that is 0. Zeros come
 *  back as zeros; asymmetric rows and rows with KVC_STORAGE_HADAMARD give the nearest value that they can
 *  hold.
 *
 *  Channel keys are rounded to bfloat16 first. The state of a block does not depend on how calls split its
 *  tokens. A store to token t of a quantized block makes it residual again. Store t and all later tokens
 *  anew; until then they keep their values.
 *  @param[in] stream A stream of the storage's device; NULL = done on return.
 *  @return KVC_OK; INVALID_ARGUMENT (a slot, table entry or row of rope_table out of range, ...);
 *  OUT_OF_MEMORY (the stream's queue). Since 0.2. */
KVC_API kvc_status kvc_storage_store(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream);

/** Reads keys and values of tokens from their slots, converted to the caller's type. Rows that were stored
 *  in the same type come back bit by bit. Parameters and errors as kvc_storage_store. Since 0.2. */
KVC_API kvc_status kvc_storage_gather(kvc_storage* s, const kvc_rows* rows, kvc_stream* stream);

/** Copies blocks in all layers, in array order: the copies of kvc_step and kvc_manager_take_pending.
 *  @return KVC_OK; INVALID_ARGUMENT (an id out of range; nothing is copied), OUT_OF_MEMORY (the stream's
 *  queue). Since 0.2. */
KVC_API kvc_status kvc_storage_copy_blocks(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies,
                                           kvc_stream* stream);

/** Clears blocks in all layers, scales included.
 *  @return KVC_OK; INVALID_ARGUMENT (an id out of range; nothing is cleared), OUT_OF_MEMORY (the stream's
 *  queue). Since 0.2. */
KVC_API kvc_status kvc_storage_zero_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                           kvc_stream* stream);

/** Copies blocks to pages of host memory, to make room, save or send them. A page holds all layers of a
 *  block: the bytes of kvc_storage_runs, run after run. It may be swapped in to any block of any storage
 *  of the same configuration, whatever its device, memory and num_blocks. Residual blocks are quantized
 *  first (kvc_storage_quantize_blocks).
 *
 *  A GPU uses its copy engine or a kernel, whichever it expects to be faster. The first swap outside a
 *  capture measures both, once per device: it takes longer and waits. Call this with num_copies 0 at
 *  start-up. A capture before that uses an estimate.
 *  @param[in]  copies     [num_copies] source is a block, destination a page. No page twice.
 *  @param[out] pages      Page p is at pages + p * page_bytes. Aligned to 16, outside the storage's slab,
 *  in memory that the device writes: pinned (KVC_MEMORY_PINNED), registered (kvc_device_register), or any
 *  with KVC_DEVICE_READS_HOST. It must stay valid until the work is done.
 *  @param[in]  pages_size Bytes of `pages`.
 *  @param[in]  page_bytes Bytes from one page to the next, a multiple of 16, at least
 *  kvc_storage_info.block_bytes; 0 = that.
 *  @param[in]  stream A stream of the storage's device; NULL = done on return.
 *  @return KVC_OK; INVALID_ARGUMENT (a block or page out of range, a page twice, the memory; nothing is
 *  copied), UNSUPPORTED (the device cannot), OUT_OF_MEMORY, DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_storage_swap_out(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies,
                                        void* pages, size_t pages_size, uint64_t page_bytes,
                                        kvc_stream* stream);

/** Copies pages of kvc_storage_swap_out to blocks, which become equal to the pages.
 *  @param[in] copies [num_copies] source is a page, destination a block. No block twice. The rest as
 *  kvc_storage_swap_out. Since 0.2. */
KVC_API kvc_status kvc_storage_swap_in(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies,
                                       const void* pages, size_t pages_size, uint64_t page_bytes,
                                       kvc_stream* stream);

/* ---------------------------------------------------------------- quantization */

/** KVC_STORAGE_CHANNEL_KEYS: quantizes residual blocks in all layers, complete or not. Call it before
 *  their bytes leave the slab. It does nothing for blocks that are not residual and for other storages.
 *  @return KVC_OK, INVALID_ARGUMENT (an id out of range; nothing is quantized). Since 0.2. */
KVC_API kvc_status kvc_storage_quantize_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                               kvc_stream* stream);

/** Measured cost and error of stored rows. Elements that were not finite before count in bytes only. A
 *  finite element that came back as NaN or infinity has an infinite error. */
typedef struct kvc_quant_metrics {
  size_t struct_size; /**< sizeof(kvc_quant_metrics) */
  uint64_t elements;  /**< Elements compared. */
  /** Their size: codes, their share of the scales rounded up, residual rows in bfloat16. */
  uint64_t bytes;
  uint64_t fp16_bytes; /**< Their size as fp16. */
  double ratio;        /**< fp16_bytes / bytes; 0 without elements. */
  double mse;          /**< Mean squared error of the finite elements. */
  /** 10 log10(sum of squares / sum of squared errors); +infinity without error, -infinity without signal. */
  double snr_db;
  double max_error; /**< Largest absolute error. */
} kvc_quant_metrics;

/** Measures the error of quantization: compares the caller's rows with the stored ones, element by
 *  element. The CPU uses the calling thread. A GPU compares, and the call waits. Devices agree except for
 *  the rounding of sums in double precision.
 *  @param[in] rows The original rows, as for kvc_storage_store. Slots of -1 are skipped. The rows are not
 *  changed.
 *  @param[in,out] keys, values The caller sets struct_size; NULL = not wanted. `values` of latent storages
 *  must be NULL.
 *  @return As kvc_storage_gather. Since 0.2. */
KVC_API kvc_status kvc_storage_measure(kvc_storage* s, const kvc_rows* rows, kvc_quant_metrics* keys,
                                       kvc_quant_metrics* values);

/** kvc_quant_format.flags. */
enum {
  KVC_QUANT_ASYMMETRIC = 1, /**< Integer types: (scale, offset) pairs instead of scales. */
  KVC_QUANT_CHANNELS = 2    /**< One scale per column for all rows, instead of scales per row. */
};

/** Format of kvc_quantize. */
typedef struct kvc_quant_format {
  size_t struct_size; /**< sizeof(kvc_quant_format) */
  int32_t dtype;      /**< KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3 or KVC_FLOAT8_E5M2. */
  uint32_t flags;     /**< KVC_QUANT_* */
  /** Elements of a row that share a scale; 0 = the whole row; 0 with scale or KVC_QUANT_CHANNELS. */
  uint32_t group;
  /** One given scale for all elements, 1e-30 .. 1e30. Needs flags 0. 0 = the scales are computed. */
  float scale;
} kvc_quant_format;

/** Quantizes rows of floats, for engines that keep their own tensors. The codes equal those of a storage,
 *  also for zeros, NaN and infinities (kvc_storage_store). Quantizing dequantized rows gives the same
 *  codes. Arrays must not overlap.
 *  @param[in]  in     [num_rows][dim]
 *  @param[out] codes  [num_rows][ceil(dim * bits / 8)] bytes. int4: two per byte, the first in the low
 *  half.
 *  @param[out] scales [num_rows][ceil(dim / group)], or [dim] with KVC_QUANT_CHANNELS; twice as many,
 *  (scale, offset), if asymmetric. Not used if format->scale is set. A code c stands for c * scale +
 *  offset.
 *  @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED (an unknown flag). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_quantize(const kvc_quant_format* format, const float* in, size_t num_rows, size_t dim,
                                void* codes, float* scales);

/** Reverses kvc_quantize. @param[out] out [num_rows][dim] @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED.
 *  Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_dequantize(const kvc_quant_format* format, const void* codes, const float* scales,
                                  size_t num_rows, size_t dim, float* out);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_STORAGE_H */
