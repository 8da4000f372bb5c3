// SPDX-License-Identifier: Apache-2.0
// Room that admissions reserve for tokens to come, as many as ended requests have got.
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

uint64_t Requests::expected_tokens(uint32_t reserve, uint64_t generated) const {
  constexpr uint32_t kPercent[] = {0, 50, 75, 95};
  return reserve == KVC_RESERVE_NONE ? 0 : lengths_.rest(kPercent[reserve], generated);
}

void Requests::note_length(const Request& request) {
  if (request.readmission) lengths_.add(request.known - request.prompt_len);
}

// An admission that would take `counted` positions takes more, if something is expected. It is refused if
// that does not fit, unless nobody is admitted who could give blocks back.
void Requests::plan_reserve(const Request& request, size_t max_positions, size_t counted,
                            AdmissionPlan* admission) const {
  const uint64_t rest = expected_tokens(request.reserve, request.known - request.prompt_len);
  if (rest == 0) return;
  const uint64_t most = max_positions < shape_.max_request_tokens ? max_positions * shape_.block_size
                                                                  : shape_.max_request_tokens;
  const uint64_t capacity = std::min(capacity_for(request, request.known + rest), most);
  if (capacity <= admission->capacity) return;
  const size_t positions = shape_.positions_of(capacity);
  Demand demand = admission->demand;
  for (uint32_t g = 0; g < shape_.num_groups && positions > counted; ++g)
    demand.blocks[shape_.groups[g].pool] += positions - counted;
  if (blocks_.num_admitted(request.ns, num_admitted_) == 0 && !blocks_.fits(demand, request.ns, 0)) return;
  admission->demand = demand;
  admission->capacity = capacity;
  admission->positions = positions;
}

}  // namespace kvc
