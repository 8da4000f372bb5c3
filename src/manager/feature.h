// SPDX-License-Identifier: Apache-2.0
// What a feature may add to the lives of requests. Each hook does nothing here; a feature has its own in the
// place of those that it needs. They are not virtual: Features (features.h) calls them by type, in the order
// of its list, and only those of features that the manager has.
//
// What a pointer names has a value before the first hook. add_*() and digest*() add to it. Of the others that
// name a number (run_behind, enqueued, keep_slots, publish_ahead) each overwrites it or leaves it alone, so
// the last one decides; restrict() makes the range wider or leaves it.
#pragma once
#include "manager/admission.h"
#include "manager/request_part.h"

struct kvc_probe_info;

namespace kvc {

class Admissions;

// The nearest lengths at or below and at or above some tokens that a truncation could keep.
struct Restorable {
  uint64_t lower, higher;
};

class Feature : protected RequestPart {
 public:
  explicit Feature(const RequestPart& part) : RequestPart(part) {}
  [[nodiscard]] bool create(Memory&) { return true; }

  // A record is taken, gets its options, and is given back.
  void created(const Request&) {}
  void configured(Request&, const kvc_request_config&) {}
  void discarded(const Request&) {}

  // ---- admission: match, plan, reserve; then what cannot fail: hold, begin

  // The step behind which the request runs, if it is not the last that is retired.
  void run_behind(const Request&, AdmissionPlan*) const {}
  kvc_status match(const Request&, AdmissionPlan*) { return KVC_OK; }
  void add_demand(const Request&, AdmissionPlan*) const {}
  // More slots than the request needs, if they fit.
  void widen(const Request&, const Admissions&, AdmissionPlan*) const {}
  // Another plan instead of the first, if that is better or the only one that can fit.
  kvc_status refine(const Request&, Admissions&, AdmissionPlan*) const { return KVC_OK; }
  // What a probe tells beside the plan.
  void tell(const Request&, const AdmissionPlan&, kvc_probe_info*) const {}
  // Whether to admit now.
  kvc_status wait(const Request&, const AdmissionPlan&) { return KVC_OK; }
  // Memory. `single`: the admission's copies wait.
  bool reserve(Request&, const AdmissionPlan&, bool /*single*/) { return true; }
  void hold(Request&, const AdmissionPlan&) {}
  void begin(Request&, const AdmissionPlan&) {}
  // What the request can never do without, in an admission or (`grows`) for one position more.
  void add_least(const Request&, bool /*grows*/, Least*) const {}
  // Copies that an admission may make in each group.
  void add_copies(size_t*) const {}

  // ---- growth

  // A step has given it slots, behind those up to `capacity_before`; it will write so many tokens in order.
  void extended(const Request&, uint32_t /*capacity_before*/) {}
  void enqueued(const Request&, uint64_t /*step_id*/, uint64_t* /*tokens*/) const {}
  // What identifies its tokens from `first` on has changed.
  void rekeyed(const Request&, uint64_t /*first*/) {}
  // Tokens are committed ahead of the step that computes them; so many are committed.
  kvc_status check_ahead() const { return KVC_OK; }
  kvc_status check_commit(const Request&, uint32_t /*committed*/) const { return KVC_OK; }
  // Whether such a commit says that all before it is computed.
  bool is_computed(const Request&, uint32_t /*committed*/) const { return true; }
  // False: it has marked itself what is written of the committed tokens.
  bool marks_all(Request&) { return true; }
  // Positions [begin, end) were published, or the request has just stopped publishing.
  void published(const Request&, size_t /*begin*/, size_t /*end*/) {}
  bool opens_lane(const Request&) const { return true; }

  // ---- shrinking

  void restrict(const Request&, Restorable*) const {}
  // Slots that a truncation to `tokens` keeps.
  void keep_slots(const Request&, uint32_t /*tokens*/, uint32_t* /*slots*/) const {}
  void truncated(const Request&, uint32_t /*tokens*/) {}
  // The blocks of its token groups are released.
  void released(Request&, bool /*stale*/) {}
  // It holds no blocks any more, but still its cursor; `over`: it will be no more.
  void ended(const Request&, bool /*over*/) {}

  // ---- forks: check, reserve; then what cannot fail

  kvc_status check_fork(const Request&) const { return KVC_OK; }
  kvc_status reserve_fork(const Request& /*parent*/, Request& /*child*/) { return KVC_OK; }
  void forked(const Request& /*parent*/, Request& /*child*/) {}

  // ---- what tests see

  // Tokens up to which it may have published more than is committed.
  void publish_ahead(const Request&, uint32_t* /*tokens*/) const {}
  kvc_status check(size_t /*index*/, const Request&) const { return KVC_OK; }
  kvc_status check_position(NodeId, uint32_t /*resident*/) const { return KVC_OK; }
  // What decides future answers: of a request's record, of its tables, beside it; of no request.
  void digest_record(const Request&, DigestHash*) const {}
  void digest_tables(const Request&, DigestHash*) const {}
  void digest(const Request&, DigestHash*) const {}
  void digest_all(DigestHash*) const {}
};

}  // namespace kvc
