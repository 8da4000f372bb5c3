// SPDX-License-Identifier: Apache-2.0
// Each function of a manager is in its log, or only reads.
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
#define KVC_LOGGED_CALL(number, function, ...) #function,
#include "api/record_calls.def"
#undef KVC_LOGGED_CALL
};

// They change nothing that a digest shows, or are no calls of a living manager. A new function belongs here
// only if that is so of it; else into src/api/record_calls.def, with KVC_RECORD in its first line.
const std::set<std::string> kOnlyRead = {
    "kvc_manager_block_info",       "kvc_manager_check",         "kvc_manager_content_digest",
    "kvc_manager_create",           "kvc_manager_curve_info",    "kvc_manager_destroy",
    "kvc_manager_expected_tokens",  "kvc_manager_export_slots",  "kvc_manager_export_tables",
    "kvc_manager_list_namespaces",  "kvc_manager_list_pins",     "kvc_manager_list_prefixes",
    "kvc_manager_list_prompts",     "kvc_manager_list_requests", "kvc_manager_log_info",
    "kvc_manager_lost_reuse",       "kvc_manager_poll_events",   "kvc_manager_pool_info",
    "kvc_manager_position_digests", "kvc_manager_probe",         "kvc_manager_probe_request",
    "kvc_manager_properties",       "kvc_manager_quota_info",    "kvc_manager_read_curve",
    "kvc_manager_rebuild",          "kvc_manager_request_info",  "kvc_manager_stats",
    "kvc_manager_take_log"};

TEST(Record, KnowsEachFunctionOfAManager) {
  std::set<std::string> known = kLogged;
  known.insert(kOnlyRead.begin(), kOnlyRead.end());
  EXPECT_EQ(known.size(), kLogged.size() + kOnlyRead.size());
  for (const std::string& name : functions_of_the_header()) {
    if (name.rfind("kvc_manager_", 0) != 0) continue;
    EXPECT_EQ(known.erase(name), 1u) << name << " is not recorded";
  }
  EXPECT_TRUE(known.empty()) << *known.begin();
}

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
