/* SPDX-License-Identifier: Apache-2.0 */
/* kvc_manager_poll_events with the fields of its batch as arguments, for C11 and C++ tests. */
#ifndef KVC_TESTS_EVENT_CALLS_H
#define KVC_TESTS_EVENT_CALLS_H

#include <kvcache/events.h>

static inline kvc_status poll_events(kvc_manager* m, uint64_t* cursor, kvc_event* events, size_t event_size,
                                     size_t capacity, size_t* count, int32_t* tokens, size_t token_capacity) {
  if (count == NULL) return kvc_manager_poll_events(m, cursor, NULL);
  kvc_event_batch batch = {sizeof(kvc_event_batch), events, event_size, capacity, 0, tokens, token_capacity};
  const kvc_status status = kvc_manager_poll_events(m, cursor, &batch);
  if (status == KVC_OK) *count = batch.count;
  return status;
}

#endif /* KVC_TESTS_EVENT_CALLS_H */
