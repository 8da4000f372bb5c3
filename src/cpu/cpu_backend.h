// SPDX-License-Identifier: Apache-2.0
// The CPU as a backend: storages in host memory, attention, and streams with a thread each.
#pragma once
#include "backend/backend.h"

namespace kvc {

const kvc_backend& cpu_backend();

}  // namespace kvc
