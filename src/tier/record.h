// SPDX-License-Identifier: Apache-2.0
// How a page lies outside a process: a header of 128 bytes, little-endian, and a payload. Whoever writes one
// writes the payload first and the header last; whoever reads one checks the header and then the payload,
// after the copy. Whatever does not check is not a page: a miss, never an error. Pure functions.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/sha256.h"

namespace kvc {

inline constexpr uint32_t kRecordVersion = 1;
inline constexpr unsigned char kRecordMagic[8] = {'K', 'V', 'C', 'P', 'A', 'G', 'E', '\n'};

struct RecordHeader {
  unsigned char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t flags;  // 0; with others the payload means something that this version does not know
  uint32_t payload_crc;
  Digest256 key, fingerprint;
  uint64_t generation;  // of the writer: a later one wins where two have the same key
  uint64_t payload_bytes;
  uint8_t reserved[20];  // 0
  uint32_t header_crc;   // of the bytes before it
};
static_assert(sizeof(RecordHeader) == 128);

RecordHeader make_record(const Digest256& key, const Digest256& fingerprint, uint64_t generation,
                         uint64_t payload_bytes, uint32_t payload_crc);
// Whether this is a whole header of this version, of a page with this fingerprint and at most `most_bytes`.
bool is_record(const RecordHeader& header, const Digest256& fingerprint, uint64_t most_bytes);

}  // namespace kvc
