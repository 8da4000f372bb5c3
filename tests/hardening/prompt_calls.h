// SPDX-License-Identifier: Apache-2.0
// Calls with a kvc_prompt, with each of its parts as an argument, so that the matrix of bad arguments
// replaces them one by one.
#pragma once
#include <kvcache/events.h>
#include <kvcache/external.h>
#include <kvcache/page.h>
#include <kvcache/prefix.h>
#include <kvcache/retention.h>

#include "calls.h"

namespace kvc::test {

inline kvc_status create_request(kvc_manager* m, const int32_t* tokens, size_t n, const kvc_extra_key* keys,
                                 size_t num_keys, const kvc_request_config* config, uint64_t* request) {
  return kvc_manager_create_request(m, PROMPT(0, tokens, n, keys, num_keys), config, request);
}
inline kvc_status allocate_request(kvc_manager* m, const int32_t* tokens, size_t n, const kvc_extra_key* keys,
                                   size_t num_keys, const kvc_request_config* config, uint64_t* request,
                                   uint64_t* num_cached) {
  return kvc_manager_allocate_request(m, PROMPT(0, tokens, n, keys, num_keys), config, request, num_cached);
}
inline kvc_status list_prefixes(kvc_manager* m, uint64_t* cursor, uint64_t* event_cursor, kvc_event* events,
                                size_t event_size, size_t capacity, size_t* count, int32_t* tokens,
                                size_t token_capacity) {
  if (count == nullptr) return kvc_manager_list_prefixes(m, cursor, event_cursor, nullptr);
  kvc_event_batch batch = {sizeof batch, events, event_size, capacity, 0, tokens, token_capacity};
  const kvc_status status = kvc_manager_list_prefixes(m, cursor, event_cursor, &batch);
  if (status == KVC_OK) *count = batch.count;
  return status;
}
inline kvc_status probe(kvc_manager* m, uint64_t ns, const int32_t* tokens, size_t n,
                        const kvc_extra_key* keys, size_t num_keys, kvc_probe_info* info) {
  return kvc_manager_probe(m, PROMPT(ns, tokens, n, keys, num_keys), info);
}
inline kvc_status pin_prefix(kvc_manager* m, uint64_t ns, const int32_t* tokens, size_t n,
                             const kvc_extra_key* keys, size_t num_keys, uint64_t* pin,
                             uint64_t* num_pinned) {
  return kvc_manager_pin_prefix(m, PROMPT(ns, tokens, n, keys, num_keys), pin, num_pinned);
}
inline kvc_status drop_prefix(kvc_manager* m, uint64_t ns, const int32_t* tokens, size_t n,
                              const kvc_extra_key* keys, size_t num_keys, uint64_t* num_dropped) {
  return kvc_manager_drop_prefix(m, PROMPT(ns, tokens, n, keys, num_keys), num_dropped);
}
inline kvc_status acquire_prefix(kvc_manager* m, uint64_t ns, uint32_t group, const int32_t* tokens, size_t n,
                                 const kvc_extra_key* keys, size_t num_keys, int32_t* blocks, size_t capacity,
                                 size_t* count) {
  return kvc_manager_acquire_prefix(m, PROMPT(ns, tokens, n, keys, num_keys), group, blocks, capacity, count);
}
inline kvc_status publish_blocks(kvc_manager* m, uint64_t ns, uint32_t group, const int32_t* tokens, size_t n,
                                 const kvc_extra_key* keys, size_t num_keys, const int32_t* blocks,
                                 size_t num_blocks) {
  return kvc_manager_publish_blocks(m, PROMPT(ns, tokens, n, keys, num_keys), group, blocks, num_blocks);
}

inline kvc_status set_prefix_priority(kvc_manager* m, uint64_t ns, const int32_t* tokens, size_t n,
                                      const kvc_extra_key* keys, size_t num_keys, uint64_t first_token,
                                      uint64_t* num_tokens) {
  return kvc_manager_set_prefix_priority(m, PROMPT(ns, tokens, n, keys, num_keys), first_token, 90,
                                         UINT64_MAX, num_tokens);
}
inline kvc_status demote_prefix(kvc_manager* m, uint64_t ns, const int32_t* tokens, size_t n,
                                const kvc_extra_key* keys, size_t num_keys, uint64_t first_token,
                                uint64_t* num_tokens) {
  return kvc_manager_set_prefix_priority(m, PROMPT(ns, tokens, n, keys, num_keys), first_token,
                                         KVC_PRIORITY_DEMOTED, 0, num_tokens);
}
inline kvc_status position_digests(kvc_manager* m, const int32_t* tokens, size_t n, const kvc_extra_key* keys,
                                   size_t num_keys, uint8_t* digests, size_t capacity, size_t* count) {
  return kvc_manager_position_digests(m, PROMPT(0, tokens, n, keys, num_keys), digests, capacity, count);
}
inline kvc_status register_prompt(kvc_manager* m, const char* name, const int32_t* tokens, size_t n,
                                  const kvc_extra_key* keys, size_t num_keys, uint64_t* num_pinned) {
  return kvc_manager_register_prompt(m, name, PROMPT(0, tokens, n, keys, num_keys), num_pinned);
}

inline kvc_status take_pending(kvc_manager* m, kvc_block_copy* copies, size_t copy_capacity,
                               int32_t* zero_blocks, size_t zero_capacity, size_t* count) {
  kvc_pending_work work = {sizeof work, copies, copy_capacity, 0, zero_blocks, zero_capacity, 0};
  const kvc_status status = kvc_manager_take_pending(m, count == nullptr ? nullptr : &work);
  if (status == KVC_OK) *count = work.num_copies;
  return status;
}

}  // namespace kvc::test
