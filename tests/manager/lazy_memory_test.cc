// SPDX-License-Identifier: Apache-2.0
// A manager takes memory from the system when it first uses it, and works beyond what it has used so far.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <vector>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

kvc_stats stats_of(kvc_manager* m) {
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(kvc_manager_stats(m, &stats), KVC_OK);
  return stats;
}

TEST(LazyMemory, APoolCostsWhatIsUsedOfIt) {
  kvc_manager_config config = {};
  config.num_blocks = 4'000'000, config.seed = 1;
  const uint64_t before = resident_bytes();
  const ManagerOf lazy(config);
  const uint64_t taken = stats_of(lazy.m).metadata_bytes;
  EXPECT_GT(taken, 400u << 20);
  EXPECT_LT(resident_bytes() - before, taken / 4);
}

TEST(LazyMemory, AllOfItIsTouchedIfAsked) {
  kvc_manager_config config = {};
  config.num_blocks = 200'000, config.seed = 1, config.flags = KVC_MANAGER_TOUCH_MEMORY;
  const uint64_t before = resident_bytes();
  const ManagerOf touched(config);
  EXPECT_GT(resident_bytes() - before, stats_of(touched.m).metadata_bytes / 4 * 3);
}

// Whether a part of the state was never used is no part of the state.
TEST(LazyMemory, NothingElseDependsOnWhatWasUsed) {
  kvc_manager_config config = {};
  config.num_blocks = 3000, config.seed = 1, config.block_size = 1;
  const ManagerOf a(config);
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  kvc_block_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_block_info(a.m, 2999, &info), KVC_OK);
  EXPECT_EQ(info.state, uint32_t{KVC_BLOCK_FREE});
  EXPECT_EQ(info.group, -1);
  EXPECT_EQ(info.published, 0u);
  const int32_t last = 2999;
  uint64_t unpublished = 7;
  EXPECT_EQ(kvc_manager_unpublish_blocks(a.m, &last, 1, &unpublished), KVC_OK);
  EXPECT_EQ(unpublished, 0u);
  EXPECT_EQ(kvc_manager_release_blocks(a.m, &last, 1), KVC_ERROR_NOT_HELD);

  uint64_t fresh = 0, used = 0;
  ASSERT_EQ(kvc_manager_digest(a.m, &fresh), KVC_OK);
  std::vector<int32_t> tokens(2500), row(2500);
  std::iota(tokens.begin(), tokens.end(), 0);
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_allocate_request(a.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                         &request, nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_export_tables(a.m, &request, 1, 0, -1, row.data(), row.size()), KVC_OK);
  EXPECT_EQ(row, tokens) << "blocks in the order of their ids";
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, request, tokens.size()), KVC_OK);
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  EXPECT_EQ(stats_of(a.m).published_blocks, 2500u);
  ASSERT_EQ(kvc_manager_free_request(a.m, request), KVC_OK);
  size_t moves = 0;
  ASSERT_EQ(kvc_manager_compact(a.m, 0, nullptr, 0, &moves), KVC_OK);
  ASSERT_EQ(kvc_manager_digest(a.m, &used), KVC_OK);
  EXPECT_NE(fresh, used);
  ASSERT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

}  // namespace
}  // namespace kvc
