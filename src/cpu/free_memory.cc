// SPDX-License-Identifier: Apache-2.0
#include "cpu/free_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kvc {
namespace {

constexpr uint64_t kNotRead = UINT64_MAX;

// A small file; empty if it cannot be read.
class File {
 public:
  File(const char* root, const char* folder, const char* name) {
    char path[PATH_MAX];
    const int length = std::snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    const bool fits = length > 0 && static_cast<size_t>(length) < sizeof path;
    const int file = fits ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t bytes = file >= 0 ? read(file, text_, sizeof text_ - 1) : 0;
    if (file >= 0) close(file);
    text_[bytes > 0 ? bytes : 0] = '\0';
  }

  // The rest of the first line that begins with `key`, or nullptr.
  const char* after(const char* key) const {
    for (const char* line = text_; *line != '\0'; ++line) {
      if (std::strncmp(line, key, std::strlen(key)) == 0) return line + std::strlen(key);
      line = std::strchr(line, '\n');
      if (line == nullptr) break;
    }
    return nullptr;
  }
  // The number there; kNotRead if there is none, as in "max".
  uint64_t number_after(const char* key) const {
    const char* from = after(key);
    char* end = nullptr;
    const uint64_t number = from != nullptr ? std::strtoull(from, &end, 10) : 0;
    return end != from ? number : kNotRead;
  }

 private:
  char text_[8192];
};

// Where one version of control groups keeps what it knows of memory.
struct Version {
  const char *mount, *limit, *usage, *file_cache;
};
constexpr Version kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file "};
constexpr Version kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

// Limits of a group and of all groups above it. In a container its path may be the host's: then only the
// topmost group can be read, and it is the container's.
void apply_limits(const char* root, const Version& version, const char* group, FreeMemory* memory) {
  char folder[PATH_MAX];
  const int length = std::snprintf(folder, sizeof folder, "%s%.*s", version.mount,
                                   static_cast<int>(std::strcspn(group, "\n")), group);
  if (length <= 0 || static_cast<size_t>(length) >= sizeof folder) return;
  for (char* end = folder + length;; end = std::strrchr(folder, '/')) {
    *end = '\0';
    const uint64_t limit = File(root, folder, version.limit).number_after("");
    const uint64_t usage = File(root, folder, version.usage).number_after("");
    if (limit != kNotRead && usage != kNotRead) {
      const uint64_t cache = File(root, folder, "memory.stat").number_after(version.file_cache);
      const uint64_t used = usage - (cache != kNotRead ? std::min(cache, usage) : 0);
      memory->total = std::min(memory->total, limit);
      memory->free = std::min(memory->free, std::max<uint64_t>(limit - std::min(limit, used), 1));
    }
    if (std::strlen(folder) <= std::strlen(version.mount)) return;
  }
}

}  // namespace

FreeMemory read_free_memory(const char* root) {
  const File machine(root, "/proc", "meminfo");
  const uint64_t total = machine.number_after("MemTotal:"), available = machine.number_after("MemAvailable:");
  if (total == kNotRead || available == kNotRead) return {0, 0};
  FreeMemory memory{total * 1024, available * 1024};
  const File groups(root, "/proc/self", "cgroup");
  if (const char* group = groups.after("0::")) apply_limits(root, kVersion2, group, &memory);
  const char* text = groups.after("");
  const char* line = text != nullptr ? std::strstr(text, ":memory:") : nullptr;  // "4:memory:/group"
  if (line != nullptr) apply_limits(root, kVersion1, line + std::strlen(":memory:"), &memory);
  return memory;
}

}  // namespace kvc
