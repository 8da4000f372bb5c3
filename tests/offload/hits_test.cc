// SPDX-License-Identifier: Apache-2.0
// A hit is never wrong, whatever the engine does while a load is under way.
#include <kvcache/external.h>

#include "api/offload_handle.h"
#include "api/storage_handle.h"
#include "cpu/stream.h"
#include "offload/scene.h"

namespace kvc::test {
namespace {

constexpr size_t kBlocks = 6;

TEST(OffloadHits, AreNotOfBlocksThatTheEngineUnpublishesMeanwhile) {
  for (const size_t bad : {0u, 1u, 2u}) {
    Scene scene({});
    const auto tokens = tokens_of(100, kBlocks * kBlock + 1);
    scene.store_and_evict(tokens);
    const auto first = tokens_of(100, 3 * kBlock + 1);
    uint64_t id = scene.create(first);
    ASSERT_EQ(scene.serve(id, first), 3 * kBlock);
    const int32_t wrong = scene.table(id, 0)[bad];
    ASSERT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
    id = scene.create(tokens);
    uint64_t unpublished = 0;
    scene.weather[0].before = [&](TierJobKind kind) {
      if (kind != TierJobKind::kGet || unpublished != 0) return;
      EXPECT_EQ(scene.info(id).num_cached, 3 * kBlock);
      scene.write_block(0, wrong, std::vector<char>(scene.page_bytes, 'x'));
      EXPECT_EQ(kvc_manager_unpublish_blocks(scene.manager, &wrong, 1, &unpublished), KVC_OK);
    };
    EXPECT_EQ(scene.serve(id, tokens), bad * kBlock) << "what is before the hole";
    EXPECT_EQ(unpublished, 1u);
    EXPECT_EQ(scene.wrong_pages, 0u);
    EXPECT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
    scene.settle();
    EXPECT_EQ(scene.held_blocks(), 0u);
    scene.check();
  }
}

TEST(OffloadHits, AreAsLongAsTheCallerWants) {
  const auto tokens = tokens_of(100, kBlocks * kBlock + 1);
  for (const uint64_t most : {0u, 1u, 3u, 4u, 7u, 12u, 1000u}) {
    Scene scene({});
    scene.store_and_evict(tokens);
    const uint64_t expected = most == 0 ? kBlocks : std::min<uint64_t>(most / kBlock, kBlocks),
                   id = scene.create(tokens);
    ASSERT_EQ(kvc_offload_load(scene.offload, id, most, scene.now), KVC_OK);
    while (scene.info(id).state != KVC_OFFLOAD_READY) scene.poll();
    EXPECT_EQ(scene.info(id).num_loaded, expected * kBlock);
    EXPECT_EQ(scene.info(id).reason, uint32_t{expected == 0 ? KVC_OFFLOAD_NOTHING : KVC_OFFLOAD_LOADED});
    EXPECT_EQ(scene.serve(id, tokens), expected * kBlock) << "a lookup of what was looked up changes nothing";
    EXPECT_EQ(scene.wrong_pages, 0u);
  }
  Scene scene({});
  EXPECT_EQ(kvc_offload_load(nullptr, 1, 0, 1), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_offload_load(scene.offload, 12345, 8, 1), KVC_ERROR_NOT_FOUND);
}

// A lookup has room for what can be hit and loaded, not for the longest request of the manager.
TEST(OffloadHits, NeedNoMemoryForTheLongestRequest) {
  uint64_t bytes[2];
  for (const uint64_t blocks : {uint64_t{64}, uint64_t{1} << 20}) {
    SceneConfig config;
    config.max_request_blocks = blocks;
    Scene scene(config);
    bytes[blocks > 64] = scene.offload->account.bytes();
    const auto tokens = tokens_of(100, kBlocks * kBlock + 1);
    scene.store_and_evict(tokens);
    EXPECT_EQ(scene.serve(tokens), kBlocks * kBlock);
  }
  EXPECT_LE(bytes[1], 16 * bytes[0]);
}

// A task of a stream that ends when the test says so.
struct Hold : Stream::Task {
  std::atomic<bool>* is_over;
};

TEST(OffloadHits, AreNotOverwrittenByCopiesThatAStreamStillHas) {
  SceneConfig config;
  config.num_blocks = kBlocks;
  config.stream = true;
  Scene scene(config);
  const auto first = tokens_of(100, kBlocks * kBlock), second = tokens_of(500, kBlocks * kBlock);
  scene.store_and_evict(first);
  scene.store_and_evict(second);
  std::atomic<bool> is_over{false};
  auto* const stream = static_cast<Stream*>(scene.stream->impl);
  Hold* const hold = stream->make<Hold>(0);
  hold->is_over = &is_over;
  hold->run = [](Stream::Task* task) {
    while (!*static_cast<Hold*>(task)->is_over) std::this_thread::yield();
  };
  stream->submit(hold);
  const auto load = [&](const std::vector<int32_t>& tokens) {
    const uint64_t id = scene.create(tokens);
    EXPECT_EQ(kvc_offload_lookup(scene.offload, id, scene.now), KVC_OK);
    for (int i = 0; i < 100 && scene.info(id).state != KVC_OFFLOAD_READY; ++i) scene.poll();
    EXPECT_EQ(scene.info(id).reason, uint32_t{KVC_OFFLOAD_LOADED});
    return id;
  };
  uint64_t id = load(first);  // its copies wait behind the task
  EXPECT_EQ(kvc_offload_cancel(scene.offload, id), KVC_OK);
  EXPECT_EQ(kvc_manager_free_request(scene.manager, id), KVC_OK);
  scene.evict_all();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_over = true;
  });
  kvc_stream* const with = std::exchange(scene.stream, nullptr);
  id = load(second);  // into the same blocks, without the stream
  scene.stream = with;
  other.join();
  uint64_t cached = 0;
  EXPECT_EQ(kvc_manager_admit_request(scene.manager, id, &cached), KVC_OK);
  EXPECT_EQ(cached, (kBlocks - 1) * kBlock);
  scene.compute(id, second, cached);
  EXPECT_EQ(scene.wrong_pages, 0u);
}

