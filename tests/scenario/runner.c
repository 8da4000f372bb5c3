/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a scenario (README.md) by calls of kvcache.h and prints its trace. */
#include <inttypes.h>
#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/manager.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/record.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../calls.h"
#include "../event_calls.h"
#include "scheduler.h"
#include "speculation.h"
#include "tiers.h"

enum { kNames = 32, kRoom = 4096 };

static kvc_manager* m;
static kvc_step* step;
static uint64_t requests[kNames], namespaces[kNames], pins[kNames], cursor;
static int64_t a[kRoom]; /* the numbers of the line */
static int32_t tokens[kRoom], blocks[kRoom];

static const int32_t* sequence(int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) tokens[i] = (int32_t)(first + i);
  return tokens;
}

static void print_blocks(size_t count) {
  for (size_t i = 0; i < count; ++i) printf(" %d", blocks[i]);
}

static int64_t encoder[2], policy[3], fills[3], hints, quotas, record_bytes, room, headroom, partial, mode;
static char log_bytes[1 << 20];
static size_t log_size;
static kvc_workload* workload;
static kvc_sizer* sizer;

static uint64_t of_curve(int64_t name) { return name < 0 ? KVC_ALL_NAMESPACES : namespaces[name]; }

static kvc_status print_rates(size_t count) {
  uint64_t sizes[kNames];
  double rates[kNames];
  for (size_t i = 1; i < count; ++i) sizes[i - 1] = (uint64_t)a[i];
  const kvc_status status = kvc_manager_read_curve(m, of_curve(a[0]), sizes, count - 1, rates);
  for (size_t i = 1; status == KVC_OK && i < count; ++i)
    printf("%s %d", i == 1 ? " 0" : "", (int)(rates[i - 1] * 1e6));
  return status;
}

static kvc_status make_sizer(void) {
  const kvc_sizer_config config = {.struct_size = sizeof config,
                                   .mode = (uint32_t)a[0],
                                   .num_blocks = (uint64_t)a[1],
                                   .max_blocks = (uint64_t)a[2],
                                   .hysteresis = (double)a[3] / 100,
                                   .cooldown_ns = (uint64_t)a[4]};
  kvc_sizer_destroy(sizer);
  sizer = NULL;
  return kvc_sizer_create(&config, &sizer);
}

static kvc_status print_decision(int logged) {
  kvc_sizing_decision d = {.struct_size = sizeof d};
  const kvc_status status = logged ? kvc_sizer_read_log(sizer, (uint64_t)a[0], &d)
                                   : kvc_sizer_decide(sizer, (uint64_t)a[0], (double)a[1], &d);
  if (status == KVC_OK) {
    printf(" 0 %" PRIu64 " %u %u %u %" PRIu64 " %" PRIu64, d.number, d.action, d.reason, d.basis,
           d.from_blocks, d.to_blocks);
  }
  return status;
}

static kvc_status print_workload(void) {
  kvc_workload_info info = {.struct_size = sizeof info};
  double value = 0;
  kvc_status status = kvc_workload_read_info(workload, &info);
  if (status == KVC_OK) status = kvc_workload_predict(workload, (uint64_t)a[0], &value);
  if (status == KVC_OK) {
    printf(" 0 %" PRIu64 " %d %d %d %d", info.num_observations, (int)(info.average * 1e3 + 0.5),
           (int)(info.level * 1e3 + 0.5), (int)(info.variance * 1e3 + 0.5), (int)(value * 1e3 + 0.5));
  }
  return status;
}

static kvc_manager_config config_of_line(const kvc_group_config* groups, size_t num_groups) {
  const kvc_manager_config config = {
      .struct_size = sizeof config,
      .num_blocks = (uint64_t)a[0],
      .block_size = (uint32_t)a[1],
      .event_capacity = (uint64_t)a[2],
      .max_requests = (uint64_t)a[3],
      .groups = groups,
      .num_groups = num_groups,
      .max_blocks = (uint64_t)room,
      .flags = (uint32_t)((hints ? KVC_MANAGER_HINTS : 0) | (fills[0] ? KVC_MANAGER_FILLS : 0) |
                          (headroom ? KVC_MANAGER_HEADROOM : 0) | (partial ? KVC_MANAGER_PARTIAL_REUSE : 0)),
      .policy = (uint32_t)policy[0],
      .policy_weight = (double)policy[1] / 100,
      .policy_history = (uint64_t)policy[2],
      .max_quotas = (uint32_t)quotas,
      .record_bytes = (uint64_t)record_bytes};
  return config;
}

