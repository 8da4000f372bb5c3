// SPDX-License-Identifier: Apache-2.0
// A store of a plug-in (kvcache/plugin.h) as a PageStore. The plug-in moves values by key; here they become
// pages: a header is put before each, and key, fingerprint and checksum are checked after each get. A value
// that does not check is removed, so that it can be stored anew.
#pragma once
#include <kvcache/plugin.h>

#include "base/env.h"
#include "tier/store.h"

namespace kvc {

struct PluginStoreConfig {
  const kvc_store* table;
  const char* name;  // of the plug-in
  const char* url;
  const char* text;  // the same for error texts: it may have no secrets
  uint64_t page_bytes;
  Digest256 fingerprint;
  uint32_t workers;  // 0: the caller, which is worker 0
};

kvc_status open_plugin_store(const Env& env, const PluginStoreConfig& config, PageStorePtr* out);

}  // namespace kvc
