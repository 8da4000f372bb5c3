// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: all that it has but the bytes of pages, and where these are
// (docs/CHECKPOINTS.md has the format). Encoding and decoding are pure functions; a decoded manifest is
// sound: every index in it is in range, and a tree, pools and requests can be made of it without another
// look. Little-endian, as the machines that the library supports.
#pragma once
#include <string>
#include <vector>

#include "manager/contents.h"
#include "tier/page.h"

namespace kvc {

inline constexpr uint32_t kCheckpointVersion = 2;  // version 1 has no quotas, prompts and bonds
inline constexpr uint32_t kDataVersion = 1;
inline constexpr uint64_t kDataHeaderBytes = 4096;

struct Manifest {
  struct Group {
    uint32_t kind, pool, sinks, has_pages;
    uint64_t window;
    PageShape shape;  // with pages: of whole ones
    PagePart part;    // and what is in this checkpoint of them
    uint64_t part_bytes;
    Digest256 fingerprint;
  };
  struct DataFile {
    uint64_t id, bytes;
    uint32_t crc, reserved;
  };
  struct Page {
    Digest256 key;
    uint64_t offset, stored_bytes;
    uint32_t file;  // in `files`; kNoFile = a block of a group without pages
    uint32_t crc;   // of the stored bytes
    uint32_t compressed, reserved;
  };
  static constexpr uint32_t kNoFile = UINT32_MAX;
  static_assert(sizeof(Page) == 64 && sizeof(DataFile) == 24);

  uint64_t id = 0;
  uint32_t version = kCheckpointVersion;        // that it was read from
  std::string model, weights, numerics, codec;  // codec: of compressed pages in files[0]
  std::vector<Group> groups;
  Contents contents;
  std::vector<DataFile> files;      // its own is the first, if it wrote a page
  std::vector<std::string> codecs;  // of the files
  std::vector<Page> pages;          // one for each entry of the contents' pools, pool by pool
  Digest256 content = {};           // Contents::digest
};

std::string encode_manifest(const Manifest& manifest);
inline constexpr size_t kManifestHeaderBytes = 128;
// Whether the first kManifestHeaderBytes (less: CORRUPT) are those of a manifest of `size` bytes.
kvc_status check_manifest_header(const char* name, const void* data, size_t have, uint64_t size);
// CORRUPT, or UNSUPPORTED for a newer format. `name` is for texts.
kvc_status decode_manifest(const char* name, const void* data, size_t size, Manifest* out);
// Of one that has the right sections: whether everything in them is in range (check_manifest.cc).
kvc_status check_manifest(const char* name, const Manifest& manifest);

// The first kDataHeaderBytes of a data file.
std::string make_data_header(uint64_t id);
bool is_data_header(const void* data, uint64_t id);

}  // namespace kvc
