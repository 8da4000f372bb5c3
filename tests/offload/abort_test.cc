// SPDX-License-Identifier: Apache-2.0
// What ends a request, a lookup or the offload itself at each stage of a load and a store: nothing stays
// held, nothing wrong is cached, and the same prompt is served afterwards.
#include <kvcache/record.h>
#include <poll.h>

#include "offload/scene.h"

namespace kvc::test {
namespace {

constexpr size_t kPages = 8;

enum class Act : uint8_t { kCancel, kFree, kAdmit, kReset, kClose };
constexpr Act kActs[] = {Act::kCancel, Act::kFree, Act::kAdmit, Act::kReset, Act::kClose};

class Abort : public ::testing::TestWithParam<Act> {
 protected:
  const std::vector<int32_t> tokens = tokens_of(100, kPages* kBlock + 1);

  // A prompt that the tier has and the manager has not, which a request looks for.
  static uint64_t look_up(Scene& scene, const std::vector<int32_t>& prompt) {
    scene.store_and_evict(prompt);
    const uint64_t id = scene.create(prompt);
    EXPECT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK) << kvc_last_error();
    return id;
  }
  void act(Scene& scene, uint64_t id) {
    uint64_t cached = 0;
    switch (GetParam()) {
      case Act::kCancel:
        EXPECT_EQ(kvc_offload_cancel(scene.offload, id), KVC_OK);
        EXPECT_EQ(scene.info(id).state, uint32_t{KVC_OFFLOAD_NONE});
        break;
      case Act::kFree:
        EXPECT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
        break;
      case Act::kAdmit:
        EXPECT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK) << kvc_last_error();
        scene.compute(id, tokens, cached);
        break;
      case Act::kReset:
        EXPECT_EQ(kvc_manager_reset_all(scene.manager), KVC_OK);
        break;
      case Act::kClose:
        scene.close();
        scene.open();
    }
  }
  void finish(Scene& scene, uint64_t id) {
    scene.weather[0].before = nullptr;
    scene.settle();
    if (GetParam() != Act::kFree) {
      EXPECT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
    }
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    EXPECT_EQ(scene.stats().busy_lookups, 0u);
    scene.evict_all();
    const uint64_t cached = scene.serve(tokens);
    EXPECT_EQ(cached, kPages * kBlock) << "the tier has it still";
    EXPECT_EQ(scene.wrong_pages, 0u);
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.check();
  }
  static bool is_readable(const Scene& scene) {
    int32_t fd = -1;
    EXPECT_EQ(kvc_offload_event_fd(scene.offload, &fd), KVC_OK);
    pollfd entry = {fd, POLLIN, 0};
    return ::poll(&entry, 1, 10000) == 1;
  }
};

TEST_P(Abort, BeforeAnythingIsAsked) {
  Scene scene({});
  const uint64_t id = look_up(scene, tokens);
  act(scene, id);
  finish(scene, id);
}

// The engine acts from inside a call of the store. It cannot close the offload there, whose poll is under
// way.
class AbortInside : public Abort {};

TEST_P(AbortInside, WhileTheTierIsAskedOrReads) {
  for (size_t call = 0; call <= kPages; ++call) {
    Scene scene({});
    const uint64_t id = look_up(scene, tokens);
    size_t calls = 0;
    scene.weather[0].before = [&](TierJobKind kind) {
      if (kind != TierJobKind::kPut && calls++ == call) act(scene, id);
    };
    for (int i = 0; i < 4; ++i) scene.poll();
    EXPECT_GT(calls, call) << "the stage was reached";
    finish(scene, id);
  }
}

TEST_P(Abort, WhenItIsDoneAndNotPolled) {
  for (int polls = 0; polls < 3; ++polls) {
    SceneConfig config;
    config.threads = 1;
    Scene scene(config);
    const uint64_t id = look_up(scene, tokens);
    for (int i = 0; i < polls; ++i) {  // the answers; the first pages; ...
      ASSERT_TRUE(is_readable(scene));
      scene.poll();
      if (scene.info(id).state == KVC_OFFLOAD_READY) break;
    }
    if (scene.info(id).state != KVC_OFFLOAD_READY) {
      ASSERT_TRUE(is_readable(scene));
    }
    act(scene, id);
    finish(scene, id);
  }
}

TEST_P(Abort, WhenItIsReady) {
  Scene scene({});
  const uint64_t id = look_up(scene, tokens);
  for (int i = 0; i < 4; ++i) scene.poll();
  ASSERT_EQ(scene.info(id).state, uint32_t{KVC_OFFLOAD_READY});
  EXPECT_EQ(scene.held_blocks(), kPages);
  act(scene, id);
  finish(scene, id);
}

