/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_DEVICE_H
#define KVCACHE_DEVICE_H

/** @file kvcache/device.h
 *  @brief Devices: the backends that provide them, their memory, streams and events.
 *
 *  The CPU is a device of the library itself. A GPU comes from a backend: a shared library that is opened
 *  by name. Wherever a function takes a device, it is NULL or "cpu"; "cuda" or "cuda:0", "cuda:1", ...;
 *  "hip:0", ... All functions are thread-safe, unless a comment says otherwise. Every call on a GPU may
 *  return KVC_ERROR_DEVICE.
 *
 *  STREAMS. Work of a stream runs in the order in which it was enqueued. Work of different streams may run
 *  at the same time; events order it. On the CPU each stream has a thread. A storage function with a stream
 *  checks its arguments during the call. An error is returned at once, and nothing is enqueued. Host arrays
 *  that describe the work (slots, rope_rows, block tables, offsets, lengths, copies, block ids, slopes) are
 *  copied during the call. Keys, values, rope_table, queries, results, key bounds and masks are not copied:
 *  they must stay valid and unchanged until the work is done. With stream NULL the work is done on return,
 *  and is not ordered with the work of streams. On the CPU enqueued work cannot fail. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of memory: kvc_storage_config.memory_kind and, as bits 1 << kind, kvc_device_info.memory_kinds. */
enum {
  /** The kind that suits the device. On the CPU: host memory, in huge pages if it is large. */
  KVC_MEMORY_DEFAULT = 0,
  KVC_MEMORY_HOST = 1,      /**< Host memory. */
  KVC_MEMORY_HOST_HUGE = 2, /**< Host memory aligned to 2 MiB, in huge pages if the system has them. */
  /** Host memory that a GPU reads and writes directly; in huge pages if it is large. */
  KVC_MEMORY_PINNED = 3,
  KVC_MEMORY_DEVICE = 4,   /**< Memory of a GPU. */
  KVC_MEMORY_EXTERNAL = 5, /**< Memory of the caller, used in place. */
  /** kvc_device_allocate only: memory whose pages migrate to the host or the GPU that touches them. Needs
   *  KVC_DEVICE_MANAGED and at least KVC_MANAGED_LEAST_BYTES. Use it for large buffers that both sides
   *  touch rarely: a kernel stalls while a page migrates, so the blocks of a GPU storage must not be in
   *  such memory. */
  KVC_MEMORY_MANAGED = 6
};

/** Smallest allocation of KVC_MEMORY_MANAGED: one page that migrates. Use pinned memory for smaller
 *  buffers. */
#define KVC_MANAGED_LEAST_BYTES 2097152

/** kvc_device_info.flags. */
enum {
  /** The device reads and writes all host memory, through the host's page tables or as its own. A GPU that
   *  fetches each page by a fault (HMM) does not have this flag. Without it keys, values, queries,
   *  results, key bounds, masks and external slabs of its storages must be in device memory, or in pinned
   *  or registered host memory. */
  KVC_DEVICE_READS_HOST = 1,
  /** kvc_device_allocate supports KVC_MEMORY_MANAGED, which the host may touch at any time. */
  KVC_DEVICE_MANAGED = 2,
  /** swap_out_kernel_bytes and swap_in_kernel_bytes were measured on this device. */
  KVC_DEVICE_SWAP_MEASURED = 4
};

