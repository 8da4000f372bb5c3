// SPDX-License-Identifier: Apache-2.0
#include "backend/backends.h"

#include <dlfcn.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "base/status.h"
#include "plugin/libraries.h"

// Backends that are part of this library: the build lists them as KVC_STATIC(name) KVC_STATIC(name) ...
#ifndef KVC_STATIC_BACKENDS
#define KVC_STATIC_BACKENDS
#endif
#define KVC_STATIC(name) \
  extern "C" kvc_status kvc_##name##_backend_entry(const kvc_backend_host* host, const kvc_backend** backend);
KVC_STATIC_BACKENDS
#undef KVC_STATIC

namespace kvc {
namespace {

struct Static {
  const char* name;
  kvc_backend_entry entry;
};
#define KVC_STATIC(name) {#name, kvc_##name##_backend_entry},
constexpr Static kStatic[] = {KVC_STATIC_BACKENDS{nullptr, nullptr}};
#undef KVC_STATIC

struct Known {
  std::string name, path;
  const kvc_backend* table;
};

struct Registry {
  std::mutex mutex;
  std::deque<Known> open;  // addresses stay
};
Registry& registry() {
  static auto* const all = new Registry;  // outlives the destructors of whoever still uses a device
  return *all;
}

void set_error(const char* text) { fail(KVC_OK, "%s", text); }

kvc_status check_table(const char* name, const char* path, const kvc_backend* table) {
  if (table->abi_version != KVC_BACKEND_ABI || table->struct_size != sizeof(kvc_backend)) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "%s is a backend of another version: its interface is %u with %zu bytes, that of this library %u "
        "with %zu; install both from one build",
        path, table->abi_version, table->struct_size, KVC_BACKEND_ABI, sizeof(kvc_backend));
  }
  if (std::strcmp(table->name, name) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "%s is the backend \"%.15s\", not \"%s\"", path, table->name, name);
  return KVC_OK;
}

kvc_status enter(kvc_backend_entry entry, const char* name, const char* path, const kvc_backend** table) {
  static const kvc_backend_host host = {sizeof host, KVC_BACKEND_ABI, 0, set_error};
  const kvc_backend* found = nullptr;
  KVC_TRY(entry(&host, &found));
  KVC_TRY(check_table(name, path, found));
  *table = found;
  return KVC_OK;
}

kvc_status load(const char* name, const std::string& path, const kvc_backend** table) {
  void *library = nullptr, *entry = nullptr;
  KVC_TRY(load_library("backend", name, path, KVC_BACKEND_ENTRY, &library, &entry));
  const kvc_status status = enter(reinterpret_cast<kvc_backend_entry>(entry), name, path.c_str(), table);
  if (status != KVC_OK) dlclose(library);
  return status;
}

}  // namespace

kvc_status open_backend(const char* name, const char* path, OpenBackend* backend) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const Known& known : all.open) {
    if (known.name != name) continue;
    if (path != nullptr && known.path.rfind(path, 0) != 0) {
      return fail(KVC_ERROR_BUSY, "backend \"%s\" is open already, from %s", name,
                  known.path.empty() ? "this library" : known.path.c_str());
    }
    *backend = {known.table, known.path.c_str()};
    return KVC_OK;
  }
  Known opened = {name, "", nullptr};
  kvc_status status = KVC_ERROR_NOT_FOUND;
  for (const Static* entry = kStatic; path == nullptr && entry->name != nullptr; ++entry) {
    if (opened.name == entry->name)
      status = enter(entry->entry, name, "a part of this library", &opened.table);
  }
  if (opened.table == nullptr) {
    if (status != KVC_ERROR_NOT_FOUND) return status;
    std::string searched;
    opened.path = find_library(name, path, "KVC_BACKEND_PATH", &searched);
    if (opened.path.empty())
      return fail(KVC_ERROR_NOT_FOUND, "there is no backend \"%s\"; \"cpu\" is always there. Looked for: %s",
                  name, searched.c_str());
    if (status = load(name, opened.path, &opened.table); status != KVC_OK) return status;
  }
  all.open.push_back(std::move(opened));
  *backend = {all.open.back().table, all.open.back().path.c_str()};
  return KVC_OK;
}

}  // namespace kvc
