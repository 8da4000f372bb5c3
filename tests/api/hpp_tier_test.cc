// SPDX-License-Identifier: Apache-2.0
// kvcache/tier.hpp: a block goes through a tier and comes back in another storage; owners move and end once,
// errors carry status and text, and a full queue is an answer.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <kvcache/tier.hpp>
#include <vector>

namespace {

kvc_storage_config storage_config(uint32_t layout) {
  auto config = kvc::make<kvc_storage_config>();
  config.num_blocks = 2, config.num_layers = 2, config.num_heads = 2, config.head_dim = 8;
  config.block_size = 4, config.dtype = KVC_FLOAT16, config.layout = layout;
  return config;
}
kvc_page_config names() {
  auto config = kvc::make<kvc_page_config>();
  config.model = "model", config.weights = "1";
  config.model_size = 5, config.weights_size = 1;
  return config;
}

TEST(HppTier, CarriesABlockFromOneStorageToAnother) {
  kvc::Storage from(storage_config(KVC_LAYOUT_LBHNC)), to(storage_config(KVC_LAYOUT_BLNHC));
  const kvc_page_info info = kvc::page_info(from, names());
  kvc_run room[8];
  EXPECT_EQ(kvc::page_runs(from, names(), room).size(), 1u);
  std::vector<uint8_t> page(info.page_bytes), back(info.page_bytes);
  for (size_t i = 0; i < page.size(); ++i) page[i] = static_cast<uint8_t>(i * 7);
  const int32_t block = 1;
  kvc::unpack_pages(from, {&block, 1}, page);

  kvc::Tier first("memory:?bytes=64KiB", info);
  kvc::Tier tier = std::move(first);
  EXPECT_EQ(first.get(), nullptr);
  kvc_tier_item item = {};
  item.key[3] = 1, item.data = page.data(), item.bytes = page.size();
  pollfd readable = {tier.event_fd(), POLLIN, 0};
  kvc_tier_completion done[2];
  const auto run = [&](kvc::TierJob job) {
    job.user_data = 5;
    const uint64_t id = tier.submit(job);
    EXPECT_NE(id, 0u);
    EXPECT_EQ(::poll(&readable, 1, 20000), 1);
    const auto ends = tier.poll(done);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].job, id);
    EXPECT_EQ(ends[0].user_data, 5u);
    EXPECT_EQ(item.result, KVC_PAGE_OK);
  };
  std::vector<uint8_t> sent(info.page_bytes);
  kvc::pack_pages(from, {&block, 1}, sent);
  EXPECT_EQ(sent, page);
  run({KVC_TIER_PUT, {&item, 1}});
  item.data = back.data();
  run({KVC_TIER_GET, {&item, 1}});
  const int32_t other = 0;
  kvc::unpack_pages(to, {&other, 1}, back);
  std::vector<uint8_t> again(info.page_bytes);
  kvc::pack_pages(to, {&other, 1}, again);
  EXPECT_EQ(again, page);
  EXPECT_EQ(tier.stats().pages, 1u);
  EXPECT_EQ(tier.counts(KVC_TIER_GET).ok, 1u);
}

TEST(HppTier, ThrowsErrorsAndAnswersAFullQueue) {
  auto info = kvc::make<kvc_page_info>();
  info.page_bytes = 64, info.fingerprint[0] = 1;
  try {
    kvc::Tier tier("memory:?bytes=x", info);
    FAIL() << "no error";
  } catch (const kvc::Error& error) {
    EXPECT_EQ(error.status(), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(error.what(), "bytes='x'"), nullptr) << error.what();
  }
  EXPECT_THROW(kvc::open_plugin("nowhere", "/nowhere"), kvc::Error);
  kvc::Tier tier("memory:?bytes=64KiB&threads=0&jobs=1", info);
  kvc_tier_item item = {};
  const kvc::TierJob job(KVC_TIER_EXISTS, {&item, 1});
  const uint64_t id = tier.submit(job);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(tier.submit(job), 0u);
  EXPECT_TRUE(tier.cancel(id));
  EXPECT_FALSE(tier.cancel(id));
  kvc_tier_completion done[1];
  EXPECT_EQ(tier.poll(done).size(), 1u);
  EXPECT_EQ(item.result, KVC_PAGE_CANCELLED);
  EXPECT_NE(tier.submit(job), 0u);
  EXPECT_TRUE(tier.run_one());
  tier.drain();
  EXPECT_EQ(item.result, KVC_PAGE_MISS);
  kvc::TierJob bad(4, {&item, 1});
  EXPECT_THROW(tier.submit(bad), kvc::Error);
}

}  // namespace
