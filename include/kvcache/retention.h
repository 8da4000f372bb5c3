/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_RETENTION_H
#define KVCACHE_RETENTION_H

/** @file retention.h
 *  @brief What the engine knows of the future: hints which cached blocks stay, and registered prompts.
 *
 *  HINTS. A manager with the flag KVC_MANAGER_HINTS keeps a priority for each prefix position that has a
 *  block: 0 to 100 (35 without a hint), or demoted, which is below 0. Cached blocks are evicted lowest
 *  priority first; among equal ones the policy decides. A hint changes no hit and no answer, only what is
 *  evicted.
 *
 *      // the first 1,000 tokens of the request come back: keep them for a minute
 *      kvc_manager_set_priority(m, r, 0, 1000, 90, now_ns + 60000000000u);
 *      // the user has left: what nobody shares leaves first
 *      kvc_manager_end_session(m, r, 0);
 *      kvc_manager_free_request(m, r);
 *
 *  - A position takes a hint if its last token lies in the hinted range. So tokens [first, end) are the
 *    positions from first / block_size up to, not including, end / block_size.
 *  - The latest hint of a position wins. A request that has no hint for a position leaves its hint as it is.
 *  - A hint ends when its position loses its last block in all groups, or by a reset.
 *  - A cached block whose priority changes goes to the end of its new list, as if it were released now.
 *
 *  TIME. until_ns is a time of the engine's own monotonic clock, in nanoseconds; 0 = no end. The library
 *  reads no clock: the engine tells the time in kvc_step.now_ns or by kvc_manager_set_time. When it passes
 *  until_ns, the position has priority 35 again. Hints that end at one time end in the order in which they
 *  were set.
 *
 *  PROMPTS. A registered prompt, such as a system prompt, is known to the manager by name. What is cached of
 *  it is pinned, and what requests with this prompt compute is pinned before they release it. So it survives
 *  everything from its first use on, until it is unregistered or its namespace is reset. This needs no flag.
 *
 *  THREADING. Any thread may call any function at any time. */

#include <kvcache/request.h>
#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- time */

/** Tells the time. Ends the hints whose time has passed. Costs O(1) for each hint that ends.
 *  @param[in] now_ns Time of the engine's monotonic clock in nanoseconds, at least that of the last call or
 *  step. The first time of a manager is 0.
 *  @return KVC_OK; INVALID_ARGUMENT (an earlier time). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_set_time(kvc_manager* m, uint64_t now_ns);

/* ---------------------------------------------------------------- hints */

/** Hints a range of a request's tokens, those that it will generate included. Positions that the request
 *  holds and has published take the hint at once; others take it when the request publishes them, or hits
 *  them at a later admission. A range that covers earlier ones of the request replaces them; where ranges
 *  overlap, the latest counts. A range whose time has passed stands for priority 35. A fork has the ranges of
 *  its parent.
 *  @param[in] first_token First token of the range.
 *  @param[in] num_tokens  Its length; UINT64_MAX = without end. A range without a position is no hint.
 *  @param[in] priority    0 (evicted first) to 100.
 *  @param[in] until_ns    When the hint ends; 0 = never.
 *  @return KVC_OK; INVALID_ARGUMENT (priority above 100, until_ns that is not in the future), NOT_FOUND;
 *  LIMIT (the request has 8 ranges); UNSUPPORTED (without KVC_MANAGER_HINTS). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_set_priority(kvc_manager* m, uint64_t request, uint64_t first_token,
                                            uint64_t num_tokens, uint32_t priority, uint64_t until_ns);

/** Says that nobody will continue a request. When it is freed, its private tail is demoted, the last position
 *  first. The tail starts at its last published position, or if it is waiting at the last known position of
 *  its tokens, and goes towards the root. It stops where a longer prefix is known, another request ends, or a
 *  block is held, and at shared_tokens. A later hit, or a request that computes the position again, takes the
 *  demotion back: its priority is 35. A fork is not marked.
 *  @param[in] request       Admitted or waiting.
 *  @param[in] shared_tokens First tokens that are not demoted, such as a system prompt that only this session
 *  uses now; 0 = none.
 *  @return KVC_OK; NOT_FOUND; UNSUPPORTED (without KVC_MANAGER_HINTS). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_end_session(kvc_manager* m, uint64_t request, uint64_t shared_tokens);

/** A priority below 0 (kvc_manager_set_prefix_priority). */
#define KVC_PRIORITY_DEMOTED UINT32_MAX

