// SPDX-License-Identifier: Apache-2.0
// Offload: what was evicted comes back before the admission, and nothing else does.
#include <fstream>

#include "offload/scene.h"
#include "tier_config.h"

namespace kvc::test {
namespace {

TEST(Offload, WhatWasEvictedComesBackBeforeTheAdmission) {
  Scene scene({});
  const auto tokens = tokens_of(100, 10 * kBlock + 1);
  EXPECT_EQ(scene.serve(tokens), 0u);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 10u);
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), 10u * kBlock);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_LOADED});
  EXPECT_EQ(scene.last.num_loaded, 10u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
  EXPECT_EQ(scene.checked_pages, 10u);
  scene.settle();
  EXPECT_EQ(scene.held_blocks(), 0u);
  EXPECT_EQ(scene.tier().stored_pages, 10u) << "what was loaded is not stored again";
  scene.check();
}

TEST(Offload, TheTailBeyondAHitIsLoaded) {
  Scene scene({});
  const auto tokens = tokens_of(100, 12 * kBlock + 1);
  scene.serve(tokens);
  scene.settle();
  size_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(scene.manager, UINT32_MAX, 7, &evicted), KVC_OK);
  ASSERT_EQ(evicted, 7u);
  EXPECT_EQ(scene.serve(tokens), 12u * kBlock);
  EXPECT_EQ(scene.last.num_cached, 5u * kBlock);
  EXPECT_EQ(scene.last.num_loaded, 7u * kBlock);
  EXPECT_EQ(scene.tier().loaded_pages, 7u);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(Offload, ADifferentPrefixFindsNothing) {
  Scene scene({});
  scene.serve(tokens_of(100, 8 * kBlock + 1));
  scene.settle();
  scene.evict_all();
  auto other = tokens_of(100, 8 * kBlock + 1);
  other[0] = 5;
  EXPECT_EQ(scene.serve(other), 0u);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_NOTHING});
}

TEST(Offload, NamespacesDoNotSeeEachOther) {
  Scene scene({});
  kvc_namespace_config config = {};
  config.struct_size = sizeof config;
  config.tenant = "a", config.tenant_size = 1;
  uint64_t a = 0, b = 0;
  ASSERT_EQ(kvc_manager_open_namespace(scene.manager, &config, &a), KVC_OK) << kvc_last_error();
  config.tenant = "b";
  ASSERT_EQ(kvc_manager_open_namespace(scene.manager, &config, &b), KVC_OK) << kvc_last_error();
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.serve(tokens, a);
  scene.settle();
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens, b), 0u);
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens, a), 8u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(Offload, WindowsLoadWhatTheirHitNeeds) {
  SceneConfig config;
  config.windows = true;
  config.num_blocks = 64;
  Scene scene(config);
  const auto tokens = tokens_of(100, 10 * kBlock + 1);
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.serve(tokens), 10u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
  // Full: 10. Window of two blocks and a sink: positions 0, 8, 9.
  EXPECT_EQ(scene.tier().loaded_pages, 13u);
  scene.check();
  scene.settle();
  EXPECT_EQ(scene.held_blocks(), 0u);
}

TEST(Offload, AFailedPageLeavesTheLongestValidPrefix) {
  for (const bool windows : {false, true}) {
    for (int32_t failing = 0; failing < 8; ++failing) {
      SceneConfig config;
      config.windows = windows;
      config.num_blocks = 64;
      config.num_pages = 32;
      Scene scene(config);
      const auto tokens = tokens_of(100, 8 * kBlock + 1);
      scene.store_and_evict(tokens);
      scene.weather[0].gets_before_failure = failing;
      const uint64_t cached = scene.serve(tokens);
      EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_FAILED});
      EXPECT_EQ(scene.last.num_loaded, cached);
      EXPECT_EQ(scene.tier().failed_loads, 1u);
      if (!windows) {
        EXPECT_EQ(cached, static_cast<uint64_t>(failing) * kBlock);
      }
      EXPECT_EQ(scene.wrong_pages, 0u);
      scene.settle();
      EXPECT_EQ(scene.held_blocks(), 0u);
      scene.check();
    }
  }
}

TEST(Offload, EqualPromptsAtOneTimeAreLoadedOnce) {
  SceneConfig config;
  config.threads = 2;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.store_and_evict(tokens);
  const uint64_t a = scene.create(tokens), b = scene.create(tokens);
  ASSERT_EQ(kvc_offload_lookup(scene.offload, a, scene.now), KVC_OK);
  EXPECT_EQ(scene.serve(b, tokens), 8u * kBlock);
  EXPECT_EQ(scene.tier().loaded_pages, 8u);
  EXPECT_EQ(scene.serve(a, tokens), 8u * kBlock);
  EXPECT_EQ(scene.tier().loaded_pages, 8u);
}

