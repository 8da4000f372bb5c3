// SPDX-License-Identifier: Apache-2.0
// A tier that fails in a row is left alone, says so once, and is tried again by the caller's clock.
#include "offload/scene.h"

namespace kvc::test {
namespace {

constexpr size_t kPages = 8;
constexpr uint64_t kRetry = 1000000;

SceneConfig patient(uint32_t num_tiers = 1) {
  SceneConfig config;
  config.num_tiers = num_tiers;
  config.retry_ns = kRetry;
  config.num_blocks = 64;
  return config;
}

// Counts what the store is asked.
struct Asked {
  explicit Asked(Weather& weather) {
    weather.before = [this](TierJobKind kind) { ++of[static_cast<size_t>(kind)]; };
  }
  uint64_t of[kNumJobKinds] = {};
  uint64_t gets() const { return of[static_cast<size_t>(TierJobKind::kGet)]; }
  uint64_t exists() const { return of[static_cast<size_t>(TierJobKind::kExists)]; }
  uint64_t puts() const { return of[static_cast<size_t>(TierJobKind::kPut)]; }
};

TEST(OffloadOutage, ATierThatCannotReadIsLeftAloneAndComesBack) {
  Scene scene(patient());
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.tier().available, 1u);
  scene.weather[0].down = 1;
  scene.serve(tokens);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_FAILED});
  EXPECT_EQ(scene.tier().available, 0u);
  EXPECT_EQ(scene.tier().outages, 1u);
  Asked asked(scene.weather[0]);
  for (int32_t i = 0; i < 5; ++i) {
    scene.settle();
    scene.evict_all();
    EXPECT_EQ(scene.serve(tokens), 0u);
    EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_NOTHING});
    scene.serve(tokens_of(5000 + 100 * i, kPages * kBlock + 1));
  }
  EXPECT_EQ(asked.gets() + asked.exists() + asked.puts(), 0u);
  EXPECT_GT(scene.tier().refused_stores, 0u);

  scene.now += kRetry;  // it is still down
  scene.evict_all();
  scene.serve(tokens);
  EXPECT_EQ(asked.gets(), 1u) << "one job tries it again";
  EXPECT_EQ(scene.tier().available, 0u);
  EXPECT_EQ(scene.tier().outages, 1u) << "it says so once";

  scene.weather[0].down = 0;
  scene.now += kRetry;
  scene.settle();
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), kPages * kBlock);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_LOADED});
  EXPECT_EQ(scene.tier().available, 1u);
  EXPECT_EQ(scene.tier().outages, 1u);
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.settle();
  EXPECT_EQ(scene.held_blocks(), 0u);
  scene.check();
}

// A store that fails, without a load that would try it: it heals by a store.
TEST(OffloadOutage, ATierThatCannotWriteIsLeftAloneAndComesBack) {
  Scene scene(patient());
  scene.weather[0].broken_puts = 1;
  for (int32_t i = 0; i < 4; ++i) {
    scene.serve(tokens_of(1000 * i, kPages * kBlock + 1));
    scene.settle();
  }
  EXPECT_EQ(scene.tier().outages, 1u);
  Asked asked(scene.weather[0]);
  scene.serve(tokens_of(5000, kPages * kBlock + 1));
  scene.settle();
  EXPECT_EQ(asked.puts(), 0u);
  scene.weather[0].broken_puts = 0;
  scene.now += kRetry;
  const auto tokens = tokens_of(6000, 2 * kPages * kBlock + 1);
  const uint64_t id = scene.create(tokens);
  uint64_t cached = 0;
  ASSERT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK);
  scene.compute(id, tokens, cached);
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.tier().available, 1u);
  EXPECT_GT(scene.tier().stored_pages, 0u);
}

// A disk that is full, or may only be read. The same blocks are not offered at each poll.
TEST(OffloadOutage, ATierThatCannotWriteStillLoads) {
  for (const bool full : {false, true}) {
    SceneConfig config = patient();
    config.policy = KVC_OFFLOAD_WRITE_THROUGH | KVC_OFFLOAD_BEFORE_EVICTION;
    Scene scene(config);
    const auto tokens = tokens_of(100, kPages * kBlock + 1);
    scene.store_and_evict(tokens);
    (full ? scene.weather[0].full : scene.weather[0].broken_puts) = 1;
    Asked asked(scene.weather[0]);
    for (int32_t i = 1; i < 9; ++i) {
      scene.serve(tokens_of(1000 * i, kPages * kBlock + 1));
      for (int k = 0; k < 20; ++k) scene.poll();
    }
    EXPECT_LE(asked.puts(), 2 * kPages) << "three jobs, of up to 16 pages together";
    EXPECT_EQ(scene.tier().outages, 1u);
    EXPECT_EQ(scene.tier().available, 0u);
    for (int i = 0; i < 4; ++i) {
      scene.poll();
      scene.evict_all();
      EXPECT_EQ(scene.serve(tokens), kPages * kBlock);
    }
    EXPECT_EQ(scene.wrong_pages, 0u);
    scene.weather[0].full = scene.weather[0].broken_puts = 0;
    scene.now += kRetry;
    const auto later = tokens_of(50000, kPages * kBlock + 1);
    scene.store_and_evict(later);
    EXPECT_EQ(scene.serve(later), kPages * kBlock);
    EXPECT_EQ(scene.tier().available, 1u);
  }
}

