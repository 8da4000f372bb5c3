// SPDX-License-Identifier: Apache-2.0
#include "backend/backends.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "base/status.h"

// Backends that are parts of this library: the build lists them as KVC_STATIC(name) KVC_STATIC(name) ...
#ifndef KVC_STATIC_BACKENDS
#define KVC_STATIC_BACKENDS
#endif
#define KVC_STATIC(name) \
  extern "C" kvc_status kvc_##name##_backend_entry(const kvc_backend_host* host, const kvc_backend** backend);
KVC_STATIC_BACKENDS
#undef KVC_STATIC

namespace kvc {
namespace {

constexpr size_t kMaxName = 15;

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

bool exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Of this library, or of the program that it is linked into.
std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&set_error), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Looks for the file; `searched` gets all that was looked for.
std::string find_file(const std::string& file, const char* path, std::string* searched) {
  const auto found = [&](const std::string& place) {
    if (exists(place)) return true;
    *searched += (searched->empty() ? "" : ", ") + place;
    return false;
  };
  if (path != nullptr) {
    if (found(path)) return path;
    const std::string inside = std::string(path) + "/" + file;
    return found(inside) ? inside : "";
  }
  if (const char* folders = secure_getenv("KVC_BACKEND_PATH"); folders != nullptr) {
    for (const char* at = folders; *at != '\0';) {
      const size_t length = std::strcspn(at, ":");
      std::string place = std::string(at, length) + "/" + file;
      if (length != 0 && found(place)) return place;
      at += length + (at[length] == ':');
    }
  }
  for (const char* folder : {"/", "/kvcache/"}) {  // the second: where packages put them
    std::string place = own_folder() + folder + file;
    if (found(place)) return place;
  }
  return "";
}

kvc_status load(const char* name, const std::string& path, const kvc_backend** table) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "backend \"%s\" cannot be loaded: %s; install it anew, and the vendor's runtime that it needs", name,
        dlerror());
  const auto entry = reinterpret_cast<kvc_backend_entry>(dlsym(library, KVC_BACKEND_ENTRY));
  if (entry == nullptr) {
    dlclose(library);
    return fail(KVC_ERROR_UNSUPPORTED,
                "%s has no function " KVC_BACKEND_ENTRY ": it is no backend, or of another version",
                path.c_str());
  }
  const kvc_status status = enter(entry, name, path.c_str(), table);
  if (status != KVC_OK) dlclose(library);
  return status;
}

}  // namespace

bool is_backend_name(const char* name, size_t length) {
  if (length == 0 || length > kMaxName) return false;
  for (size_t i = 0; i < length; ++i) {
    if ((name[i] < 'a' || name[i] > 'z') && (name[i] < '0' || name[i] > '9')) return false;
  }
  return true;
}

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
    opened.path = find_file("libkvcache_" + opened.name + ".so", path, &searched);
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