TEST(Offload, HoldsEndWithTheAdmissionTheRequestOrTheTime) {
  Scene scene({});
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.serve(tokens);
  scene.settle();
  const auto load = [&] {
    scene.evict_all();
    const uint64_t id = scene.create(tokens);
    EXPECT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK);
    scene.poll();
    scene.poll();
    EXPECT_EQ(scene.info(id).state, uint32_t{KVC_OFFLOAD_READY});
    EXPECT_EQ(scene.held_blocks(), 8u);
    return id;
  };
  uint64_t id = load();
  kvc_manager_free_request(scene.manager, id);
  scene.poll();
  EXPECT_EQ(scene.held_blocks(), 0u);
  id = load();
  ASSERT_EQ(kvc_offload_cancel(scene.offload, id), KVC_OK);
  EXPECT_EQ(scene.held_blocks(), 0u);
  kvc_manager_free_request(scene.manager, id);
  id = load();
  scene.now += 200000;
  scene.poll();
  EXPECT_EQ(scene.held_blocks(), 0u);
  EXPECT_EQ(scene.info(id).state, uint32_t{KVC_OFFLOAD_NONE});
  kvc_manager_free_request(scene.manager, id);
  load();
  scene.close();
  EXPECT_EQ(scene.held_blocks(), 0u);
  scene.check();
}

// The load would end and publish what it has read, which is right for another life of the namespace.
TEST(Offload, AResetDuringALoadPublishesNothing) {
  for (int reset_at = 0; reset_at < 12; reset_at += 5) {
    Scene scene({});
    const auto tokens = tokens_of(100, 12 * kBlock + 1);
    scene.store_and_evict(tokens);
    int gets = 0;
    scene.weather[0].before = [&](TierJobKind kind) {
      if (kind == TierJobKind::kGet && gets++ == reset_at) {
        ASSERT_EQ(kvc_manager_reset_all(scene.manager), KVC_OK);
      }
    };
    EXPECT_EQ(scene.serve(tokens), 0u);
    EXPECT_EQ(gets, 12) << "the load went on";
    EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_FAILED});
    EXPECT_EQ(scene.last.num_loaded, 0u);
    EXPECT_EQ(scene.stats().failed_publications, 1u);
    scene.weather[0].before = nullptr;
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.check();
    EXPECT_EQ(scene.serve(tokens), 12u * kBlock) << "computed after the reset, and cached";
    EXPECT_EQ(scene.wrong_pages, 0u);
  }
}

TEST(Offload, WithoutRoomTheRequestIsComputed) {
  SceneConfig config;
  config.num_blocks = 16;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.serve(tokens);
  scene.settle();
  const auto other = tokens_of(500, 12 * kBlock);
  const uint64_t holder = scene.create(other);
  scene.serve(holder, other);
  const uint64_t id = scene.create(tokens);
  ASSERT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK);
  scene.poll();
  scene.poll();
  EXPECT_EQ(scene.info(id).reason, uint32_t{KVC_OFFLOAD_NO_ROOM});
  EXPECT_EQ(scene.stats().refused_loads, 1u);
  scene.check();
}

TEST(Offload, TheSecondTierServesWhatTheFirstHasLostAndPromotesIt) {
  SceneConfig config;
  config.num_tiers = 2;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.weather[0].full = 1;
  scene.serve(tokens);
  scene.settle();
  EXPECT_EQ(scene.tier(0).stored_pages, 0u);
  EXPECT_EQ(scene.tier(1).stored_pages, 8u);
  scene.weather[0].full = 0;
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), 8u * kBlock);
  EXPECT_EQ(scene.tier(1).loaded_pages, 8u);
  scene.settle();
  EXPECT_EQ(scene.tier(0).stored_pages, 8u) << "promoted";
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), 8u * kBlock);
  EXPECT_EQ(scene.tier(0).loaded_pages, 8u);
  EXPECT_EQ(scene.tier(1).loaded_pages, 8u);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(Offload, SecondUseStoresWhatALookupHits) {
  SceneConfig config;
  config.policy = KVC_OFFLOAD_SECOND_USE;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.serve(tokens);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 0u);
  scene.serve(tokens);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 8u);
}

TEST(Offload, TheCleanerStoresTheColdEndBeforeItIsEvicted) {
  SceneConfig config;
  config.policy = KVC_OFFLOAD_BEFORE_EVICTION;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  const uint64_t id = scene.create(tokens);
  scene.serve(id, tokens);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 0u) << "held blocks do not leave";
  kvc_manager_free_request(scene.manager, id);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 8u);
}

