// SPDX-License-Identifier: Apache-2.0
// Headroom: room that admissions take for tokens to come, as many as ended requests have got, with
// KVC_MANAGER_HEADROOM.
#pragma once
#include "manager/feature.h"
#include "request/lengths.h"

namespace kvc {

class Headroom : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.has_headroom(); }
  // Tokens that a request with so many after its prompt will probably still get, as KVC_HEADROOM_* says.
  uint64_t expected_tokens(uint32_t headroom, uint64_t generated) const {
    constexpr uint32_t kPercent[] = {0, 50, 75, 95};
    return headroom == KVC_HEADROOM_NONE ? 0 : lengths_.rest(kPercent[headroom], generated);
  }
  bool intact() const { return lengths_.intact(); }

  void configured(Request& request, const kvc_request_config& config) {
    request.set_headroom(config.headroom);
  }
  void widen(const Request& request, const Admissions& admissions, AdmissionPlan* plan) const;
  void ended(const Request& request, bool over) {
    if (over && request.readmission) lengths_.add(request.known - request.prompt_len);
  }
  void digest_record(const Request& request, DigestHash* out) const {
    if (request.headroom != KVC_HEADROOM_NONE) out->add(request.headroom);
  }
  void digest_all(DigestHash* out) const {
    for (size_t i = 0; i < Lengths::kNumCounts; ++i) out->add(lengths_.count(i));
  }

 private:
  Lengths lengths_;
};

}  // namespace kvc
