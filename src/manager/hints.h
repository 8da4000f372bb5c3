// SPDX-License-Identifier: Apache-2.0
// What the engine says of the future of requests, with KVC_MANAGER_HINTS: ranges of their positions with a
// priority, and the end of their sessions. docs/SEMANTICS.md, "Hints".
#pragma once
#include "manager/feature.h"
#include "request/hints.h"

namespace kvc {

class Hints : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.has_hints(); }
  [[nodiscard]] bool create(Memory& memory) { return of_.create(memory, shape_.max_requests); }

  kvc_status check_range(uint32_t priority, uint64_t until) const;
  kvc_status set_priority(const Request& request, const HintRange& range);
  kvc_status end_session(const Request& request, uint64_t shared_tokens) {
    RequestHints& hints = of_[index_of(request)];
    hints.session_over = true;
    hints.shared_positions = shape_.positions_within(shared_tokens);
    return KVC_OK;
  }

  void created(const Request& request) { of_[index_of(request)] = {}; }
  void begin(const Request& request, const AdmissionPlan& plan) { apply(request, 0, plan.slots.length); }
  void published(const Request& request, size_t begin, size_t end) { apply(request, begin, end); }
  void ended(const Request& request, bool over);
  void forked(const Request& parent, const Request& child) {
    RequestHints& hints = of_[index_of(child)];
    hints = of_[index_of(parent)];
    hints.session_over = false;
  }
  void digest(const Request& request, DigestHash* out) const;

 private:
  void apply(const Request& request, size_t begin, size_t end);

  Array<RequestHints> of_;  // by index of the request
};

}  // namespace kvc
