// SPDX-License-Identifier: Apache-2.0
// The plug-in `redis`: pages in Redis, Valkey, or whatever speaks their protocol.

#include "store.h"

extern "C" __attribute__((visibility("default"))) kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* host,
                                                                                 const kvc_plugin** plugin) {
  static const kvc_plugin table = {sizeof table,       KVC_PLUGIN_ABI, 0,       "redis",
                                   &kvc_redis::kStore, nullptr,        nullptr, nullptr};
  kvc_redis::set_error = host->set_error;
  *plugin = &table;
  return KVC_OK;
}