TEST(Offload, APreemptedRequestComesBack) {
  SceneConfig config;
  config.policy = 0;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  const uint64_t id = scene.create(tokens);
  scene.serve(id, tokens);
  uint64_t count = 0;
  ASSERT_EQ(kvc_offload_store_request(scene.offload, id, &count), KVC_OK);
  EXPECT_EQ(count, 8u);
  scene.settle();
  ASSERT_EQ(kvc_manager_preempt_request(scene.manager, id), KVC_OK);
  scene.evict_all();
  EXPECT_EQ(scene.serve(id, tokens), 8u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(Offload, ASlowTierIsNotUsedWhereComputingIsFaster) {
  SceneConfig config;
  config.compute_ns = 0.001;
  config.threads = 1;
  config.num_pages = 4;  // several polls
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.store_and_evict(tokens);
  scene.tick = 100;
  EXPECT_EQ(scene.serve(tokens), 8u * kBlock) << "the first load measures";
  scene.settle();
  EXPECT_GT(scene.tier().load_ns_per_byte, 0);
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), 0u);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_SLOWER});
  EXPECT_EQ(scene.stats().slower_loads, 1u);
}

TEST(Offload, StoringDoesNotChangeWhatTheManagerDecides) {
  Scene with({}), without({});
  without.config_.policy = 0;
  without.close();
  without.open();
  for (int32_t i = 0; i < 20; ++i) {
    const auto tokens = tokens_of(i * 7 % 50, 9 * kBlock);
    for (Scene* scene : {&with, &without}) {
      const uint64_t id = scene->create(tokens);
      uint64_t cached = 0;
      ASSERT_EQ(kvc_manager_admit_request(scene->manager, id, &cached), KVC_OK);
      scene->compute(id, tokens, cached);
      scene->settle();
      kvc_manager_free_request(scene->manager, id);
    }
    uint64_t a = 0, b = 0;
    ASSERT_EQ(kvc_manager_digest(with.manager, &a), KVC_OK);
    ASSERT_EQ(kvc_manager_digest(without.manager, &b), KVC_OK);
    EXPECT_EQ(a, b);
  }
  EXPECT_GT(with.tier().stored_pages, 0u);
}

TEST(Offload, StreamsAndDevicesAndLayoutsMakeNoDifference) {
  const char* devices[] = {nullptr, "emulated", "emulated:1"};
  for (const char* device : devices) {
    kvc_device_info info = {};
    info.struct_size = sizeof info;
    if (kvc_device_read_info(device, &info) != KVC_OK) continue;
    for (const int32_t layout :
         {KVC_LAYOUT_LBNHC, KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BHLNC}) {
      for (const bool stream : {false, true}) {
        SceneConfig config;
        config.device = device;
        config.layout = layout;
        config.stream = stream;
        Scene scene(config);
        if (::testing::Test::HasFailure()) return;
        const auto tokens = tokens_of(100, 10 * kBlock + 1);
        scene.serve(tokens);
        scene.settle();
        EXPECT_EQ(scene.tier().stored_pages, 10u);
        scene.evict_all();
        EXPECT_EQ(scene.serve(tokens), 10u * kBlock);
        EXPECT_EQ(scene.wrong_pages, 0u) << (device == nullptr ? "cpu" : device) << " layout " << layout;
        scene.settle();
        EXPECT_EQ(scene.held_blocks(), 0u);
      }
    }
  }
}

TEST(Offload, StaleBlocksAreNoneThatLeaveNext) {
  SceneConfig config;
  config.policy = KVC_OFFLOAD_BEFORE_EVICTION;
  Scene scene(config);
  scene.serve(tokens_of(100, 8 * kBlock + 1));
  ASSERT_EQ(kvc_manager_reset_all(scene.manager), KVC_OK);
  for (int i = 0; i < 10; ++i) scene.poll();
  EXPECT_EQ(scene.stats().gone_blocks, 0u);
  EXPECT_EQ(scene.tier().stored_pages, 0u);
}

// Requests may be as long as they like by default: that alone takes no memory.
TEST(Offload, OfASmallManagerTakesLittleMemory) {
  Scene scene({});
  scene.close();
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 32, config.block_size = kBlock, config.event_capacity = 64;
  kvc_manager* small = nullptr;
  ASSERT_EQ(kvc_manager_create(&config, &small), KVC_OK) << kvc_last_error();
  std::swap(scene.manager, small);
  const auto size = [] {
    std::ifstream file("/proc/self/statm");
    uint64_t pages = 0;
    file >> pages;
    return pages * 4096;
  };
  const uint64_t before = size();
  scene.open();
  EXPECT_LT(size() - before, uint64_t{64} << 20);
  scene.close();
  std::swap(scene.manager, small);
  kvc_manager_destroy(small);
  scene.open();
}

