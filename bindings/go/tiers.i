// SPDX-License-Identifier: Apache-2.0
// A job of a tier as one call that returns when the job has ended: Go memory may not be used after a call. Any number of
// threads may call it for one tier. One of those that wait, the leader, waits for the library on behalf of all.

%{
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

typedef struct kvc_waits {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int has_leader, wake;  // an eventfd that wakes the leader
} kvc_waits;

typedef struct kvc_wait {
  int done;
  uint64_t num_ok;
} kvc_wait;

%}
%inline %{
/* CLOCK_MONOTONIC, in ns. */
static uint64_t kvc_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
%}
%{
// With the mutex: tells all threads whose jobs have ended.
static void kvc_waits_take(kvc_waits *w, kvc_tier *t) {
  kvc_tier_completion some[64];
  size_t count = 64;
  while (count == 64 && kvc_tier_poll(t, some, 64, &count) == KVC_OK) {
    for (size_t i = 0; i < count; ++i) {
      kvc_wait *wait = (kvc_wait *)(uintptr_t)some[i].user_data;
      wait->num_ok = some[i].num_ok, wait->done = 1;
    }
  }
  pthread_cond_broadcast(&w->changed);
}

// With the mutex: sleeps until something may have ended, or until `end`, which is 0 afterwards if it was reached.
static void kvc_waits_sleep(kvc_waits *w, kvc_tier *t, uint64_t *end) {
  const uint64_t now = kvc_clock();
  if (w->has_leader) {
    const struct timespec until = {(time_t)(*end / 1000000000u), (long)(*end % 1000000000u)};
    if (!*end) {
      pthread_cond_wait(&w->changed, &w->mutex);
    } else if (pthread_cond_timedwait(&w->changed, &w->mutex, &until) == ETIMEDOUT) {
      *end = 0;
      (void)!eventfd_write(w->wake, 1);  // the leader polls, which ends what is late
    }
    return;
  }
  int32_t fd = -1;
  kvc_tier_event_fd(t, &fd);
  struct pollfd files[2] = {{fd, POLLIN, 0}, {w->wake, POLLIN, 0}};
  const uint64_t left = *end > now ? (*end - now) / 1000000u + 1 : 0;
  w->has_leader = 1;
  pthread_mutex_unlock(&w->mutex);
  poll(files, 2, !*end ? -1 : left > 1000000 ? 1000000 : (int)left);
  pthread_mutex_lock(&w->mutex);
  w->has_leader = 0;
  eventfd_t ignored;
  (void)!eventfd_read(w->wake, &ignored);
  if (*end && kvc_clock() >= *end) *end = 0;
  kvc_waits_take(w, t);
}
%}

KVC_OBJECT(kvc_waits, waits)
KVC_IN_RECORDS(char, page_keys, page_keys_size)
KVC_OUT_RECORDS(char, data, data_size)
KVC_IN_RECORDS(kvc_run, runs, num_runs)
KVC_OUT(int32_t, INT32, results, num_results)
KVC_OUT(uint64_t, UINT64, generations, num_generations)
KVC_OUT(uint64_t, UINT64, leases, num_leases)
KVC_RESULT(uint64_t, num_ok)
%ignore kvc_plugin_open;
%rename(kvc_plugin_open) kvc_plugin_open_at;

%inline %{
static kvc_status kvc_waits_make(kvc_waits **waits) {
  kvc_waits *w = (kvc_waits *)calloc(1, sizeof *w);
  if (!w) abort();
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->changed, &clock);
  pthread_condattr_destroy(&clock);
  pthread_mutex_init(&w->mutex, NULL);
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  *waits = w;
  return w->wake < 0 ? KVC_ERROR_LIMIT : KVC_OK;
}

static void kvc_waits_free(kvc_waits *w) {
  if (w->wake >= 0) close(w->wake);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->mutex);
  free(w);
}

/* A job with a row of `data` for each key, and its results. `generations`: of a get also those that it asks for. page_bytes 0: those of a row;
   now_ns 0: the clock. With threads=0 it does the work. */
static kvc_status kvc_tier_do(kvc_tier *t, kvc_waits *w, uint32_t kind, uint32_t priority, const char *page_keys, size_t page_keys_size, char *data,
                              size_t data_size, const kvc_run *runs, size_t num_runs, uint64_t page_bytes, uint64_t now_ns, uint64_t lease_ns,
                              uint64_t timeout_ns, int32_t *results, size_t num_results, uint64_t *generations, size_t num_generations,
                              uint64_t *leases, size_t num_leases, uint64_t *num_ok) {
  const size_t count = page_keys_size / sizeof ((kvc_tier_item *)0)->key;
  const size_t row = count ? data_size / count : 0;
  kvc_tier_item *items = (kvc_tier_item *)calloc(count ? count : 1, sizeof *items);
  if (!items) abort();
  for (size_t i = 0; i < count; ++i) {
    memcpy(items[i].key, page_keys + 32 * i, 32);
    items[i].data = row ? data + row * i : NULL;
    items[i].bytes = page_bytes ? page_bytes : row;
    items[i].runs = runs, items[i].num_runs = num_runs;
    items[i].generation = i < num_generations ? generations[i] : 0;
  }
  kvc_wait mine = {0, 0};
  const kvc_tier_job job = {sizeof job, items, count, kind, priority, now_ns ? now_ns : kvc_clock(), lease_ns, timeout_ns, (uintptr_t)&mine};
  uint64_t id = 0, end = timeout_ns && timeout_ns < UINT64_MAX / 2 ? kvc_clock() + timeout_ns + 1000000 : 0;
  pthread_mutex_lock(&w->mutex);
  const kvc_status status = kvc_tier_submit(t, &job, &id);
  while (status == KVC_OK && !mine.done) {
    int32_t worked = 0;
    if (kvc_tier_run_one(t, &worked) == KVC_OK) {
      kvc_waits_take(w, t);
    } else {
      kvc_waits_sleep(w, t, &end);
    }
  }
  pthread_mutex_unlock(&w->mutex);
  for (size_t i = 0; status == KVC_OK && i < count; ++i) {
    if (i < num_results) results[i] = items[i].result;
    if (i < num_generations) generations[i] = items[i].generation;
    if (i < num_leases) leases[i] = items[i].lease_until_ns;
  }
  *num_ok = mine.num_ok;
  free(items);
  return status;
}

/* An empty path is none. */
static kvc_status kvc_plugin_open_at(const char *name, const char *path) { return kvc_plugin_open(name, *path ? path : NULL); }
%}
