// SPDX-License-Identifier: Apache-2.0
// Partial reuse, with KVC_MANAGER_PARTIAL_REUSE: a hit may go on with the head of a block, which is copied.
#pragma once
#include "manager/feature.h"

namespace kvc {

class Heads : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.reuses_heads(); }

  void add_demand(const Request& request, AdmissionPlan* plan) const;
  kvc_status refine(const Request& request, Admissions& admissions, AdmissionPlan* plan) const;
  void add_copies(size_t* copies) const { ++*copies; }
  bool reserve(Request&, const AdmissionPlan& plan, bool single) {
    return plan.head.tokens == 0 || !single || copies_.reserve(shape_.num_token_groups);
  }
  // What is copied is held before any block is taken.
  void hold(Request& request, const AdmissionPlan& plan);
  // The copy in a group's table, behind the hit.
  void copy(Request& request, GroupIndex group, const AdmissionPlan& plan, CopyList& list);
  void digest_record(const Request& request, DigestHash* out) const { out->add(request.num_cached); }
};

}  // namespace kvc
