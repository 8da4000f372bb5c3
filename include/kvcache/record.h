/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_RECORD_H
#define KVCACHE_RECORD_H

/** @file kvcache/record.h
 *  @brief Record and replay: a manager logs its calls, and another process makes them again.
 *
 *  kvc_manager_config.record_bytes switches the log on. It begins with the manager's configuration and its
 *  first call; so nothing of the state is missing. `kvcache replay --log FILE` and kvc_log_replay make a
 *  manager of the same configuration, make the same calls and compare every status and every result. A log
 *  with the call that went wrong is a complete bug report.
 *
 *      config.record_bytes = 1 << 20;
 *      ... calls ...
 *      // now and then, and at the end: append what was logged to a file
 *      while (kvc_manager_take_log(m, buffer, sizeof buffer, &size) == KVC_OK && size != 0)
 *        fwrite(buffer, 1, size, file);
 *
 *  - What is logged: each call that changes the state of the manager, with its inputs, status and results,
 *    and kvc_manager_digest. Calls that only read are not (kvc_manager_read_stats, kvc_manager_probe, the
 *    lists, ...). A call that failed is logged too, unless its pointers, struct sizes or lengths were
 *    wrong, a buffer was too small, or there was no memory: such a call changed nothing.
 *  - A log contains token ids, extra keys, the identities of namespaces and the names of prompts. It contains
 *    no keys and values, pointers, seeds or times other than those that the engine passed.
 *  - Bytes: one call of a decode step takes about 10 bytes and 8 for each request; a prompt up to 3 for each
 *    token.
 *  - The library does no I/O. It keeps record_bytes of memory from the manager's allocator, and never waits
 *    for room. If the log is full, recording ends; kvc_log_info.lost_calls counts what came after. The
 *    manager goes on. A step in which an item had no memory, or has 65,536 tokens more than
 *    max_request_tokens, ends it too: no other process could repeat it. To record again, create another
 *    manager.
 *  - A recorded manager makes its logged calls one after the other, each under the log's lock. Calls that
 *    only read do not take it. A checkpoint's save is the exception: it takes it for a few blocks at a time.
 *  - kvc_manager_rebuild refuses a configuration with record_bytes: its manager begins with cached content,
 *    which no log holds. It only reads the old manager, whose log goes on.
 *
 *  FORMAT. Little-endian. A log is one or more parts, one for each kvc_manager_take_log that had something to
 *  give. A part is a header of 64 bytes (magic, version of the format and of the library, numbers of its
 *  calls, the checksum of the part before it, its own checksum) and the calls, each with its length. A log
 *  may end after any part. A part that is cut, changed, missing or of another log is refused with the offset.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** The least kvc_manager_config.record_bytes. */
#define KVC_MIN_RECORD_BYTES 4096

/** The log of a manager. */
typedef struct kvc_log_info {
  size_t struct_size;  /**< sizeof(kvc_log_info) */
  uint64_t capacity;   /**< kvc_manager_config.record_bytes; 0 = nothing is recorded. */
  uint64_t bytes;      /**< Bytes that kvc_manager_take_log would give now. */
  uint64_t calls;      /**< Calls logged since creation, taken or not. */
  uint64_t lost_calls; /**< Calls after the log was full. If this is not 0, recording has ended. */
} kvc_log_info;

/** What kvc_log_replay found. */
typedef struct kvc_replay_info {
  size_t struct_size;       /**< sizeof(kvc_replay_info) */
  uint64_t calls;           /**< Calls made again. */
  uint64_t mismatches;      /**< Calls with another status or result than in the log. */
  uint64_t first_mismatch;  /**< Number of the first of them, from 1; 0 = none. */
  uint64_t digest;          /**< kvc_manager_digest after the last call. */
  uint64_t lost_calls;      /**< Calls that the log lost at its end, because it was full. */
  uint32_t library_version; /**< Of the library that wrote the log: major * 10000 + minor * 100 + patch. */
  uint32_t reserved;        /**< 0 */
  char text[256];           /**< The first mismatch: call, result, both values. Empty without one. */
} kvc_replay_info;

/** Gives out what was logged since the last call, as one part of a log, and empties the buffer.
 *  @param[out] log      [capacity] bytes, to be appended to what was taken before.
 *  @param[in]  capacity Bytes of log. record_bytes + 64 is always enough.
 *  @param[out] size     Bytes written; 0 = nothing new.
 *  @return KVC_OK; BUFFER_TOO_SMALL (size is what is needed, nothing is taken; ask with capacity 0);
 *  UNSUPPORTED (record_bytes is 0); INVALID_ARGUMENT. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_take_log(kvc_manager* m, void* log, size_t capacity, size_t* size);

/** State of the log. @param[in,out] info The caller sets struct_size. @return KVC_OK, INVALID_ARGUMENT.
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_log_info(kvc_manager* m, kvc_log_info* info);

/** Makes the calls of a log again, on a manager of its own with another hash seed, and compares. The whole
 *  log is checked before the first call. Needs the memory of the manager that was recorded, and some for one
 *  call.
 *  @param[in]     log  [size] all parts, in order. Not trusted: any bytes may be passed.
 *  @param[in,out] info The caller sets struct_size.
 *  @return KVC_OK, also with mismatches and lost calls (look at info); INVALID_ARGUMENT (no log, or one that
 *  was cut or changed: the text has the offset, the value and the fix), UNSUPPORTED (another version of the
 *  format), OUT_OF_MEMORY, LIMIT (4,095 managers). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_log_replay(const void* log, size_t size, kvc_replay_info* info);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_RECORD_H */
