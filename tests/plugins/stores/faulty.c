/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory that fails, waits and lies as it is told (faulty.h). Built as FAULTY_NAME, with
 * FAULTY_FLAGS; with FAULTY_KEEPS it cannot remove. Its URL may have parameters: open=fail, open=quiet,
 * open=nothing, open=odd; others are ignored. */
#define _POSIX_C_SOURCE 200809L
#include "faulty.h"

#include <kvcache/plugin.h>
#include <kvcache/tier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VALUES 256
#ifndef FAULTY_KEEPS
#define FAULTY_KEEPS 0
#endif

typedef struct value {
  int used;
  unsigned char key[32], header[KVC_PAGE_HEADER_BYTES];
  unsigned char* data;
  uint64_t bytes;
} value;
typedef struct store {
  value values[VALUES];
  size_t last, opened;
} store;

static const kvc_plugin_host* host;
/* Of all stores: tests have one at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int mode, wait_ms, is_held;
static faulty_counts counts;
static unsigned char own_place[1u << 16];

KVC_API faulty_set_function faulty_set;
KVC_API faulty_read_function faulty_read;

void faulty_set(int new_mode, int milliseconds, int held) {
  pthread_mutex_lock(&lock);
  mode = new_mode, wait_ms = milliseconds, is_held = held;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
void faulty_read(faulty_counts* out) {
  pthread_mutex_lock(&lock);
  *out = counts;
  pthread_mutex_unlock(&lock);
}

static void sleep_ns(uint64_t ns) {
  struct timespec time;
  time.tv_sec = (time_t)(ns / 1000000000u), time.tv_nsec = (long)(ns % 1000000000u);
  nanosleep(&time, NULL);
}

static value* find(store* s, const uint8_t* key) {
  for (size_t i = 0; i < VALUES; ++i)
    if (s->values[i].used && memcmp(s->values[i].key, key, 32) == 0) return &s->values[i];
  return NULL;
}
static const value* find_other(store* s, const uint8_t* key, uint64_t bytes) {
  for (size_t i = 0; i < VALUES; ++i) {
    const value* v = &s->values[i];
    if (v->used && memcmp(v->key, key, 32) != 0 && v->bytes == bytes) return v;
  }
  return NULL;
}

/* Takes the lock. 0: the results are set already. */
static int begin(const kvc_store_call* call, kvc_store_item* items, size_t n, uint64_t* counter) {
  static const int32_t unknown[] = {77, -1, KVC_PAGE_WAITING, KVC_PAGE_CANCELLED};
  uint64_t ns;
  int fails;
  pthread_mutex_lock(&lock);
  ++counts.calls, ++*counter;
  counts.items += n;
  counts.deadline_ns = call->deadline_ns;
  ++counts.inside;
  while (is_held) pthread_cond_wait(&changed, &lock);
  ns = (uint64_t)wait_ms * 1000000u;
  if (mode == FAULTY_TIMEOUT && call->deadline_ns != 0) {
    struct timespec now;
    uint64_t now_ns;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (now_ns < call->deadline_ns) ns = call->deadline_ns - now_ns;
  }
  if (ns != 0) {
    pthread_mutex_unlock(&lock);
    sleep_ns(ns);
    pthread_mutex_lock(&lock);
  }
  fails = mode == FAULTY_FAILED ||
          (mode == FAULTY_READ_ONLY && (counter == &counts.puts || counter == &counts.removes));
  for (size_t i = 0; i < n; ++i) {
    if (fails) items[i].result = KVC_PAGE_FAILED;
    if (mode == FAULTY_TIMEOUT) items[i].result = KVC_PAGE_TIMEOUT;
    if (mode == FAULTY_UNKNOWN) items[i].result = unknown[i % 4];
  }
  return !fails && mode != FAULTY_TIMEOUT && mode != FAULTY_UNKNOWN && mode != FAULTY_SILENT;
}
static void end(kvc_store_item* items, size_t n) {
  if (mode == FAULTY_HALF)
    for (size_t i = n / 2; i < n; ++i) items[i].result = KVC_PAGE_FAILED;
  --counts.inside;
  pthread_mutex_unlock(&lock);
}

