// SPDX-License-Identifier: Apache-2.0
// A namespace that is closed while a call hashes tokens for it, without the lock: the call finds it gone, and
// nothing lands in its slot, which may be another namespace's by then. Closing is tried at all times of the
// call.
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include <chrono>
#include <thread>

#include "calls.h"
#include "manager/manager_peer.h"
#include "rounds.h"

namespace kvc {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t open(kvc_manager* m, const char* tenant) {
  kvc_namespace_config config = {};
  config.struct_size = sizeof config;
  config.tenant = tenant;
  config.tenant_size = 1;
  uint64_t id = 0;
  EXPECT_EQ(kvc_manager_open_namespace(m, &config, &id), KVC_OK);
  return id;
}

TEST(ClosedNamespace, WhileACallPublishesIntoIt) {
  const int attempts = test::rounds(52);
  kvc_manager_config config = {};
  config.num_blocks = 4;
  const ManagerOf manager(config);
  kvc_manager* const m = manager.m;
  const std::vector<int32_t> tokens = tokens_from(0, 1u << 20);
  int32_t block = -1;
  ASSERT_EQ(kvc_manager_acquire_blocks(m, 0, &block, 1), KVC_OK);
  const auto publish = [&](uint64_t ns) {
    return kvc_manager_publish_blocks(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), 0, &block, 1);
  };
  const auto start = Clock::now();
  ASSERT_EQ(publish(0), KVC_OK);
  const auto whole = Clock::now() - start;
  ASSERT_EQ(kvc_manager_reset_all(m), KVC_OK);

  for (int i = 0; i < attempts; ++i) {
    const uint64_t ns = open(m, "x");
    std::thread thread([&] {
      const kvc_status status = publish(ns);
      EXPECT_TRUE(status == KVC_OK || status == KVC_ERROR_NOT_FOUND) << last_error();
    });
    const auto moment = Clock::now() + whole * i / attempts;
    while (Clock::now() < moment) std::this_thread::yield();
    ASSERT_EQ(kvc_manager_close_namespace(m, ns), KVC_OK);
    thread.join();
    ASSERT_EQ(kvc_manager_check(m), KVC_OK) << last_error();

    size_t evicted = 0;
    ASSERT_EQ(kvc_manager_release_blocks(m, &block, 1), KVC_OK);
    ASSERT_EQ(kvc_manager_evict_blocks(m, -1, 4, &evicted), KVC_OK);
    EXPECT_EQ(evicted, 0u) << "a block was findable in a closed namespace";
    ASSERT_EQ(kvc_manager_acquire_blocks(m, 0, &block, 1), KVC_OK);
    const uint64_t one = open(m, "a"), other = open(m, "b");  // of slots of their own
    ASSERT_EQ(kvc_manager_close_namespace(m, one), KVC_OK) << last_error();
    ASSERT_EQ(kvc_manager_close_namespace(m, other), KVC_OK) << last_error();
  }
  EXPECT_EQ(kvc_manager_release_blocks(m, &block, 1), KVC_OK);
}

}  // namespace
}  // namespace kvc
