// SPDX-License-Identifier: Apache-2.0
// New and waiting requests, as calls and steps admit them: a prompt is copied and hashed outside the lock.
#pragma once
#include "manager/batch.h"
#include "manager/monitor.h"
#include "manager/requests.h"

namespace kvc {

class SchedulerView {
 public:
  SchedulerView(Monitor& monitor, Blocks& blocks, Requests& requests)
      : monitor_(monitor), blocks_(blocks), requests_(requests) {}

  // Called without the lock: both take it, and a new prompt is copied and hashed outside it. BUFFER_TOO_SMALL
  // if the request's table could outgrow max_positions.
  // `step_id`: the step that will compute what gets slots, 0 in single calls; `copies`: its list.
  kvc_status create(const TokenSpan& prompt, const kvc_request_config& config, bool admit, uint64_t* id,
                    uint64_t* num_cached, size_t max_positions, uint64_t step_id = 0,
                    CopyList* copies = nullptr) const;
  // `slots`: instead of the request's own from now on, if it is admitted; 0 = its own.
  kvc_status admit(uint64_t id, uint64_t* num_cached, size_t max_positions, uint64_t step_id = 0,
                   CopyList* copies = nullptr, uint64_t slots = 0) const;
  // A new request that nobody knows yet: publish() or discard() it.
  kvc_status build(const TokenSpan& prompt, const kvc_request_config& config, Request** request) const;
  // A bit for the share of the blocks that an admission counts for: that of the waiting request, or of the
  // namespace if it is new (0). Without quotas there is one share.
  uint64_t share_of(uint64_t waiting, uint64_t namespace_id) const {
    if (!blocks_.quotas().on()) return 1;
    const std::lock_guard lock(monitor_.mutex());
    return locked_share_of(waiting, namespace_id);
  }
  // The same with the lock.
  uint64_t locked_share_of(uint64_t waiting, uint64_t namespace_id) const;

 private:
  Monitor& monitor_;
  Blocks& blocks_;
  Requests& requests_;
};

}  // namespace kvc
