// SPDX-License-Identifier: Apache-2.0
// Reads a manifest from a file that may have come from anywhere: memory follows the bytes that are really
// there, and not the size that a file with holes has.
#pragma once
#include "base/files.h"
#include "checkpoint/manifest.h"

namespace kvc {

// The manifest in [offset, offset + size) of an open file. *error: 0, or why the file cannot be read; the
// result is KVC_OK then, and nothing is in `out`.
kvc_status read_manifest(Files& files, int file, uint64_t offset, uint64_t size, const char* name,
                         Manifest* out, int* error);

}  // namespace kvc
