// SPDX-License-Identifier: Apache-2.0
// Partial reuse, with KVC_MANAGER_PARTIAL_REUSE: a hit may go on with the head of a block, which is copied.
#pragma once
#include "manager/feature.h"

namespace kvc {

class Heads : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.reuses_heads(); }

  void add_demand(const Request&, AdmissionPlan* plan) const {
    for (uint32_t g = 0; g < shape_.num_token_groups && plan->head.tokens != 0; ++g)
      plan->demand.add_hit(blocks_.pool()[blocks_.tree().block_of(plan->head.node, g)]);
  }
  kvc_status refine(const Request& request, Admissions& admissions, AdmissionPlan* plan) const;
  void add_copies(size_t* copies) const { ++*copies; }
  bool reserve(Request&, const AdmissionPlan& plan, bool single) {
    return plan.head.tokens == 0 || !single || copies_.reserve(shape_.num_token_groups);
  }
  // What is copied is held before any block is taken.
  void hold(Request&, const AdmissionPlan& plan) {
    for (uint32_t g = 0; g < shape_.num_token_groups && plan.head.tokens != 0; ++g)
      blocks_.hold(blocks_.tree().block_of(plan.head.node, g));
  }
  // The copy in a group's table, behind the hit.
  void copy(Request& request, GroupIndex group, const AdmissionPlan& plan, CopyList& list) {
    BlockId& copy = request.groups[group].blocks.data[plan.slots.length];
    copy = blocks_.take_copy(group, request.ns, true);
    list.add(blocks_.tree().block_of(plan.head.node, group), copy);
    ++counters_.copies;
  }
  void digest_record(const Request& request, DigestHash* out) const { out->add(request.num_cached); }
};

}  // namespace kvc
