// SPDX-License-Identifier: Apache-2.0
// A log that an earlier library wrote, with all calls that were retired since: it replays as it was recorded.
#include "golden.h"

#include <fstream>
#include <iterator>
#include <string>

#include "record/recorded_manager.h"

namespace kvc {
namespace {

Log read_golden(const char* name) {
  std::ifstream file(std::string(kGoldenFolder) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Resets of one namespace, the default one and all; curves and quotas of each; demoted prefixes; requests
// from registered prompts. Its digests between them notice a reset, a quota or a hint of another meaning.
TEST(Record, LogsOfRetiredCallsReplayAsTheyWere) {
  const Replayed replayed = replay(read_golden("golden_0_3.log"));
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
  EXPECT_EQ(replayed.info.calls, 69u);
  EXPECT_EQ(replayed.info.lost_calls, 0u);
  EXPECT_EQ(replayed.info.digest, 0xabf5bba6fe7e3d76u);
}

}  // namespace
}  // namespace kvc