std::string name_of(const ::testing::TestParamInfo<Act>& act) {
  static const char* const kNames[] = {"Cancel", "Free", "Admit", "Reset", "Close"};
  return kNames[static_cast<size_t>(act.param)];
}

INSTANTIATE_TEST_SUITE_P(Acts, Abort, ::testing::ValuesIn(kActs), name_of);
INSTANTIATE_TEST_SUITE_P(Acts, AbortInside,
                         ::testing::Values(Act::kCancel, Act::kFree, Act::kAdmit, Act::kReset), name_of);

// The request whose blocks are stored ends, and its blocks get other content, at each call of the store.
TEST(AbortStore, BlocksThatGetOtherContentAreNotStoredUnderTheOldName) {
  for (size_t call = 0; call <= kPages; ++call) {
    SceneConfig config;
    config.num_blocks = kPages + 2;  // others get the same blocks
    Scene scene(config);
    const auto tokens = tokens_of(100, kPages * kBlock + 1), other = tokens_of(900, kPages * kBlock + 1);
    const uint64_t id = scene.create(tokens);
    uint64_t cached = 0;
    ASSERT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK);
    scene.compute(id, tokens, cached);
    size_t calls = 0;
    const auto replace = [&] {
      ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
      scene.evict_all();
      const uint64_t next = scene.create(other);
      ASSERT_EQ(kvc_manager_admit_request(scene.manager, next, &cached), KVC_OK) << kvc_last_error();
      EXPECT_EQ(scene.compute(next, other, cached), 0u);
      ASSERT_EQ(kvc_manager_free_request(scene.manager, next), KVC_OK);
    };
    scene.weather[0].before = [&](TierJobKind kind) {
      if (kind == TierJobKind::kPut && calls++ == call) replace();
    };
    if (call == kPages) replace();  // before the first poll
    scene.settle();
    scene.weather[0].before = nullptr;
    for (const auto& prompt : {tokens, other}) {
      scene.evict_all();
      scene.serve(prompt);
      scene.settle();
    }
    scene.evict_all();
    EXPECT_EQ(scene.serve(tokens), kPages * kBlock);
    scene.settle();
    scene.evict_all();
    EXPECT_EQ(scene.serve(other), kPages * kBlock);
    EXPECT_EQ(scene.wrong_pages, 0u);
    EXPECT_GT(scene.checked_pages, 0u);
    scene.check();
  }
}

TEST(AbortStore, AStoreThatIsDoneAndNotPolledOutlivesItsRequest) {
  SceneConfig config;
  config.threads = 2;
  Scene scene(config);
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  scene.serve(tokens);
  scene.poll();  // copies
  int32_t fd = -1;
  ASSERT_EQ(kvc_offload_event_fd(scene.offload, &fd), KVC_OK);
  pollfd entry = {fd, POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 10000), 1);
  scene.evict_all();
  scene.settle();
  scene.close();
  scene.open();
  const uint64_t stored = scene.serve(tokens);
  EXPECT_GT(stored, 0u);
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.check();
}

// A log of the manager has all that loads did to it: it replays without an offload.
TEST(OffloadLog, AManagerUnderAnOffloadReplaysToTheSameDigest) {
  SceneConfig config;
  config.record_bytes = 1 << 20;
  config.windows = true;
  config.num_blocks = 64;
  Scene scene(config);
  for (int32_t i = 0; i < 12; ++i) {
    const auto tokens = tokens_of(100 + i % 3, (5 + static_cast<size_t>(i % 4)) * kBlock + 1);
    scene.serve(tokens);
    scene.settle();
    if (i % 3 == 2) scene.evict_all();
    if (i == 7) scene.weather[0].gets_before_failure = 3;
  }
  EXPECT_GT(scene.stats().loads, 2u);
  EXPECT_GT(scene.stats().short_loads, 0u);
  scene.close();
  std::vector<char> log(config.record_bytes + 64);
  size_t size = 0;
  ASSERT_EQ(kvc_manager_take_log(scene.manager, log.data(), log.size(), &size), KVC_OK) << kvc_last_error();
  uint64_t digest = 0;
  ASSERT_EQ(kvc_manager_digest(scene.manager, &digest), KVC_OK);
  kvc_replay_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_log_replay(log.data(), size, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.mismatches, 0u) << info.text;
  EXPECT_EQ(info.lost_calls, 0u);
  EXPECT_GT(info.calls, 24u);
  EXPECT_EQ(info.digest, digest);
  scene.open();  // the scene closes it
}

}  // namespace
}  // namespace kvc::test
