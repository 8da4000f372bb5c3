// SPDX-License-Identifier: Apache-2.0
// Each function of a manager is in its log, or only reads, as src/api/calls.def says.
#include <gtest/gtest.h>
#include <kvcache/checkpoint.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>

#include <set>

#include "hardening/every_call.h"
#include "hardening/recording.h"

namespace kvc::test {
namespace {

const std::set<std::string> kLogged = {
#define KVC_LOGGED_CALL(number, duration, function, ...) #function,
#include "api/calls.def"
};

TEST(Record, LogsEachCallThatChangesAManager) {
  setenv("KVC_TEST_RECORD", "1", 1);
  std::set<std::string> seen;
  for (const Call& call : every_call()) {
    if (call.function.rfind("kvc_manager_", 0) != 0) continue;
    Scene scene(40);
    const bool logged = kLogged.count(call.function) != 0;
    if (logged) scene.manager_config.record_bytes = record_bytes();  // of made_manager
    ASSERT_TRUE(!call.prepare || call.prepare(scene)) << call.name();
    const auto calls = [&] {
      return logged_calls(scene.m) + (scene.made_manager == nullptr ? 0 : logged_calls(scene.made_manager));
    };
    const uint64_t before = calls();
    ASSERT_EQ(call.run(scene), call.answer) << call.name() << ": " << kvc_last_error();
    if (logged) seen.insert(call.function);
    EXPECT_EQ(calls() > before, logged) << call.name();
  }
  EXPECT_EQ(seen, kLogged);
}

}  // namespace
}  // namespace kvc::test
