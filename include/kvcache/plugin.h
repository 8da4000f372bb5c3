/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_PLUGIN_H
#define KVCACHE_PLUGIN_H

/** @file kvcache/plugin.h
 *  @brief Plug-ins: stores of pages, ways of file I/O, codecs, and transports in shared libraries of their
 *  own.
 *
 *  A plug-in NAME is a shared library libkvcache_NAME.so that exports one function, KVC_PLUGIN_ENTRY. It
 *  needs this header alone. A tier with the URL "NAME:..." opens it, and calls its kvc_store.
 *
 *  To write a store, write five functions that move values by key. A value is a header of
 *  KVC_PAGE_HEADER_BYTES and the data behind it: one value, never two. The library makes the header and
 *  checks header and data after each get, so a store cannot give wrong bytes; it can only miss. Queues,
 *  deadlines, statistics, partial reads, and leaving a failed server alone are the library's.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/page_result.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** Changes with every change of a struct below that an older plug-in or library would misread. */
#define KVC_PLUGIN_ABI 1u
/** Name of the function that a plug-in exports: a kvc_plugin_entry. */
#define KVC_PLUGIN_ENTRY "kvc_plugin_entry_v1"
/** Bytes of the header that the library puts before the data of a page. */
#define KVC_PAGE_HEADER_BYTES 128u

/** One page of a call. Frozen. */
typedef struct kvc_store_item {
  const uint8_t* key; /**< [32] */
  void* header;       /**< [KVC_PAGE_HEADER_BYTES] Put: the header. Get: where it goes. Others: NULL. */
  void* data;         /**< Put: the data. Get: where they go; undefined unless the result is OK. */
  uint64_t bytes;     /**< Get: a value of another length than header and data together is a MISS. */
  int32_t result;     /**< Out: KVC_PAGE_OK, MISS, NO_SPACE, FAILED, TIMEOUT or UNAVAILABLE. */
  uint32_t reserved;  /**< 0 */
} kvc_store_item;

/** Circumstances of a call. Grows at its end. */
typedef struct kvc_store_call {
  size_t struct_size;   /**< sizeof(kvc_store_call) */
  uint64_t deadline_ns; /**< Return by then, CLOCK_MONOTONIC; 0 = whenever it is done. */
  uint32_t worker;      /**< Which thread calls, below kvc_store_config.num_threads: index of a connection. */
  uint32_t reserved;    /**< 0 */
} kvc_store_call;

/** What a store is opened for. Grows at its end. */
typedef struct kvc_store_config {
  size_t struct_size;      /**< sizeof(kvc_store_config) */
  const char* url;         /**< Without the parameters of all tiers. Valid during the call. */
  uint8_t fingerprint[32]; /**< Of all pages. Keys depend on it already. */
  uint64_t page_bytes;     /**< Of the largest page. */
  uint32_t num_threads;    /**< That will call, at least 1. */
  uint32_t reserved;       /**< 0 */
} kvc_store_config;

/** What a store knows of itself; it leaves at 0 what it does not know. Grows at its end. */
typedef struct kvc_store_info {
  size_t struct_size;                                    /**< sizeof(kvc_store_info) */
  uint64_t pages, capacity_pages, bytes, capacity_bytes; /**< Gauges. */
  int64_t last_errno;                                    /**< Of the last failure. */
} kvc_store_info;

/** kvc_store.flags. */
enum {
  /** It may become unreachable. The library leaves it alone after a few failures in a row, and probes it;
   *  after failures of put and remove it does so with these alone. */
  KVC_STORE_REMOTE = 1
};

/** A store of values by key. Calls of different workers come at the same time. Grows at its end. */
typedef struct kvc_store {
  size_t struct_size; /**< sizeof(kvc_store) */
  uint32_t flags;     /**< KVC_STORE_* */
  uint32_t reserved;  /**< 0 */
  /** Opens a store, without waiting for a server that may be down. Not KVC_OK: set_error was called, and
   *  `store` is not closed. */
  kvc_status (*open)(const kvc_store_config* config, void** store);
  void (*close)(void* store); /**< No call runs. */
  void (*exists)(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items);
  void (*get)(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items);
  /** A reader sees the whole value or none. May keep a value that is there. */
  void (*put)(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items);
  /** OK also if there was none. NULL = not possible. Also called for values that did not check. */
  void (*remove)(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items);
  /** NULL = nothing is known. Any thread calls it, and it waits for no server. */
  void (*info)(void* store, kvc_store_info* info);
} kvc_store;

/** One read or write at an offset of a file. Frozen. */
typedef struct kvc_io {
  void* data;      /**< Buffer. */
  uint64_t bytes;  /**< To move. */
  uint64_t offset; /**< In the file. */
  int64_t result;  /**< Out: bytes moved, which may be fewer, or -errno. */
  int32_t file;    /**< Descriptor. */
  uint32_t write;  /**< 1 = write. */
} kvc_io;

