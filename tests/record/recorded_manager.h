// SPDX-License-Identifier: Apache-2.0
// A small recorded manager with some calls, and what its log is worth.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/record.h>

#include <vector>

#include "calls.h"

namespace kvc {

using Log = std::vector<unsigned char>;

inline kvc_manager_config recorded_config(uint64_t record_bytes = 1 << 16) {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 32;
  config.block_size = 4;
  config.max_requests = 8;
  config.max_request_tokens = 64;
  config.record_bytes = record_bytes;
  return config;
}

class RecordedManager {
 public:
  explicit RecordedManager(const kvc_manager_config& config = recorded_config()) {
    EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
  }
  ~RecordedManager() { kvc_manager_destroy(m); }
  RecordedManager(const RecordedManager&) = delete;
  RecordedManager& operator=(const RecordedManager&) = delete;

  // A request of 10 tokens that is computed and stays; its id.
  uint64_t serve(int32_t first) {
    int32_t tokens[10];
    for (int32_t i = 0; i < 10; ++i) tokens[i] = first + i;
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(0, tokens, 10, nullptr, 0), nullptr, &id, nullptr),
              KVC_OK);
    EXPECT_EQ(kvc_manager_commit_tokens(m, id, 10), KVC_OK);
    return id;
  }
  // The next part of its log. Other threads may record calls after the size is known: ask again.
  Log take() {
    Log log;
    size_t size = 0;
    kvc_status status = KVC_ERROR_BUFFER_TOO_SMALL;
    while ((status = kvc_manager_take_log(m, log.data(), log.size(), &size)) == KVC_ERROR_BUFFER_TOO_SMALL)
      log.resize(size);
    EXPECT_EQ(status, KVC_OK);
    log.resize(size);
    return log;
  }
  uint64_t digest() {
    uint64_t value = 0;
    EXPECT_EQ(kvc_manager_digest(m, &value), KVC_OK);
    return value;
  }
  kvc_log_info info() {
    kvc_log_info out = {};
    out.struct_size = sizeof out;
    EXPECT_EQ(kvc_manager_log_info(m, &out), KVC_OK);
    return out;
  }

  kvc_manager* m = nullptr;
};

struct Replayed {
  kvc_status status = KVC_OK;
  kvc_replay_info info = {};
};

// The result is untouched if the log is refused.
inline Replayed replay(const Log& log) {
  Replayed out;
  out.info.struct_size = sizeof out.info;
  out.info.calls = 12345;
  out.status = kvc_log_replay(log.data(), log.size(), &out.info);
  EXPECT_TRUE(out.status == KVC_OK || out.info.calls == 12345u);
  return out;
}

inline Log joined(const Log& a, const Log& b) {
  Log out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

}  // namespace kvc
