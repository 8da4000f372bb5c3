/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_EVENTS_H
#define KVCACHE_EVENTS_H

/** @file kvcache/events.h
 *  @brief Events: what can be found in a manager, and how that changes, for routers and other caches.
 *
 *  kvc_manager_config.event_capacity switches them on.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_event.kind. */
enum {
  /** A prefix position has a block in a group; perhaps only requests that share find it (kvcache/fills.h).
   *  With block -1 it has none in any group: it is told of as the parent of one that has, and is no hit. */
  KVC_EVENT_STORED = 1,
  /** Its last copy in that group is gone. With block -1: what a STORED with block -1 said is over. */
  KVC_EVENT_REMOVED = 2,
  /** All of namespace_id is gone: it was reset or closed. No REMOVED events follow for it. Since 0.3. */
  KVC_EVENT_NAMESPACE_CLEARED = 4,
  /** All of all namespaces is gone: kvc_manager_reset_all. No REMOVED events follow for it. Since 0.3. */
  KVC_EVENT_ALL_CLEARED = 5
};

/** A change of what can be found, for routers and other caches. Read events in the order of `sequence`; a
 *  gap means that events were lost. When a position is stored, its parent is there: stored and not removed in
 *  some group, or the root. digest = SHA-256(the tokens as little-endian int32,
 *  parent_digest, extra_digest, num_tokens + 2^31 as little-endian uint32): a chain over the prefix. Without
 *  extra keys extra_digest is left out, and 2^31 is not added. The first parent_digest identifies the
 *  namespace. */
typedef struct kvc_event {
  uint64_t sequence;         /**< 0, 1, 2, ... per manager. */
  uint64_t time_ns;          /**< Wall clock of the call, nanoseconds since 1970. */
  uint64_t epoch;            /**< Epoch of the namespace: grows with each reset. */
  uint64_t namespace_id;     /**< 0 = default; of ALL_CLEARED KVC_ALL_NAMESPACES. */
  uint64_t node;             /**< Prefix position, never reused; 0 for both CLEARED kinds. */
  uint64_t parent_node;      /**< Position before it; 0 = the root of the namespace. */
  uint64_t token_offset;     /**< Position of the first token. */
  uint32_t kind;             /**< KVC_EVENT_* */
  uint32_t group;            /**< Group in which it was stored or removed. */
  uint32_t num_tokens;       /**< Tokens of the position: block_size; 0 without one. */
  int32_t block;             /**< Block stored; for REMOVED the block that held it; -1 = none. */
  uint8_t digest[32];        /**< Chained identity of the position. */
  uint8_t parent_digest[32]; /**< That of its parent. */
  /** SHA-256 over the extra keys in this block, in the order of first token, length and digest: per key int64
   *  offset from the block's first token, uint64 length, digest; zeros if there are none. */
  uint8_t extra_digest[32];
} kvc_event;

/** Room for events. The caller sets the arrays and capacities. */
typedef struct kvc_event_batch {
  size_t struct_size; /**< sizeof(kvc_event_batch) */
  kvc_event* events;  /**< Out [capacity] */
  size_t event_size;  /**< sizeof(kvc_event) */
  size_t capacity;    /**< Entries of events, 1 or more. */
  size_t count;       /**< Out: events written. */
  /** Out [token_capacity] tokens of the events in order, num_tokens each; NULL = not wanted. */
  int32_t* tokens;
  /** Entries of tokens, block_size or more: the batch ends before an event whose tokens do not fit. */
  size_t token_capacity;
} kvc_event_batch;

/** Reads events without removing them. There may be any number of readers, each with its own cursor.
 *  @param[in,out] cursor Sequence to read from, 0 at first; on return the one to read next. If that is more
 *  than you passed and count (the first event has a greater sequence, or count is 0), the events between
 *  are lost: kvc_manager_list_prefixes has the state.
 *  @param[in,out] batch  Room for at least one event, and its tokens if they are wanted. count is 0 only if
 *  there are no more events. The call hashes positions that no reader has asked for yet; other calls go on
 *  meanwhile.
 *  @return KVC_OK; INVALID_ARGUMENT (event_size, no room, a cursor in the future); UNSUPPORTED if
 *  event_capacity is 0. Since 0.1. */
KVC_API kvc_status kvc_manager_poll_events(kvc_manager* m, uint64_t* cursor, kvc_event_batch* batch);

/** Lists what can be found, a batch at a time: a STORED event for each prefix position and group, and for
 *  each parent without a block (block -1), in no particular order. time_ns is 0, and sequence that of the
 *  next event to come. Other calls may change the state meanwhile: list everything, then apply the events
 *  from event_cursor on. That is the present state. If some of these events are lost, list again. Like
 *  kvc_manager_poll_events it needs 32 KB of stack.
 *  @param[in,out] cursor       0 at first; on return where to go on, 0 = everything was listed.
 *  @param[in,out] event_cursor For kvc_manager_poll_events; written if cursor is 0.
 *  @param[in,out] batch        Room for at least one event, and its tokens if they are wanted.
 *  @return KVC_OK; INVALID_ARGUMENT (event_size, a cursor of no list, no room); UNSUPPORTED if
 *  event_capacity is 0. Since 0.3. */
KVC_API kvc_status kvc_manager_list_prefixes(kvc_manager* m, uint64_t* cursor, uint64_t* event_cursor,
                                             kvc_event_batch* batch);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_EVENTS_H */
