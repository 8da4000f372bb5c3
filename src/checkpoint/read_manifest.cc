// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read_manifest.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"

namespace kvc {
namespace {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;
// So many bytes may be holes, and so many for each that is none. The tokens of a manifest may all be 0, but
// not its digests.
constexpr uint64_t kFreeHoles = uint64_t{16} << 20, kHolesPerByte = 64;

uint64_t bytes_in_holes(const char* data, uint64_t size) {
  constexpr uint64_t kBlock = 4096;
  static constexpr char kZeroes[kBlock] = {};
  uint64_t holes = 0;
  for (uint64_t at = 0; at < size; at += kBlock) {
    const uint64_t bytes = std::min(kBlock, size - at);
    if (std::memcmp(data + at, kZeroes, bytes) == 0) holes += bytes;
  }
  return holes;
}

}  // namespace

kvc_status read_manifest(Files& files, int file, uint64_t offset, uint64_t size, const char* name,
                         Manifest* out, int* error) {
  std::string bytes(std::min<uint64_t>(size, kManifestHeaderBytes), '\0');
  *error = read_fully(files, file, bytes.data(), bytes.size(), offset);
  if (*error != 0) return KVC_OK;
  KVC_TRY(check_manifest_header(name, bytes.data(), bytes.size(), size));
  uint64_t holes = 0;
  for (uint64_t at = bytes.size(); at < size;) {
    const uint64_t part = std::min(kReadBytes, size - at);
    bytes.resize(at + part);
    *error = read_fully(files, file, bytes.data() + at, part, offset + at);
    if (*error != 0) return KVC_OK;
    holes += bytes_in_holes(bytes.data() + at, part);
    at += part;
    if (holes > kFreeHoles && holes / kHolesPerByte > at - holes)
      return fail(KVC_ERROR_CORRUPT, "%s: of its first %llu bytes %llu are zeroes; the file is damaged", name,
                  ull(at), ull(holes));
  }
  return decode_manifest(name, bytes.data(), bytes.size(), out);
}

}  // namespace kvc
