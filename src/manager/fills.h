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
  // A request that shares runs behind the step that admits it, else behind those that were issued.
  void run_behind(const Request& request, AdmissionPlan* plan) const {
    if ((request.flags & KVC_REQUEST_SHARE_FILLING) == 0) return;
    plan->behind = plan->step_id != 0 ? plan->step_id : blocks_.issued();
  }
  void tell(const Request& request, const AdmissionPlan& plan, kvc_probe_info* info) const;
  kvc_status wait(const Request& request, const AdmissionPlan& plan);
  void begin(Request& request, const AdmissionPlan& plan);
  void extended(const Request& request, uint32_t capacity_before) {
    uint32_t& enqueued = lists_[index_of(request)].enqueued;
    if (enqueued == capacity_before) enqueued = request.capacity;
  }
  void enqueued(const Request& request, uint64_t step_id, uint64_t* tokens) const;
  void rekeyed(const Request& request, uint64_t first) {
    FillLists::Of& fill = lists_[index_of(request)];
    if (fill.end > first) fill.end = static_cast<uint32_t>(first);
    follow(request);
  }
  kvc_status check_ahead() const {
    return fail(KVC_ERROR_UNSUPPORTED,
                "the manager follows fills, which a commit ahead of its step would end: publish by enqueued "
                "steps, or commit computed tokens alone");
  }
  // What a transfer has written says nothing of the steps that write the hit.
  bool is_computed(const Request& request, uint32_t committed) const {
    return committed > transfer_end(request);
  }
  bool marks_all(Request& request);
  void published(const Request& request, size_t, size_t) { follow(request); }
  // A step may publish what the request fills.
  bool opens_lane(const Request& request) const { return !lists_[index_of(request)].listed; }
  void truncated(const Request& request, uint32_t tokens) {
    FillLists::Of& fill = lists_[index_of(request)];
    if (fill.end > tokens) fill.end = tokens;
    if (fill.enqueued > tokens) fill.enqueued = tokens;
    follow(request);
  }
  void ended(const Request& request, bool) { lists_.unlist(index_of(request)); }
  void forked(const Request& parent, const Request& child) {
    FillLists::Of& fill = lists_[index_of(child)];
    fill.wait_until = lists_[index_of(parent)].wait_until;
    fill.admission = ++admissions_;
  }
  void publish_ahead(const Request& request, uint32_t* tokens) const {
    *tokens = std::min(lists_[index_of(request)].end, request.capacity);
  }
  kvc_status check(size_t index, const Request& request) const {
    const bool fills_now = fills(request);
    KVC_CHECK(lists_[index_of(request)].listed == fills_now, "request %zu %s, its fill is %slisted", index,
              fills_now ? "fills" : "does not fill", fills_now ? "not " : "");
    return KVC_OK;
  }
  void digest(const Request& request, DigestHash* out) const {
    const FillLists::Of& fill = lists_[index_of(request)];
    out->add(fill.wait_until);
    out->add(request.admitted ? fill.end | uint64_t{fill.enqueued} << 32 : 0);
    out->add(request.admitted ? fill.admission : 0);
  }

 private:
  // Whether the request fills the position after its published ones: as long as it knew it when it was
  // admitted.
  bool fills(const Request& request) const {
    return request.next_full <= lists_[index_of(request)].end && request.published < request.num_hashes;
  }
  void follow(const Request& request);
  bool find(const Request& request, const AdmissionPlan& plan, uint64_t* filler) const;
  uint32_t filling_groups(const Request& request, size_t position) const;

  FillLists lists_;
  uint64_t admissions_ = 0;  // and forks
};

}  // namespace kvc