/** A device. */
typedef struct kvc_device_info {
  size_t struct_size;      /**< sizeof(kvc_device_info) */
  uint64_t memory_bytes;   /**< Total memory; of the CPU at most what control groups allow; 0 = unknown. */
  uint32_t memory_kinds;   /**< Bits 1 << KVC_MEMORY_* that a storage on the device may have. */
  uint32_t num_processors; /**< Hardware threads or multiprocessors; 0 = unknown. */
  /** Memory that is free now; of the CPU what the process can still take, caches that the system can drop
   *  included; 0 = unknown. */
  uint64_t free_bytes;
  const char* name;         /**< "NVIDIA H200"; "" = unknown. The library owns the text. */
  const char* architecture; /**< "sm_90", "gfx90a"; "" = unknown. The library owns the text. */
  int32_t dlpack_device;    /**< DLDeviceType of its memory: 1 CPU, 2 CUDA, 10 ROCm. */
  uint32_t flags;           /**< KVC_DEVICE_* */
  /** kvc_storage_swap_out copies runs (kvc_storage_runs of a block) that are shorter than this by a
   *  kernel, longer ones by the copy engine. An estimate without KVC_DEVICE_SWAP_MEASURED. 0 = always the
   *  copy engine; UINT64_MAX = always a kernel. 0 on the CPU. */
  uint64_t swap_out_kernel_bytes;
  uint64_t swap_in_kernel_bytes; /**< The same for kvc_storage_swap_in. */
} kvc_device_info;

/** A backend: the provider of devices. */
typedef struct kvc_backend_info {
  size_t struct_size; /**< sizeof(kvc_backend_info) */
  /** Its file; "" = a part of this library. The library owns this and the following texts. */
  const char* path;
  /** The architectures of its kernels, separated by spaces; "" = no restriction. */
  const char* architectures;
  const char* remark;   /**< Why there are no devices; "" if there are some. */
  uint32_t num_devices; /**< Devices "name:0" .. "name:<num_devices - 1>". */
  uint32_t reserved;    /**< 0 */
} kvc_backend_info;

/** Identifies memory of a device to another process. Send it as bytes. Frozen. */
typedef struct kvc_memory_handle {
  uint64_t bytes;    /**< Size of the memory. */
  char device[16];   /**< Name of the backend. */
  uint8_t data[104]; /**< Data of the runtime. */
} kvc_memory_handle;

/** A point in a stream that the host or other streams can wait for. Opaque; created by
 *  kvc_stream_event_create. */
typedef struct kvc_stream_event kvc_stream_event;

/* ---------------------------------------------------------------- backends and devices */

/** Opens a backend, the shared library libkvcache_<name>.so, and finds its devices. Naming a device opens
 *  its backend with path NULL. An open backend stays open.
 *  @param[in] name "cpu", "cuda" or "hip".
 *  @param[in] path The file, or the only folder to search. NULL = search the folders of the environment
 *  variable KVC_BACKEND_PATH (separated by colons; ignored in setuid programs), then the folder of this
 *  library and kvcache/ in it.
 *  @return KVC_OK; INVALID_ARGUMENT (a malformed name with a path, or "cpu" with a path); BUSY (open from
 *  another path); NOT_FOUND (no such backend or file; the text lists what was searched); UNSUPPORTED (the
 *  file cannot be loaded, or has another version); OUT_OF_MEMORY. Since 0.2. */
KVC_API kvc_status kvc_backend_open(const char* name, const char* path);

/** Properties of a backend. Opens it like kvc_backend_open(name, NULL). @param[in] name NULL or "cpu",
 *  "cuda", "hip".
 *  @param[out] info The caller sets struct_size. @return As kvc_backend_open. Since 0.2. */
KVC_API kvc_status kvc_backend_properties(const char* name, kvc_backend_info* info);

/** What a device is, and what is free of it now. Also the way to ask whether a device exists.
 *  @param[out] info The caller sets struct_size.
 *  @return KVC_OK; NOT_FOUND (the text lists the devices), UNSUPPORTED (kvc_backend_open),
 *  INVALID_ARGUMENT, DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_read_info(const char* device, kvc_device_info* info);

/* ---------------------------------------------------------------- memory */

/** Allocates memory for rows, queries and results, or as external memory of a storage. @param[in] kind
 *  KVC_MEMORY_*.
 *  @param[out] memory Aligned to 256 bytes. Free it with kvc_device_release.
 *  @return KVC_OK; NOT_FOUND (device), UNSUPPORTED (kind), INVALID_ARGUMENT (0 bytes; managed memory below
 *  KVC_MANAGED_LEAST_BYTES), OUT_OF_MEMORY, DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_allocate(const char* device, uint32_t kind, uint64_t bytes, void** memory);

/** Frees memory of kvc_device_allocate, kvc_device_reserve_addresses or kvc_device_import_memory. NULL is
 *  ignored. No work may use the memory any more. On a GPU the call waits for all work on the device. It does
 *  not disturb a graph capture, unless the device is out of memory.
 *  @return KVC_OK; NOT_FOUND (unknown memory, or freed before). Since 0.2. */