static kvc_status make_step(void) {
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_requests = 8,
                                  .max_tokens = 8,
                                  .max_rows = 8,
                                  .row_stride = 16,
                                  .max_admissions = 4,
                                  .max_prompt_tokens = 160};
  return kvc_step_create(m, &limits, &step);
}

/* Groups of the managers made from now on, instead of those of the manager's line. */
static kvc_group_config chosen[8];
static size_t num_chosen;

// Of the encoders of requests from now on.
static void give_encoder(kvc_request_config* config) {
  config->cross_tokens = (uint64_t)encoder[0];
  memset(config->cross_digest, (int)encoder[1], sizeof config->cross_digest);
}

static kvc_status choose_group(size_t count) {
  const kvc_group_config group = {.struct_size = sizeof group,
                                  .kind = a[4] != 0   ? KVC_GROUP_STATE
                                          : a[0] != 0 ? KVC_GROUP_SLIDING_WINDOW
                                          : a[3] != 0 ? KVC_GROUP_CHUNKED_LOCAL
                                                      : KVC_GROUP_FULL,
                                  .window_tokens = (uint64_t)a[0],
                                  .num_sink_tokens = (uint32_t)a[1],
                                  .retention_tokens = (uint64_t)a[2],
                                  .chunk_tokens = (uint64_t)a[3]};
  if (count == 0) num_chosen = 0;
  if (count != 0) chosen[num_chosen++] = group;
  return KVC_OK;
}

static kvc_status make_manager(size_t count) {
  const kvc_group_config groups[2] = {{.struct_size = sizeof groups[0]},
                                      {.struct_size = sizeof groups[0],
                                       .kind = KVC_GROUP_SLIDING_WINDOW,
                                       .window_tokens = (uint64_t)a[4],
                                       .num_sink_tokens = (uint32_t)a[5]}};
  const kvc_manager_config config =
      num_chosen != 0 ? config_of_line(chosen, num_chosen) : config_of_line(groups, count > 4 ? 2 : 1);
  kvc_step_destroy(step);
  kvc_manager_destroy(m);
  m = NULL, step = NULL, cursor = 0;
  memset(requests, 0, sizeof requests);
  memset(namespaces, 0, sizeof namespaces);
  const kvc_status status = kvc_manager_create(&config, &m);
  return status == KVC_OK ? make_step() : status;
}

/* The old manager goes; names of namespaces follow. */
static kvc_status rebuild(void) {
  kvc_token_copy copies[256];
  kvc_namespace_pair pairs[kNames];
  kvc_rebuild work = {.struct_size = sizeof work,
                      .copies = copies,
                      .copy_capacity = 256,
                      .namespaces = pairs,
                      .namespace_capacity = kNames};
  const kvc_manager_config config = config_of_line(NULL, 0);
  kvc_manager* made;
  const kvc_status status = kvc_manager_rebuild(m, &config, &work, &made);
  if (status != KVC_OK) return status;
  printf(" 0");
  for (size_t i = 0; i < work.num_copies; ++i) {
    const kvc_token_copy* c = &copies[i];
    printf(" %d+%u>%d+%u*%u", c->source, c->offset, c->destination, c->new_offset, c->num_tokens);
  }
  for (size_t name = 0; name < kNames; ++name) {
    for (size_t i = 0; i < work.num_namespaces; ++i) {
      if (pairs[i].old_id != namespaces[name]) continue;
      namespaces[name] = pairs[i].new_id;
      break;
    }
  }
  kvc_step_destroy(step);
  kvc_manager_destroy(m);
  m = made, step = NULL, cursor = 0;
  return make_step();
}

static uint64_t* array(int32_t which) {
  kvc_view view;
  kvc_step_view(step, which, &view);
  return view.data;
}

