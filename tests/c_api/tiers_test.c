/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers from C: memory, folder and slab behave alike where they can; refusals keep nothing. */
#define _POSIX_C_SOURCE 200809L

#include <kvcache/plugin.h>
#include <kvcache/tier.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tier_config.h"
#include "check.h"

enum { kBytes = 4096 * 3, kPages = 8, kMany = 3000 };

static atomic_int live_allocations;
static void* counted_allocate(void* user_data, size_t size, size_t alignment) {
  (void)user_data;
  ++live_allocations;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
static void counted_release(void* user_data, void* memory, size_t size, size_t alignment) {
  (void)user_data, (void)size, (void)alignment;
  --live_allocations;
  free(memory);
}
static const kvc_allocator allocator_ = {sizeof(kvc_allocator), NULL, counted_allocate, counted_release};

static unsigned char pages_[kPages][kBytes], out_[kPages][kBytes];
static kvc_tier_item items_[kPages];

static kvc_tier_config config_of(const char* url) {
  kvc_tier_config config = test_tier_config(url, kBytes);
  config.allocator = &allocator_;
  return config;
}
static kvc_tier* open_tier(const char* url) {
  const kvc_tier_config config = config_of(url);
  kvc_tier* t = NULL;
  OK(kvc_tier_create(&config, &t));
  CHECK(t != NULL);
  return t;
}

/* Page i: its key is i, and its bytes follow from it. */
static void fill(unsigned char (*to)[kBytes]) {
  memset(items_, 0, sizeof items_);
  for (size_t i = 0; i < kPages; ++i) {
    items_[i].key[0] = (uint8_t)(i + 1);
    items_[i].data = to[i];
    items_[i].bytes = kBytes;
    for (size_t b = 0; b < kBytes; ++b) pages_[i][b] = (unsigned char)(b * (i + 3) >> 3);
  }
}
static kvc_tier_job job_of(uint32_t kind) {
  return (kvc_tier_job){.struct_size = sizeof(kvc_tier_job),
                        .items = items_,
                        .num_items = kPages,
                        .kind = kind,
                        .user_data = 77};
}

/* Waits as an engine does: poll(2) on the eventfd. Returns the number of items that are OK. */
static uint64_t end_of(kvc_tier* t, uint64_t id) {
  int32_t fd = -1;
  size_t count = 0;
  kvc_tier_completion done;
  OK(kvc_tier_event_fd(t, &fd));
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  CHECK_EQ(poll(&ready, 1, 20000), 1);
  OK(kvc_tier_poll(t, &done, 1, &count));
  CHECK_EQ(count, 1);
  CHECK_EQ(done.job, id);
  CHECK_EQ(done.user_data, 77);
  CHECK_EQ(poll(&ready, 1, 0), 0);
  return done.num_ok;
}
static uint64_t run(kvc_tier* t, const kvc_tier_job* job) {
  uint64_t id = 0;
  OK(kvc_tier_submit(t, job, &id));
  CHECK(id != 0);
  return end_of(t, id);
}
static kvc_tier_stats stats_of(kvc_tier* t) {
  kvc_tier_stats value = {.struct_size = sizeof value};
  OK(kvc_tier_read_stats(t, &value));
  return value;
}
static kvc_tier_counts counts_of(kvc_tier* t, uint32_t kind) {
  kvc_tier_counts value = {.struct_size = sizeof value};
  OK(kvc_tier_read_counts(t, kind, &value));
  return value;
}

static void test_pages(kvc_tier* t, int leases) {
  fill(pages_);
  kvc_tier_job job = job_of(KVC_TIER_EXISTS);
  CHECK_EQ(run(t, &job), 0);
  job = job_of(KVC_TIER_PUT);
  job.priority = KVC_TIER_STORE;
  CHECK_EQ(run(t, &job), kPages);
  CHECK_EQ(run(t, &job), kPages); /* they are there */
  job = job_of(KVC_TIER_EXISTS);
  job.now_ns = 1000, job.lease_ns = 500;
  CHECK_EQ(run(t, &job), kPages);
  for (size_t i = 0; i < kPages; ++i) CHECK_EQ(items_[i].lease_until_ns, leases ? 1500 : 0);
  fill(out_);
  job = job_of(KVC_TIER_GET);
  CHECK_EQ(run(t, &job), kPages);
  CHECK(memcmp(pages_, out_, sizeof out_) == 0);
  /* A rank reads its runs, one behind the other. */
  const kvc_run runs[] = {{100, 10}, {5000, 4000}, {kBytes - 1, 1}};
  memset(out_, 0, sizeof out_);
  for (size_t i = 0; i < kPages; ++i) items_[i].runs = runs, items_[i].num_runs = 3;
  CHECK_EQ(run(t, &job), kPages);
  for (size_t i = 0; i < kPages; ++i) {
    CHECK(memcmp(out_[i], pages_[i] + 100, 10) == 0);
    CHECK(memcmp(out_[i] + 10, pages_[i] + 5000, 4000) == 0);
    CHECK_EQ(out_[i][4010], pages_[i][kBytes - 1]);
    CHECK_EQ(out_[i][4011], 0);
    items_[i].runs = NULL, items_[i].num_runs = 0;
  }
  /* A page of the generation that was leased, or none. */
  if (leases) {
    items_[2].generation = 1u << 30;
    CHECK_EQ(run(t, &job), kPages - 1);
    CHECK_EQ(items_[2].result, KVC_PAGE_EXPIRED);
  }
  items_[2].generation = 0;
  /* Leased pages stay; then they go. */
  job = job_of(KVC_TIER_REMOVE);
  job.now_ns = 1499;
  CHECK_EQ(run(t, &job), leases ? 0 : kPages);
  if (leases) CHECK_EQ(items_[0].result, KVC_PAGE_PENDING);
  job.now_ns = 1500;
  CHECK_EQ(run(t, &job), leases ? kPages : 0);
  job = job_of(KVC_TIER_GET);
  CHECK_EQ(run(t, &job), 0);
  for (size_t i = 0; i < kPages; ++i) CHECK_EQ(items_[i].result, KVC_PAGE_MISS);

  const kvc_tier_counts puts = counts_of(t, KVC_TIER_PUT);
  CHECK_EQ(puts.jobs, 2);
  CHECK_EQ(puts.items, 2 * kPages);
  CHECK_EQ(puts.ok, 2 * kPages);
  CHECK_EQ(puts.bytes, 2 * kPages * kBytes);
  const kvc_tier_stats s = stats_of(t);
  CHECK_EQ(s.pages, 0);
  CHECK_EQ(s.waiting_jobs + s.running_jobs + s.done_jobs + s.waiting_store_bytes, 0);
  CHECK_EQ(s.bad_headers + s.bad_payloads + s.failures + s.outages, 0);
  CHECK_EQ(s.available, 1);
}

/* A tier of 2 pages whose pages are leased has no room until the leases end. */
static void test_leases_bound_puts(void) {
  kvc_tier* t = open_tier("memory:?bytes=24KiB&threads=1");
  fill(pages_);
  kvc_tier_job job = job_of(KVC_TIER_PUT);
  job.num_items = 2;
  CHECK_EQ(run(t, &job), 2);
  job = job_of(KVC_TIER_EXISTS);
  job.num_items = 2, job.now_ns = 10, job.lease_ns = UINT64_MAX;
  CHECK_EQ(run(t, &job), 2);
  CHECK(items_[0].lease_until_ns == UINT64_MAX);
  job = job_of(KVC_TIER_PUT);
  job.items = items_ + 2, job.num_items = 1, job.now_ns = UINT64_MAX - 1;
  CHECK_EQ(run(t, &job), 0);
  CHECK_EQ(items_[2].result, KVC_PAGE_NO_SPACE);
  job.now_ns = UINT64_MAX;
  CHECK_EQ(run(t, &job), 1);
  CHECK_EQ(stats_of(t).evictions, 1);
  kvc_tier_destroy(t);
}

static void test_many_keys(void) {
  static kvc_tier_item keys[kMany];
  kvc_tier* t = open_tier("memory:?bytes=1MiB");
  memset(keys, 0, sizeof keys);
  for (size_t i = 0; i < kMany; ++i) memcpy(keys[i].key, &i, sizeof i), keys[i].result = 99;
  kvc_tier_job job = job_of(KVC_TIER_EXISTS);
  job.items = keys, job.num_items = kMany;
  CHECK_EQ(run(t, &job), 0);
  for (size_t i = 0; i < kMany; ++i) CHECK_EQ(keys[i].result, KVC_PAGE_MISS);
  CHECK_EQ(counts_of(t, KVC_TIER_EXISTS).misses, kMany);
  kvc_tier_destroy(t);
}

#define REFUSED_TEXT(status, call, text)             \
  do {                                               \
    EXPECT(status, call);                            \
    check_text(text, "", #call, __FILE__, __LINE__); \
  } while (0)

static void test_refused_jobs(void) {
  kvc_tier_config config = config_of("memory:?bytes=1MiB&threads=0&jobs=4");
  config.max_store_bytes = 2 * kBytes;
  kvc_tier* t = NULL;
  OK(kvc_tier_create(&config, &t));
  uint64_t id = POISON;
  fill(pages_);
  for (size_t i = 0; i < kPages; ++i) items_[i].result = 1234;
  kvc_tier_job job = job_of(4);
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "kind is 4");
  job = job_of(KVC_TIER_GET);
  job.priority = 3;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "priority is 3");
  job = job_of(KVC_TIER_GET);
  job.num_items = 0;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "items");
  job.num_items = SIZE_MAX;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id));
  job = job_of(KVC_TIER_GET);
  items_[3].reserved = 1;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "items[3].reserved is 1");
  items_[3].reserved = 0;
  items_[4].data = NULL;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "items[4].data is NULL");
  items_[4].data = pages_[4];
  items_[5].bytes = UINT64_MAX;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "items[5].bytes");
  items_[5].bytes = kBytes;
  const kvc_run behind = {kBytes - 1, 2};
  items_[6].runs = &behind, items_[6].num_runs = 1;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id), "items[6].runs[0]");
  items_[6].runs = NULL, items_[6].num_runs = 0;
  job = job_of(KVC_TIER_PUT);
  job.num_items = 3;
  REFUSED_TEXT(KVC_ERROR_LIMIT, kvc_tier_submit(t, &job, &id), "max_store_bytes");
  CHECK_EQ(stats_of(t).refused_bytes, 1);
  job.struct_size = 8;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_submit(t, &job, &id));
  CHECK(id == POISON);
  for (size_t i = 0; i < kPages; ++i) CHECK_EQ(items_[i].result, 1234);
  kvc_tier_counts counts = {.struct_size = sizeof counts};
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_read_counts(t, 4, &counts));
  int32_t did = 5;
  kvc_tier* threads = open_tier("memory:?bytes=1MiB&threads=1");
  REFUSED_TEXT(KVC_ERROR_UNSUPPORTED, kvc_tier_run_one(threads, &did), "threads=0");
  CHECK_EQ(did, 5);
  kvc_tier_destroy(threads);
  kvc_tier_destroy(t);
}

