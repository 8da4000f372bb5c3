// SPDX-License-Identifier: Apache-2.0
// One fill per content, with KVC_MANAGER_FILLS: who computes which known tokens, which blocks steps in flight
// write, and who waits for them. docs/SEMANTICS.md, "Fills".
#pragma once
#include "manager/feature.h"
#include "request/fill_lists.h"

namespace kvc {

class Fills : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.has_fills(); }
  [[nodiscard]] bool create(Memory& memory) { return lists_.create(memory, shape_.max_requests); }

  // Whether a request holds what steps from `step_id` on were to write; which of two was admitted first.
  bool holds_filling(const Request& request, uint64_t step_id) const;
  bool came_before(uint32_t a, uint32_t b) const { return lists_[a].admission < lists_[b].admission; }

  void created(const Request& request) { lists_[index_of(request)] = {}; }
  void configured(const Request& request, const kvc_request_config& config) {
    lists_[index_of(request)].wait_until = config.wait_until_ns;
  }
  void run_behind(const Request& request, AdmissionPlan* plan) const;
  void tell(const Request& request, const AdmissionPlan& plan, kvc_probe_info* info) const;
  kvc_status wait(const Request& request, const AdmissionPlan& plan);
  void begin(Request& request, const AdmissionPlan& plan);
  void extended(const Request& request, uint32_t capacity_before) {
    uint32_t& enqueued = lists_[index_of(request)].enqueued;
    if (enqueued == capacity_before) enqueued = request.capacity;
  }
  void enqueued(const Request& request, uint64_t step_id, uint64_t* tokens) const;
  void rekeyed(const Request& request, uint64_t first);
  kvc_status check_ahead() const;
  // What a transfer has written says nothing of the steps that write the hit.
  bool is_computed(const Request& request, uint32_t committed) const {
    return committed > transfer_end(request);
  }
  bool marks_all(Request& request);
  void published(const Request& request, size_t, size_t) { follow(request); }
  // A step may publish what the request fills.
  bool opens_lane(const Request& request) const { return !lists_[index_of(request)].listed; }
  void truncated(const Request& request, uint32_t tokens);
  void ended(const Request& request, bool) { lists_.unlist(index_of(request)); }
  void forked(const Request& parent, const Request& child) {
    FillLists::Of& fill = lists_[index_of(child)];
    fill.wait_until = lists_[index_of(parent)].wait_until;
    fill.admission = ++admissions_;
  }
  void publish_ahead(const Request& request, uint32_t* tokens) const {
    *tokens = std::min(lists_[index_of(request)].end, request.capacity);
  }
  kvc_status check(size_t index, const Request& request) const;
  void digest(const Request& request, DigestHash* out) const;

 private:
  bool fills(const Request& request) const;
  void follow(const Request& request);
  bool find(const Request& request, const AdmissionPlan& plan, uint64_t* filler) const;
  uint32_t filling_groups(const Request& request, size_t position) const;

  FillLists lists_;
  uint64_t admissions_ = 0;  // and forks
};

}  // namespace kvc