/* Without ids, each item is refused. */
static kvc_status run_step(size_t count, int with_ids, char* printed) {
  for (size_t i = 0; i < count; ++i) {
    kvc_request_info info = {.struct_size = sizeof info};
    const kvc_status status = kvc_manager_request_info(m, requests[a[i]], &info);
    if (status != KVC_OK) return status;
    array(KVC_STEP_REQUESTS)[i] = requests[a[i]];
    array(KVC_STEP_COMMITTED)[i] = info.num_tokens;
    array(KVC_STEP_EXTEND_OFFSETS)[i + 1] = i + 1;
  }
  for (size_t i = 0; with_ids && i < count; ++i) ((int32_t*)array(KVC_STEP_EXTEND_TOKENS))[i] = 7;
  step->num_requests = count, step->num_admissions = 0, step->commit_offsets = NULL, step->rows = NULL;
  step->retired_step = step->step_id;
  const kvc_status status = kvc_manager_step(m, step);
  for (size_t i = 0; status == KVC_OK && i < count; ++i)
    printed += sprintf(printed, " %d:%" PRId64, step->status[i], step->slots[i]);
  return status;
}

static kvc_status run_admissions(size_t count, char* printed) {
  kvc_request_config configs[4] = {{0}};
  const size_t n = count / 5;
  uint64_t* offsets = array(KVC_STEP_ADMIT_OFFSETS);
  for (size_t i = 0; i < n; ++i) {
    const int64_t* one = a + 5 * i;
    configs[i].struct_size = sizeof configs[i];
    ((uint64_t*)array(KVC_STEP_ADMIT_NAMESPACES))[i] = namespaces[one[1]],
    configs[i].slots = (uint64_t)one[2];
    give_encoder(&configs[i]);
    configs[i].flags = (uint32_t)fills[1], configs[i].wait_until_ns = (uint64_t)fills[2];
    memcpy((int32_t*)array(KVC_STEP_ADMIT_TOKENS) + offsets[i], sequence(one[3], one[4]),
           (size_t)one[4] * sizeof *tokens);
    offsets[i + 1] = offsets[i] + (uint64_t)one[4];
  }
  step->num_requests = 0, step->num_admissions = n, step->commit_offsets = NULL, step->rows = NULL;
  step->retired_step = step->step_id, step->admit_configs = configs;
  const kvc_status status = kvc_manager_step(m, step);
  step->admit_configs = NULL;
  for (size_t i = 0; status == KVC_OK && i < n; ++i) {
    if (step->status[i] == KVC_OK) requests[a[5 * i]] = step->admitted[i];
    printed += sprintf(printed, " %d:%" PRIu64, step->status[i], step->cached[i]);
  }
  return status;
}

static kvc_status print_table(void) {
  kvc_request_info info = {.struct_size = sizeof info};
  kvc_properties p = {.struct_size = sizeof p};
  kvc_status status = kvc_manager_request_info(m, requests[a[0]], &info);
  if (status == KVC_OK) status = kvc_manager_properties(m, &p);
  if (status != KVC_OK) return status;
  const int cross = (uint64_t)a[1] + p.num_cross_groups >= p.num_groups;
  const size_t size =
      (size_t)(((cross ? info.admitted * info.cross_tokens : info.capacity) + p.block_size - 1) /
               p.block_size);
  status = kvc_manager_export_tables(m, &requests[a[0]], 1, (uint32_t)a[1], -1, blocks, size);
  if (status == KVC_OK) printf(" 0"), print_blocks(size);
  return status;
}

static kvc_status print_events(void) {
  kvc_event events[64];
  size_t count;
  const kvc_status status = poll_events(m, &cursor, events, sizeof events[0], 64, &count, NULL, 0);
  if (status != KVC_OK) return status;
  printf(" 0");
  for (size_t i = 0; i < count; ++i) {
    const kvc_event* e = &events[i];
    printf(" %u:%u:%d:%" PRIu64 ":%02x%02x", e->kind, e->group, e->block, e->token_offset, e->digest[0],
           e->digest[1]);
  }
  return status;
}

static kvc_status print_stats(void) {
  kvc_stats s = {.struct_size = sizeof s};
  const kvc_status status = kvc_manager_read_stats(m, &s);
  if (status != KVC_OK) return status;
  printf(" 0");
  const uint64_t values[] = {s.blocks_free,   s.blocks_cached,    s.blocks_live, s.blocks_reserved,
                             s.blocks_pinned, s.live_requests,    s.admissions,  s.cached_tokens,
                             s.evictions,     s.published_blocks, s.duplicates,  s.refusals};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) printf(" %" PRIu64, values[i]);
  return status;
}

