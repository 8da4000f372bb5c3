// SPDX-License-Identifier: Apache-2.0
// Backends that come from libraries of their own: finding, opening and checking them. A backend that was
// opened stays open for the life of the process; a failure is forgotten, so that a later call may succeed.
// Any thread may call.
#pragma once
#include "backend/backend.h"

namespace kvc {

struct OpenBackend {
  const kvc_backend* table;
  const char* path;  // "" = linked into this library
};

// `name` is checked: lower-case letters and digits. Searched are `path` (a file or a folder) alone, or,
// without it, the folders of KVC_BACKEND_PATH, the folder of this library and kvcache/ in it.
kvc_status open_backend(const char* name, const char* path, OpenBackend* backend);

bool is_backend_name(const char* name, size_t length);

}  // namespace kvc
