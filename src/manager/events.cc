// SPDX-License-Identifier: Apache-2.0
// What readers outside the process see of the prefixes. Digests are worked out here, without the lock.
#include "manager/manager.h"

namespace kvc {

kvc_status Manager::poll_events(uint64_t* cursor, kvc_event_batch* batch) {
  Identities& identities = blocks_.identities();
  Identities::Work work;
  size_t tokens_used = 0;
  batch->count = 0;
  for (bool again = false;; again = true) {
    {
      const std::lock_guard lock(monitor_.mutex());
      if (!events_.enabled()) {
        return fail(KVC_ERROR_UNSUPPORTED, "this manager keeps no events; create it with event_capacity > 0");
      }
      if (*cursor > events_.next_sequence()) {
        return fail(KVC_ERROR_INVALID_ARGUMENT, "cursor %llu is in the future; the next event is %llu",
                    ull(*cursor), ull(events_.next_sequence()));
      }
      identities.learn(&work);
      if (*cursor < events_.oldest()) {
        if (batch->count != 0) return KVC_OK;  // the next call sees the gap
        const uint64_t oldest = events_.oldest();
        if (again && events_.waits(oldest)) identities.identify(NodeId{events_.owner(oldest)});  // to come on
      }
      char* const rest = reinterpret_cast<char*>(batch->events) + batch->count * batch->event_size;
      batch->count += events_.read(cursor, rest, batch->event_size, batch->capacity - batch->count,
                                   batch->tokens, batch->token_capacity, &tokens_used);
      if (batch->count == batch->capacity || !events_.holds(*cursor) || !events_.waits(*cursor))
        return KVC_OK;
      identities.gather_events(*cursor, &work);
    }
    work.compute();
  }
}

}  // namespace kvc
