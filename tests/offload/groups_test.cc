// SPDX-License-Identifier: Apache-2.0
// Managers with several groups and pools, and prompts with extra keys.
#include "offload/scene.h"

namespace kvc::test {
namespace {

struct GroupsCase {
  const char* name;
  std::vector<kvc_group_config> groups;
  uint32_t pools;
  // Pages that a load of 10 and one of 11 blocks takes.
  uint64_t pages_of_10, pages_of_11;
};

std::vector<GroupsCase> cases() {
  const auto full = [](uint32_t pool) { return group_of(KVC_GROUP_FULL, 0, pool); };
  // Two blocks and a sink.
  const auto window = [](uint32_t pool) { return group_of(KVC_GROUP_SLIDING_WINDOW, 2 * kBlock, pool); };
  // Chunks of two blocks: none at their ends, one inside.
  const auto chunks = [](uint32_t pool) { return group_of(KVC_GROUP_CHUNKED_LOCAL, 2 * kBlock, pool); };
  return {{"FullInTwoPools", {full(0), full(1)}, 2, 20, 22},
          {"WindowInAPoolOfItsOwn", {full(0), window(1)}, 2, 13, 14},
          {"WindowAlone", {window(0)}, 1, 3, 3},
          {"ChunksInTheSamePool", {full(0), chunks(0)}, 1, 10, 12},
          {"ChunksInAPoolOfTheirOwn", {full(0), chunks(1)}, 2, 10, 12},
          {"ThreeKindsInThreePools", {full(0), window(1), chunks(2)}, 3, 13, 15}};
}

class Groups : public ::testing::TestWithParam<GroupsCase> {
 protected:
  SceneConfig config() const {
    SceneConfig out;
    out.groups = GetParam().groups;
    out.num_blocks = 64;
    if (GetParam().pools > 1) out.pools.assign(GetParam().pools, 64);
    out.num_pages = 64;
    return out;
  }
};

TEST_P(Groups, WhatAHitNeedsComesBack) {
  Scene scene(config());
  for (const uint64_t blocks : {10, 11}) {
    const auto tokens = tokens_of(static_cast<int32_t>(100 * blocks), blocks * kBlock + 1);
    scene.store_and_evict(tokens);
    const uint64_t before = scene.tier().loaded_pages;
    EXPECT_EQ(scene.serve(tokens), blocks * kBlock);
    EXPECT_EQ(scene.last.reason, uint32_t{KVC_OFFLOAD_LOADED});
    EXPECT_EQ(scene.tier().loaded_pages - before,
              blocks == 10 ? GetParam().pages_of_10 : GetParam().pages_of_11);
    EXPECT_EQ(scene.wrong_pages, 0u);
    EXPECT_GT(scene.checked_pages, 0u);
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.check();
  }
}

TEST_P(Groups, AnyPageThatFailsLeavesAValidHit) {
  for (int32_t failing = 0; failing < static_cast<int32_t>(GetParam().pages_of_11); ++failing) {
    Scene scene(config());
    const auto tokens = tokens_of(100, 11 * kBlock + 1);
    scene.store_and_evict(tokens);
    scene.weather[0].gets_before_failure = failing;
    const uint64_t cached = scene.serve(tokens);
    EXPECT_LT(cached, 11u * kBlock);
    EXPECT_EQ(scene.last.num_loaded, cached);
    EXPECT_EQ(scene.wrong_pages, 0u) << "page " << failing;
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.check();
    scene.evict_all();
    EXPECT_EQ(scene.serve(tokens), 11u * kBlock) << "page " << failing;
    EXPECT_EQ(scene.wrong_pages, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Groups, ::testing::ValuesIn(cases()),
                         [](const ::testing::TestParamInfo<GroupsCase>& kind) { return kind.param.name; });

// An image over [6, 15): in blocks 1 to 3, whose first token is inside block 1.
kvc_extra_key image(uint8_t content) {
  kvc_extra_key key = {};
  key.first_token = kBlock + 2;
  key.num_tokens = 2 * kBlock + 1;
  key.digest[0] = content;
  return key;
}

TEST(OffloadKeys, AnImageOverSeveralBlocksIsInTheirKeys) {
  Scene scene({});
  const auto tokens = tokens_of(100, 8 * kBlock + 1);
  scene.keys = {image(1)};
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.serve(tokens), 8u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.settle();
  scene.evict_all();
  scene.keys = {image(2)};
  EXPECT_EQ(scene.serve(tokens), 1u * kBlock) << "the block before the image";
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.settle();
  scene.evict_all();
  scene.keys.clear();
  EXPECT_EQ(scene.serve(tokens), 1u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.check();
}

// A lookup knows 256 keys: what is before the last of them is loaded.
TEST(OffloadKeys, OfAPromptWithManyAreLookedUpAsFarAsTheyGo) {
  SceneConfig config;
  config.num_blocks = 160;
  config.max_request_blocks = 120;
  Scene scene(config);
  const auto tokens = tokens_of(100, 100 * kBlock + 1);
  for (uint64_t i = 0; i < 300; ++i) {
    kvc_extra_key key = {};
    key.first_token = i, key.num_tokens = 1, key.digest[0] = static_cast<uint8_t>(i);
    scene.keys.push_back(key);
  }
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.serve(tokens), 255 / kBlock * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
  scene.settle();
  EXPECT_EQ(scene.held_blocks(), 0u);
  scene.check();
}

// No hit ends inside an image.
TEST(OffloadKeys, AFailureInsideAnImageEndsThePrefixBeforeIt) {
  for (int32_t failing = 0; failing < 8; ++failing) {
    Scene scene({});
    const auto tokens = tokens_of(100, 8 * kBlock + 1);
    scene.keys = {image(1)};
    scene.store_and_evict(tokens);
    scene.weather[0].gets_before_failure = failing;
    const uint64_t blocks = failing == 2 || failing == 3 ? 1 : static_cast<uint64_t>(failing);
    EXPECT_EQ(scene.serve(tokens), blocks * kBlock);
    EXPECT_EQ(scene.wrong_pages, 0u);
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.check();
  }
}

// A request of many prompt blocks asks piece by piece, and has all in the end.
TEST(OffloadPieces, ALongPromptComesBackWhole) {
  SceneConfig config;
  config.num_blocks = 80;
  Scene scene(config);
  const auto tokens = tokens_of(100, 62 * kBlock + 1);
  scene.store_and_evict(tokens);
  EXPECT_EQ(scene.serve(tokens), 62u * kBlock);
  EXPECT_EQ(scene.last.num_found, 62u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(OffloadPieces, ANewPromptIsAskedForAtItsBeginningAlone) {
  SceneConfig config;
  config.num_blocks = 80;
  Scene scene(config);
  scene.serve(tokens_of(100, 62 * kBlock + 1));
  EXPECT_EQ(scene.tier().hits, 0u);
  EXPECT_EQ(scene.tier().misses, 16u);
}

// The tier has lost the first pages of a prompt. What it still has behind them is of no use now, but what it
// has lost there must be stored again as well.
TEST(OffloadPieces, PagesBehindAHoleAreStoredAgainIfTheyAreGone) {
  SceneConfig config;
  config.num_blocks = 80;
  Scene scene(config);
  const auto tokens = tokens_of(100, 62 * kBlock + 1);
  scene.serve(tokens);
  scene.settle();
  ASSERT_EQ(scene.tier().stored_pages, 62u);
  size_t count = 0;
  std::vector<Digest256> positions(62);
  kvc_prompt prompt = {};
  prompt.struct_size = sizeof prompt;
  prompt.tokens = tokens.data();
  prompt.num_tokens = tokens.size();
  ASSERT_EQ(kvc_manager_position_digests(scene.manager, &prompt, positions[0].bytes, 62, &count), KVC_OK);
  kvc_page_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_storage_page_properties(scene.storage, &scene.names, &info), KVC_OK);
  for (const size_t lost : {0, 1, 30, 50, 61}) {
    kvc_tier_item item = {};
    ASSERT_EQ(kvc_page_key(positions[lost].bytes, 0, info.fingerprint, item.key), KVC_OK);
    uint64_t job = 0;
    Tier& tier = *scene.tiers[0]->impl;
    ASSERT_EQ(tier.submit({TierJobKind::kRemove, TierPriority::kLoad, &item, 1,
                           scene.now + (uint64_t{1} << 60), 0, 0, 0},
                          &job),
              KVC_OK);
    while (tier.run_one()) continue;
    TierCompletion done;
    ASSERT_EQ(tier.poll(&done, 1), 1u);
    ASSERT_EQ(item.result, KVC_PAGE_OK);
  }
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), 0u);
  scene.settle();
  EXPECT_EQ(scene.tier().stored_pages, 62u + 5);
  scene.evict_all();
  EXPECT_EQ(scene.serve(tokens), 62u * kBlock);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

}  // namespace
}  // namespace kvc::test
