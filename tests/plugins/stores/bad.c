/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins that the loader must refuse: BAD_KIND says why. */
#include <kvcache/plugin.h>
#include <stddef.h>

enum {
  ABI = 1,
  SMALL,
  OTHER_NAME,
  NO_NAME,
  LACKS_GET,
  SMALL_STORE,
  LACKS_TRANSFER,
  LACKS_BOUND,
  EMPTY,
  NO_TABLE,
  TEXT,
  QUIET,
  LACKS_PUBLISH
};

static kvc_status open_store(const kvc_store_config* config, void** out) {
  (void)config, (void)out;
  return KVC_ERROR_INTERNAL;
}
static void close_store(void* store) { (void)store; }
static void call(void* store, const kvc_store_call* c, kvc_store_item* items, size_t n) {
  (void)store, (void)c, (void)items, (void)n;
}

static const kvc_store store = {sizeof(kvc_store) - (BAD_KIND == SMALL_STORE ? 8 : 0),
                                0,
                                0,
                                open_store,
                                close_store,
                                call,
                                BAD_KIND == LACKS_GET ? NULL : call,
                                call,
                                NULL,
                                NULL};
static const kvc_io_engine io = {sizeof(kvc_io_engine), NULL, close_store, NULL};
static const kvc_codec codec = {sizeof(kvc_codec), NULL, NULL, NULL};
static const kvc_transport transport = {sizeof(kvc_transport), NULL, close_store, NULL, NULL, NULL};
static const kvc_plugin plugin = {BAD_KIND == SMALL ? offsetof(kvc_plugin, codec) : sizeof(kvc_plugin),
                                  BAD_KIND == ABI ? KVC_PLUGIN_ABI + 1 : KVC_PLUGIN_ABI,
                                  0,
                                  BAD_KIND == NO_NAME      ? NULL
                                  : BAD_KIND == OTHER_NAME ? "another"
                                                           : BAD_NAME,
                                  BAD_KIND == EMPTY ? NULL : &store,
                                  BAD_KIND == LACKS_TRANSFER ? &io : NULL,
                                  BAD_KIND == LACKS_BOUND ? &codec : NULL,
                                  BAD_KIND == LACKS_PUBLISH ? &transport : NULL};

KVC_API kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* host, const kvc_plugin** out);
kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* host, const kvc_plugin** out) {
  if (BAD_KIND == TEXT) host->set_error("it has no licence");
  if (BAD_KIND == TEXT) return KVC_ERROR_LIMIT;
  if (BAD_KIND == QUIET) return -5;
  *out = BAD_KIND == NO_TABLE ? NULL : &plugin;
  return KVC_OK;
}
