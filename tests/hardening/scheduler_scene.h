// SPDX-License-Identifier: Apache-2.0
// Inputs and results of the calls of kvcache/scheduler.h. The scheduler is made for a call and ended by
// clean(), with its requests.
#pragma once
#include <kvcache/request.h>
#include <kvcache/scheduler.h>

namespace kvc::test {

struct SchedulerScene {
  kvc_scheduler_config config = {};
  kvc_scheduler *scheduler = nullptr, *made = nullptr;
  kvc_prompt prompt = {};
  kvc_schedule_job job = {};
  uint64_t request[1] = {};
  uint32_t num_drafts[1] = {1};
  kvc_plan plan = {};
  kvc_plan_result result = {};
  uint64_t offsets[2] = {0, 1};
  int32_t sampled[1] = {1};
  kvc_ended_request ended[1] = {};
  kvc_scheduled_info info = {};
  kvc_scheduler_stats stats = {};

  SchedulerScene() = default;
  SchedulerScene(const SchedulerScene&) = delete;
  ~SchedulerScene() { clean(); }
  void bind(kvc_manager* manager, const int32_t* tokens) {
    config.struct_size = sizeof config;
    config.manager = manager;
    config.max_running = 2, config.max_tokens = 32, config.max_drafts = 2, config.max_request_tokens = 64;
    prompt.struct_size = sizeof prompt;
    prompt.tokens = tokens, prompt.num_tokens = 20;
    job.struct_size = sizeof job;
    job.prompt = &prompt, job.max_new_tokens = 4;
    plan.struct_size = sizeof plan, result.struct_size = sizeof result;
    info.struct_size = sizeof info, stats.struct_size = sizeof stats;
  }
  bool open() { return kvc_scheduler_create(&config, &scheduler) == KVC_OK; }
  bool add() { return open() && kvc_scheduler_add(scheduler, &job, request) == KVC_OK; }
  // A plan is in flight, whose result is `result`. Where others hold blocks it may have a part of the prompt.
  bool run() {
    if (!add() || kvc_scheduler_plan(scheduler, 0, &plan) != KVC_OK || plan.num_items != 1) return false;
    if (plan.samples[0] == 0) return false;
    result.plan_id = plan.plan_id, result.num_items = 1;
    result.token_offsets = offsets, result.tokens = sampled, result.ended = ended;
    return true;
  }
  void clean() {
    kvc_scheduler_destroy(scheduler);
    kvc_scheduler_destroy(made);
    scheduler = made = nullptr;
    request[0] = 0;
  }
};

}  // namespace kvc::test