TEST(Offload, AHoldWithoutEndLastsUntilTheAdmission) {
  SceneConfig config;
  config.hold_ns = UINT64_MAX;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.store_and_evict(tokens);
  const uint64_t id = scene.create(tokens);
  ASSERT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK);
  for (int i = 0; i < 8; ++i) scene.poll();
  EXPECT_EQ(scene.info(id).state, uint32_t{KVC_OFFLOAD_READY});
  EXPECT_EQ(scene.held_blocks(), 8u);
}

TEST(Offload, AllBlocksOfALongRequestAreStored) {
  SceneConfig config;
  config.policy = 0;
  config.sizes_alone = true;
  config.num_blocks = 5200;
  config.max_request_blocks = 5100;
  config.tier_pages = 8192;
  Scene scene(config);
  const auto tokens = tokens_of(100, 5000 * kBlock + 1);
  const uint64_t id = scene.create(tokens);
  uint64_t cached = 0, count = 0;
  ASSERT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(scene.manager, id, tokens.size()), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_offload_store_request(scene.offload, id, &count), KVC_OK);
  EXPECT_EQ(count, 5000u);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 5000u);
}

TEST(Offload, SizesAloneCountWithoutBytes) {
  SceneConfig config;
  config.sizes_alone = true;
  Scene scene(config);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.serve(tokens), 8u * kBlock);
  EXPECT_EQ(scene.tier().loaded_bytes, 8 * scene.page_bytes);
}

// Jobs of others would end as jobs of the offload.
TEST(Offload, HasItsTiersAlone) {
  Scene scene({});
  kvc_tier_item item = {};
  kvc_tier_job job = {};
  job.struct_size = sizeof job;
  job.items = &item, job.num_items = 1;
  job.kind = KVC_TIER_EXISTS;
  job.user_data = UINT64_MAX / 3;
  kvc_tier_completion done;
  uint64_t id = 0;
  size_t count = 0;
  EXPECT_EQ(kvc_tier_submit(scene.tiers[0], &job, &id), KVC_ERROR_BUSY);
  EXPECT_EQ(kvc_tier_poll(scene.tiers[0], &done, 1, &count), KVC_ERROR_BUSY);
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.serve(tokens), 8u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.close();
  ASSERT_EQ(kvc_tier_submit(scene.tiers[0], &job, &id), KVC_OK) << kvc_last_error();
  kvc_offload_config o = {};
  o.struct_size = sizeof o;
  o.manager = scene.manager;
  o.storages = &scene.storage;
  o.tiers = scene.tiers.data(), o.num_tiers = 1;
  o.pages = &scene.names;
  EXPECT_EQ(kvc_offload_create(&o, &scene.offload), KVC_ERROR_BUSY);
  EXPECT_NE(std::string(kvc_last_error()).find("1 jobs"), std::string::npos) << kvc_last_error();
  ASSERT_EQ(kvc_tier_drain(scene.tiers[0]), KVC_OK);
  ASSERT_EQ(kvc_tier_poll(scene.tiers[0], &done, 1, &count), KVC_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(kvc_offload_create(&o, &scene.offload), KVC_OK) << kvc_last_error();
}

TEST(Offload, NeedsTiersThatTakeItsPages) {
  Scene scene({});
  scene.close();
  const kvc_tier_config config = test_tier_config("memory:?bytes=1MiB&threads=0", scene.page_bytes - 1);
  kvc_tier* small = nullptr;
  ASSERT_EQ(kvc_tier_create(&config, &small), KVC_OK) << kvc_last_error();
  kvc_tier* tiers[] = {scene.tiers[0], small};
  kvc_offload_config o = {};
  o.struct_size = sizeof o;
  o.manager = scene.manager;
  o.storages = &scene.storage;
  o.tiers = tiers, o.num_tiers = 2;
  o.pages = &scene.names;
  EXPECT_EQ(kvc_offload_create(&o, &scene.offload), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("tiers[1]"), std::string::npos) << kvc_last_error();
  EXPECT_EQ(scene.offload, nullptr);
  kvc_tier_destroy(small);
  scene.open();
}

TEST(Offload, RefusalsNameTheReason) {
  Scene scene({});
  kvc_offload_config o = {};
  o.struct_size = sizeof o;
  kvc_offload* out = nullptr;
  o.manager = scene.manager;
  o.tiers = scene.tiers.data();
  o.num_tiers = 1;
  o.pages = &scene.names;
  EXPECT_EQ(kvc_offload_create(&o, &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("page_bytes"), std::string::npos);
  o.storages = &scene.storage;
  EXPECT_EQ(kvc_offload_create(&o, &out), KVC_ERROR_BUSY);
  o.num_tiers = 0;
  EXPECT_EQ(kvc_offload_create(&o, &out), KVC_ERROR_INVALID_ARGUMENT);
  o.policy = 8;
  EXPECT_EQ(kvc_offload_create(&o, &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_offload_lookup(scene.offload, 12345, 1), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_offload_poll(nullptr, 1, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvc::test
