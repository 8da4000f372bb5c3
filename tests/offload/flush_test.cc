// SPDX-License-Identifier: Apache-2.0
// A flush: what was published before it is in the tiers after it, or it says what is left.
#include <kvcache/fills.h>
#include <kvcache/step.h>

#include <kvcache/offload.hpp>

#include "offload/scene.h"

namespace kvc::test {
namespace {

constexpr size_t kPages = 8;

// Admits, computes and frees; the offload learns of it at its next poll.
void publish(Scene& scene, const std::vector<int32_t>& tokens) {
  const uint64_t id = scene.create(tokens);
  uint64_t cached = 0;
  ASSERT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK) << kvc_last_error();
  scene.compute(id, tokens, cached);
  ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
}

// The queue has room for one job, and the offload makes three at a time.
TEST(OffloadFlush, LosesNothingToAFullQueue) {
  for (const uint32_t threads : {0, 1, 2}) {
    SceneConfig config;
    config.threads = threads;
    config.tier_jobs = 2;
    config.num_pages = 64;
    config.num_blocks = 128;
    config.num_tiers = 2;
    Scene scene(config);
    for (int32_t i = 0; i < 12; ++i) publish(scene, tokens_of(100 * i, kPages * kBlock + 1));
    EXPECT_EQ(scene.flush(), 0u);
    for (const uint32_t tier : {0, 1}) {
      EXPECT_EQ(scene.tier(tier).stored_pages, 12u * kPages);
      EXPECT_EQ(scene.tier(tier).refused_stores, 0u);
      EXPECT_EQ(scene.tier(tier).failed_stores, 0u);
    }
    scene.evict_all();
    for (int32_t i = 0; i < 12; ++i)
      EXPECT_EQ(scene.serve(tokens_of(100 * i, kPages * kBlock + 1)), kPages * kBlock);
    EXPECT_EQ(scene.wrong_pages, 0u);
  }
}

TEST(OffloadFlush, HasNothingToDoTwice) {
  Scene scene({});
  EXPECT_EQ(scene.flush(0), 0u);
  publish(scene, tokens_of(100, kPages * kBlock + 1));
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.flush(0), 0u);
  EXPECT_EQ(scene.tier().stored_pages, kPages);
}

TEST(OffloadFlush, TellsWhatIsLeftWhenItsTimeIsOver) {
  SceneConfig config;
  config.threads = 1;
  config.num_pages = 4;
  Scene scene(config);
  std::atomic<bool> is_stuck{true};
  scene.weather[0].before = [&](TierJobKind) {
    while (is_stuck) std::this_thread::yield();
  };
  publish(scene, tokens_of(100, kPages * kBlock + 1));
  EXPECT_EQ(scene.flush(1000000), kPages) << "those that are copied and those that wait";
  EXPECT_EQ(scene.flush(0), kPages);
  is_stuck = false;
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.tier().stored_pages, kPages);
}

TEST(OffloadFlush, DropsWhatATierDoesNotTakeAndEnds) {
  for (const uint32_t threads : {0, 1}) {
    SceneConfig config;
    config.threads = threads;
    Scene scene(config);
    scene.weather[0].full = 1;
    publish(scene, tokens_of(100, kPages * kBlock + 1));
    EXPECT_EQ(scene.flush(), 0u);
    EXPECT_EQ(scene.tier().failed_stores, kPages);
  }
}

// A page that no queue would ever take must not be offered for ever.
TEST(OffloadFlush, EndsWhereAPageIsLargerThanAllThatMayWait) {
  Scene scene({});
  scene.close();
  kvc_tier_config small = {};
  small.struct_size = sizeof small;
  small.url = "memory:?bytes=1MiB";
  small.page_bytes = scene.page_bytes;
  small.fingerprint[0] = 1;
  small.max_store_bytes = scene.page_bytes - 1;
  kvc_tier* own = scene.tiers[0];
  ASSERT_EQ(kvc_tier_create(&small, &scene.tiers[0]), KVC_OK) << kvc_last_error();
  scene.open();
  publish(scene, tokens_of(100, kPages * kBlock + 1));
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.tier().refused_stores, kPages);
  kvc_tier_destroy(own);
}

// Their content comes with a step that only the caller can end.
TEST(OffloadFlush, LeavesBlocksOfAStepInFlight) {
  SceneConfig config;
  config.manager_flags = KVC_MANAGER_FILLS;
  Scene scene(config);
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  kvc_prompt prompt = {};
  prompt.struct_size = sizeof prompt;
  prompt.tokens = tokens.data(), prompt.num_tokens = tokens.size();
  kvc_request_config request = {};
  request.struct_size = sizeof request;
  request.flags = KVC_REQUEST_PUBLISH_ENQUEUED;
  uint64_t id = 0, admitted = 0, cached = 0;
  ASSERT_EQ(kvc_manager_create_request(scene.manager, &prompt, &request, &id), KVC_OK) << kvc_last_error();
  kvc_status status = -1;
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.num_admissions = 1, step.admit_requests = &id;
  step.admitted = &admitted, step.cached = &cached, step.status = &status;
  ASSERT_EQ(kvc_manager_step(scene.manager, &step), KVC_OK) << kvc_last_error();
  ASSERT_EQ(status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.flush(), kPages);
  EXPECT_EQ(scene.tier().stored_pages, 0u);
  scene.compute(id, tokens, 0);
  ASSERT_EQ(kvc_manager_retire_step(scene.manager, step.step_id), KVC_OK);
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.tier().stored_pages, kPages);
  ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), kPages * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(OffloadFlush, StoresByAStream) {
  SceneConfig config;
  config.stream = true;
  config.threads = 1;
  Scene scene(config);
  publish(scene, tokens_of(100, kPages * kBlock + 1));
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.tier().stored_pages, kPages);
}

TEST(OffloadFlush, RefusesWhatPollRefuses) {
  Scene scene({});
  uint64_t left = 7;
  EXPECT_EQ(kvc_offload_flush(nullptr, 1, 0, nullptr, &left), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_offload_flush(scene.offload, 1, 0, nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(left, 7u);
}

TEST(OffloadFlush, IsThereInCpp) {
  Scene scene({});
  scene.close();
  {
    auto config = kvc::make<kvc_offload_config>();
    config.manager = scene.manager, config.storages = &scene.storage;
    config.tiers = scene.tiers.data(), config.num_tiers = 1;
    config.pages = &scene.names, config.policy = KVC_OFFLOAD_WRITE_THROUGH;
    kvc::Offload first(config);
    kvc::Offload offload = std::move(first);
    EXPECT_EQ(first.get(), nullptr);
    const auto tokens = tokens_of(100, kPages * kBlock + 1);
    publish(scene, tokens);
    EXPECT_EQ(offload.flush(1), 0u);
    EXPECT_EQ(offload.tier_stats().stored_pages, kPages);
    EXPECT_EQ(offload.stats().published_blocks, kPages);
    scene.evict_all();
    const uint64_t id = scene.create(tokens);
    EXPECT_TRUE(offload.lookup(id, 1));
    EXPECT_GE(offload.event_fd(), 0);
    for (int i = 0; i < 4 && !offload.is_ready(id); ++i) offload.poll(1);
    EXPECT_EQ(offload.query(id).num_loaded, kPages * kBlock);
    offload.cancel(id);
    uint64_t cached = 0;
    ASSERT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK);
    EXPECT_EQ(cached, kPages * kBlock);
    EXPECT_EQ(offload.store_request(id), kPages);
    EXPECT_THROW(offload.lookup(12345, 1), kvc::Error);
  }
  scene.open();
}

}  // namespace
}  // namespace kvc::test
