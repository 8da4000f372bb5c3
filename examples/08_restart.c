/* SPDX-License-Identifier: Apache-2.0 */
/* Warm restart: an engine is killed by SIGKILL, and the next one finds the prefix of its prompt in a file.
 *
 *   08_restart          both lives: a child computes, stores and is killed; then this process loads
 *   08_restart FILE     one life. If the file has nothing yet, it waits for your kill -9 when it has stored
 *
 * Blocks are written through to the file. Every loaded byte is compared with a run without any cache. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, pause */
#include <kvcache.h>
#include <kvcache/offload.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlocks = 64, kB = 16, kPromptBlocks = 6, kTokens = kPromptBlocks * kB + 1 };

static void check(kvc_status status) {
  if (status == KVC_OK) return;
  fprintf(stderr, "%s: %s\n", kvc_status_name(status), kvc_last_error());
  exit(1);
}

/* What an engine has: a manager, the memory of its blocks, and an offload below. */
typedef struct {
  kvc_manager* manager;
  kvc_storage* storage;
  kvc_offload* offload;
  kvc_tier* tier;
  kvc_page_info page;
  uint64_t now;
} Engine;

static void start(Engine* e, const char* file) {
  memset(e, 0, sizeof *e);
  kvc_manager_config manager = {.struct_size = sizeof manager, .num_blocks = kBlocks, .block_size = kB};
  manager.max_requests = 8, manager.max_request_tokens = kBlocks * kB;
  manager.event_capacity = 1024; /* write-through reads them */
  check(kvc_manager_create(&manager, &e->manager));
  kvc_storage_config storage = {.struct_size = sizeof storage, .num_blocks = kBlocks, .num_layers = 2};
  storage.num_heads = 2, storage.head_dim = 32, storage.block_size = kB, storage.dtype = KVC_BFLOAT16;
  check(kvc_storage_create(&storage, &e->storage));

  /* Whoever has the same model and weights uses the same pages. */
  kvc_page_config names = {.struct_size = sizeof names, .model = "example", .weights = "1"};
  names.model_size = strlen(names.model), names.weights_size = strlen(names.weights);
  e->page.struct_size = sizeof e->page;
  check(kvc_storage_page_properties(e->storage, &names, &e->page));
  char url[512];
  snprintf(url, sizeof url, "slab:%s?bytes=1MiB", file);
  kvc_tier_config tier = {.struct_size = sizeof tier, .url = url, .page_bytes = e->page.page_bytes};
  memcpy(tier.fingerprint, e->page.fingerprint, sizeof tier.fingerprint);
  check(kvc_tier_create(&tier, &e->tier));

  kvc_offload_config config = {.struct_size = sizeof config, .manager = e->manager, .storages = &e->storage};
  config.tiers = &e->tier, config.num_tiers = 1, config.pages = &names;
  config.policy = KVC_OFFLOAD_WRITE_THROUGH;
  check(kvc_offload_create(&config, &e->offload));
}

static void stop(Engine* e) {
  kvc_offload_destroy(e->offload);
  kvc_tier_destroy(e->tier);
  kvc_storage_destroy(e->storage);
  kvc_manager_destroy(e->manager);
}

/* Stands for the model: the bytes of a block follow from its tokens. */
static void fill(char* page, const Engine* e, const int32_t* tokens) {
  for (uint64_t i = 0; i < e->page.page_bytes; ++i)
    page[i] = (char)(((uint32_t)tokens[i % kB] * 2654435761u + i * 40503u) >> 13);
}

/* Admits the prompt, computes what is not cached, and compares what is. Returns the cached tokens. */
static uint64_t serve(Engine* e, const int32_t* tokens) {
  kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = kTokens};
  uint64_t request, cached;
  check(kvc_manager_create_request(e->manager, &prompt, NULL, &request));
  check(kvc_offload_lookup(e->offload, request, ++e->now));
  kvc_offload_info info = {.struct_size = sizeof info};
  for (;;) { /* an engine runs its other requests meanwhile */
    check(kvc_offload_poll(e->offload, ++e->now, NULL));
    check(kvc_offload_query(e->offload, request, &info));
    if (info.state == KVC_OFFLOAD_NONE || info.state == KVC_OFFLOAD_READY) break;
  }
  check(kvc_manager_admit_request(e->manager, request, &cached));
  int32_t table[kPromptBlocks + 1];
  check(kvc_manager_export_tables(e->manager, &request, 1, 0, -1, table, kPromptBlocks + 1));
  char* page = malloc(e->page.page_bytes);
  char* expected = malloc(e->page.page_bytes);
  if (page == NULL || expected == NULL) exit(1);
  for (int b = 0; b < kPromptBlocks; ++b) {
    fill(expected, e, tokens + b * kB);
    if ((uint64_t)b < cached / kB) {
      check(kvc_storage_pack_pages(e->storage, &table[b], 1, page, e->page.page_bytes, 0));
      if (memcmp(page, expected, e->page.page_bytes) != 0) {
        fprintf(stderr, "block %d has other bytes than were stored\n", b);
        exit(1);
      }
    } else {
      check(kvc_storage_unpack_pages(e->storage, &table[b], 1, expected, e->page.page_bytes, 0));
    }
  }
  free(page);
  free(expected);
  check(kvc_manager_commit_tokens(e->manager, request, kTokens)); /* publishes the full blocks */
  check(kvc_manager_free_request(e->manager, request));
  return cached;
}

/* One life of an engine. Returns the tokens that were loaded. */
static uint64_t live(const char* file) {
  int32_t tokens[kTokens];
  for (int i = 0; i < kTokens; ++i) tokens[i] = 1000 + 7 * i;
  Engine engine;
  start(&engine, file);
  const uint64_t loaded = serve(&engine, tokens); /* nothing else can be cached in a new manager */
  uint64_t left;
  check(kvc_offload_flush(engine.offload, ++engine.now, UINT64_MAX, NULL, &left)); /* all is in the file */
  kvc_offload_tier_stats slab = {.struct_size = sizeof slab};
  check(kvc_offload_read_tier_stats(engine.offload, 0, &slab));
  printf("%d tokens: %d loaded, all bytes right; %d pages stored in %s\n", kTokens, (int)loaded,
         (int)slab.stored_pages, file);
  if (loaded != 0) stop(&engine);
  return loaded;
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc > 1) {
    if (live(argv[1]) != 0) return 0;
    printf("waiting for kill -9 %d\n", (int)getpid());
    for (;;) pause();
  }
  char folder[] = "/tmp/kvcache-08_restart-XXXXXX", file[sizeof folder + 3];
  if (mkdtemp(folder) == NULL) return perror("mkdtemp"), 1;
  snprintf(file, sizeof file, "%s/kv", folder);
  const pid_t first = fork();
  if (first == 0) {
    live(file);
    raise(SIGKILL); /* no destructor runs, nothing is flushed */
  }
  int status = 0;
  const int was_killed =
      first > 0 && waitpid(first, &status, 0) == first && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const uint64_t loaded = live(file);
  unlink(file);
  rmdir(folder);
  return was_killed && loaded == kPromptBlocks * kB ? 0 : 1;
}