// A server behind a file system that has gone away.
TEST(OffloadOutage, ACallThatNeverEndsHoldsUpNoRequest) {
  for (const TierJobKind kind : {TierJobKind::kExists, TierJobKind::kGet}) {
    std::atomic<bool> hangs{false}, hung{false};
    SceneConfig config = patient();
    config.threads = 2;
    config.timeout_ns = 500000000;
    Scene scene(config);
    const auto tokens = tokens_of(100, kPages * kBlock + 1);
    scene.store_and_evict(tokens);
    scene.weather[0].before = [&](TierJobKind called) {
      if (called != kind || !hangs.exchange(false)) return;
      hung = true;
      while (hung) std::this_thread::yield();
    };
    hangs = true;
    EXPECT_LT(scene.serve(tokens), kPages * kBlock);
    ASSERT_TRUE(hung);
    EXPECT_EQ(scene.last.state, uint32_t{KVC_OFFLOAD_READY});
    EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_FAILED});
    scene.poll();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.evict_all();
    EXPECT_EQ(scene.serve(tokens), kPages * kBlock) << "the others go on";
    hung = false;
    while (scene.stats().busy_lookups != 0) scene.poll();
    scene.settle();
    EXPECT_EQ(scene.wrong_pages, 0u);
    scene.check();
  }
}

// What a faster tier has is loaded.
TEST(OffloadOutage, AQuestionThatNeverEndsCostsNothingOfOtherTiers) {
  std::atomic<bool> hangs{false}, hung{false};
  SceneConfig config = patient(2);
  config.threads = 2, config.timeout_ns = 200000000;
  Scene scene(config);
  const auto tokens = tokens_of(100, kPages * kBlock + 1), longer = tokens_of(100, 3 * kPages * kBlock + 1);
  scene.store_and_evict(tokens);
  scene.weather[1].before = [&](TierJobKind kind) {
    if (kind != TierJobKind::kExists || !hangs.exchange(false)) return;
    hung = true;
    while (hung) std::this_thread::yield();
  };
  hangs = true;
  EXPECT_EQ(scene.serve(longer), kPages * kBlock);
  ASSERT_TRUE(hung);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_LOADED});
  EXPECT_EQ(scene.stats().busy_lookups, 1u) << "the call still writes to it";
  scene.poll();
  EXPECT_EQ(scene.held_blocks(), 0u);
  hung = false;
  while (scene.stats().busy_lookups != 0) scene.poll();
  scene.settle();
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.check();
}

bool is_under_way(const Scene& scene, uint64_t id) {
  const uint32_t state = scene.info(id).state;
  return state == KVC_OFFLOAD_LOOKING || state == KVC_OFFLOAD_LOADING;
}

// Who waits for staging pages, which others have, says nothing of the tier.
TEST(OffloadOutage, WaitingForOthersIsNoFailureOfATier) {
  SceneConfig config = patient();
  config.threads = 1, config.num_pages = 4, config.timeout_ns = 1000000000;
  Scene scene(config);
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 4; ++i) {
    prompts.push_back(tokens_of(1000 * (i + 1), kPages * kBlock + 1));
    scene.store_and_evict(prompts.back());
  }
  scene.weather[0].before = [](TierJobKind kind) {
    if (kind == TierJobKind::kGet) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  };
  std::vector<uint64_t> ids;
  for (const auto& prompt : prompts) {
    ids.push_back(scene.create(prompt));
    ASSERT_EQ(kvc_offload_lookup(scene.offload, ids.back(), scene.now), KVC_OK);
  }
  for (const uint64_t id : ids)
    while (is_under_way(scene, id)) scene.poll();
  EXPECT_EQ(scene.tier().outages, 0u);
}

// The get that tries a tier again may hang as well: others do not wait for it, and the tier is tried again.
TEST(OffloadOutage, AProbeThatNeverEndsHoldsUpNobody) {
  std::atomic<bool> hangs{false}, hung{false};
  SceneConfig config = patient();
  config.threads = 2, config.timeout_ns = 500000000;
  Scene scene(config);
  const auto first = tokens_of(100, kPages * kBlock + 1), second = tokens_of(900, kPages * kBlock + 1);
  scene.store_and_evict(first);
  scene.store_and_evict(second);
  scene.weather[0].before = [&](TierJobKind kind) {
    if (kind != TierJobKind::kGet || !hangs.exchange(false)) return;
    hung = true;
    while (hung) std::this_thread::yield();
  };
  scene.weather[0].down = 1;
  while (scene.tier().available != 0) {
    scene.serve(first);
    scene.settle();
    scene.evict_all();
  }
  scene.weather[0].down = 0;
  scene.now += kRetry;
  hangs = true;
  uint64_t ids[] = {scene.create(first), scene.create(second)};
  for (const uint64_t id : ids) ASSERT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK);
  for (const uint64_t id : ids)
    while (is_under_way(scene, id)) scene.poll();
  ASSERT_TRUE(hung);
  for (const uint64_t id : ids) ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
  scene.poll();
  EXPECT_EQ(scene.held_blocks(), 0u);
  scene.now += kRetry;
  scene.evict_all();
  EXPECT_EQ(scene.serve(first), kPages * kBlock) << "another thread of the tier tries it again";
  EXPECT_EQ(scene.tier().available, 1u);
  EXPECT_EQ(scene.flush(), 0u);
  hung = false;
  scene.settle();
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.check();
}