TEST(OffloadHits, NeedBytes) {
  SceneConfig config;
  config.tier_pages = 4;
  Scene scene(config);
  scene.close();
  kvc_tier_config sizes = {};
  sizes.struct_size = sizeof sizes, sizes.url = "sizes:?bytes=1MiB", sizes.page_bytes = scene.page_bytes;
  kvc_tier* tier = nullptr;
  ASSERT_EQ(kvc_tier_create(&sizes, &tier), KVC_OK) << kvc_last_error();
  kvc_offload_config o = {};
  o.struct_size = sizeof o, o.manager = scene.manager, o.storages = &scene.storage;
  o.tiers = &tier, o.num_tiers = 1, o.pages = &scene.names, o.policy = KVC_OFFLOAD_WRITE_THROUGH;
  kvc_offload* made = nullptr;
  EXPECT_EQ(kvc_offload_create(&o, &made), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(strstr(kvc_last_error(), "sizes of pages and no bytes"), nullptr) << kvc_last_error();
  o.storages = nullptr, o.page_bytes = &scene.page_bytes;
  EXPECT_EQ(kvc_offload_create(&o, &made), KVC_OK) << kvc_last_error();
  kvc_offload_destroy(made);
  kvc_tier_destroy(tier);
  scene.open();
}

// The engine would clear what a load has filled.
TEST(OffloadHits, AreNotGivenByManagersThatListBlocksToClear) {
  Scene scene({});
  for (const uint32_t flags : {KVC_MANAGER_ZERO_ALWAYS, KVC_MANAGER_ZERO_CROSS_NAMESPACE}) {
    kvc_manager_config c = {};
    c.struct_size = sizeof c, c.num_blocks = 32, c.block_size = kBlock, c.event_capacity = 64,
    c.flags = flags;
    kvc_manager* manager = nullptr;
    ASSERT_EQ(kvc_manager_create(&c, &manager), KVC_OK) << kvc_last_error();
    kvc_offload_config o = {};
    o.struct_size = sizeof o, o.manager = manager, o.storages = &scene.storage;
    o.tiers = scene.tiers.data(), o.num_tiers = 1, o.pages = &scene.names;
    kvc_offload* made = nullptr;
    EXPECT_EQ(kvc_offload_create(&o, &made), KVC_ERROR_UNSUPPORTED);
    EXPECT_NE(strstr(kvc_last_error(), "ZERO_ALWAYS"), nullptr) << kvc_last_error();
    o.storages = nullptr, o.page_bytes = &scene.page_bytes;
    scene.close();
    EXPECT_EQ(kvc_offload_create(&o, &made), KVC_OK)
        << "without bytes nothing is cleared" << kvc_last_error();
    kvc_offload_destroy(made);
    scene.open();
    kvc_manager_destroy(manager);
  }
}

}  // namespace
}  // namespace kvc::test
