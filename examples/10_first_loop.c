// SPDX-License-Identifier: Apache-2.0
// The first loop of an engine: requests, plans, a model, results. docs/SCHEDULER.md shows it.
#include <kvcache.h>
#include <stdio.h>
#include <stdlib.h>

static void check(kvc_status status) {
  if (status != KVC_OK) fprintf(stderr, "%s\n", kvc_last_error()), exit(1);
}

// Yours: item i has the tokens first_tokens[i] .. of requests[i]. Keys and values go to `slots`, attention
// reads row rows[i] of block_tables, and each item with samples[i] brings a token. Here a token is made up.
static void run_model(const kvc_plan* plan, int32_t* sampled) {
  for (size_t i = 0; i < plan->num_items; ++i)
    if (plan->samples[i]) *sampled++ = (int32_t)(plan->first_tokens[i] % 1000);
}

int main(void) {
  kvc_manager_config pool = {.struct_size = sizeof pool, .num_blocks = 64, .block_size = 16};
  kvc_manager* manager;
  check(kvc_manager_create(&pool, &manager));
  kvc_scheduler_config limits = {.struct_size = sizeof limits, .manager = manager, .max_running = 8};
  kvc_scheduler* s;
  check(kvc_scheduler_create(&limits, &s));
  int32_t tokens[100] = {1, 2, 3}, sampled[8];
  uint64_t ids[20];
  kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = 100};
  kvc_schedule_job job = {.struct_size = sizeof job, .prompt = &prompt, .max_new_tokens = 32};
  for (int i = 0; i < 20; ++i) check(kvc_scheduler_add(s, &job, &ids[i]));  // at any time

  for (size_t left = 20; left != 0;) {
    kvc_plan plan = {.struct_size = sizeof plan};
    check(kvc_scheduler_plan(s, 0, &plan));
    left -= plan.num_ended;             // requests that the pool is too small for
    if (plan.num_items == 0) continue;  // nothing can run now
    run_model(&plan, sampled);
    kvc_plan_result result = {.struct_size = sizeof result,
                              .plan_id = plan.plan_id,
                              .num_items = plan.num_items,
                              .tokens = sampled};
    check(kvc_scheduler_finish(s, &result));
    left -= result.num_ended;
    printf("%zu tokens of %zu requests; %zu requests are left\n", plan.num_tokens, plan.num_items, left);
  }
  kvc_scheduler_destroy(s);
  kvc_manager_destroy(manager);
}
