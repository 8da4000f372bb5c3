// SPDX-License-Identifier: Apache-2.0
// What the library asks of a device, as a table of C functions: memory, streams, events, and the operations
// on a storage. The CPU (cpu/cpu_backend.h) is one such table; others come from libraries of their own,
// which backend/backends.h opens. Storages, streams and events of kvcache.h go through it.
//
// Arguments are valid and complete, with defaults filled in: what callers can get wrong is refused above. A
// function that fails has changed nothing and has set the thread's error text (base/status.h). With a stream,
// an operation is enqueued: host arrays (slots, rope_rows, tables, offsets, copies) are copied at the call,
// rows, rope_table, queries and results must live until the work is done. Without one (NULL) it is done on
// return. Functions may be called by any thread.
#pragma once
#include <kvcache.h>

// Changes with every change of this file or of the layout that storages are described by.
#define KVC_BACKEND_ABI 9u

// A kvc::Layout (layout/layout.h): plain data, opaque to C.
#ifdef __cplusplus
namespace kvc {
struct Layout;
}
typedef kvc::Layout kvc_backend_layout;
extern "C" {
#else
typedef struct kvc_backend_layout kvc_backend_layout;
#endif

// Memory, and who takes it back.
typedef struct kvc_backend_memory {
  void* data;
  uint64_t bytes;
  uint32_t alignment;
  uint32_t kind;        // KVC_MEMORY_*, never the default
  kvc_allocator owner;  // release() NULL: it is the caller's and stays
} kvc_backend_memory;

typedef struct kvc_backend_storage {
  const kvc_backend_layout* layout;
  kvc_backend_memory memory;
  kvc_allocator allocator;  // for what the host needs beside it; allocate() NULL: the system's
  uint32_t num_threads;     // of the host
  uint32_t zeroed;          // 1 = clear the memory
  // Threads of the host's owner instead (kvc_storage_config.parallel_for); NULL: the backend's own.
  void (*parallel_for)(void* context, size_t count, void (*job)(void* data, size_t i, size_t worker),
                       void* data);
  void* parallel_context;
  uint32_t residual_blocks;  // kvc_storage_config.residual_blocks, with its default; 0 without channel keys
  uint32_t reserved;
} kvc_backend_storage;

// kvc_storage_swap_out and kvc_storage_swap_in.
typedef struct kvc_backend_swap {
  const kvc_block_copy* copies;
  size_t num_copies;  // 0 = nothing is copied, but what the first swap has to find out is found out
  char* pages;        // only read by a swap in; does not overlap the slab
  uint64_t pages_size, page_bytes;
  uint32_t out;  // 1 = from blocks to pages
  uint32_t reserved;
} kvc_backend_swap;

// Of rows against what is stored of them, element by element: what kvc_quant_metrics is made of.
typedef struct kvc_backend_errors {
  uint64_t bytes;                   // that they take, scales included
  uint64_t elements, finite;        // all; those that were finite before, of which the rest speaks
  double signal, noise, max_error;  // sums of squares, of elements and of errors; the largest error
} kvc_backend_errors;

// The first five fields keep their places in every version: they are read before the version is known to fit.
// Functions that a device cannot have at all are NULL where it is said.
// A checked call of attention, with its defaults filled in; `launch` of the call itself is not read.
struct kvc_backend_attention : kvc_attention {
  kvc_attention_launch run;
};

typedef struct kvc_backend {
  size_t struct_size;
  uint32_t abi_version;       // KVC_BACKEND_ABI of its build
  uint32_t num_devices;       // `device` below is less
  const char* name;           // "cpu"
  const char* remark;         // why there are no devices; else ""
  const char* architectures;  // that its kernels are built for, apart by blanks; "" = whatever it runs on

  kvc_status (*properties)(uint32_t device, kvc_device_info* info);
  // `allocator` NULL: the device's own. The result goes back to its owner.
  kvc_status (*allocate)(uint32_t device, const kvc_allocator* allocator, uint32_t kind, uint64_t bytes,
                         uint32_t alignment, kvc_backend_memory* memory);

  // Foreign host memory that the device is to read and write itself. NULL: it can anyway.
  kvc_status (*register_memory)(uint32_t device, void* memory, uint64_t bytes);
  kvc_status (*unregister_memory)(uint32_t device, void* memory);
  // Addresses, and memory behind a part of them. NULL: not possible.
  kvc_status (*reserve_memory)(uint32_t device, uint64_t bytes, kvc_backend_memory* memory);
  kvc_status (*map_memory)(uint32_t device, const kvc_backend_memory* memory, uint64_t offset,
                           uint64_t bytes);
  // Memory of allocate() for other processes. NULL: not possible.
  kvc_status (*export_memory)(uint32_t device, const kvc_backend_memory* memory, kvc_memory_handle* handle);
  kvc_status (*import_memory)(uint32_t device, const kvc_memory_handle* handle, kvc_backend_memory* memory);

  kvc_status (*stream_create)(uint32_t device, void** stream);
  // A stream of the runtime that the device stands for; it stays the caller's. NULL: it stands for none.
  kvc_status (*stream_adopt)(uint32_t device, void* handle, void** stream);
  void* (*stream_handle)(void* stream);  // the runtime's; NULL: there is none
  void (*stream_destroy)(void* stream);  // after what is enqueued
  // NULL: there is nothing that kernels would read.
  kvc_status (*update_tables)(void* stream, const kvc_table_update* update);
  kvc_status (*stream_synchronize)(void* stream);
  kvc_status (*stream_wait_event)(void* stream, void* event);
  kvc_status (*event_create)(uint32_t device, void** event);
  void (*event_destroy)(void* event);
  kvc_status (*event_record)(void* event, void* stream);
  kvc_status (*event_query)(void* event, int32_t* done);
  kvc_status (*event_synchronize)(void* event);

  kvc_status (*storage_create)(uint32_t device, const kvc_backend_storage* config, void** storage);
  void (*storage_wait)(void* storage);     // until what is enqueued is done
  void (*storage_destroy)(void* storage);  // nothing is enqueued; its memory goes back to the owner
  kvc_status (*store)(void* storage, const kvc_rows* rows, void* stream);
  kvc_status (*gather)(void* storage, const kvc_rows* rows, void* stream);
  kvc_status (*copy_blocks)(void* storage, const kvc_block_copy* copies, size_t num_copies, void* stream);
  kvc_status (*zero_blocks)(void* storage, const int32_t* blocks, size_t num_blocks, void* stream);
  kvc_status (*seal_blocks)(void* storage, const int32_t* blocks, size_t num_blocks, void* stream);
  int32_t (*is_open)(void* storage, int32_t block);  // 1 = some of its keys are not in the slab
  // At once; `keys` and `values` may be NULL.
  kvc_status (*measure)(void* storage, const kvc_rows* rows, kvc_backend_errors* keys,
                        kvc_backend_errors* values);
  kvc_status (*attend)(void* storage, const kvc_backend_attention* attention, void* stream);
  kvc_status (*explain)(void* storage, const kvc_backend_attention* attention, kvc_attention_info* info);
  kvc_status (*key_bounds)(void* storage, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                           uint16_t* bounds, void* stream);
  kvc_status (*select_blocks)(void* storage, const kvc_backend_attention* attention,
                              const kvc_block_choice* choice, void* stream);
  kvc_status (*swap_blocks)(void* storage, const kvc_backend_swap* swap, void* stream);  // NULL: not possible
} kvc_backend;

// What a backend in a library of its own gets.
typedef struct kvc_backend_host {
  size_t struct_size;
  uint32_t abi_version;  // KVC_BACKEND_ABI of its build
  uint32_t reserved;
  void (*set_error)(const char* text);  // the calling thread's error text
} kvc_backend_host;

// The one function that such a library exports, by this name. It may be called by several threads, and gives
// the same table each time. A backend that does not know the host's abi_version gives its table all the same:
// the host refuses it and can say why.
#define KVC_BACKEND_ENTRY "kvc_backend_entry_v1"
typedef kvc_status (*kvc_backend_entry)(const kvc_backend_host* host, const kvc_backend** backend);

#ifdef __cplusplus
}
#endif