static int is_there(const char* path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static void test_refused_tiers(const char* folder) {
  char url[512], path[256];
  kvc_tier* t = (kvc_tier*)&live_allocations;
  kvc_tier_config config = config_of("memory:?bytes=1MiB");
  config.page_bytes = 0;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_create(&config, &t), "page_bytes is 0");
  config.page_bytes = ((uint64_t)1 << 40) + 1;
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_create(&config, &t), "2^40");
  config = config_of(NULL);
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_create(&config, &t), "url is NULL");
  config = config_of("none:?bytes=1MiB");
  REFUSED_TEXT(KVC_ERROR_NOT_FOUND, kvc_tier_create(&config, &t), "libkvcache_none.so");
  config = config_of("memory:?bytes=1MiB&policy=best");
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_create(&config, &t), "policy is 'best'");
  snprintf(path, sizeof path, "%s/refused", folder);
  snprintf(url, sizeof url, "slab:%s?bytes=1MiB&jobs=0", path);
  config = config_of(url);
  REFUSED_TEXT(KVC_ERROR_INVALID_ARGUMENT, kvc_tier_create(&config, &t), "jobs is 0");
  CHECK(!is_there(path));
  snprintf(url, sizeof url, "dir:%s?bytes=1MiB&policy=frequency", path);
  config = config_of(url);
  REFUSED_TEXT(KVC_ERROR_UNSUPPORTED, kvc_tier_create(&config, &t), "policy=lru");
  CHECK(!is_there(path));
  snprintf(url, sizeof url, "slab:%s/none/file?bytes=1MiB", folder);
  config = config_of(url);
  EXPECT(KVC_ERROR_NOT_FOUND, kvc_tier_create(&config, &t));
  CHECK(t == (kvc_tier*)&live_allocations);
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_plugin_open("No", NULL));
  EXPECT(KVC_ERROR_NOT_FOUND, kvc_plugin_open("none", NULL));
}

