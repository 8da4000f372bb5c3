// SPDX-License-Identifier: Apache-2.0
#include "manager/heads.h"

#include "manager/admissions.h"

namespace kvc {

kvc_status Heads::refine(const Request& request, Admissions& admissions, AdmissionPlan* plan) const {
  if (plan->whole_blocks || request.drop_tail_blocks != 0 || request.external_tokens != 0) return KVC_OK;
  const size_t length = plan->hit.length;
  const NodeId last = length != 0 ? plan->hit.path[length - 1] : root_of(request.ns);
  plan->head =
      matcher_.find_head(admissions.prompt_of(request, *plan), last, length, hit_limit_tokens(request));
  if (plan->head.tokens == 0) return KVC_OK;
  admissions.plan_blocks(request, plan);
  if (blocks_.room.fits(plan->demand, request.ns, admissions.watermark(request))) return KVC_OK;
  plan->head = {};
  admissions.plan_blocks(request, plan);
  return KVC_OK;
}

}  // namespace kvc
