/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a scenario about tiers and pages, for the runners of C and C++. */
#ifndef KVC_TESTS_SCENARIO_TIERS_H
#define KVC_TESTS_SCENARIO_TIERS_H

#include <inttypes.h>
#include <kvcache/page.h>
#include <kvcache/tier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../calls.h"
#include "../tier_config.h"

enum { kTierPages = 64 };

/* The tier of the scenario, and its time. */
static kvc_tier* scenario_tier;
static uint64_t tier_now = 1, tier_page;

static inline int is_tier_line(const char* word) {
  static const char* const kWords[] = {"tier", "clock", "page", "put", "get", "lease", "erase", "pages"};
  for (size_t i = 0; i < sizeof kWords / sizeof *kWords; ++i)
    if (strcmp(word, kWords[i]) == 0) return 1;
  return 0;
}

static inline kvc_status open_tier_line(const int64_t* a) {
  char url[64];
  snprintf(url, sizeof url, "memory:?bytes=%" PRId64 "&threads=0", a[0]);
  const kvc_tier_config config = test_tier_config(url, (uint64_t)a[1]);
  kvc_tier_destroy(scenario_tier);
  scenario_tier = NULL, tier_page = (uint64_t)a[1], tier_now = 1;
  return kvc_tier_create(&config, &scenario_tier);
}

static inline kvc_status tier_stats_line(char* text) {
  kvc_tier_stats stats;
  kvc_tier_counts gets;
  memset(&stats, 0, sizeof stats), memset(&gets, 0, sizeof gets);
  stats.struct_size = sizeof stats, gets.struct_size = sizeof gets;
  const kvc_status status = kvc_tier_read_stats(scenario_tier, &stats);
  if (status != KVC_OK) return status;
  kvc_tier_read_counts(scenario_tier, KVC_TIER_GET, &gets);
  sprintf(text, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, stats.pages, stats.evictions, gets.ok,
          gets.misses);
  return KVC_OK;
}

/* A job for the pages of group 0 of the prompt a[1], a[1] + 1, ... of a[2] tokens. */
static inline kvc_status tier_job_line(const char* word, const uint8_t* keys, size_t count, const int64_t* a,
                                       char* text) {
  static kvc_tier_item items[kTierPages];
  const int put = strcmp(word, "put") == 0, get = strcmp(word, "get") == 0,
            exists = strcmp(word, "lease") == 0;
  uint8_t* const pages = (uint8_t*)malloc(kTierPages * (size_t)tier_page);
  memset(pages, put ? (int)a[3] : 0, kTierPages * (size_t)tier_page);
  memset(items, 0, sizeof items);
  for (size_t i = 0; i < count; ++i) {
    memcpy(items[i].key, keys + 32 * i, 32);
    if (put || get) items[i].data = pages + tier_page * i, items[i].bytes = tier_page;
  }
  kvc_tier_job job;
  memset(&job, 0, sizeof job);
  job.struct_size = sizeof job, job.items = items, job.num_items = count, job.now_ns = tier_now;
  job.kind = put ? KVC_TIER_PUT : get ? KVC_TIER_GET : exists ? KVC_TIER_EXISTS : KVC_TIER_REMOVE;
  job.lease_ns = exists ? (uint64_t)a[3] : 0;
  uint64_t id;
  kvc_tier_completion done;
  size_t ended;
  const kvc_status status = kvc_tier_submit(scenario_tier, &job, &id);
  if (status == KVC_OK) {
    kvc_tier_drain(scenario_tier);
    kvc_tier_poll(scenario_tier, &done, 1, &ended);
  }
  for (size_t i = 0; status == KVC_OK && i < count; ++i) {
    text += sprintf(text, " %d", items[i].result);
    if (get && items[i].result == KVC_PAGE_OK) text += sprintf(text, ":%d", pages[tier_page * i]);
    if (exists) text += sprintf(text, ":%" PRIu64, items[i].lease_until_ns);
  }
  free(pages);
  return status;
}

/* Executes a line. ns: the namespace that it names. text: results, with a space before each. */
static inline kvc_status tier_line(kvc_manager* m, uint64_t ns, const char* word, const int64_t* a,
                                   char* text) {
  static const uint8_t kFingerprint[32] = {0};
  uint8_t digests[kTierPages][32], keys[kTierPages][32];
  int32_t tokens[1024];
  size_t count;
  *text = '\0';
  if (strcmp(word, "tier") == 0) return open_tier_line(a);
  if (strcmp(word, "clock") == 0) return tier_now = (uint64_t)a[0], KVC_OK;
  if (strcmp(word, "pages") == 0) return tier_stats_line(text);
  for (int64_t i = 0; i < a[2]; ++i) tokens[i] = (int32_t)(a[1] + i);
  const int names = strcmp(word, "page") == 0;
  kvc_status status = kvc_manager_position_digests(m, PROMPT(ns, tokens, (size_t)a[2], NULL, 0), digests[0],
                                                   kTierPages, &count);
  for (size_t i = 0; status == KVC_OK && i < count; ++i)
    status = kvc_page_key(digests[i], names ? (uint32_t)a[3] : 0, kFingerprint, keys[i]);
  if (status != KVC_OK) return status;
  if (!names) return tier_job_line(word, keys[0], count, a, text);
  for (size_t i = 0; i < count; ++i) text += sprintf(text, " %02x%02x", keys[i][0], keys[i][1]);
  return KVC_OK;
}

#endif /* KVC_TESTS_SCENARIO_TIERS_H */