static kvc_status open_store(const kvc_store_config* config, void** out) {
  store* s;
  if (strstr(config->url, "open=fail") != NULL) {
    host->set_error("the test wanted it to fail");
    *out = own_place; /* which nobody may close */
    return KVC_ERROR_DEVICE;
  }
  if (strstr(config->url, "open=quiet") != NULL) return KVC_ERROR_LIMIT;
  if (strstr(config->url, "open=odd") != NULL) return 4711;
  if (strstr(config->url, "open=nothing") != NULL) return KVC_OK;
  s = calloc(1, sizeof *s);
  if (s == NULL) return KVC_ERROR_OUT_OF_MEMORY;
  *out = s;
  return KVC_OK;
}
static void close_store(void* of) {
  store* s = of;
  for (size_t i = 0; i < VALUES; ++i) free(s->values[i].data);
  free(s);
}

static void exists(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  store* s = of;
  static uint64_t ignored;
  if (begin(call, items, n, &ignored))
    for (size_t i = 0; i < n; ++i)
      items[i].result =
          find(s, items[i].key) != NULL || mode == FAULTY_ALWAYS_THERE ? KVC_PAGE_OK : KVC_PAGE_MISS;
  end(items, n);
}

static void get_one(store* s, kvc_store_item* item) {
  const value* v = find(s, item->key);
  const value* other = find_other(s, item->key, item->bytes);
  unsigned char* data = item->data;
  if (v == NULL && mode == FAULTY_ALWAYS_THERE) v = &s->values[s->last];
  item->result = v == NULL || v->bytes != item->bytes ? KVC_PAGE_MISS : KVC_PAGE_OK;
  if (item->result != KVC_PAGE_OK || mode == FAULTY_NOTHING) return;
  if (mode == FAULTY_OTHER_VALUE && other != NULL) v = other;
  memcpy(item->header, v->header, sizeof v->header);
  if (mode == FAULTY_OTHER_DATA && other != NULL) v = other;
  memcpy(data, v->data, mode == FAULTY_SHORT ? v->bytes / 2 : v->bytes);
  if (mode == FAULTY_FLIP_DATA) data[v->bytes - 1] ^= 16;
  if (mode == FAULTY_FLIP_HEADER) ((unsigned char*)item->header)[60] ^= 1;
  if (mode == FAULTY_OTHER_PLACE && v->bytes <= sizeof own_place) {
    memcpy(own_place, v->data, v->bytes);
    data[0] ^= 1;
    item->data = own_place;
  }
}
static void get(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  if (begin(call, items, n, &counts.gets))
    for (size_t i = 0; i < n; ++i) get_one(of, &items[i]);
  end(items, n);
}

static void put_one(store* s, kvc_store_item* item) {
  item->result = KVC_PAGE_OK;
  if (find(s, item->key) != NULL) return;
  for (size_t i = 0; i < VALUES; ++i) {
    value* v = &s->values[i];
    if (v->used) continue;
    v->data = malloc(item->bytes + 1);
    if (v->data == NULL) break;
    v->used = 1, v->bytes = item->bytes, s->last = i;
    memcpy(v->key, item->key, sizeof v->key);
    memcpy(v->header, item->header, sizeof v->header);
    memcpy(v->data, item->data, item->bytes);
    return;
  }
  item->result = KVC_PAGE_NO_SPACE;
}
static void put(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  if (begin(call, items, n, &counts.puts))
    for (size_t i = 0; i < n; ++i) put_one(of, &items[i]);
  end(items, n);
}

static void remove_values(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  if (begin(call, items, n, &counts.removes)) {
    for (size_t i = 0; i < n; ++i) {
      value* v = find(of, items[i].key);
      items[i].result = KVC_PAGE_OK;
      if (v == NULL) continue;
      free(v->data);
      memset(v, 0, sizeof *v);
    }
  }
  end(items, n);
}

static void info(void* of, kvc_store_info* out) {
  store* s = of;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < VALUES; ++i) out->pages += s->values[i].used != 0;
  out->last_errno = mode == FAULTY_FAILED ? 111 : 0;
  pthread_mutex_unlock(&lock);
}

static const kvc_store table = {sizeof(kvc_store),
                                FAULTY_FLAGS,
                                0,
                                open_store,
                                close_store,
                                exists,
                                get,
                                put,
                                FAULTY_KEEPS ? NULL : remove_values,
                                info};
static const kvc_plugin plugin = {
    sizeof(kvc_plugin), KVC_PLUGIN_ABI, 0, FAULTY_NAME, &table, NULL, NULL, NULL};

KVC_API kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* h, const kvc_plugin** out);
kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* h, const kvc_plugin** out) {
  host = h;
  *out = &plugin;
  return KVC_OK;
}
