// SPDX-License-Identifier: Apache-2.0
// The frame of a log: parts, each a header and a payload. The first payload begins with the configuration;
// then each call is its length and so many bytes. Reading trusts nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace kvc {

inline constexpr uint32_t kLogFormat = 2;
inline constexpr unsigned char kLogMagic[8] = {'K', 'V', 'C', 'L', 'O', 'G', '\r', '\n'};

struct LogHeader {
  unsigned char magic[8];
  uint32_t format, library_version;
  uint64_t first_call;  // calls in the parts before it
  uint64_t num_calls, lost_calls;
  uint64_t size;      // bytes of the payload
  uint64_t previous;  // checksum of the part before it; 0: it is the first one
  uint64_t checksum;  // of the fields above and the payload
};
static_assert(sizeof(LogHeader) == 64);

// Completes a header: magic, versions and checksum.
void seal(LogHeader* header, const void* payload);

// Checks all parts of a log: OK, or a text with the offset, the value and the fix. `log` need not be aligned.
kvc_status check_log(const unsigned char* log, size_t size);

// The header at an offset of a log that was checked.
LogHeader header_at(const unsigned char* log, size_t offset);

}  // namespace kvc
