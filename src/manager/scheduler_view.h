// SPDX-License-Identifier: Apache-2.0
// What a scheduler needs of the manager, and all that a step uses: requests that are admitted, grow, shrink
// and end, steps that retire, and the pressure on the pools.
#pragma once
#include "manager/monitor.h"

namespace kvc {

class SchedulerView {
 public:
  SchedulerView(Monitor& monitor, Blocks& blocks, Requests& requests)
      : monitor_(monitor), blocks_(blocks), requests_(requests) {}

  // The lock of a call that changes state, and of one that does not.
  Guard lock() const { return Guard(monitor_); }
  std::mutex& mutex() const { return monitor_.mutex(); }

  // Without the lock: both take it, and a new prompt is copied and hashed outside it. The table of the
  // request cannot outgrow max_positions.
  kvc_status create(const TokenSpan& prompt, const kvc_request_config& config, bool admit, uint64_t* id,
                    uint64_t* num_cached, size_t max_positions) const;
  kvc_status admit(uint64_t id, uint64_t* num_cached, size_t max_positions) const;

  // With the lock, as all below.
  Request* peek(uint64_t id) const { return requests_.peek(id); }
  kvc_status find(uint64_t id, bool must_be_admitted, Request** request) const {
    return requests_.find(id, must_be_admitted, request);
  }
  uint32_t index_of(const Request& request) const { return requests_.table().index_of(request); }
  kvc_status learn(Request& request, const int32_t* tokens, size_t count) const {
    return requests_.learn(request, tokens, count);
  }
  kvc_status commit(Request& request, uint64_t num_committed) const {
    return requests_.commit(request, num_committed);
  }
  kvc_status extend(Request& request, uint64_t capacity, CopyList& copies) const {
    return requests_.extend(request, capacity, &copies);
  }
  kvc_status append(Request& request, const int32_t* tokens, size_t count, CopyList& copies) const {
    return requests_.append(request, tokens, count, &copies);
  }
  kvc_status preempt(Request& request) const { return requests_.preempt(request); }
  kvc_status truncate(Request& request, uint64_t length) const { return requests_.truncate(request, length); }
  kvc_status end(Request& request) const { return requests_.end(request); }

  // Tokens that get slots once `known` are known.
  uint64_t capacity_for(const Request& request, uint64_t known) const {
    return requests_.capacity_for(request, known);
  }
  uint64_t last_shortage() const { return Blocks::last_shortage(); }
  void retire(uint64_t step_id) const { blocks_.retire(step_id); }
  uint64_t retired() const { return blocks_.retired(); }
  // From now on the step may be in flight, and what is released waits for it: the sources of its copies
  // first.
  void issue(uint64_t step_id, const CopyList& copies) const {
    blocks_.issue(step_id);
    requests_.release_sources(copies);
  }

  // The lane of a request: Request::open_lane().
  void open_lane(Request& request) const { requests_.open_lane(request); }
  bool lane_takes(const Request& request, int32_t token) const {
    return requests_.lane_takes(request, token);
  }
  void lane_commit(Request& request, uint64_t committed) const { requests_.lane_commit(request, committed); }
  void prefetch(uint64_t id) const { requests_.prefetch(id); }
  void prefetch_tail(uint64_t id) const { requests_.prefetch_tail(id); }
  void prefetch_record(const Request& request) const { requests_.prefetch_record(request); }
  void prefetch_growth(const Request& request) const { requests_.prefetch_growth(request); }
  void prefetch_publication(Request& request) const { requests_.prefetch_publication(request); }

 private:
  Monitor& monitor_;
  Blocks& blocks_;
  Requests& requests_;
};

}  // namespace kvc