// All parts, replayed.
static kvc_status print_log(void) {
  size_t size;
  kvc_status status = kvc_manager_take_log(m, log_bytes + log_size, sizeof log_bytes - log_size, &size);
  if (status != KVC_OK) return status;
  log_size += size;
  kvc_replay_info r = {.struct_size = sizeof r};
  status = kvc_log_replay(log_bytes, log_size, &r);
  if (status == KVC_OK)
    printf(" 0 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, r.calls, r.mismatches, r.lost_calls, r.digest);
  return status;
}

static kvc_status print_share(void) {
  kvc_quota_info q = {.struct_size = sizeof q};
  const kvc_status status = kvc_manager_quota_info(m, namespaces[a[0]], (uint32_t)a[1], &q);
  if (status != KVC_OK) return status;
  printf(" 0");
  const uint64_t values[] = {q.min_blocks, q.max_blocks, q.held,          q.cached,    q.fenced,
                             q.available,  q.refusals,   q.block_queries, q.block_hits};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) printf(" %" PRIu64, values[i]);
  return status;
}

static kvc_status resize(void) {
  kvc_block_copy moves[256];
  size_t count = 0;
  const kvc_status status = kvc_manager_resize(m, (uint32_t)a[0], (uint64_t)a[1], moves, 256, &count);
  for (size_t i = 0; status == KVC_OK && i < count; ++i)
    printf("%s %d>%d", i == 0 ? " 0" : "", moves[i].source, moves[i].destination);
  if (status == KVC_OK && count == 0) printf(" 0");
  return status;
}

#define IS(name) (strcmp(word, name) == 0)

/* Prints " 0" and results itself where there are several, else leaves *result for the caller (with -1 =
 * none). */
