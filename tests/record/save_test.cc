// SPDX-License-Identifier: Apache-2.0
// A save of a checkpoint holds blocks and is in no log: it leaves no trace, and logged calls wait meanwhile.
#include <kvcache/checkpoint.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "api/guard.h"
#include "manager/contents_holder.h"
#include "record/recorded_manager.h"

namespace kvc {
namespace {

// Holds all that is cached, calls `meanwhile`, and lets it go.
void hold_all(kvc_manager* m, const std::function<void()>& meanwhile = {}) {
  Contents contents;
  ASSERT_EQ(m->impl->read_contents(false, &contents), KVC_OK);
  ContentsHolder holder(*m->impl, contents);
  std::vector<Contents::Cached> entries;
  for (const Contents::Pool& pool : contents.pools)
    entries.insert(entries.end(), pool.blocks.begin(), pool.blocks.end());
  ASSERT_FALSE(entries.empty());
  std::vector<uint8_t> held(entries.size(), 0);
  for (size_t done = 0; done < entries.size();)
    done += holder.hold(entries.data() + done, entries.size() - done, held.data() + done);
  for (const uint8_t one : held) EXPECT_EQ(one, 1);
  if (meanwhile) meanwhile();
  holder.release();
}

struct Case {
  const char* name;
  uint32_t flags, policy, max_quotas;
};
class Save : public testing::TestWithParam<Case> {
 protected:
  static kvc_manager_config config() {
    kvc_manager_config config = recorded_config();
    config.flags = GetParam().flags, config.policy = GetParam().policy;
    config.policy_weight = config.policy == KVC_POLICY_LRU ? 0 : 0.5;
    config.max_quotas = GetParam().max_quotas;
    return config;
  }
  void end(uint64_t id) { EXPECT_EQ(kvc_manager_free_request(recorded.m, id), KVC_OK); }
  void expect_no_trace() {
    const uint64_t before = recorded.digest();
    hold_all(recorded.m);
    EXPECT_EQ(kvc_manager_check(recorded.m), KVC_OK) << kvc_last_error();
    EXPECT_EQ(recorded.digest(), before);
  }
  uint64_t step(uint64_t retired) {
    kvc_step step = {};
    step.struct_size = sizeof step;
    step.retired_step = retired;
    EXPECT_EQ(kvc_manager_step(recorded.m, &step), KVC_OK) << kvc_last_error();
    return step.step_id;
  }

  RecordedManager recorded{config()};
};

TEST_P(Save, LeavesNoTraceOfCachedBlocks) {
  for (const int32_t first : {0, 100, 200}) end(recorded.serve(first));
  expect_no_trace();
}

TEST_P(Save, LeavesNoTraceOfACopyOfWhatOthersHold) {
  const uint64_t first = recorded.serve(0);
  end(recorded.serve(100));
  kvc_request_config own = {};
  own.struct_size = sizeof own, own.flags = KVC_REQUEST_NO_READ;
  int32_t tokens[10];
  for (int32_t i = 0; i < 10; ++i) tokens[i] = i;
  uint64_t second = 0;
  ASSERT_EQ(
      kvc_manager_allocate_request(recorded.m, PROMPT(0, tokens, 10, nullptr, 0), &own, &second, nullptr),
      KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(recorded.m, second, 10), KVC_OK);
  end(first);
  end(recorded.serve(200));
  expect_no_trace();
}

TEST_P(Save, LeavesNoTraceOfFencedBlocks) {
  const uint64_t first = recorded.serve(0), second = recorded.serve(100), third = recorded.serve(200);
  const uint64_t one = step(0);
  end(first), end(second);
  step(0);
  end(third);
  expect_no_trace();
  EXPECT_EQ(kvc_manager_retire_step(recorded.m, one), KVC_OK);
  expect_no_trace();
}

// Nobody sees a hold that no log has.
TEST_P(Save, LetsLoggedCallsWait) {
  for (const int32_t first : {0, 100, 200}) end(recorded.serve(first));
  std::atomic<bool> called{false};
  std::thread other;
  hold_all(recorded.m, [&] {
    other = std::thread([&] {
      uint64_t evicted = 0;
      EXPECT_EQ(kvc_manager_evict_blocks(recorded.m, 0, 3, &evicted), KVC_OK);
      recorded.digest();
      called = true;
    });
    for (int i = 0; i < 50 && !called; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  other.join();
  const uint64_t digest = recorded.digest();
  const Replayed replayed = replay(recorded.take());
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
  EXPECT_EQ(replayed.info.digest, digest);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Save,
                         testing::Values(Case{"Lru", 0, KVC_POLICY_LRU, 0},
                                         Case{"Frequency", 0, KVC_POLICY_FREQUENCY, 0},
                                         Case{"Hints", KVC_MANAGER_HINTS, KVC_POLICY_LRU, 0},
                                         Case{"Quotas", 0, KVC_POLICY_LRU, 2}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace kvc
