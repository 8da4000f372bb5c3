// SPDX-License-Identifier: Apache-2.0
// Rows of the scheduler.
#include "calls.h"
#include "hardening/every_call.h"

namespace kvc::test {
namespace {

bool scheduler_opened(Scene& s) { return s.scheduler.open(); }
bool added(Scene& s) { return s.scheduler.add(); }
bool running(Scene& s) { return s.scheduler.run(); }

}  // namespace

void add_scheduler_calls(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_scheduler_create, &s.scheduler.config, &s.scheduler.made).allocating());
  calls.push_back(
      KVC_CALL(kvc_scheduler_destroy, std::exchange(s.scheduler.scheduler, nullptr)).after(running));
  calls.push_back(KVC_CALL(kvc_scheduler_add, s.scheduler.scheduler, &s.scheduler.job, s.scheduler.request)
                      .after(scheduler_opened)
                      .allocating());
  calls.push_back(KVC_CALL(kvc_scheduler_abort, s.scheduler.scheduler, s.scheduler.request[0])
                      .as("waiting")
                      .after(added));
  calls.push_back(KVC_CALL(kvc_scheduler_abort, s.scheduler.scheduler, s.scheduler.request[0])
                      .as("running")
                      .after(running));
  calls.push_back(
      KVC_CALL(kvc_scheduler_set_ready, s.scheduler.scheduler, s.scheduler.request[0]).after(added));
  calls.push_back(
      KVC_CALL(kvc_scheduler_set_priority, s.scheduler.scheduler, s.scheduler.request[0], 1).after(added));
  calls.push_back(KVC_CALL(kvc_scheduler_set_weight, s.scheduler.scheduler, 0u, 2.0).after(scheduler_opened));
  calls.push_back(KVC_CALL(kvc_scheduler_set_drafts, s.scheduler.scheduler, s.scheduler.request,
                           s.scheduler.num_drafts, 1u)
                      .after(added));
  calls.push_back(KVC_CALL(kvc_scheduler_plan, s.scheduler.scheduler, 0u, &s.scheduler.plan).after(added));
  calls.push_back(KVC_CALL(kvc_scheduler_finish, s.scheduler.scheduler, &s.scheduler.result).after(running));
  calls.push_back(
      KVC_CALL(kvc_scheduler_request_info, s.scheduler.scheduler, s.scheduler.request[0], &s.scheduler.info)
          .after(added));
  calls.push_back(KVC_CALL(kvc_scheduler_read_stats, s.scheduler.scheduler, &s.scheduler.stats).after(added));
  calls.push_back(KVC_CALL(kvc_scheduler_check, s.scheduler.scheduler).after(running));
}

}  // namespace kvc::test
