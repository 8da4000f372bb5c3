// SPDX-License-Identifier: Apache-2.0
// Where things are in the file of a slab. Header i and payload i belong together. Each record has the
// fingerprint of its page.
#pragma once
#include "tier/record.h"

namespace kvc {

inline constexpr uint64_t kSector = 4096;  // what direct I/O is aligned to
inline constexpr uint32_t kSlabVersion = 2;
inline constexpr unsigned char kSlabMagic[8] = {'K', 'V', 'C', 'S', 'L', 'A', 'B', '\n'};

struct SlabHeader {
  unsigned char magic[8];
  uint32_t version, header_bytes;
  uint64_t bytes;  // of the file
  uint64_t page_bytes, num_slots;
  uint64_t headers_at, payloads_at, stride;
  uint8_t reserved[60];  // 0
  uint32_t crc;
};
static_assert(sizeof(SlabHeader) == 128);

// The description of a file of at most `bytes`; num_slots is 0 if there is no room for a page.
SlabHeader make_slab(uint64_t bytes, uint64_t page_bytes);

constexpr uint64_t round_to_sector(uint64_t bytes) { return (bytes + kSector - 1) / kSector * kSector; }

}  // namespace kvc