KVC_API kvc_status kvc_device_release(void* memory);

/** Reserves addresses on a device without memory behind them, as external memory of a storage that grows.
 *  kvc_storage_runs lists the bytes of a block. Use a block only after its bytes are mapped. @param[out]
 *  memory Free it with kvc_device_release, which also frees what was mapped.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT (0 bytes), UNSUPPORTED, OUT_OF_MEMORY, DEVICE.
 *  Since 0.2. */
KVC_API kvc_status kvc_device_reserve_addresses(const char* device, uint64_t bytes, void** memory);

/** Maps memory to reserved addresses, in chunks of at least 64 MiB. Mapped parts stay as they are. New
 *  memory is not cleared. The call takes milliseconds: do not call it from the thread that decodes.
 *  @return KVC_OK; NOT_FOUND (no such memory), INVALID_ARGUMENT (NULL, past the end), OUT_OF_MEMORY
 *  (nothing new is mapped), DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_map(void* memory, uint64_t offset, uint64_t bytes);

/** Registers host memory of the caller, so that the device reads and writes it directly. The memory is
 *  pinned, in pieces if it is large. Does nothing on the CPU.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT (NULL, or a part is registered), OUT_OF_MEMORY
 *  (limit of pinned memory), DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_register(const char* device, void* memory, uint64_t bytes);

/** Reverses kvc_device_register. No work may use the memory any more; the call does not wait for it.
 *  @return KVC_OK; NOT_FOUND (device, or not registered), DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_unregister(const char* device, void* memory);

/** Exports memory of kvc_device_allocate with KVC_MEMORY_DEVICE to other processes. A storage in this
 *  memory shares its blocks. The memory must outlive its use by others.
 *  @return KVC_OK; NOT_FOUND (no such memory), UNSUPPORTED (device or kind), DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_export_memory(void* memory, kvc_memory_handle* handle);

/** Imports memory of another process. @param[in] device A device on the same hardware. @param[out] memory
 *  Free it with kvc_device_release.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT (a handle of another backend), UNSUPPORTED,
 *  DEVICE. Since 0.2. */
KVC_API kvc_status kvc_device_import_memory(const char* device, const kvc_memory_handle* handle,
                                            void** memory);

/* ---------------------------------------------------------------- streams and events */

/** kvc_stream_adopt.flags. */
enum {
  KVC_STREAM_LEGACY = 1 /**< The default stream of the runtime. `handle` is NULL. */
};

/** Creates a stream. @return KVC_OK; NOT_FOUND (device), OUT_OF_MEMORY (memory or threads). Since 0.2. */
KVC_API kvc_status kvc_stream_create(const char* device, kvc_stream** stream);

/** Wraps a stream of the device's runtime. Work goes to that stream and never waits for the host, so a
 *  graph may capture it (docs/GPU.md). The caller keeps the runtime's stream, which must outlive the
 *  kvc_stream.
 *  @param[in] handle A cudaStream_t or hipStream_t. NULL only with KVC_STREAM_LEGACY.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT, UNSUPPORTED (the CPU), OUT_OF_MEMORY, DEVICE.
 *  Since 0.2. */
KVC_API kvc_status kvc_stream_adopt(const char* device, void* handle, uint32_t flags, kvc_stream** stream);

/** Returns the stream of the runtime, to enqueue other work there. @param[out] handle A cudaStream_t or
 *  hipStream_t.
 *  @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED (the CPU). Since 0.2. */
KVC_API kvc_status kvc_stream_handle(kvc_stream* stream, void** handle);

/** Waits for the stream's work, and frees the stream. Events recorded in it stay valid and count as
 *  reached. NULL is ignored. No other call on this stream may run. Since 0.2. */
KVC_API void kvc_stream_destroy(kvc_stream* stream);

