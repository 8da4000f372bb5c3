// SPDX-License-Identifier: Apache-2.0
// Finds, opens and checks backends in libraries of their own. An open backend stays open for the life of the
// process. A failure is not remembered: a later call may succeed. Any thread may call.
#pragma once
#include "backend/backend.h"

namespace kvc {

struct OpenBackend {
  const kvc_backend* table;
  const char* path;  // "" = linked into this library
};

// `name` has lower-case letters and digits. Searches only `path` (a file or a folder) or, without it, the
// folders of KVC_BACKEND_PATH, the folder of this library, and kvcache/ in it.
kvc_status open_backend(const char* name, const char* path, OpenBackend* backend);

}  // namespace kvc
