/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_H
#define KVCACHE_H

/** @file kvcache.h
 *  @brief libkvcache: the KV cache of an LLM inference engine as a C library. This header is the manual of
 *  the block manager.
 *
 *  OVERVIEW. The keys and values of past tokens fill the memory of an inference engine. A manager
 *  (kvc_manager) divides that memory into fixed blocks. It decides which block holds which tokens, shares
 *  equal prefixes between requests, evicts the least recently used blocks, and says where each step writes
 *  new tokens. A block id is an index into memory: the engine's own memory, or a kvc_storage
 *  (kvcache/storage.h), which stores keys and values and computes attention (kvcache/attention.h).
 *
 *      kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = 4096};
 *      kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = n};
 *      kvc_manager *m;
 *      uint64_t r, cached;
 *      if (kvc_manager_create(&config, &m) != KVC_OK) puts(kvc_last_error());
 *      // the KV of `cached` of the n tokens exists already
 *      kvc_manager_allocate_request(m, &prompt, NULL, &r, &cached);
 *      // the block table for the attention kernel
 *      kvc_manager_export_tables(m, &r, 1, 0, -1, table, width);
 *      ... run the model on tokens [cached, n) ...
 *      // their KV is written: other requests may reuse it
 *      kvc_manager_commit_tokens(m, r, n);
 *      // one decode step, and so on
 *      kvc_manager_append_tokens(m, r, &next, 1);
 *      // its blocks stay cached until they are evicted
 *      kvc_manager_free_request(m, r);
 *
 *  PROMISES. (1) A hit is never wrong: a hash only finds a candidate; the namespace, the parent and every
 *  token are compared. (2) A failed call changes nothing, except counters of refusals and the thread's
 *  error text; KVC_ERROR_DEVICE is the exception. (3) The same calls give the same state: no result
 *  depends on time, pointers, hash seeds or thread timing.
 *
 *  TERMS.
 *  - Block: room for block_size tokens of all layers of one group. A block id (int32_t) names a place; its
 *    content changes.
 *  - Group: layers with one kind of attention and one block table per request. Pool: a range of block ids
 *    of one size in bytes. Groups whose blocks have equal sizes share a pool.
 *  - Request: a sequence of tokens. Known tokens: told to the library. Capacity: tokens that have a slot
 *    in a block. Committed tokens: their KV is written. committed <= min(known, capacity). Known tokens
 *    and capacity are independent.
 *  - Slot: block id * block_size + offset in the block: the place of one token's KV.
 *  - Published: a full committed block that other requests can find. Nothing is written to a block while
 *    it is published.
 *  - Namespace: requests of different namespaces never share blocks.
 *  - External hold: a reference to a block by an engine that keeps its own tables
 *    (kvc_manager_acquire_blocks).
 *  - The state of a block is the first that applies: FENCED (released, but a step in flight may still write
 *    to it), FILLING (a step in flight will write all of it: kvcache/fills.h), LIVE (held by a request or an
 *    external hold, with a committed token), RESERVED (held, nothing committed), PINNED (held only by pins),
 *    CACHED (not held, can be found), FREE. Every block is in exactly one state.
 *  - Prefix position (node): all tokens up to the end of a block. Hit: the cached prefix that a request
 *    gets.
 *  - Waiting: a request without blocks. Step in flight: issued and not retired.
 *
 *  CONVENTIONS.
 *  - Fallible calls return kvc_status; 0 is KVC_OK. Results are written only to out-parameters, which stay
 *    unchanged on failure. KVC_ERROR_BUFFER_TOO_SMALL writes the required count, if there is one to write.
 *    kvc_last_error() returns the text.
 *  - Structs that may grow begin with `size_t struct_size`, which the caller sets to sizeof. Zero is the
 *    default of every field, so `{.struct_size = sizeof x}` is complete. As input, a size below that of
 *    version 0.3 or above 4096 is KVC_ERROR_INVALID_ARGUMENT, and a non-zero field or flag that this
 *    library does not know is KVC_ERROR_UNSUPPORTED. As output, the library writes the fields that it
 *    knows and clears the rest. In an array of such structs the struct_size of the first element is the
 *    element size; all must be equal.
 *  - The library keeps no pointer after a call, except callbacks, memory that a comment names, and what a
 *    stream still reads. What you must free has a function named in its comment.
 *  - A pointer may be NULL where its count is 0. Any other NULL is KVC_ERROR_INVALID_ARGUMENT unless a
 *    default is documented.
 *  - Questions: `*_properties` tells what was fixed when a thing was made, `*_info` and `*_read_info` what it
 *    is now, `*_read_stats` counters since it was made, with gauges.
 *  - Counts are uint64_t, smaller ones of shapes, settings and records uint32_t; lengths and capacities of
 *    the caller's arrays are size_t, indices of pools, groups and layers uint32_t (int32_t where -1 means
 *    none or all).
 *  - Ids of requests and pins are never 0. Namespace 0 is the default one. A process never gets the same
 *    id twice, not even from another manager: an id that was freed or is of another manager is
 *    KVC_ERROR_NOT_FOUND.
 *
 *  TWO TIERS. A header with the line KVC_EXPERIMENTAL (sizing, record, rebuild, tiers, offload, pages,
 *  plug-ins, checkpoints, inspection of their files, scheduler, speculation, index, publisher, metrics) may
 *  change with any version. All other headers, resize among them, are the core, in all languages.
 *
 *  THREADING. Any thread may call any function at any time; a manager locks internally. One thread at a
 *  time drives a request or a kvc_step. No other call may run during kvc_manager_destroy. Managers are
 *  independent of each other. After fork() the child may only exec or exit. No function is
 *  async-signal-safe. No function prints, exits or throws.
 *
 *  Supported: Linux on x86-64 and aarch64 (64-bit, little-endian). */

#include <kvcache/attention.h>
#include <kvcache/checkpoint.h>
#include <kvcache/device.h>
#include <kvcache/events.h>
#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/index.h>
#include <kvcache/inspect.h>
#include <kvcache/manager.h>
#include <kvcache/metrics.h>
#include <kvcache/model.h>
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/page_result.h>
#include <kvcache/plugin.h>
#include <kvcache/prefix.h>
#include <kvcache/publisher.h>
#include <kvcache/quota.h>
#include <kvcache/rebuild.h>
#include <kvcache/record.h>
#include <kvcache/request.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>
#include <kvcache/scheduler.h>
#include <kvcache/sizing.h>
#include <kvcache/speculation.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>
#include <kvcache/tier.h>
#include <kvcache/types.h>

/** Version of this header; kvc_version() returns that of the library. */
#define KVC_VERSION_MAJOR 0
#define KVC_VERSION_MINOR 3 /**< Before 1.0 a new minor version may break the API. */
#define KVC_VERSION_PATCH 0 /**< Bug fixes only. */

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library: major * 10000 + minor * 100 + patch. Since 0.1. */
KVC_API uint32_t kvc_version(void);

/** One line: version, compiler, architecture. Static text. Since 0.1. */
KVC_API const char* kvc_build_info(void);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_H */