/** Waits for the work that is in the stream now. @return KVC_OK; INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_stream_synchronize(kvc_stream* stream);

/** Makes later work of the stream wait for the event, as last recorded before this call. An event that was
 *  never recorded delays nothing. @return KVC_OK; INVALID_ARGUMENT (another device), OUT_OF_MEMORY. Since
 *  0.2. */
KVC_API kvc_status kvc_stream_wait_event(kvc_stream* stream, kvc_stream_event* event);

/** Creates an event. @return KVC_OK; NOT_FOUND (device), OUT_OF_MEMORY. Since 0.2. */
KVC_API kvc_status kvc_stream_event_create(const char* device, kvc_stream_event** event);

/** Frees an event. Work that waits for it goes on waiting. NULL is ignored. No other call on this event
 *  may run. Since 0.2. */
KVC_API void kvc_stream_event_destroy(kvc_stream_event* event);

/** Moves the event to the present end of the stream. @return KVC_OK; INVALID_ARGUMENT (another device).
 *  Since 0.2. */
KVC_API kvc_status kvc_stream_event_record(kvc_stream_event* event, kvc_stream* stream);

/** @param[out] done 1 = all work before the event is done, or it was never recorded; else 0.
 *  @return KVC_OK; INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_stream_event_query(kvc_stream_event* event, int32_t* done);

/** Waits until the event is reached. @return KVC_OK; INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_stream_event_synchronize(kvc_stream_event* event);

/* ---------------------------------------------------------------- index arrays on a device */

/** Host bytes for a fixed address of a device. Frozen. */
typedef struct kvc_upload {
  const void* from; /**< Copied during the call. */
  void* to;         /**< Memory that the device writes; any alignment. */
  size_t bytes;     /**< Bytes. */
} kvc_upload;

/** Index arrays of a batch at fixed addresses of a device, and the changes of a step. Pointers are device
 *  memory unless the comment says "host". Host data is copied during the call. NULL and 0 leave a part
 *  out. */
typedef struct kvc_table_update {
  size_t struct_size;        /**< sizeof(kvc_table_update) */
  const kvc_upload* uploads; /**< Host [num_uploads]: slots, lengths, offsets, ... They are done first. */
  size_t num_uploads;        /**< At most 8. */
  const kvc_table_change* changes; /**< Host [num_changes]: kvc_step.changes. Each entry at most once. */
  size_t num_changes;              /**< Number of changes. */
  int32_t* tables;                 /**< [groups][rows][row_stride] block tables. */
  uint64_t group_stride;           /**< Entries from one group's tables to the next. */
  uint64_t row_stride;             /**< Entries from one row to the next. */
  const int32_t* positions_of;     /**< [num_slots] row of `tables` of each token's request; NULL = 0. */
  const int64_t* positions;        /**< [num_slots] position of each token; negative = none. */
  int64_t* slots;                  /**< Out: [num_slots] slot of each token, -1 where there is none. */
  uint64_t num_slots;              /**< Number of tokens. */
  const int32_t* lengths;          /**< [num_rows] tokens of each row. */
  int32_t* csr_offsets;            /**< Out: [num_rows + 1] start of each row's blocks in csr_blocks. */
  int32_t* csr_blocks; /**< Out: [sum of blocks] the blocks of all rows of the first group, without gaps. */
  /** Out: [num_rows] tokens in each row's last block, 1 .. block_size; 0 = empty row. Or NULL. */
  int32_t* csr_last_tokens;
  uint32_t num_rows;   /**< Number of rows. */
  uint32_t block_size; /**< Tokens per block. */
} kvc_table_update;

/** Updates index arrays on a device, for kernels that read them at fixed addresses: block tables, slots,
 *  and compact tables (CSR).
 *  @param[in] stream A stream of that device.
 *  @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED (the CPU, where kvc_manager_step writes the tables),
 *  OUT_OF_MEMORY, DEVICE. Since 0.2. */
KVC_API kvc_status kvc_stream_update_tables(kvc_stream* stream, const kvc_table_update* update);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_DEVICE_H */
