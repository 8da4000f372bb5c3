// SPDX-License-Identifier: Apache-2.0
// Admissions that are made all or none: docs/SEMANTICS.md, "Steps". They are planned one after the other as
// if those before had been made: what a plan finds counts as held, and what it takes as gone. Then either all
// are made, or cancel() leaves no trace. Everything happens under one hold of the manager's lock, the
// destructor included; no other call may see the state between.
#pragma once
#include "manager/admissions.h"

namespace kvc {

// What lets those of the same share behind it wait too.
inline bool lacks_space(kvc_status status) {
  return status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN || status == KVC_ERROR_OVER_QUOTA;
}

class Batch : private RequestPart {
 public:
  explicit Batch(Admissions& admissions)
      : RequestPart(admissions), admissions_(admissions), features_(admissions.features_) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // A waiting or new request. It counts as admitted until cancel(). `slots`: instead of its own, 0 = its own.
  kvc_status plan(Request& request, uint64_t slots, size_t max_positions, uint64_t step_id);
  void cancel() {
    take_back();
    for (size_t i = 0; i < count_; ++i) planned_.data[i].request->slots = planned_.data[i].own_slots;
    count_ = path_size_ = 0;
  }
  // Admits all that are planned.
  void admit(CopyList& copies);

 private:
  struct Planned {
    Request* request;
    uint32_t own_slots;
    size_t path;  // where it begins in paths_
    AdmissionPlan plan;
    uint64_t taken[kMaxPools];
  };
  struct Hit {
    BlockId block;
    List was;
  };

  // Of its encoder, if that is cached or not.
  size_t cross_positions(const Planned& planned, bool cached) const {
    const uint32_t tokens = planned.request->cross_tokens;
    return tokens != 0 && planned.plan.cross_cached == cached ? shape_.positions_of(tokens) : 0;
  }
  template <typename Visit>
  void each_hit(const Planned& planned, Visit&& visit) const;
  bool reserve(const Request& request, const AdmissionPlan& plan) {
    const size_t cross = shape_.positions_of(request.cross_tokens), positions = plan.slots.length + cross;
    return planned_.reserve(arena_, count_ + 1, count_) &&
           paths_.reserve(arena_, path_size_ + positions, path_size_) &&
           hits_.reserve(arena_, num_hits_ + positions * shape_.num_groups, num_hits_);
  }
  void expect(Planned& planned);
  void take_back();

  Admissions& admissions_;
  Features& features_;
  Buffer<Planned> planned_ = {};
  Buffer<NodeId> paths_ = {};
  Buffer<Hit> hits_ = {};
  size_t count_ = 0, path_size_ = 0, num_hits_ = 0;
};

}  // namespace kvc
