/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a scenario about a scheduler, for the runners of C and C++. */
#ifndef KVC_TESTS_SCENARIO_SCHEDULER_H
#define KVC_TESTS_SCENARIO_SCHEDULER_H

#include <inttypes.h>
#include <kvcache/scheduler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../calls.h"

enum { kScheduledNames = 32, kPlansInFlight = 8, kScheduledItems = 64 };

/* The scheduler of the scenario, the plans in flight, the oldest first, and the last plan that was made. */
static kvc_scheduler* scenario_scheduler;
static kvc_plan plans_in_flight[kPlansInFlight + 1], last_plan;
static size_t num_in_flight;

static inline int is_scheduler_line(const char* word) {
  static const char* const kWords[] = {"scheduler", "schedule", "draft", "plan",
                                       "finish",    "undone",   "abort", "scheduled"};
  for (size_t i = 0; i < sizeof kWords / sizeof *kWords; ++i)
    if (strcmp(word, kWords[i]) == 0) return 1;
  return 0;
}

/* The name of a request; -1 = it has none. */
static inline int name_of(const uint64_t* ids, uint64_t id) {
  for (int name = 0; name < kScheduledNames; ++name)
    if (ids[name] == id) return name;
  return -1;
}

static inline kvc_status scheduler_create_line(kvc_manager* m, const int64_t* a) {
  kvc_scheduler_config config;
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config, config.manager = m;
  config.policy = (uint32_t)a[0], config.admission = (uint32_t)a[1];
  config.max_running = (uint32_t)a[2], config.max_tokens = (uint32_t)a[3];
  config.max_plans = (uint32_t)a[4], config.max_drafts = (uint32_t)a[5];
  kvc_scheduler_destroy(scenario_scheduler);
  scenario_scheduler = NULL, num_in_flight = 0;
  return kvc_scheduler_create(&config, &scenario_scheduler);
}

static inline kvc_status scheduler_add_line(uint64_t ns, uint64_t* ids, const int64_t* a) {
  int32_t tokens[1024];
  kvc_schedule_job job;
  memset(&job, 0, sizeof job);
  for (int64_t i = 0; i < a[3]; ++i) tokens[i] = (int32_t)(a[2] + i);
  const kvc_prompt prompt = {sizeof prompt, ns, tokens, (size_t)a[3], NULL, 0};
  job.struct_size = sizeof job, job.prompt = &prompt;
  job.max_new_tokens = (uint64_t)a[4], job.priority = (int32_t)a[5];
  return kvc_scheduler_add(scenario_scheduler, &job, &ids[a[0]]);
}

static inline kvc_status plan_line(const uint64_t* ids, const int64_t* a, char* text) {
  kvc_plan plan;
  memset(&plan, 0, sizeof plan);
  plan.struct_size = sizeof plan;
  const kvc_status status = kvc_scheduler_plan(scenario_scheduler, (uint64_t)a[0], &plan);
  if (status != KVC_OK) return status;
  last_plan = plan;
  if (plan.num_items != 0) plans_in_flight[num_in_flight++] = plan;
  text += sprintf(text, " %" PRIu64, plan.plan_id);
  for (size_t i = 0; i < plan.num_items; ++i)
    text += sprintf(text, " %d:%" PRIu64 "+%" PRIu64 "/%" PRIu32 "%s", name_of(ids, plan.requests[i]),
                    plan.first_tokens[i], plan.token_offsets[i + 1] - plan.token_offsets[i],
                    plan.num_drafts[i], plan.samples[i] != 0 ? "!" : "");
  for (size_t i = 0; i < plan.num_preempted; ++i)
    text += sprintf(text, " -%d", name_of(ids, plan.preempted[i]));
  for (size_t i = 0; i < plan.num_ended; ++i)
    text += sprintf(text, " x%d", name_of(ids, plan.ended[i].request));
  return KVC_OK;
}

/* The oldest plan brings a token for each item that samples, or failed. */
static inline kvc_status finish_line(const uint64_t* ids, int32_t token, int failed, char* text) {
  const kvc_plan plan = num_in_flight != 0 ? plans_in_flight[0] : last_plan;
  uint64_t offsets[kScheduledItems + 1] = {0};
  int32_t tokens[kScheduledItems];
  kvc_ended_request ended[kScheduledItems];
  for (size_t i = 0; i < plan.num_items; ++i) {
    tokens[i] = token;
    if (num_in_flight != 0) offsets[i + 1] = offsets[i] + plan.samples[i];
  }
  kvc_plan_result result;
  memset(&result, 0, sizeof result);
  result.struct_size = sizeof result, result.plan_id = plan.plan_id, result.num_items = plan.num_items;
  result.token_offsets = offsets, result.tokens = tokens, result.ended = ended;
  result.flags = failed ? KVC_RESULT_FAILED : 0;
  const kvc_status status = kvc_scheduler_finish(scenario_scheduler, &result);
  if (status != KVC_OK) return status;
  num_in_flight = failed ? 0 : num_in_flight - 1;
  memmove(plans_in_flight, plans_in_flight + 1, num_in_flight * sizeof *plans_in_flight);
  for (size_t i = 0; i < result.num_ended; ++i)
    text += sprintf(text, " %d:%" PRIu32 ":%" PRIu32, name_of(ids, ended[i].request), ended[i].reason,
                    ended[i].num_new_tokens);
  return KVC_OK;
}

/* Executes a line. ns: the namespace that it names. ids: of the requests by name. text: results, with a space
 * before each. */
static inline kvc_status scheduler_line(kvc_manager* m, uint64_t ns, uint64_t* ids, const char* word,
                                        const int64_t* a, char* text) {
  *text = '\0';
  if (strcmp(word, "scheduler") == 0) return scheduler_create_line(m, a);
  if (strcmp(word, "schedule") == 0) return scheduler_add_line(ns, ids, a);
  if (strcmp(word, "plan") == 0) return plan_line(ids, a, text);
  if (strcmp(word, "finish") == 0) return finish_line(ids, (int32_t)a[0], 0, text);
  if (strcmp(word, "undone") == 0) return finish_line(ids, 0, 1, text);
  if (strcmp(word, "abort") == 0) return kvc_scheduler_abort(scenario_scheduler, ids[a[0]]);
  if (strcmp(word, "draft") == 0) {
    const uint32_t count = (uint32_t)a[1];
    return kvc_scheduler_set_drafts(scenario_scheduler, &ids[a[0]], &count, 1);
  }
  kvc_scheduler_stats s;
  memset(&s, 0, sizeof s);
  s.struct_size = sizeof s;
  const kvc_status status = kvc_scheduler_read_stats(scenario_scheduler, &s);
  if (status != KVC_OK) return status;
  sprintf(text, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, s.waiting, s.running,
          s.preemptions, s.cached_tokens, s.recomputed_tokens, s.ended);
  return kvc_scheduler_check(scenario_scheduler);
}

#endif /* KVC_TESTS_SCENARIO_SCHEDULER_H */
