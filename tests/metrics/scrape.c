/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of all kinds after some work: prints their metrics, for tests of the text. */
#include <kvcache/metrics.h>
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/scheduler.h>
#include <kvcache/storage.h>
#include <kvcache/tier.h>

#include "../c_api/check.h"

enum { kBlock = 4, kTokens = 33, kBlocks = 16 };

static const kvc_label kFirst[] = {{"model", "llama \"3\" \\ 8B\nnew"}, {"rank", "0"}};
static const kvc_label kSecond[] = {{"model", "caf\xc3\xa9"}};

static void run_offload(kvc_manager* m, kvc_offload* o, kvc_tier* t) {
  static int32_t tokens[4][kTokens];
  uint64_t now = 1;
  for (size_t round = 0; round < 8; ++round) { /* the second half loads what the first has stored */
    int32_t* const prompt = tokens[round % 4];
    fill_tokens(prompt, kTokens, 1 + round % 4);
    uint64_t request, cached;
    OK(kvc_manager_create_request(m, PROMPT(0, prompt, kTokens, NULL, 0), NULL, &request));
    OK(kvc_offload_lookup(o, request, now));
    kvc_offload_info info = {.struct_size = sizeof info};
    do {
      OK(kvc_offload_poll(o, now += 1000, NULL));
      OK(kvc_tier_drain(t));
      OK(kvc_offload_query(o, request, &info));
    } while (info.state != KVC_OFFLOAD_READY && info.state != KVC_OFFLOAD_NONE);
    OK(kvc_manager_admit_request(m, request, &cached));
    OK(kvc_manager_commit_tokens(m, request, kTokens));
    OK(kvc_manager_free_request(m, request));
    for (int i = 0; i < 8; ++i) {
      OK(kvc_offload_poll(o, now += 1000, NULL));
      OK(kvc_tier_drain(t));
    }
  }
}

static void run_scheduler(kvc_scheduler* s) {
  int32_t tokens[kTokens];
  fill_tokens(tokens, kTokens, 9);
  const kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = kTokens};
  const kvc_schedule_job job = {.struct_size = sizeof job, .prompt = &prompt, .max_new_tokens = 3};
  uint64_t request;
  for (int i = 0; i < 3; ++i) OK(kvc_scheduler_add(s, &job, &request));
  for (;;) {
    kvc_plan plan = {.struct_size = sizeof plan};
    OK(kvc_scheduler_plan(s, 0, &plan));
    if (plan.num_items == 0) return;
    uint64_t offsets[8] = {0};
    const int32_t sampled[8] = {0};
    CHECK(plan.num_items < 8);
    for (size_t i = 0; i < plan.num_items; ++i) offsets[i + 1] = offsets[i] + plan.samples[i];
    kvc_plan_result result = {.struct_size = sizeof result,
                              .plan_id = plan.plan_id,
                              .num_items = plan.num_items,
                              .token_offsets = offsets,
                              .tokens = sampled};
    OK(kvc_scheduler_finish(s, &result));
  }
}

static void run_storage(kvc_storage* s) {
  float k[2 * 8] = {0}, v[2 * 8] = {0};
  const int64_t slot = 5;
  const kvc_rows rows = {
      .struct_size = sizeof rows, .k = k, .v = v, .num_tokens = 1, .num_layers = 1, .slots = &slot};
  OK(kvc_storage_store(s, &rows, NULL));
  OK(kvc_storage_gather(s, &rows, NULL));
}

int main(void) {
  kvc_manager_config config = small_config(kBlocks);
  config.event_capacity = 1024;
  kvc_manager *m = make_manager(&config), *scheduled = small_manager(64);
  kvc_storage* storage = NULL;
  const kvc_storage_config shape = {.struct_size = sizeof shape,
                                    .num_blocks = kBlocks,
                                    .num_layers = 1,
                                    .num_heads = 2,
                                    .head_dim = 8,
                                    .block_size = kBlock};
  OK(kvc_storage_create(&shape, &storage));
  const kvc_page_config pages = {
      .struct_size = sizeof pages, .model = "m", .weights = "w", .model_size = 1, .weights_size = 1};
  kvc_page_info page = {.struct_size = sizeof page};
  OK(kvc_storage_page_properties(storage, &pages, &page));
  kvc_tier_config cold = {
      .struct_size = sizeof cold, .url = "memory:?bytes=1MiB&threads=0", .page_bytes = page.page_bytes};
  memcpy(cold.fingerprint, page.fingerprint, sizeof cold.fingerprint);
  kvc_tier* tier = NULL;
  OK(kvc_tier_create(&cold, &tier));
  const kvc_offload_config chain = {.struct_size = sizeof chain,
                                    .manager = m,
                                    .storages = &storage,
                                    .tiers = &tier,
                                    .num_tiers = 1,
                                    .pages = &pages,
                                    .policy = KVC_OFFLOAD_WRITE_THROUGH};
  kvc_offload* offload = NULL;
  OK(kvc_offload_create(&chain, &offload));
  const kvc_scheduler_config plans = {.struct_size = sizeof plans,
                                      .manager = scheduled,
                                      .max_running = 4,
                                      .max_tokens = 16,
                                      .high_watermark = 0.9,
                                      .low_watermark = 0.5};
  kvc_scheduler* scheduler = NULL;
  OK(kvc_scheduler_create(&plans, &scheduler));

  const kvc_metrics_source sources[] = {
      {.struct_size = sizeof *sources, .manager = m, .labels = kFirst, .num_labels = 2},
      {.struct_size = sizeof *sources, .storage = storage, .labels = kFirst, .num_labels = 2},
      {.struct_size = sizeof *sources, .tier = tier, .labels = kFirst, .num_labels = 2},
      {.struct_size = sizeof *sources, .offload = offload, .labels = kFirst, .num_labels = 2},
      {.struct_size = sizeof *sources, .manager = scheduled, .labels = kSecond, .num_labels = 1},
      {.struct_size = sizeof *sources, .scheduler = scheduler, .labels = kSecond, .num_labels = 1}};
  const size_t count = sizeof sources / sizeof *sources;
  OK(kvc_metrics_enable_latencies(sources, count));
  run_storage(storage);
  run_offload(m, offload, tier);
  run_scheduler(scheduler);

  static char text[1 << 20];
  size_t size = 0;
  OK(kvc_metrics_render(sources, count, KVC_METRICS_VLLM_NAMES, text, sizeof text, &size));
  CHECK_EQ(fwrite(text, 1, size, stdout), size);
  kvc_scheduler_destroy(scheduler);
  kvc_offload_destroy(offload);
  kvc_tier_destroy(tier);
  kvc_storage_destroy(storage);
  end_manager(m);
  end_manager(scheduled);
  return 0;
}