static kvc_status execute(const char* word, size_t count, int* printed) {
  uint64_t value = 0;
  size_t size = 0;
  kvc_status status = KVC_ERROR_INTERNAL;
  *printed = 0;
  const uint64_t ns = count > 1 ? namespaces[a[1] & 31] : 0;
  if (IS("policy")) return memcpy(policy, a, sizeof policy), KVC_OK;
  if (IS("hints")) return hints = a[0], KVC_OK;
  if (IS("cross")) {
    chosen[num_chosen++] = (kvc_group_config){.struct_size = sizeof chosen[0], .kind = KVC_GROUP_CROSS};
    return KVC_OK;
  }
  if (IS("encoder")) return memcpy(encoder, a, sizeof encoder), KVC_OK;
  if (IS("heard")) {
    kvc_request_info info = {.struct_size = sizeof info};
    status = kvc_manager_request_info(m, requests[a[0]], &info);
    value = info.num_cross_cached, *printed = 1;
  }
  if (IS("fills")) return memcpy(fills, a, sizeof fills), KVC_OK;
  if (IS("fail")) {
    uint64_t ids[64];
    size_t preempted = 0;
    status = kvc_manager_fail_step(m, step->step_id, ids, 64, &preempted);
    if (status == KVC_OK) printf(" 0"), *printed = 1;
    for (size_t i = 0; status == KVC_OK && i < preempted; ++i)
      for (int name = 0; name < 32; ++name)
        if (requests[name] == ids[i]) printf(" %d", name);
    return status;
  }
  if (IS("room")) return room = a[0], KVC_OK;
  if (IS("headroom")) return headroom = a[0], KVC_OK;
  if (IS("partial")) return partial = a[0], KVC_OK;
  if (IS("mode")) return mode = a[0], KVC_OK;
  if (IS("resize")) return *printed = 1, resize();
  if (IS("expect"))
    status = kvc_manager_expected_tokens(m, (uint32_t)a[0], (uint64_t)a[1], &value), *printed = 1;
  if (IS("now")) return step->now_ns = (uint64_t)a[0], KVC_OK;
  if (IS("time")) return kvc_manager_set_time(m, (uint64_t)a[0]);
  if (IS("priority")) {
    return kvc_manager_set_priority(m, requests[a[0]], (uint64_t)a[1], (uint64_t)a[2], (uint32_t)a[3],
                                    (uint64_t)a[4]);
  }
  if (IS("over")) return kvc_manager_end_session(m, requests[a[0]], (uint64_t)a[1]);
  char name[32];
  snprintf(name, sizeof name, "p%" PRId64, a[IS("acquire") ? 1 : 0]);
  if (IS("keep") || IS("demote")) {
    sequence(a[1], a[2]);
    const kvc_prompt prompt = {sizeof prompt, namespaces[a[0]], tokens, (size_t)a[2], NULL, 0};
    if (IS("demote")) a[4] = KVC_PRIORITY_DEMOTED, a[5] = 0;
    status =
        kvc_manager_set_prefix_priority(m, &prompt, (uint64_t)a[3], (uint32_t)a[4], (uint64_t)a[5], &value);
    *printed = 1;
  }
  if (IS("register")) {
    status =
        kvc_manager_register_prompt(m, name, PROMPT(ns, sequence(a[2], a[3]), (size_t)a[3], NULL, 0), &value);
    *printed = 1;
  }
  if (IS("acquire")) {
    status = kvc_manager_allocate_from_prompt(m, name, sequence(a[2], a[3]), (size_t)a[3], NULL,
                                              &requests[a[0]], &value);
    *printed = 1;
  }
  if (IS("unregister")) return kvc_manager_unregister_prompt(m, name);
  if (IS("prompts")) {
    char names[kRoom];
    status = kvc_manager_list_prompts(m, names, sizeof names, &size);
    if (status == KVC_OK) printf(" 0");
    for (size_t at = 0; status == KVC_OK && at < size; at += strlen(names + at) + 1)
      printf(" %s", names + at);
    return *printed = 1, status;
  }
  if (IS("group")) return choose_group(count);
  if (IS("manager")) return make_manager(count);
  if (IS("open")) {
    const char model = (char)a[1];
    const kvc_namespace_config config = {.struct_size = sizeof config, .model = &model, .model_size = 1};
    return kvc_manager_open_namespace(m, &config, &namespaces[a[0]]);
  }
  if (IS("close")) return kvc_manager_close_namespace(m, namespaces[a[0]]);
  if (IS("curve")) {
    const kvc_curve_config config = {
        .struct_size = sizeof config, .sample_rate = (double)a[1] / 100, .max_blocks = (uint64_t)a[2]};
    return kvc_manager_open_curve(m, of_curve(a[0]), &config);
  }
  if (IS("uncurve")) return kvc_manager_close_curve(m, of_curve(a[0]));
  if (IS("sizer")) return make_sizer();
  if (IS("workload")) {
    const kvc_workload_config config = {
        .struct_size = sizeof config, .half_life_ns = (uint64_t)a[0], .window = (uint32_t)a[1]};
    kvc_workload_destroy(workload);
    workload = NULL;
    return kvc_workload_create(&config, &workload);
  }
  if (IS("observe")) return kvc_workload_record(workload, (uint64_t)a[0], (double)a[1]);
  if (IS("quotas")) return quotas = a[0], KVC_OK;
  if (IS("record")) return record_bytes = a[0], KVC_OK;
  if (IS("quota"))
    return kvc_manager_set_quota(m, namespaces[a[0]], (uint32_t)a[1], (uint64_t)a[2], (uint64_t)a[3]);
  if (IS("resetall")) return kvc_manager_reset_all(m);
  if (IS("caching")) return kvc_manager_set_prefix_caching(m, (uint32_t)a[0]);
  if (IS("reset")) return kvc_manager_reset_namespace(m, namespaces[a[0]]);
  if (IS("create") || IS("allocate")) {
    sequence(a[2], a[3]);
    kvc_request_config options = {.struct_size = sizeof options, .headroom = (uint32_t)mode};
    give_encoder(&options);
    const kvc_request_config* const config =
        mode != 0 || encoder[0] != 0 || encoder[1] != 0 ? &options : NULL;
    if (IS("create"))
      return kvc_manager_create_request(m, PROMPT(ns, tokens, (size_t)a[3], NULL, 0), config,
                                        &requests[a[0]]);
    status = kvc_manager_allocate_request(m, PROMPT(ns, tokens, (size_t)a[3], NULL, 0), config,
                                          &requests[a[0]], &value);
    *printed = 1;
  }
  if (IS("admit")) status = kvc_manager_admit_request(m, requests[a[0]], &value), *printed = 1;
  if (IS("together")) {
    uint64_t ids[32], cached[32];
    for (size_t i = 0; i < count; ++i) ids[i] = requests[a[i]];
    status = kvc_manager_admit_batch(m, ids, count, cached, NULL);
    if (status == KVC_OK) printf(" 0"), *printed = 1;
    for (size_t i = 0; status == KVC_OK && i < count; ++i) printf(" %" PRIu64, cached[i]);
    return status;
  }
  if (IS("append")) return kvc_manager_append_tokens(m, requests[a[0]], sequence(a[1], a[2]), (size_t)a[2]);
  if (IS("key")) {
    kvc_extra_key key = {.first_token = (uint64_t)a[1], .num_tokens = (uint64_t)a[2]};
    memset(key.digest, (int)a[3], sizeof key.digest);
    return kvc_manager_add_keys(m, requests[a[0]], &key, 1);
  }
  if (IS("reserve")) return kvc_manager_reserve_tokens(m, requests[a[0]], (uint64_t)a[1]);
  if (IS("ahead")) return kvc_manager_commit_ahead(m, requests[a[0]], (uint64_t)a[1], (uint64_t)a[2]);
  if (IS("commit")) return kvc_manager_commit_tokens(m, requests[a[0]], (uint64_t)a[1]);
  if (IS("truncate")) return kvc_manager_truncate_request(m, requests[a[0]], (uint64_t)a[1]);
  if (IS("preempt")) return kvc_manager_preempt_request(m, requests[a[0]]);
  if (IS("free")) return kvc_manager_free_request(m, requests[a[0]]);
  if (IS("fork")) return kvc_manager_fork_request(m, requests[a[0]], &requests[a[1]]);
  if (IS("probe")) {
    kvc_probe_info info = {.struct_size = sizeof info};
    status =
        kvc_manager_probe(m, PROMPT(namespaces[a[0]], sequence(a[1], a[2]), (size_t)a[2], NULL, 0), &info);
    value = info.num_cached, *printed = 1;
  }
  if (IS("drop")) {
    status = kvc_manager_drop_prefix(m, PROMPT(namespaces[a[0]], sequence(a[1], a[2]), (size_t)a[2], NULL, 0),
                                     &value);
    *printed = 1;
  }
  if (IS("evict")) status = kvc_manager_evict_blocks(m, -1, (size_t)a[0], &size), value = size, *printed = 1;
  if (IS("pin")) {
    uint64_t pinned;
    return kvc_manager_pin_prefix(m, PROMPT(ns, sequence(a[2], a[3]), (size_t)a[3], NULL, 0), &pins[a[0]],
                                  &pinned);
  }
  if (IS("unpin")) return kvc_manager_unpin_prefix(m, pins[a[0]]);
  if (IS("digest")) status = kvc_manager_digest(m, &value), *printed = 1;
  if (*printed) {
    if (status == KVC_OK) printf(" 0 %" PRIu64, value);
    return status;
  }
  *printed = 1;
  if (is_scheduler_line(word)) {
    static char text[kRoom];
    status = scheduler_line(m, namespaces[count > 1 && IS("schedule") ? a[1] : 0], requests, word, a, text);
    if (status == KVC_OK) printf(" 0%s", text);
    return status;
  }
  if (is_tier_line(word)) {
    static char text[kRoom];
    status = tier_line(m, namespaces[a[0] >= 0 && a[0] < kNames ? a[0] : 0], word, a, text);
    if (status == KVC_OK) printf(" 0%s", text);
    return status;
  }
  if (is_speculation_line(word)) {
    char text[kRoom];
    status = speculation_line(word, a, count, text);
    if (status == KVC_OK) printf(" 0%s", text);
    return status;
  }
  if (IS("table")) return print_table();
  if (IS("events")) return print_events();
  if (IS("rates")) return print_rates(count);
  if (IS("decide") || IS("decided")) return print_decision(IS("decided"));
  if (IS("forecast")) return print_workload();
  if (IS("stats")) return print_stats();
  if (IS("share")) return print_share();
  if (IS("log")) return print_log();
  if (IS("rebuild")) return rebuild();
  if (IS("lost")) {
    kvc_lost_reuse l = {.struct_size = sizeof l};
    status = kvc_manager_lost_reuse(m, (uint32_t)a[0], &l);
    if (status == KVC_OK)
      printf(" 0 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, l.admissions,
             l.block_tokens, l.window_tokens, l.state_tokens, l.agreement_tokens, l.node_tokens);
    return status;
  }
  if (IS("blame")) {
    kvc_request_info info = {.struct_size = sizeof info};
    status = kvc_manager_request_info(m, requests[a[0]], &info);
    if (status == KVC_OK)
      printf(" 0 %" PRIu64 " %" PRIu32 " %" PRIu32, info.lost_reuse_tokens, info.lost_group,
             info.lost_reason);
    return status;
  }
  if (IS("checkpoint")) {
    kvc_request_info info = {.struct_size = sizeof info};
    status = kvc_manager_request_info(m, requests[a[0]], &info);
    if (status == KVC_OK) printf(" 0 %" PRIu64, info.next_checkpoint);
    return status;
  }
  if (IS("slots")) {
    int64_t slots[kRoom];
    status =
        kvc_manager_export_slots(m, requests[a[0]], (uint32_t)a[1], (uint64_t)a[2], (uint64_t)a[3], slots, 8);
    for (int64_t i = 0; status == KVC_OK && i < a[3]; ++i) printf("%s %" PRId64, i ? "" : " 0", slots[i]);
    return status;
  }
  if (IS("copies")) {
    kvc_block_copy copies[64];
    status = take_copies(m, copies, 64, &size);
    if (status == KVC_OK) printf(" 0");
    for (size_t i = 0; status == KVC_OK && i < size; ++i)
      printf(" %d>%d", copies[i].source, copies[i].destination);
    return status;
  }
  if (IS("take")) {
    status = kvc_manager_acquire_blocks(m, (uint32_t)a[0], blocks, (size_t)a[1]);
    if (status == KVC_OK) printf(" 0"), print_blocks((size_t)a[1]);
    return status;
  }
  if (IS("step") || IS("forget") || IS("arrive")) {
    char text[kRoom] = "";
    status = IS("arrive") ? run_admissions(count, text) : run_step(count, IS("step"), text);
    if (status == KVC_OK) printf(" 0%s", text);
    return status;
  }
  *printed = 0;
  if (IS("publish")) {
    for (size_t i = 4; i < count; ++i) blocks[i - 4] = (int32_t)a[i];
    return kvc_manager_publish_blocks(m,
                                      PROMPT(namespaces[a[0]], sequence(a[2], a[3]), (size_t)a[3], NULL, 0),
                                      (uint32_t)a[1], blocks, count - 4);
  }
  if (IS("give")) {
    for (size_t i = 0; i < count; ++i) blocks[i] = (int32_t)a[i];
    return kvc_manager_release_blocks(m, blocks, count);
  }
  fprintf(stderr, "no such line: %s\n", word);
  exit(2);
}

int main(int argc, char** argv) {
  FILE* file = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (file == NULL) return fprintf(stderr, "usage: runner SCENARIO\n"), 2;
  char line[kRoom];
  while (fgets(line, sizeof line, file) != NULL) {
    char* rest = strtok(line, " \n");
    if (rest == NULL || *rest == '#') continue;
    size_t count = 0;
    const char* word = rest;
    printf("%s", word);
    while ((rest = strtok(NULL, " \n")) != NULL) {
      printf(" %s", rest);
      a[count++] = strtoll(rest, NULL, 10);
    }
    printf(" =");
    int printed;
    const kvc_status status = execute(word, count, &printed);
    if (status != KVC_OK) printf(" %d %s", status, kvc_last_error());
    if (status == KVC_OK && !printed) printf(" 0");
    printf("\n");
  }
  fclose(file);
  if (kvc_manager_check(m) != KVC_OK) return fprintf(stderr, "%s\n", kvc_last_error()), 1;
  kvc_step_destroy(step);
  kvc_scheduler_destroy(scenario_scheduler);
  kvc_manager_destroy(m);
  kvc_sizer_destroy(sizer);
  kvc_workload_destroy(workload);
  kvc_draft_destroy(tree_index);
  return 0;
}
