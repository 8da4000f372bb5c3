// SPDX-License-Identifier: Apache-2.0
// The part of the CPU device that lies above it: attention.
#pragma once
#include "device/backend.h"

namespace kvc {

// Puts attention into the CPU's table.
void add_attention(kvc_backend& cpu);

}  // namespace kvc