/** Hints the positions of a prompt that have a block now, from first_token on. "Keep until" is priority 100
 *  with until_ns. A hint is no promise; kvc_manager_pin_prefix is.
 *
 *  KVC_PRIORITY_DEMOTED demotes the end of the prompt: from its last known position towards the root, to that
 *  of first_token. It stops where kvc_manager_end_session does; so it demotes nothing if a longer prefix is
 *  known. kvc_manager_drop_prefix drops cached blocks at once.
 *  @param[in]  prompt     Tokens, keys and namespace.
 *  @param[in]  priority   0 (evicted first) to 100, or KVC_PRIORITY_DEMOTED.
 *  @param[in]  until_ns   When the hint ends; 0 = never. A demotion has no end: 0.
 *  @param[out] num_tokens Tokens of the positions that took the hint, those demoted before included.
 *  @return KVC_OK (num_tokens may be 0); INVALID_ARGUMENT (as kvc_manager_set_priority, or the prompt),
 *  NOT_FOUND (namespace), LIMIT (max_request_tokens), OUT_OF_MEMORY; UNSUPPORTED (without KVC_MANAGER_HINTS).
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_set_prefix_priority(kvc_manager* m, const kvc_prompt* prompt,
                                                   uint64_t first_token, uint32_t priority, uint64_t until_ns,
                                                   uint64_t* num_tokens);

/* ---------------------------------------------------------------- registered prompts */

/** Registers a prompt under a name, and pins what is cached of it. Tokens, keys and name are copied. Its
 *  namespace cannot be closed while it is registered.
 *  @param[in]  name       Text of 1 to 255 bytes, terminated by 0.
 *  @param[in]  prompt     All n tokens may be pinned, full blocks only.
 *  @param[out] num_pinned Tokens that are cached and now pinned; may be 0. May be NULL.
 *  @return KVC_OK; INVALID_ARGUMENT (the name is registered, empty or too long; the prompt), NOT_FOUND
 *  (namespace), LIMIT (max_requests prompts, max_request_tokens, 65,535 pins of a block), OUT_OF_MEMORY.
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_register_prompt(kvc_manager* m, const char* name, const kvc_prompt* prompt,
                                               uint64_t* num_pinned);

/** Creates and admits a request with the tokens and keys of a registered prompt, followed by `tokens`, in its
 *  namespace. What the request has published of the prompt is pinned before it releases its blocks, also if
 *  it is preempted and admitted again.
 *  @param[in]  tokens     [num_tokens] tokens after the prompt.
 *  @param[in]  config     Options; NULL = defaults.
 *  @param[out] request    Its id.
 *  @param[out] num_cached Tokens of the hit. May be NULL.
 *  @return KVC_OK; NOT_FOUND (no such name); else as kvc_manager_allocate_request. If it fails, there is no
 *  request. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_allocate_from_prompt(kvc_manager* m, const char* name, const int32_t* tokens,
                                                    size_t num_tokens, const kvc_request_config* config,
                                                    uint64_t* request, uint64_t* num_cached);

/** Ends a registration and its pin. Its blocks become the most recently used; requests with the prompt go on.
 *  @return KVC_OK; NOT_FOUND (no such name), INVALID_ARGUMENT (no name). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_unregister_prompt(kvc_manager* m, const char* name);

/** Lists the names of the registered prompts, in no particular order.
 *  @param[out] names    [capacity] bytes: names one after the other, each with its 0.
 *  @param[in]  capacity Bytes of names.
 *  @param[out] size     Bytes written.
 *  @return KVC_OK; BUFFER_TOO_SMALL (size is what is needed; ask with capacity 0); INVALID_ARGUMENT.
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_list_prompts(kvc_manager* m, char* names, size_t capacity, size_t* size);

#ifdef __cplusplus
}
#endif

#endif /* KVCACHE_RETENTION_H */
