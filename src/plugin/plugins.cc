// SPDX-License-Identifier: Apache-2.0
#include "plugin/plugins.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/status.h"
#include "plugin/libraries.h"

namespace kvc {
namespace {

struct KnownPlugin {
  std::string name, path;
  const kvc_plugin* table;
};

struct PluginRegistry {
  std::mutex mutex;
  std::deque<KnownPlugin> open;
};
PluginRegistry& plugin_registry() {
  static auto* const all = new PluginRegistry;  // outlives the destructors of whoever still uses a plug-in
  return *all;
}

void set_plugin_error(const char* text) { fail(KVC_OK, "%s", text == nullptr ? "no text" : text); }

bool is_opened_from(const KnownPlugin& known, const std::string& path) {
  return known.path == path || known.path == path + "/libkvcache_" + known.name + ".so";
}

// What the first version of a table ends with, so that an older plug-in stays usable when the table grows.
constexpr size_t kLeastPlugin = offsetof(kvc_plugin, transport), kLeastStore = sizeof(kvc_store),
                 kLeastIo = sizeof(kvc_io_engine), kLeastCodec = sizeof(kvc_codec),
                 kLeastTransport = sizeof(kvc_transport);

kvc_status broken(const std::string& path, const char* what) {
  return fail(KVC_ERROR_UNSUPPORTED, "%s: %s; it is a broken plug-in", path.c_str(), what);
}

kvc_status check_table(const char* name, const std::string& path, const kvc_plugin* table) {
  if (table == nullptr) return broken(path, "it gives no table");
  if (table->abi_version != KVC_PLUGIN_ABI || table->struct_size < kLeastPlugin)
    return fail(KVC_ERROR_UNSUPPORTED,
                "%s is a plug-in of another version: its interface is %u, that of this library %u; build it "
                "with this library's header",
                path.c_str(), table->abi_version, KVC_PLUGIN_ABI);
  if (table->name == nullptr || std::strcmp(table->name, name) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "%s is the plug-in \"%.15s\", not \"%s\"", path.c_str(),
                table->name == nullptr ? "" : table->name, name);
  if (const kvc_store* s = table->store; s != nullptr) {
    if (s->struct_size < kLeastStore || s->open == nullptr || s->close == nullptr || s->exists == nullptr ||
        s->get == nullptr || s->put == nullptr)
      return broken(path, "its store lacks a function");
  }
  if (const kvc_io_engine* io = table->io; io != nullptr) {
    if (io->struct_size < kLeastIo || io->open == nullptr || io->close == nullptr || io->transfer == nullptr)
      return broken(path, "its io engine lacks a function");
  }
  if (const kvc_codec* codec = table->codec; codec != nullptr) {
    if (codec->struct_size < kLeastCodec || codec->bound == nullptr || codec->compress == nullptr ||
        codec->decompress == nullptr)
      return broken(path, "its codec lacks a function");
  }
  const kvc_transport* const transport = transport_of(*table);
  if (transport != nullptr) {
    if (transport->struct_size < kLeastTransport || transport->open == nullptr ||
        transport->close == nullptr || transport->publish == nullptr ||
        (transport->receive == nullptr) != (transport->reply == nullptr))
      return broken(path, "its transport lacks a function");
  }
  if (table->store == nullptr && table->io == nullptr && table->codec == nullptr && transport == nullptr)
    return broken(path, "it gives neither a store, nor an io engine, nor a codec, nor a transport");
  return KVC_OK;
}

kvc_status load(const char* name, const std::string& path, const kvc_plugin** table) {
  static const kvc_plugin_host host = {sizeof host, KVC_PLUGIN_ABI, 0, set_plugin_error};
  void *library = nullptr, *function = nullptr;
  KVC_TRY(load_library("plug-in", name, path, KVC_PLUGIN_ENTRY, &library, &function));
  const kvc_plugin* found = nullptr;
  fail(KVC_OK, "%s: its entry function failed without a text", path.c_str());
  kvc_status status =
      checked_status(reinterpret_cast<kvc_plugin_entry>(function)(&host, &found), KVC_ERROR_INTERNAL);
  if (status == KVC_OK) status = check_table(name, path, found);
  if (status == KVC_OK)
    *table = found;
  else
    dlclose(library);
  return status;
}

}  // namespace

const kvc_transport* transport_of(const kvc_plugin& plugin) {
  return plugin.struct_size < sizeof plugin ? nullptr : plugin.transport;
}

kvc_status open_plugin(const char* name, const char* path, const kvc_plugin** out) {
  if (!is_library_name(name, std::strlen(name)))
    return invalid("\"%.40s\" is no name of a plug-in: 1 to 15 lower-case letters and digits", name);
  PluginRegistry& all = plugin_registry();
  const std::lock_guard lock(all.mutex);
  for (const KnownPlugin& known : all.open) {
    if (known.name != name) continue;
    if (path != nullptr && !is_opened_from(known, path))
      return fail(KVC_ERROR_BUSY, "plug-in \"%s\" is open already, from %s; it cannot be opened again", name,
                  known.path.c_str());
    *out = known.table;
    return KVC_OK;
  }
  std::string searched;
  KnownPlugin opened = {name, find_library(name, path, "KVC_PLUGIN_PATH", &searched), nullptr};
  if (opened.path.empty())
    return fail(KVC_ERROR_NOT_FOUND, "there is no plug-in \"%s\"; set KVC_PLUGIN_PATH. Looked for: %s", name,
                searched.c_str());
  KVC_TRY(load(name, opened.path, &opened.table));
  *out = opened.table;
  all.open.push_back(std::move(opened));
  return KVC_OK;
}

}  // namespace kvc
