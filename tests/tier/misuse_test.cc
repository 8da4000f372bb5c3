// SPDX-License-Identifier: Apache-2.0
// Random jobs, many of which are wrong in one place: what is refused has touched no item and no counter but
// that of the reason, what is accepted ends once.
#include <gtest/gtest.h>

#include <random>

#include "stores.h"
#include "tier_config.h"

namespace kvc {
namespace {

class Misuse {
 public:
  Misuse() : random_(test::test_seed()) {
    kvc_tier_config config = test_tier_config("memory:?bytes=8KiB&threads=0&jobs=6", kBytes);
    config.max_store_bytes = 4 * kBytes;
    EXPECT_EQ(kvc_tier_create(&config, &t_), KVC_OK) << kvc_last_error();
  }
  ~Misuse() { kvc_tier_destroy(t_); }

  void one() {
    Batch& batch = batches_[random_() % kBatches];
    switch (random_() % 8) {
      case 0:
        ASSERT_LE(kvc_tier_cancel(t_, any_id()), KVC_ERROR_NOT_FOUND);
        return;
      case 1:
        return poll();
      case 2:
      case 3: {
        int32_t did;
        ASSERT_EQ(kvc_tier_run_one(t_, &did), KVC_OK);
        return;
      }
      default:
        if (!batch.open) submit(batch);
    }
  }
  void end() {
    ASSERT_EQ(kvc_tier_drain(t_), KVC_OK);
    poll();
    for (const Batch& batch : batches_) EXPECT_FALSE(batch.open);
    EXPECT_GT(accepted, 1000u);
    EXPECT_GT(refused, 1000u);
  }
  uint64_t accepted = 0, refused = 0;

 private:
  static constexpr size_t kBytes = 128, kItems = 4, kBatches = 10;
  struct Batch {
    kvc_tier_item items[kItems];
    char data[kItems][kBytes];
    kvc_run runs[kItems];
    bool open = false;
  };

  uint64_t odd() {
    const uint64_t values[] = {0, 1, kBytes, kBytes + 1, UINT64_MAX, UINT64_MAX / 2, uint64_t{1} << 62};
    return values[random_() % std::size(values)];
  }
  uint64_t any_id() { return random_() % 4 == 0 ? odd() : last_ - (random_() % 4 << 20); }

  void submit(Batch& batch) {
    kvc_tier_job job = {};
    job.struct_size = sizeof job;
    job.items = batch.items, job.num_items = 1 + random_() % kItems;
    job.kind = static_cast<uint32_t>(random_() % 4), job.priority = static_cast<uint32_t>(random_() % 3);
    job.user_data = static_cast<uint64_t>(&batch - batches_);
    job.now_ns = odd(), job.lease_ns = random_() % 4 == 0 ? odd() : 0;
    job.timeout_ns = random_() % 4 == 0 ? odd() : 0;
    for (size_t i = 0; i < kItems; ++i) {
      kvc_tier_item& item = batch.items[i] = {};
      set_key(&item, test::digest_of(random_() % 80));
      item.data = batch.data[i], item.bytes = kBytes;
      item.result = 1000;
      if (random_() % 4 == 0) {
        batch.runs[i] = {random_() % kBytes, 1}, item.runs = &batch.runs[i], item.num_runs = 1;
      }
    }
    bool is_wrong = random_() % 2 == 0;
    kvc_tier_item& bad = batch.items[random_() % job.num_items];
    const bool moves = job.kind == KVC_TIER_GET || job.kind == KVC_TIER_PUT;
    kvc_tier_job* given = &job;
    if (is_wrong) {
      switch (random_() % 8) {
        case 0:
          job.kind = 4 + static_cast<uint32_t>(random_() % 9);
          break;
        case 1:
          job.priority = 3 + static_cast<uint32_t>(random_() % 9);
          break;
        case 2:
          job.num_items = random_() % 2 == 0 ? 0 : SIZE_MAX;
          break;
        case 3:
          job.items = nullptr;
          break;
        case 4:
          job.struct_size = random_() % 2 == 0 ? 0 : 5000;
          break;
        case 5:
          bad.reserved = 1;
          break;
        case 6:
          bad.bytes = UINT64_MAX;
          break;
        default:
          given = nullptr;
      }
    } else if (moves && random_() % 4 == 0) {
      is_wrong = true;
      bad.data = nullptr;
    }
    uint64_t id = 7;
    const kvc_status status = kvc_tier_submit(t_, given, &id);
    if (status == KVC_OK) {
      ASSERT_FALSE(is_wrong);
      ASSERT_NE(id, last_);
      last_ = id, batch.open = true, ++accepted;
      return;
    }
    ++refused;
    ASSERT_TRUE(status == KVC_ERROR_LIMIT || (is_wrong && status == KVC_ERROR_INVALID_ARGUMENT)) << status;
    ASSERT_EQ(id, 7u);
    for (const kvc_tier_item& item : batch.items) ASSERT_EQ(item.result, 1000);
  }

  void poll() {
    kvc_tier_completion done[kBatches];
    size_t count = 0;
    ASSERT_EQ(kvc_tier_poll(t_, done, kBatches, &count), KVC_OK);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_LT(done[i].user_data, kBatches);
      Batch& batch = batches_[done[i].user_data];
      ASSERT_TRUE(batch.open) << "it has ended before";
      batch.open = false;
    }
  }

  std::mt19937_64 random_;
  kvc_tier* t_ = nullptr;
  Batch batches_[kBatches];
  uint64_t last_ = 0;
};

TEST(TierMisuse, IsRefusedWithoutEffectOrIsFine) {
  Misuse misuse;
  for (int i = 0; i < 100000 && !testing::Test::HasFatalFailure(); ++i) misuse.one();
  misuse.end();
}

}  // namespace
}  // namespace kvc
