// SPDX-License-Identifier: Apache-2.0
// The table of calls is complete: each function of the header has a row, and each row succeeds.
#include <gtest/gtest.h>

#include <set>

#include "hardening/every_call.h"

namespace kvc::test {
namespace {

TEST(EveryCall, HasARowForEachFunctionOfTheHeader) {
  std::set<std::string> rows, header;
  for (const Call& call : every_call()) rows.insert(call.function);
  for (const std::string& name : functions_of_the_header()) header.insert(name);
  ASSERT_GT(header.size(), 80u);
  EXPECT_EQ(rows, header);
}

TEST(EveryCall, SucceedsAndCanBeUndone) {
  for (const Call& call : every_call()) {
    Scene scene(40);
    for (int time = 0; time < 2; ++time) {
      ASSERT_TRUE(!call.prepare || call.prepare(scene)) << call.name();
      ASSERT_EQ(call.run(scene), call.answer) << call.name() << ": " << kvc_last_error();
      scene.clean();
      ASSERT_TRUE(scene.sound()) << call.name();
    }
  }
}

}  // namespace
}  // namespace kvc::test