TEST(OffloadOutage, TheOtherTierServesMeanwhile) {
  Scene scene(patient(2));
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  scene.store_and_evict(tokens);
  scene.weather[0].down = 1;
  while (scene.tier().available != 0) {
    scene.serve(tokens);
    scene.settle();
    scene.evict_all();
  }
  Asked asked(scene.weather[0]);
  EXPECT_EQ(scene.serve(tokens), kPages * kBlock) << "the second tier has it";
  EXPECT_EQ(scene.tier(1).available, 1u);
  EXPECT_EQ(scene.wrong_pages, 0u);
  const uint64_t stored = scene.tier(1).stored_pages;
  scene.serve(tokens_of(3000, kPages * kBlock + 1));
  EXPECT_EQ(scene.flush(), 0u);
  EXPECT_EQ(scene.tier(1).stored_pages, stored + kPages);
  EXPECT_EQ(asked.gets() + asked.exists() + asked.puts(), 0u);
}

// An answer from an index in memory says nothing of the disk.
TEST(OffloadOutage, QuestionsDoNotHideFailuresOfReads) {
  Scene scene(patient());
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  scene.store_and_evict(tokens);
  for (int i = 0; i < 3; ++i) {
    scene.weather[0].gets_before_failure = 0;
    scene.weather[0].down = 1;
    const uint64_t id = scene.create(tokens);
    ASSERT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK);
    for (int k = 0; k < 3; ++k) scene.poll();
    ASSERT_EQ(kvc_offload_cancel(scene.offload, id), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
    scene.settle();
  }
  EXPECT_EQ(scene.tier().outages, 1u);
}

// The same calls at the same times: the same outages.
TEST(OffloadOutage, FollowsTheCallersClockAlone) {
  kvc_offload_tier_stats ends[2] = {};
  for (kvc_offload_tier_stats& end : ends) {
    Scene scene(patient());
    scene.tick = 1000;
    std::mt19937_64 random(3);
    for (int i = 0; i < 300; ++i) {
      scene.weather[0].down = random() % 3 == 0;
      scene.weather[0].broken_puts = random() % 3 == 0;
      scene.now += random() % kRetry;
      scene.serve(tokens_of(100 * static_cast<int32_t>(random() % 9), kPages * kBlock + 1));
      scene.settle();
      if (i % 4 == 0) scene.evict_all();
      scene.check();
    }
    EXPECT_EQ(scene.wrong_pages, 0u);
    end = scene.tier();
  }
  EXPECT_EQ(std::memcmp(&ends[0], &ends[1], sizeof ends[0]), 0);
  EXPECT_GT(ends[0].outages, 2u);
  EXPECT_GT(ends[0].loaded_pages, 100u);
}

// ---- which loads are begun

TEST(OffloadBounds, AShortPrefixIsNotWorthALoad) {
  SceneConfig config;
  config.min_load_tokens = 6 * kBlock;
  Scene scene(config);
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  scene.store_and_evict(tokens);
  auto other = tokens_of(100, kPages * kBlock + 1);
  other[5 * kBlock] = 7;  // five blocks are the same
  EXPECT_EQ(scene.serve(other), 0u);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_SLOWER});
  EXPECT_EQ(scene.last.num_found, 5u * kBlock) << "it says how much could be loaded";
  EXPECT_EQ(scene.stats().slower_loads, 1u);
  EXPECT_EQ(scene.tier().loaded_pages, 0u);
  scene.settle();
  scene.evict_all();
  other = tokens_of(100, kPages * kBlock + 1);
  other[6 * kBlock] = 7;
  EXPECT_EQ(scene.serve(other), 6u * kBlock);
  EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_LOADED});
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(OffloadBounds, ARequestBoundsWhatIsLoadedForIt) {
  Scene scene({});
  const auto tokens = tokens_of(100, kPages * kBlock + 1);
  scene.store_and_evict(tokens);
  kvc_prompt prompt = {};
  prompt.struct_size = sizeof prompt;
  prompt.tokens = tokens.data(), prompt.num_tokens = tokens.size();
  kvc_request_config config = {};
  config.struct_size = sizeof config;
  config.max_cached_tokens = 3 * kBlock + 2;
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_create_request(scene.manager, &prompt, &config, &id), KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.serve(id, tokens), 3u * kBlock);
  EXPECT_EQ(scene.last.num_found, 3u * kBlock);
  EXPECT_EQ(scene.tier().loaded_pages, 3u);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

}  // namespace
}  // namespace kvc::test