static void test_slab_is_of_one_process_and_several_fingerprints(const char* url) {
  kvc_tier *t = open_tier(url), *other = NULL;
  fill(pages_);
  kvc_tier_job job = job_of(KVC_TIER_PUT);
  CHECK_EQ(run(t, &job), kPages);
  kvc_tier_config config = config_of(url);
  EXPECT(KVC_ERROR_BUSY, kvc_tier_create(&config, &other));
  kvc_tier_destroy(t);
  config.fingerprint[0] = 2;
  CHECK_EQ(kvc_tier_create(&config, &other), KVC_OK);
  CHECK_EQ(stats_of(other).recovered, 0);
  CHECK_EQ(stats_of(other).pages, kPages);
  kvc_tier_destroy(other);
  t = open_tier(url); /* warm */
  CHECK_EQ(stats_of(t).recovered, kPages);
  fill(out_);
  memset(out_, 0, sizeof out_);
  job = job_of(KVC_TIER_GET);
  CHECK_EQ(run(t, &job), kPages);
  CHECK(memcmp(pages_, out_, sizeof out_) == 0);
  kvc_tier_destroy(t);
}

int main(void) {
  char folder[] = "/tmp/kvc-c-tiers-XXXXXX", url[512], path[256];
  CHECK(mkdtemp(folder) != NULL);
  kvc_tier* t = open_tier("memory:?bytes=1MiB");
  test_pages(t, 1);
  kvc_tier_destroy(t);
  t = open_tier("memory:?bytes=1MiB&policy=frequency&threads=1");
  test_pages(t, 1);
  kvc_tier_destroy(t);
  snprintf(url, sizeof url, "slab:%s/slab?bytes=1MiB", folder);
  t = open_tier(url);
  test_pages(t, 1);
  kvc_tier_destroy(t);
  test_slab_is_of_one_process_and_several_fingerprints(url);
  snprintf(url, sizeof url, "dir:%s/dir?bytes=1MiB&threads=2", folder);
  t = open_tier(url);
  test_pages(t, 0);
  kvc_tier_destroy(t);
  test_leases_bound_puts();
  test_many_keys();
  test_refused_jobs();
  test_refused_tiers(folder);
  CHECK_EQ(live_allocations, 0);
  snprintf(path, sizeof path, "rm -r %s", folder);
  CHECK_EQ(system(path), 0);
  puts("tiers do as kvcache/tier.h says");
  return 0;
}
