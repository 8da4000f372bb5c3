// SPDX-License-Identifier: Apache-2.0
// How much memory the process may use: the machine's, within the limits of the process's control groups.
#pragma once
#include <cstdint>

namespace kvc {

struct FreeMemory {
  uint64_t total, free;  // bytes; 0 = unknown; 1 = nothing is free
};

// Reads /proc and /sys/fs/cgroup (versions 2 and 1) below `root`. Caches of files that the kernel can drop
// count as free.
FreeMemory read_free_memory(const char* root = "");

}  // namespace kvc
