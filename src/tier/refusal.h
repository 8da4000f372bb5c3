// SPDX-License-Identifier: Apache-2.0
// What a tier says when the system refuses something while it is opened.
#pragma once
#include <kvcache/types.h>
#include <sys/stat.h>

namespace kvc {

// `kind` and `path` name the tier, `what` is what it cannot do; `error` is -errno. NOT_FOUND: no such folder;
// BUSY: another process has it; LIMIT: the disk is full, or there are no descriptors; OUT_OF_MEMORY; else
// DEVICE.
kvc_status refused_by_system(const char* kind, const char* path, const char* what, int64_t error);

// Whether others than this user may write to a file or folder with this mode.
constexpr bool is_open_to_others(unsigned mode) { return (mode & 022) != 0; }
// Whether nobody but this user and root may write to a folder.
bool is_safe_folder(const struct stat& status);

}  // namespace kvc
