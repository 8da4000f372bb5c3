/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in: a store of pages in memory, as small as one can be. Build it as libkvcache_example.so, set
 * KVC_PLUGIN_PATH to its folder, and open a tier with the URL "example:". docs/TIERS.md explains it. */
#include <kvcache/plugin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

typedef struct value { /* header and data: one value, never two */
  struct value* next;
  uint64_t bytes;
  unsigned char key[32], header[KVC_PAGE_HEADER_BYTES];
  unsigned char data[];
} value;

typedef struct store {
  pthread_mutex_t lock;
  uint64_t pages, bytes;
  value* buckets[BUCKETS];
} store;

static const kvc_plugin_host* host;

/* Keys are SHA-256, so any bytes of them spread well. The place where the value is or would be. */
static value** find(store* s, const uint8_t* key) {
  value** at = &s->buckets[(key[0] | (unsigned)key[1] << 8) % BUCKETS];
  while (*at != NULL && memcmp((*at)->key, key, 32) != 0) at = &(*at)->next;
  return at;
}

static kvc_status open_store(const kvc_store_config* config, void** out) {
  store* s;
  if (strcmp(config->url, "example:") != 0) {
    host->set_error("the plug-in \"example\" has no parameters of its own; write example:");
    return KVC_ERROR_INVALID_ARGUMENT;
  }
  s = calloc(1, sizeof *s);
  if (s == NULL || pthread_mutex_init(&s->lock, NULL) != 0) {
    free(s);
    host->set_error("the plug-in \"example\" has no memory");
    return KVC_ERROR_OUT_OF_MEMORY;
  }
  *out = s;
  return KVC_OK;
}

static void exists(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  store* s = of;
  (void)call; /* nothing here waits, so the deadline does not matter */
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < n; ++i) items[i].result = *find(s, items[i].key) ? KVC_PAGE_OK : KVC_PAGE_MISS;
  pthread_mutex_unlock(&s->lock);
}

static void get(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  store* s = of;
  (void)call;
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < n; ++i) {
    const value* v = *find(s, items[i].key);
    items[i].result = v != NULL && v->bytes == items[i].bytes ? KVC_PAGE_OK : KVC_PAGE_MISS;
    if (items[i].result != KVC_PAGE_OK) continue;
    memcpy(items[i].header, v->header, sizeof v->header);
    if (v->bytes != 0) memcpy(items[i].data, v->data, v->bytes);
  }
  pthread_mutex_unlock(&s->lock);
}

static void put(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  store* s = of;
  (void)call;
  for (size_t i = 0; i < n; ++i) {
    value *v = malloc(sizeof *v + items[i].bytes), **at;
    items[i].result = v == NULL ? KVC_PAGE_NO_SPACE : KVC_PAGE_OK;
    if (v == NULL) continue;
    v->next = NULL;
    v->bytes = items[i].bytes;
    memcpy(v->key, items[i].key, sizeof v->key);
    memcpy(v->header, items[i].header, sizeof v->header);
    if (v->bytes != 0) memcpy(v->data, items[i].data, v->bytes);
    pthread_mutex_lock(&s->lock); /* a reader sees the whole value or none */
    at = find(s, v->key);
    if (*at == NULL) {
      *at = v;
      s->pages += 1, s->bytes += v->bytes;
      v = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(v); /* there was one: equal keys have equal bytes */
  }
}

static void remove_values(void* of, const kvc_store_call* call, kvc_store_item* items, size_t n) {
  store* s = of;
  (void)call;
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < n; ++i) {
    value **at = find(s, items[i].key), *gone = *at;
    items[i].result = KVC_PAGE_OK;
    if (gone == NULL) continue;
    *at = gone->next;
    s->pages -= 1, s->bytes -= gone->bytes;
    free(gone);
  }
  pthread_mutex_unlock(&s->lock);
}

static void info(void* of, kvc_store_info* out) {
  store* s = of;
  pthread_mutex_lock(&s->lock);
  out->pages = s->pages, out->bytes = s->bytes;
  pthread_mutex_unlock(&s->lock);
}

static void close_store(void* of) {
  store* s = of;
  for (size_t b = 0; b < BUCKETS; ++b) {
    for (value *v = s->buckets[b], *next; v != NULL; v = next) {
      next = v->next;
      free(v);
    }
  }
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static const kvc_store table = {sizeof(kvc_store), 0,   0, open_store, close_store, exists, get, put,
                                remove_values,     info};
static const kvc_plugin plugin = {sizeof(kvc_plugin), KVC_PLUGIN_ABI, 0, "example", &table, NULL, NULL, NULL};

KVC_API kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* h, const kvc_plugin** out);
kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* h, const kvc_plugin** out) {
  host = h;
  *out = &plugin;
  return KVC_OK;
}
