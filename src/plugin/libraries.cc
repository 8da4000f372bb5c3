// SPDX-License-Identifier: Apache-2.0
#include "plugin/libraries.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace kvc {
namespace {

constexpr size_t kMaxName = 15;

bool is_file(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// The folder of this library, or of the program that it is linked into.
std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&is_library_name), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

bool is_library_name(const char* name, size_t length) {
  if (length == 0 || length > kMaxName) return false;
  for (size_t i = 0; i < length; ++i) {
    if ((name[i] < 'a' || name[i] > 'z') && (name[i] < '0' || name[i] > '9')) return false;
  }
  return true;
}

std::string find_library(const char* name, const char* path, const char* variable, std::string* searched) {
  const std::string file = std::string("libkvcache_") + name + ".so";
  const auto found = [&](const std::string& place) {
    if (is_file(place)) return true;
    *searched += (searched->empty() ? "" : ", ") + place;
    return false;
  };
  if (path != nullptr) {
    if (found(path)) return path;
    const std::string inside = std::string(path) + "/" + file;
    return found(inside) ? inside : "";
  }
  if (const char* folders = secure_getenv(variable); folders != nullptr) {
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

kvc_status load_library(const char* what, const char* name, const std::string& path, const char* entry,
                        void** handle, void** function) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(KVC_ERROR_UNSUPPORTED,
                "%s \"%s\" cannot be loaded: %s; install it anew, and the libraries that it needs", what,
                name, dlerror());
  *function = dlsym(library, entry);
  if (*function == nullptr) {
    dlclose(library);
    return fail(KVC_ERROR_UNSUPPORTED, "%s has no function %s: it is no %s, or of another version",
                path.c_str(), entry, what);
  }
  *handle = library;
  return KVC_OK;
}

}  // namespace kvc
