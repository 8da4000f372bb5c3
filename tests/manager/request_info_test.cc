// SPDX-License-Identifier: Apache-2.0
// kvc_manager_request_info takes as long for a long request as for a short one: an engine may ask per token.
#include <algorithm>
#include <chrono>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

using Clock = std::chrono::steady_clock;

// Nanoseconds of a call, the least of many tries.
double least_ns(kvc_manager* m, uint64_t request, uint64_t num_blocks) {
  constexpr int kTries = 50, kCalls = 100;
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  double least = 1e12;
  for (int i = 0; i < kTries; ++i) {
    const auto begin = Clock::now();
    for (int j = 0; j < kCalls; ++j) EXPECT_EQ(kvc_manager_request_info(m, request, &info), KVC_OK);
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCalls);
    EXPECT_EQ(info.num_blocks, num_blocks);
  }
  return least;
}

TEST(RequestInfo, TakesAsLongForAMillionTokensAsForAThousand) {
  constexpr size_t kShort = 1 << 10, kLong = 1 << 20;
  kvc_group_config groups[] = {full_group(), window_group(64, 32)};
  kvc_manager_config config = {};
  config.num_blocks = 4 * kLong / 16;
  config.groups = groups;
  config.num_groups = 2;
  const ManagerOf manager(config);
  double ns[2];
  for (const size_t length : {kShort, kLong}) {
    const std::vector<int32_t> tokens = tokens_from(0, length);
    uint64_t request = 0;
    ASSERT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), length, nullptr, 0), nullptr,
                                           &request, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(manager.m, request, length), KVC_OK);
    // The window of 64 tokens reads 63 before the next one, in 4 blocks, and the sinks are 2.
    ns[length == kLong] = least_ns(manager.m, request, length / 16 + 4 + 2);
    ASSERT_EQ(kvc_manager_free_request(manager.m, request), KVC_OK);
  }
  EXPECT_LT(ns[1], 20 * ns[0]);
}

}  // namespace
}  // namespace kvc
