// SPDX-License-Identifier: Apache-2.0
// Logs of calls: any bytes are refused with a text, and so is what is malformed behind a right checksum: the
// input is also the calls of a log whose configuration is a small manager's.
#include <kvcache/manager.h>
#include <kvcache/record.h>

#include <cstring>
#include <vector>

#include "fuzz/target.h"
#include "record/log.h"

namespace {

void replay(const std::vector<uint8_t>& log) {
  kvc_replay_info info = {};
  info.struct_size = sizeof info;
  const kvc_status status = kvc_log_replay(log.data(), log.size(), &info);
  if (status != KVC_OK) {
    FUZZ_REQUIRE(kvc_last_error()[0] != '\0' && info.calls == 0,
                 "an error without a text, or a result with one");
  } else {
    FUZZ_REQUIRE((info.mismatches == 0) == (info.text[0] == '\0'), "a mismatch without a text");
  }
}

// The part with the configuration of a small manager.
std::vector<uint8_t> beginning() {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 16, config.block_size = 4, config.max_requests = 4, config.max_request_tokens = 64;
  config.max_quotas = 2, config.record_bytes = KVC_MIN_RECORD_BYTES;
  config.flags = KVC_MANAGER_HINTS | KVC_MANAGER_ZERO_ALWAYS;
  kvc_manager* m = nullptr;
  FUZZ_REQUIRE(kvc_manager_create(&config, &m) == KVC_OK, kvc_last_error());
  std::vector<uint8_t> log(256);
  size_t size = 0;
  FUZZ_REQUIRE(kvc_manager_take_log(m, log.data(), log.size(), &size) == KVC_OK, kvc_last_error());
  log.resize(size);
  kvc_manager_destroy(m);
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  replay({data, data + size});
  if (size == 0) return 0;
  static const std::vector<uint8_t> first = beginning();
  kvc::LogHeader header = {};
  header.num_calls = data[0];
  header.size = size - 1;
  header.previous = kvc::header_at(first.data(), 0).checksum;
  kvc::seal(&header, data + 1);
  std::vector<uint8_t> log = first;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
  log.insert(log.end(), bytes, bytes + sizeof header);
  log.insert(log.end(), data + 1, data + size);
  replay(log);
  return 0;
}