/** A way to do many reads and writes at once. Grows at its end. */
typedef struct kvc_io_engine {
  size_t struct_size; /**< sizeof(kvc_io_engine) */
  /** For one thread, with room for `depth` operations at a time. */
  kvc_status (*open)(uint32_t depth, void** queue);
  void (*close)(void* queue);
  /** Does all operations, at most `depth`, and returns when all have a result. */
  void (*transfer)(void* queue, kvc_io* operations, size_t num_operations);
} kvc_io_engine;

/** A lossless codec. Functions are thread-safe. Grows at its end. */
typedef struct kvc_codec {
  size_t struct_size;                /**< sizeof(kvc_codec) */
  uint64_t (*bound)(uint64_t bytes); /**< Of the compressed form at most. */
  /** @param[out] written Bytes of `out` used. @return KVC_OK; BUFFER_TOO_SMALL; OUT_OF_MEMORY. */
  kvc_status (*compress)(const void* in, uint64_t bytes, void* out, uint64_t capacity, int32_t level,
                         uint64_t* written);
  /** Fails unless the result has exactly `bytes`. @return KVC_OK; CORRUPT; OUT_OF_MEMORY. */
  kvc_status (*decompress)(const void* in, uint64_t in_bytes, void* out, uint64_t bytes);
} kvc_codec;

/** A piece of a message. Frozen. */
typedef struct kvc_frame {
  const void* data; /**< NULL if it has no bytes. */
  size_t bytes;     /**< Of data. */
} kvc_frame;

/** What a transport is opened for. Grows at its end. */
typedef struct kvc_transport_config {
  size_t struct_size;      /**< sizeof(kvc_transport_config) */
  const char* url;         /**< Of the publisher, with the name of the plug-in. Valid during the call. */
  uint64_t replay_batches; /**< Most replies to one request, but for the one that ends it. */
} kvc_transport_config;

/** Brings the batches of a publisher to its subscribers (kvcache/publisher.h), and their requests for replay
 *  back. One thread at a time calls; no call waits. Grows at its end. */
typedef struct kvc_transport {
  size_t struct_size; /**< sizeof(kvc_transport) */
  /** Not KVC_OK: set_error was called, and `transport` is not closed. */
  kvc_status (*open)(const kvc_transport_config* config, void** transport);
  /** What was sent may still be delivered for a short while. */
  void (*close)(void* transport);
  /** Sends a message to all subscribers. KVC_OK; AGAIN = some have a full queue, and do not get it; others =
   *  it was not sent. */
  kvc_status (*publish)(void* transport, const kvc_frame* frames, size_t num_frames);
  /** Takes a request for all batches from `sequence` on. KVC_OK; AGAIN = there is none; INVALID_ARGUMENT =
   *  it was no request, and is gone; others = the transport failed. NULL, with `reply` = no replay. */
  kvc_status (*receive)(void* transport, uint64_t* sequence);
  /** Answers the last request, with one of several messages. Not KVC_OK: its subscriber gets no more. */
  kvc_status (*reply)(void* transport, const kvc_frame* frames, size_t num_frames);
} kvc_transport;

/** What a plug-in gives. At least one table is not NULL. Grows at its end. */
typedef struct kvc_plugin {
  size_t struct_size;             /**< sizeof(kvc_plugin) */
  uint32_t abi_version;           /**< KVC_PLUGIN_ABI of its build. */
  uint32_t reserved;              /**< 0 */
  const char* name;               /**< "redis" */
  const kvc_store* store;         /**< NULL = none. */
  const kvc_io_engine* io;        /**< NULL = none. */
  const kvc_codec* codec;         /**< NULL = none. */
  const kvc_transport* transport; /**< NULL = none. Since 0.3. */
} kvc_plugin;

/** What the library gives to a plug-in. Grows at its end. */
typedef struct kvc_plugin_host {
  size_t struct_size;   /**< sizeof(kvc_plugin_host) */
  uint32_t abi_version; /**< KVC_PLUGIN_ABI of its build. */
  uint32_t reserved;    /**< 0 */
  /** Sets the calling thread's error text (kvc_last_error): what is wrong, the value, the fix. */
  void (*set_error)(const char* text);
} kvc_plugin_host;

/** Several threads may call it. It gives the same table each time, also to a host of another abi_version. */
typedef kvc_status (*kvc_plugin_entry)(const kvc_plugin_host* host, const kvc_plugin** plugin);

/** Opens a plug-in, before a tier names it: from a file of your choice, or to see whether it is there. An
 *  open plug-in stays open.
 *  @param[in] name Lower-case letters and digits, at most 15.
 *  @param[in] path The file, or the only folder to search. NULL = search the folders of the environment
 *  variable KVC_PLUGIN_PATH (separated by colons; ignored in setuid programs), then the folder of this
 *  library and kvcache/ in it.
 *  @return KVC_OK; INVALID_ARGUMENT (a malformed name); BUSY (open from another path); NOT_FOUND (the text
 *  lists what was searched); UNSUPPORTED (the file cannot be loaded, or has another version); OUT_OF_MEMORY.
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_plugin_open(const char* name, const char* path);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_PLUGIN_H */
