// SPDX-License-Identifier: Apache-2.0
// The format of a trace decides how many tokens an id stands for.
#include "cli/trace.h"

#include <gtest/gtest.h>

#include <sstream>

namespace kvcli {
namespace {

TEST(Trace, HasAnIdPer512TokensOrPer16) {
  const char* const line = R"("timestamp":1,"input_length":24,"output_length":3,"hash_ids":[7)";
  std::istringstream mooncake(std::string("{") + line + "]}");
  const Trace of_mooncake = read_trace(mooncake, "trace", 0);
  EXPECT_EQ(of_mooncake.tokens_per_hash_id, kTokensPerHashId);
  EXPECT_EQ(of_mooncake.num_hash_ids(of_mooncake.requests[0]), 1u);
  std::istringstream bailian(std::string(R"({"chat_id":0,"parent_chat_id":-1,)") + line + ",8]}");
  const Trace of_bailian = read_trace(bailian, "trace", 0);
  EXPECT_EQ(of_bailian.tokens_per_hash_id, kBailianTokensPerHashId);
  EXPECT_EQ(of_bailian.num_hash_ids(of_bailian.requests[0]), 2u);
  EXPECT_EQ(of_bailian.requests[0].timestamp_ms, 1000u);
}

}  // namespace
}  // namespace kvcli
