/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_TYPES_H
#define KVCACHE_TYPES_H

/** @file kvcache/types.h
 *  @brief Status codes, element types, and the structs that several headers of libkvcache share.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <stddef.h>
#include <stdint.h>

#if !defined(SWIG) && \
    !(defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__))
#error "libkvcache supports 64-bit Linux on x86-64 and aarch64 only"
#endif

/** Marks the functions that the library exports. */
#ifdef SWIG
#define KVC_API
#else
#define KVC_API __attribute__((visibility("default")))
#endif

/** A header that opens with this line is experimental: any version may change it, and the layers of Go and
 *  Java may not have its functions; C, C++ and Python have them all. The other headers are the core: the
 *  block manager, storage, attention, models and events. */
#define KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** Result of a fallible call: KVC_OK or one of KVC_ERROR_*. A value is never reused. Treat an unknown
 *  value as an error. */
typedef int32_t kvc_status;
enum {
  KVC_OK = 0, /**< Success. */
  /** An argument is out of range, or contradicts another one or the state. */
  KVC_ERROR_INVALID_ARGUMENT = 1,
  KVC_ERROR_OUT_OF_MEMORY = 2, /**< The allocator returned NULL. */
  KVC_ERROR_NO_SPACE = 3,      /**< Too few blocks are free or evictable. */
  /** What is named does not exist: a request, pin, namespace, preset, device, plane or memory; or it
   *  belongs to another manager. */
  KVC_ERROR_NOT_FOUND = 4,
  KVC_ERROR_BUSY = 5,  /**< The object is in use, or in the wrong state for this call. */
  KVC_ERROR_LIMIT = 6, /**< A limit is reached, such as max_requests. */
  /** An output array is too short. The required count is written where there is a count. */
  KVC_ERROR_BUFFER_TOO_SMALL = 7,
  /** The call is valid, but this build, device or state cannot do it. */
  KVC_ERROR_UNSUPPORTED = 8,
  KVC_ERROR_NOT_HELD = 9, /**< The block has no external hold to release. */
  /** kvc_manager_check found a broken invariant: a bug in the library, or corrupted memory. */
  KVC_ERROR_CORRUPT = 10,
  KVC_ERROR_INTERNAL = 11, /**< A bug in the library. */
  KVC_ERROR_AGAIN = 12,    /**< There is no space now. There will be when the steps in flight are retired. */
  /** Of a step's item or a batch's: not tried, because an earlier admission (with quotas, one of the same
   *  share) had no space; or it fits, and all or none were to be admitted. */
  KVC_ERROR_SKIPPED = 13,
  /** The device failed. The text has the message of its runtime. The outputs may be partly written. Once a
   *  device is lost, every call on it fails. */
  KVC_ERROR_DEVICE = 14,
  /** The namespace would hold more blocks than the maximum of its quota. Only its own requests, pins and
   *  external holds can make room. */
  KVC_ERROR_OVER_QUOTA = 15,
  /** Another request computes the next tokens of the prompt, and this one waits for them: admit it again in
   *  the next steps (kvcache/fills.h). */
  KVC_ERROR_FILLING = 16,
  /** This manager can never hold it: end the request. Waiting does not help; only a larger pool, another
   *  quota, the last close of a namespace whose quota has a minimum, or asking for less does. */
  KVC_ERROR_NEVER_FITS = 17
};

/** Element types of arrays, views and stored keys and values. Where a field `dtype` may be 0, 0 means
 *  KVC_FLOAT32, the type of the caller's own arrays that needs no conversion. Set the type of stored keys and
 *  values: models store 16 bits. (The layers for other languages and the command therefore default to
 *  BFLOAT16, or to FLOAT16 for estimates, which has the same size.) */
enum {
  KVC_INT8 = 1,
  KVC_UINT8 = 2,
  KVC_INT32 = 3,
  KVC_INT64 = 4,
  KVC_UINT64 = 5,
  KVC_FLOAT32 = 6,      /**< IEEE 754 single. */
  KVC_FLOAT16 = 7,      /**< IEEE 754 half. */
  KVC_BFLOAT16 = 8,     /**< The upper 16 bits of a single. */
  KVC_FLOAT8_E4M3 = 9,  /**< OCP FP8 E4M3: largest value 448, NaN, no infinity. */
  KVC_FLOAT8_E5M2 = 10, /**< OCP FP8 E5M2: largest value 57,344, NaN, infinity. */
  KVC_INT4 = 11         /**< Two per byte, the first in the low half. */
};

