// SPDX-License-Identifier: Apache-2.0
// Headroom: room that admissions take for tokens to come, as many as ended requests have got.
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

uint64_t Requests::expected_tokens(uint32_t headroom, uint64_t generated) const {
  constexpr uint32_t kPercent[] = {0, 50, 75, 95};
  return headroom == KVC_HEADROOM_NONE ? 0 : lengths_.rest(kPercent[headroom], generated);
}

void Requests::note_length(const Request& request) {
  if (request.readmission) lengths_.add(request.known - request.prompt_len);
}

// If something is expected, it must fit too, and an admission takes it at once; beside windows, whose blocks
// come and go, only as much as without. Unless nobody is admitted who could give blocks back.
void Requests::plan_headroom(const Request& request, size_t max_positions, AdmissionPlan* admission) const {
  const uint64_t rest = expected_tokens(request.headroom, request.known - request.prompt_len);
  if (rest == 0) return;
  const uint64_t most = max_positions < shape_.max_request_tokens ? max_positions * shape_.block_size
                                                                  : shape_.max_request_tokens;
  const uint64_t capacity = std::min(capacity_for(request, request.known + rest), most);
  const AdmittedSlots without = admission->slots;
  if (capacity <= without.capacity) return;
  AdmittedSlots slots = without;
  slots.whole = std::max(slots.whole, capacity);
  if (shape_.window_groups == 0) slots.capacity = capacity;
  plan_demand(request, slots, admission);
  if (blocks_.shares().num_admitted(request.ns, num_admitted_) == 0 &&
      !blocks_.room().fits(admission->demand, request.ns, 0))
    plan_demand(request, without, admission);
}

}  // namespace kvc
