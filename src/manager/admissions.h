// SPDX-License-Identifier: Apache-2.0
// Admissions in five phases: match finds what is cached, plan says what is taken out of each pool, reserve
// makes sure of room and memory; then nothing can fail: hold keeps what was found, begin takes the rest and
// lets the request run. A probe ends after the plan, and a batch (batch.h) holds the hits of all before the
// first begins.
#pragma once
#include "manager/curves.h"
#include "manager/features.h"

namespace kvc {

class Admissions : protected RequestPart {
 public:
  Admissions(const RequestPart& part, Features& features, Curves& curves)
      : RequestPart(part), features_(features), curves_(curves) {}
  [[nodiscard]] bool create(Memory& memory) { return lost_.create(memory, shape_.num_groups); }

  // BUFFER_TOO_SMALL if the table could outgrow max_positions. `step_id`: the step that admits, 0 = none
  // does; `copies` is its list, or nullptr.
  kvc_status admit(Request& request, size_t max_positions, uint64_t step_id, CopyList* copies);
  // What an admission of a waiting request would find and take.
  kvc_status probe(const Request& request, kvc_probe_info* info);
  // A request is admitted, or is not any more.
  void count(const Request& request, bool admitted) {
    admitted ? ++num_admitted_ : --num_admitted_;
    blocks_.shares.count_admitted(request.ns, admitted ? 1 : ~uint64_t{0});
  }

  const uint64_t& num_admitted() const { return num_admitted_; }
  uint64_t num_admitted_of(NamespaceId ns) const {
    uint64_t admitted = 0;
    requests_.each_admitted([&](const Request& request) { admitted += request.ns == ns; });
    return admitted;
  }
  // Whether requests are admitted that could give blocks of this one's share back.
  bool has_others(const Request& request) const {
    return blocks_.shares.num_admitted(request.ns, num_admitted_) != 0;
  }
  // Blocks of each pool that its admission leaves available now.
  uint64_t watermark(const Request& request) const { return has_others(request) ? shape_.watermark : 0; }
  // Positions and blocks that one admission visited at most.
  uint64_t longest() const { return longest_; }
  const LostCounters& lost(size_t group) const { return lost_[group]; }

  // For features that plan otherwise. The hit of its tokens, of at most `limit` positions; what is taken with
  // that, or so many slots.
  Prompt prompt_of(const Request& request, const AdmissionPlan& plan) const {
    return {request.tail.data, request.hashes.data, request.key_list(), request.ns, plan.epoch};
  }
  kvc_status find(const Request& request, size_t limit, AdmissionPlan* plan) {
    return matcher_.match(prompt_of(request, *plan), limit, request.drop_tail_blocks, plan->behind,
                          &plan->hit);
  }
  void plan_blocks(const Request& request, AdmissionPlan* plan) const;
  void plan_demand(const Request& request, const AdmittedSlots& slots, AdmissionPlan* plan) const;

 private:
  friend class Batch;

  kvc_status match(const Request& request, AdmissionPlan* plan);
  // What the admission takes out of each pool: new blocks, and hits that nobody holds yet.
  kvc_status plan(const Request& request, AdmissionPlan* plan) {
    plan_blocks(request, plan);
    return features_.try_each([&](const auto& feature) { return feature.refine(request, *this, plan); });
  }
  kvc_status reserve(Request& request, bool single, const AdmissionPlan& plan);
  void hold(Request& request, const AdmissionPlan& plan);
  void begin(Request& request, const AdmissionPlan& plan, CopyList& copies);

  AdmittedSlots plan_slots(const Request& request, const AdmissionPlan& plan) const;
  Least least(const Request& request, const AdmissionPlan& plan) const;
  uint64_t lost_tokens(const AdmissionPlan& plan) const {
    const LostReuse& lost = plan.hit.lost;
    return uint64_t{lost.positions} * shape_.block_size -
           regained_tokens(lost, plan.hit.length, plan.head.tokens);
  }
  void count_first(const Request& request, const AdmissionPlan& plan);

  Features& features_;
  Curves& curves_;
  Array<LostCounters> lost_;  // by group
  uint64_t num_admitted_ = 0;
  uint64_t longest_ = 0;
};

}  // namespace kvc
