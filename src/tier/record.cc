// SPDX-License-Identifier: Apache-2.0
#include "tier/record.h"

#include <cstring>

#include "base/crc32c.h"

namespace kvc {
namespace {

uint32_t record_crc(const RecordHeader& header) {
  return crc32c(&header, offsetof(RecordHeader, header_crc));
}

}  // namespace

RecordHeader make_record(const Digest256& key, const Digest256& fingerprint, uint64_t generation,
                         uint64_t payload_bytes, uint32_t payload_crc) {
  RecordHeader header = {};
  std::memcpy(header.magic, kRecordMagic, sizeof header.magic);
  header.version = kRecordVersion;
  header.header_bytes = sizeof header;
  header.payload_crc = payload_crc;
  header.key = key;
  header.fingerprint = fingerprint;
  header.generation = generation;
  header.payload_bytes = payload_bytes;
  header.header_crc = record_crc(header);
  return header;
}

bool is_record(const RecordHeader& header, const Digest256& fingerprint, uint64_t most_bytes) {
  static constexpr uint8_t kZeroes[sizeof header.reserved] = {};
  return std::memcmp(header.magic, kRecordMagic, sizeof header.magic) == 0 &&
         header.version == kRecordVersion && header.header_bytes == sizeof header && header.flags == 0 &&
         std::memcmp(header.reserved, kZeroes, sizeof kZeroes) == 0 &&
         header.header_crc == record_crc(header) && header.fingerprint == fingerprint &&
         header.payload_bytes <= most_bytes;
}

}  // namespace kvc
