// SPDX-License-Identifier: Apache-2.0
// The backend table: what the library asks of a device, as C functions for memory, streams, events and the
// operations on a storage. The CPU (cpu/cpu_backend.h) is one such table. Others come from libraries of their
// own, which backend/backends.h opens. Storages, streams and events of kvcache.h go through the table.
//
// Arguments are valid and complete: the library has refused what callers can get wrong. A function that fails
// changes nothing and sets the thread's error text (base/status.h). With a stream, an operation is enqueued:
// the call copies host arrays (slots, tables, offsets, copies, ...), while rows, rope tables, queries and
// results must live until the work is done. Without a stream (NULL), the work is done on return. Any thread
// may call any function.
#pragma once
#include "backend/operations.h"

struct kvc_memory_handle;

// Changes with every change of this file, of operations.h, or of kvc::Layout.
#define KVC_BACKEND_ABI 11u

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

// Memory from somebody else. allocate NULL: the system's.
typedef struct kvc_backend_allocator {
  void* user_data;
  void* (*allocate)(void* user_data, size_t size, size_t alignment);
  void (*release)(void* user_data, void* memory, size_t size, size_t alignment);
} kvc_backend_allocator;

// Memory, and who takes it back.
typedef struct kvc_backend_memory {
  void* data;
  uint64_t bytes;
  uint32_t alignment;
  uint32_t kind;                // KVC_MEMORY_*, never the default
  kvc_backend_allocator owner;  // release NULL: the memory is the caller's and stays
} kvc_backend_memory;

typedef struct kvc_backend_storage {
  const kvc_backend_layout* layout;
  kvc_backend_memory memory;
  kvc_backend_allocator allocator;  // of what the host needs beside it
  uint32_t num_threads;             // of the host
  uint32_t zeroed;                  // 1 = clear the memory
  // Threads of the caller (kvc_storage_config.parallel_for) in place of the backend's own; NULL: none.
  void (*parallel_for)(void* context, size_t count, void (*job)(void* data, size_t i, size_t worker),
                       void* data);
  void* parallel_context;
  uint32_t residual_blocks;  // 0 without channel keys
  uint32_t reserved;
} kvc_backend_storage;

// kvc_device_info.
typedef struct kvc_backend_device {
  uint64_t memory_bytes, free_bytes;
  uint32_t memory_kinds, num_processors;
  const char *name, *architecture;
  int32_t dlpack_device;
  uint32_t flags;
  uint64_t swap_out_kernel_bytes, swap_in_kernel_bytes;
} kvc_backend_device;

