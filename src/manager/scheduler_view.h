// SPDX-License-Identifier: Apache-2.0
// What a scheduler needs of the manager, and all that a step uses: to admit, extend, commit, truncate,
// preempt and end requests, to retire steps, and to learn what a refusal lacked.
#pragma once
#include "manager/batch.h"
#include "manager/monitor.h"

namespace kvc {

class SchedulerView {
 public:
  SchedulerView(Monitor& monitor, Blocks& blocks, Requests& requests)
      : monitor_(monitor), blocks_(blocks), requests_(requests) {}

  // The lock of a call that changes state, and of one that does not.
  Guard lock() const { return Guard(monitor_); }
  std::mutex& mutex() const { return monitor_.mutex(); }

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

  // All below are called with the lock.
  uint64_t locked_share_of(uint64_t waiting, uint64_t namespace_id) const {
    return blocks_.quotas().on() ? uint64_t{1} << class_of(waiting, namespace_id) : 1;
  }
  Request* peek(uint64_t id) const { return requests_.peek(id); }
  kvc_status find(uint64_t id, bool must_be_admitted, Request** request) const {
    return requests_.find(id, must_be_admitted, request);
  }
  const RequestTable& table() const { return requests_.table(); }
  RequestTable::Records records() const { return requests_.records(); }
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
  bool commit_usual(Request& request, uint64_t committed) const {
    return requests_.commit_usual(request, committed);
  }
  int64_t append_usual(Request& request, int32_t token) const {
    return requests_.append_usual(request, token);
  }
  void enqueue(Request& request, uint64_t step_id) const {
    if (step_id != 0 && requests_.shape().has_fills()) [[unlikely]]
      requests_.enqueue(request, step_id);
  }
  void enqueue_extension(Request& request, uint32_t capacity_before, uint64_t step_id) const {
    if (requests_.shape().has_fills()) [[unlikely]]
      requests_.enqueue_extension(request, capacity_before, step_id);
  }
  Batch batch() const { return Batch(requests_, blocks_); }
  void publish(Request& request) const { requests_.publish(request); }
  void discard(Request& request) const { requests_.discard(request); }
  Request& record(size_t index) const { return requests_.record(index); }
  kvc_status preempt(Request& request) const { return requests_.preempt(request); }
  kvc_status truncate(Request& request, uint64_t length) const { return requests_.truncate(request, length); }
  kvc_status end(Request& request) const { return requests_.end(request); }

  // Tokens that get slots once `known` are known.
  uint64_t capacity_for(const Request& request, uint64_t known) const {
    return requests_.capacity_for(request, known);
  }
  uint64_t last_shortage() const { return Room::last_shortage(); }
  void retire(uint64_t step_id) const { blocks_.retire(step_id); }
  kvc_status check_time(uint64_t now_ns) const { return blocks_.levels().check_time(now_ns); }
  void pass_time(uint64_t now_ns) const { blocks_.levels().pass_time(now_ns); }
  // The step may be in flight from now on: what is released waits for it, the sources of its copies first.
  void issue(uint64_t step_id, const CopyList& copies) const {
    blocks_.issue(step_id);
    requests_.release_sources(copies);
  }

  // The lane of a request: see Request.
  void open_lane(Request& request) const { requests_.open_lane(request); }
  void lane_commit(Request& request, uint64_t committed) const { requests_.lane_commit(request, committed); }
  void prefetch_growth(const Request& request) const { requests_.prefetch_growth(request); }
  void prefetch_publication(Request& request) const { requests_.prefetch_publication(request); }

 private:
  ClassIndex class_of(uint64_t waiting, uint64_t namespace_id) const;

  Monitor& monitor_;
  Blocks& blocks_;
  Requests& requests_;
};

}  // namespace kvc