/** Memory functions of the caller. A manager calls them while it holds its lock: they must not call the
 *  library, throw or block. */
typedef struct kvc_allocator {
  size_t struct_size; /**< sizeof(kvc_allocator) */
  void* user_data;    /**< Passed to both functions. */
  /** Returns `size` bytes aligned to `alignment`, a power of two, or NULL. */
  void* (*allocate)(void* user_data, size_t size, size_t alignment);
  /** Frees memory. `size` and `alignment` are those of its allocation. */
  void (*release)(void* user_data, void* memory, size_t size, size_t alignment);
} kvc_allocator;

/** An array that the library owns, described for other languages. Frozen. */
typedef struct kvc_view {
  void* data;         /**< First element. */
  int32_t dtype;      /**< KVC_INT32, ... */
  int32_t ndim;       /**< Number of used entries of shape and strides. */
  int64_t shape[4];   /**< Elements per dimension. */
  int64_t strides[4]; /**< Bytes per dimension. */
} kvc_view;

/** As retention_tokens of a kvc_memory_query or of a kvc_group_config: hits end only at the ends of prompts
 *  and requests. Since 0.3. */
#define KVC_NO_RETENTION UINT64_MAX

/** All namespaces together, where a comment says so: no namespace has this id. 0 is the default one. */
#define KVC_ALL_NAMESPACES UINT64_MAX

/** A range of bytes of a slab: [offset, offset + bytes). Frozen. */
typedef struct kvc_run {
  uint64_t offset, bytes; /**< In bytes. */
} kvc_run;

/** Copy the contents of block `source` to block `destination`. Frozen. */
typedef struct kvc_block_copy {
  /** Block ids. In kvc_storage_swap_out and kvc_storage_swap_in one of them is a page. */
  int32_t source, destination;
} kvc_block_copy;

/** block_tables[group][row][column] became `block`. Frozen. */
typedef struct kvc_table_change {
  int32_t group, row, column, block; /**< Indices, and the block id. */
} kvc_table_change;

/** The block manager (kvcache/manager.h). Opaque; created by kvc_manager_create. */
typedef struct kvc_manager kvc_manager;

/** Memory for the keys and values of one pool's blocks (kvcache/storage.h). Opaque; created by
 *  kvc_storage_create. */
typedef struct kvc_storage kvc_storage;

/** A queue of work on a device (kvcache/device.h). Opaque; created by kvc_stream_create. */
typedef struct kvc_stream kvc_stream;

/** A tier (kvcache/tier.h). Opaque; created by kvc_tier_create. */
typedef struct kvc_tier kvc_tier;

/** An offload (kvcache/offload.h). Opaque; created by kvc_offload_create. */
typedef struct kvc_offload kvc_offload;

/** A scheduler (kvcache/scheduler.h). Opaque; created by kvc_scheduler_create. */
typedef struct kvc_scheduler kvc_scheduler;

/** Name of a status, such as "KVC_ERROR_NO_SPACE"; "unknown status" for other values. Static text. Since
 *  0.1. */
KVC_API const char* kvc_status_name(kvc_status status);

/** Text of the last failed call of this thread: what was wrong, the value, the limit and the fix. Empty
 *  before the first failure. Success does not clear it. Valid until the next failing call of the thread.
 *  Since 0.1. */
KVC_API const char* kvc_last_error(void);

/** Bits of one element of a type. Scales of quantized types come on top. @param[in] dtype KVC_FLOAT32
 *  (also 0), ... @param[out] bits 4, 8, 16, 32 or 64. Unchanged on failure.
 *  @return KVC_OK; INVALID_ARGUMENT (no such type; NULL). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_dtype_bits(int32_t dtype, uint32_t* bits);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_TYPES_H */
