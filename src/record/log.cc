// SPDX-License-Identifier: Apache-2.0
#include "record/log.h"

#include <kvcache.h>

#include <cstring>

#include "base/hash.h"

namespace kvc {
namespace {

constexpr const char* kTakeAgain = "copy the file again, or record again";

uint64_t log_checksum(const LogHeader& header, const void* payload) {
  DigestHash hash;
  hash.add_bytes(&header, offsetof(LogHeader, checksum));
  hash.add_bytes(payload, header.size);
  return hash.value();
}

kvc_status check_log_part(const LogHeader& header, const unsigned char* payload, size_t offset, size_t left) {
  if (std::memcmp(header.magic, kLogMagic, sizeof kLogMagic) != 0) {
    return invalid("byte %zu: the log has 0x%02x%02x%02x%02x... where a part must begin with \"KVCLOG\"; %s",
                   offset, header.magic[0], header.magic[1], header.magic[2], header.magic[3], kTakeAgain);
  }
  if (header.format != kLogFormat) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "byte %zu: the log has format %u; this library reads format %u: replay it with the library that "
        "wrote it (version %u)",
        offset + offsetof(LogHeader, format), header.format, kLogFormat, header.library_version);
  }
  if (header.size > left) {
    return invalid("byte %zu: the log ends %llu bytes before the end of this part of %llu bytes; %s", offset,
                   ull(header.size - left), ull(header.size), kTakeAgain);
  }
  if (const uint64_t sum = log_checksum(header, payload); sum != header.checksum) {
    return invalid(
        "byte %zu: the checksum of this part is %016llx, its header says %016llx: a byte was changed; %s",
        offset, ull(sum), ull(header.checksum), kTakeAgain);
  }
  return KVC_OK;
}

}  // namespace

void seal(LogHeader* header, const void* payload) {
  std::memcpy(header->magic, kLogMagic, sizeof kLogMagic);
  header->format = kLogFormat;
  header->library_version = kvc_version();
  header->checksum = log_checksum(*header, payload);
}

LogHeader header_at(const unsigned char* log, size_t offset) {
  LogHeader header;
  std::memcpy(&header, log + offset, sizeof header);
  return header;
}

kvc_status check_log(const unsigned char* log, size_t size) {
  if (size == 0) return invalid("the log is empty; give what kvc_manager_take_log gave");
  uint64_t calls = 0, previous = 0;
  for (size_t offset = 0; offset < size;) {
    const size_t left = size - offset;
    if (left < sizeof(LogHeader)) {
      return invalid("byte %zu: the log ends after %zu bytes of a part's header of %zu bytes; %s", offset,
                     left, sizeof(LogHeader), kTakeAgain);
    }
    const LogHeader header = header_at(log, offset);
    KVC_TRY(check_log_part(header, log + offset + sizeof header, offset, left - sizeof header));
    if (header.first_call != calls || header.previous != previous) {
      return invalid(
          "byte %zu: this part begins with call %llu, call %llu must follow%s; give all parts of one log in "
          "order",
          offset, ull(header.first_call) + 1, ull(calls) + 1,
          header.first_call == calls ? ", and it follows another part" : "");
    }
    calls += header.num_calls;
    previous = header.checksum;
    offset += sizeof header + static_cast<size_t>(header.size);
  }
  return KVC_OK;
}

}  // namespace kvc
