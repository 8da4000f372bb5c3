// SPDX-License-Identifier: Apache-2.0
// Shared libraries that this one opens by name: where they are searched, and how one is loaded. GPU backends
// (backend/backends.h) and plug-ins (plugin/plugins.h) are found the same way. Any thread may call.
#pragma once
#include <kvcache/types.h>

#include <string>

namespace kvc {

// Lower-case letters and digits, at most 15.
bool is_library_name(const char* name, size_t length);

// Finds libkvcache_<name>.so in `path` (the file, or the only folder to search) or, if it is null, in the
// folders of the environment variable, the folder of this library, and kvcache/ in it. Empty: it is nowhere;
// `searched` has the places.
std::string find_library(const char* name, const char* path, const char* variable, std::string* searched);

// Opens the file and its function `entry`. `what` is what the library is, for texts: "backend". The library
// stays open unless the caller closes *handle.
kvc_status load_library(const char* what, const char* name, const std::string& path, const char* entry,
                        void** handle, void** function);

}  // namespace kvc
