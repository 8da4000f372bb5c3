// SPDX-License-Identifier: Apache-2.0
#include "tier/slab_format.h"

#include <cstring>

#include "base/crc32c.h"

namespace kvc {

SlabHeader make_slab(uint64_t bytes, uint64_t page_bytes) {
  SlabHeader slab = {};
  std::memcpy(slab.magic, kSlabMagic, sizeof slab.magic);
  slab.version = kSlabVersion;
  slab.header_bytes = sizeof slab;
  slab.page_bytes = page_bytes;
  if (page_bytes != 0 && page_bytes <= bytes && bytes <= PTRDIFF_MAX && bytes > 2 * kSector) {
    slab.stride = round_to_sector(page_bytes);
    slab.num_slots = (bytes - 2 * kSector) / (slab.stride + sizeof(RecordHeader));  // one sector for rounding
  }
  slab.headers_at = kSector;
  slab.payloads_at = kSector + round_to_sector(slab.num_slots * sizeof(RecordHeader));
  slab.bytes = slab.payloads_at + slab.num_slots * slab.stride;
  slab.crc = crc32c(&slab, offsetof(SlabHeader, crc));
  return slab;
}

}  // namespace kvc
