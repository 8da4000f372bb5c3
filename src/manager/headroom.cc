// SPDX-License-Identifier: Apache-2.0
#include "manager/headroom.h"

#include <algorithm>

#include "manager/admissions.h"

namespace kvc {

// If something is expected, it must fit too, and an admission takes it at once; beside windows, whose blocks
// come and go, only as much as without. Unless nobody is admitted who could give blocks back.
void Headroom::widen(const Request& request, const Admissions& admissions, AdmissionPlan* plan) const {
  const uint64_t rest = expected_tokens(request.headroom, request.known - request.prompt_len);
  if (rest == 0) return;
  const uint64_t most = plan->max_positions < shape_.max_request_tokens
                            ? plan->max_positions * shape_.block_size
                            : shape_.max_request_tokens;
  const uint64_t capacity = std::min(capacity_for(request, request.known + rest), most);
  const AdmittedSlots without = plan->slots;
  if (capacity <= without.capacity) return;
  AdmittedSlots slots = without;
  slots.whole = std::max(slots.whole, capacity);
  if (shape_.window_groups == 0) slots.capacity = capacity;
  admissions.plan_demand(request, slots, plan);
  if (!admissions.has_others(request) && !blocks_.room.fits(plan->demand, request.ns, 0))
    admissions.plan_demand(request, without, plan);
}

}  // namespace kvc