// The first five fields keep their places in every version: the loader reads them before it knows that the
// version fits. A function may be NULL only where a comment says so.
typedef struct kvc_backend {
  size_t struct_size;
  uint32_t abi_version;       // KVC_BACKEND_ABI of its build
  uint32_t num_devices;       // `device` below is less
  const char* name;           // "cpu"
  const char* remark;         // why there are no devices; else ""
  const char* architectures;  // that its kernels are built for, separated by blanks; "" = any

  kvc_status (*properties)(uint32_t device, kvc_backend_device* info);  // *info is zero
  // `allocator` NULL: the device's own. The memory goes back to its owner.
  kvc_status (*allocate)(uint32_t device, const kvc_backend_allocator* allocator, uint32_t kind,
                         uint64_t bytes, uint32_t alignment, kvc_backend_memory* memory);

  // Lets the device read and write external host memory. NULL: it always can.
  kvc_status (*register_memory)(uint32_t device, void* memory, uint64_t bytes);
  kvc_status (*unregister_memory)(uint32_t device, void* memory);
  // Reserves addresses, and maps memory to a part of them. NULL: not possible.
  kvc_status (*reserve_memory)(uint32_t device, uint64_t bytes, kvc_backend_memory* memory);
  kvc_status (*map_memory)(uint32_t device, const kvc_backend_memory* memory, uint64_t offset,
                           uint64_t bytes);
  // Shares memory of allocate() with other processes. NULL: not possible.
  kvc_status (*export_memory)(uint32_t device, const kvc_backend_memory* memory,
                              struct kvc_memory_handle* handle);
  kvc_status (*import_memory)(uint32_t device, const struct kvc_memory_handle* handle,
                              kvc_backend_memory* memory);

  kvc_status (*stream_create)(uint32_t device, void** stream);
  // Wraps a stream of the device's runtime, which stays the caller's. NULL: there is no runtime.
  kvc_status (*stream_adopt)(uint32_t device, void* handle, void** stream);
  void* (*stream_handle)(void* stream);  // the runtime's stream; NULL: there is no runtime
  void (*stream_destroy)(void* stream);  // after the work in it
  // NULL: no kernel reads tables of its own.
  kvc_status (*update_tables)(void* stream, const kvc_backend_table_update* update);
  kvc_status (*stream_synchronize)(void* stream);
  kvc_status (*stream_wait_event)(void* stream, void* event);
  kvc_status (*event_create)(uint32_t device, void** event);
  void (*event_destroy)(void* event);
  kvc_status (*event_record)(void* event, void* stream);
  kvc_status (*event_query)(void* event, int32_t* done);
  kvc_status (*event_synchronize)(void* event);

  kvc_status (*storage_create)(uint32_t device, const kvc_backend_storage* config, void** storage);
  void (*storage_wait)(void* storage);     // until all enqueued work is done
  void (*storage_destroy)(void* storage);  // nothing is enqueued; the memory goes back to its owner
  // Frees what calls left for later ones, but for what graphs use.
  kvc_status (*trim)(void* storage, uint64_t* device_bytes, uint64_t* host_bytes);
  kvc_status (*store)(void* storage, const kvc_backend_rows* rows, void* stream);
  kvc_status (*gather)(void* storage, const kvc_backend_rows* rows, void* stream);
  kvc_status (*copy_blocks)(void* storage, const kvc_block_copy* copies, size_t num_copies, void* stream);
  kvc_status (*zero_blocks)(void* storage, const int32_t* blocks, size_t num_blocks, void* stream);
  kvc_status (*quantize_blocks)(void* storage, const int32_t* blocks, size_t num_blocks, void* stream);
  int32_t (*is_residual)(void* storage, int32_t block);  // 1 = some of its keys are not in the slab
  // Waits. `keys` and `values` may be NULL.
  kvc_status (*measure)(void* storage, const kvc_backend_rows* rows, kvc_backend_errors* keys,
                        kvc_backend_errors* values);
  kvc_status (*attend)(void* storage, const kvc_backend_attention* attention, void* stream);
  kvc_status (*explain)(void* storage, const kvc_backend_attention* attention,
                        kvc_backend_attention_info* info);
  kvc_status (*key_bounds)(void* storage, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                           uint16_t* bounds, void* stream);
  kvc_status (*select_blocks)(void* storage, const kvc_backend_attention* attention,
                              const kvc_backend_selection* selection, void* stream);
  kvc_status (*swap_blocks)(void* storage, const kvc_backend_swap* swap, void* stream);  // NULL: not possible
} kvc_backend;

// What the library gives to a backend in a library of its own.
typedef struct kvc_backend_host {
  size_t struct_size;
  uint32_t abi_version;  // KVC_BACKEND_ABI of its build
  uint32_t reserved;
  void (*set_error)(const char* text);  // the calling thread's error text
} kvc_backend_host;

// Such a library exports one function, by this name. Several threads may call it; it gives the same table
// each time. A backend that does not know the host's abi_version still gives its table: the host refuses it
// and can say why.
#define KVC_BACKEND_ENTRY "kvc_backend_entry_v1"
typedef kvc_status (*kvc_backend_entry)(const kvc_backend_host* host, const kvc_backend** backend);

#ifdef __cplusplus
}
#endif
