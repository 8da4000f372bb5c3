// SPDX-License-Identifier: Apache-2.0
// Waiting requests that are admitted all or none: kvc_manager_admit_batch.
#include <kvcache/quota.h>
#include <kvcache/record.h>

#include "conformance/fixture.h"

namespace conformance {
namespace {

struct Batch {
  std::vector<uint64_t> ids, cached;
  std::vector<kvc_status> statuses;

  explicit Batch(std::vector<uint64_t> requests)
      : ids(std::move(requests)), cached(ids.size(), 77), statuses(ids.size(), -1) {}
  kvc_status admit(Cache& c) {
    return c.verify(kvc_manager_admit_batch(c.get(), ids.data(), ids.size(), cached.data(), statuses.data()));
  }
};

uint64_t wait(Cache& c, const Tokens& tokens, const RequestOptions& config = request_config()) {
  uint64_t id = 0;
  EXPECT_EQ(kvc_manager_create_request(c.get(), PROMPT(config.ns, tokens.data(), tokens.size(), nullptr, 0),
                                       &config, &id),
            KVC_OK)
      << kvc_last_error();
  return id;
}

// The second and the third have two blocks of the hit in common, which the first must not evict.
TEST(AdmitBatch, TakesAllOrNone) {
  for (const uint64_t blocks : {4u, 5u}) {
    Cache c(shape(blocks, B));
    c.store(text(1, 2 * B));
    Batch batch(
        {wait(c, text(2, B)), wait(c, text(1, 2 * B) + text(5, 1)), wait(c, text(1, 2 * B) + text(6, 1))});
    const uint64_t before = c.digest();
    if (blocks == 5) {
      EXPECT_EQ(batch.admit(c), KVC_OK) << kvc_last_error();
      EXPECT_EQ(batch.statuses, std::vector<kvc_status>(3, KVC_OK));
      EXPECT_EQ(batch.cached, (std::vector<uint64_t>{0, 2 * B, 2 * B}));
      EXPECT_EQ(c.table(batch.ids[1])[1], c.table(batch.ids[2])[1]);
      EXPECT_EQ(c.stats().live_requests, 3u);
      EXPECT_EQ(c.available(), 0u);
      continue;
    }
    EXPECT_EQ(batch.admit(c), KVC_ERROR_NO_SPACE);
    EXPECT_EQ(std::string(kvc_last_error()).substr(0, 13), "requests[2]: ") << kvc_last_error();
    EXPECT_EQ(batch.statuses,
              (std::vector<kvc_status>{KVC_ERROR_SKIPPED, KVC_ERROR_SKIPPED, KVC_ERROR_NO_SPACE}));
    EXPECT_EQ(batch.cached, std::vector<uint64_t>(3, 77));
    EXPECT_EQ(c.digest(), before);
    EXPECT_EQ(c.stats().waiting_requests, 3u);
    EXPECT_EQ(c.admit(batch.ids[1]), 2 * B) << "the hit is still there";
  }
}

TEST(AdmitBatch, SaysWhyEachCannotBe) {
  Cache c(shape(4, B));
  const uint64_t small = wait(c, text(1, B)), large = wait(c, text(2, 4 * B)),
                 never = wait(c, text(3, 5 * B));
  const Admitted admitted = c.allocate(text(4, B));
  const uint64_t before = c.digest();
  const auto refused = [&](std::vector<uint64_t> ids, kvc_status status, std::vector<kvc_status> statuses) {
    Batch batch(std::move(ids));
    EXPECT_EQ(batch.admit(c), status);
    EXPECT_EQ(batch.statuses, statuses);
    EXPECT_EQ(c.digest(), before);
  };
  refused({small, never, small}, KVC_ERROR_NEVER_FITS,
          {KVC_ERROR_SKIPPED, KVC_ERROR_NEVER_FITS, KVC_ERROR_BUSY});
  refused({large, small, never}, KVC_ERROR_NO_SPACE,
          {KVC_ERROR_NO_SPACE, KVC_ERROR_SKIPPED, KVC_ERROR_SKIPPED});
  refused({admitted.id, small, 99}, KVC_ERROR_BUSY, {KVC_ERROR_BUSY, KVC_ERROR_SKIPPED, KVC_ERROR_NOT_FOUND});
  EXPECT_EQ(kvc_manager_admit_batch(c.get(), nullptr, 1, nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_admit_batch(c.get(), nullptr, 0, nullptr, nullptr), KVC_OK);
  EXPECT_EQ(c.digest(), before);
  EXPECT_EQ(kvc_manager_admit_batch(c.get(), &small, 1, nullptr, nullptr), KVC_OK)
      << "both arrays may be NULL";
}

TEST(AdmitBatch, ARefusalStopsItsOwnShareAlone) {
  kvc_manager_config config = shape(8, B);
  config.max_quotas = 2;
  Cache c(config);
  const uint64_t ns = c.open("bounded");
  ASSERT_EQ(kvc_manager_set_quota(c.get(), ns, 0, 0, 2), KVC_OK);
  const uint64_t others = wait(c, text(1, B));
  const uint64_t first = wait(c, text(2, 2 * B), request_config(0, ns));
  const uint64_t second = wait(c, text(3, B), request_config(0, ns));
  const uint64_t third = wait(c, text(4, B), request_config(0, ns));
  Batch batch({first, second, others, third});
  EXPECT_EQ(batch.admit(c), KVC_ERROR_OVER_QUOTA);
  EXPECT_EQ(batch.statuses, (std::vector<kvc_status>{KVC_ERROR_SKIPPED, KVC_ERROR_OVER_QUOTA,
                                                     KVC_ERROR_SKIPPED, KVC_ERROR_SKIPPED}));
  Batch fits({second, others, third});
  EXPECT_EQ(fits.admit(c), KVC_OK) << kvc_last_error();
}

TEST(AdmitBatch, IsLoggedAndReplayed) {
  kvc_manager_config config = shape(4, B);
  config.record_bytes = 1 << 16;
  Cache c(config);
  c.store(text(1, B));
  Batch batch({wait(c, text(1, B) + text(2, 1)), wait(c, text(3, B))});
  Batch more({batch.ids[0], wait(c, text(4, 2 * B))});
  EXPECT_EQ(more.admit(c), KVC_OK);
  EXPECT_EQ(batch.admit(c), KVC_ERROR_BUSY);
  c.free(more.ids[1]);
  EXPECT_EQ(kvc_manager_admit_batch(c.get(), &batch.ids[1], 1, nullptr, nullptr), KVC_OK);
  std::vector<unsigned char> log(1 << 16);
  size_t size = 0;
  ASSERT_EQ(kvc_manager_take_log(c.get(), log.data(), log.size(), &size), KVC_OK);
  kvc_replay_info info = sized<kvc_replay_info>();
  ASSERT_EQ(kvc_log_replay(log.data(), size, &info), KVC_OK) << kvc_last_error();
  EXPECT_EQ(info.mismatches, 0u) << info.text;
  EXPECT_EQ(info.lost_calls, 0u);
  EXPECT_EQ(info.digest, c.digest());
}

}  // namespace
}  // namespace conformance
