// SPDX-License-Identifier: Apache-2.0
// With KVC_TEST_RECORD the managers of these tests log their calls, and each log is replayed at the end.
// "failing": memory fails, so that logs may end before.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/record.h>

#include <cstdlib>
#include <vector>

namespace kvc::test {

// For kvc_manager_config: 0, or more than a test logs.
inline uint64_t record_bytes() { return std::getenv("KVC_TEST_RECORD") == nullptr ? 0 : uint64_t{1} << 28; }

inline uint64_t logged_calls(kvc_manager* m) {
  kvc_log_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_log_info(m, &info), KVC_OK);
  return info.calls;
}

inline std::vector<unsigned char> take_log(kvc_manager* m) {
  size_t size = 0;
  kvc_manager_take_log(m, nullptr, 0, &size);
  std::vector<unsigned char> log(size);
  EXPECT_EQ(kvc_manager_take_log(m, log.data(), size, &size), KVC_OK);
  return log;
}

// If the manager is recorded: the same calls give the same results and the same digest once more.
inline void expect_replay(kvc_manager* m) {
  kvc_log_info log_info = {};
  log_info.struct_size = sizeof log_info;
  ASSERT_EQ(kvc_manager_log_info(m, &log_info), KVC_OK);
  if (log_info.capacity == 0) return;
  uint64_t digest = 0;
  EXPECT_EQ(kvc_manager_digest(m, &digest), KVC_OK);
  const std::vector<unsigned char> log = take_log(m);
  kvc_replay_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_log_replay(log.data(), log.size(), &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.mismatches, 0u) << info.text;
  if (info.lost_calls == 0)
    EXPECT_EQ(info.digest, digest);
  else
    EXPECT_STREQ(std::getenv("KVC_TEST_RECORD"), "failing") << "calls were lost";
}

}  // namespace kvc::test
