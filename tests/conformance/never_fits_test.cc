// SPDX-License-Identifier: Apache-2.0
// NEVER_FITS: what no waiting helps, and nothing else. docs/SEMANTICS.md, "Wait or never".
#include <kvcache/quota.h>
#include <kvcache/resize.h>
#include <kvcache/step.h>

#include "conformance/fixture.h"
#include "rounds.h"

namespace conformance {
namespace {

RequestOptions options(uint64_t slots, uint32_t flags = 0, uint64_t ns = 0) {
  RequestOptions out = request_config(flags, ns);
  out.slots = slots;
  return out;
}

uint64_t create(Cache& c, const Tokens& tokens, const RequestOptions& of = request_config()) {
  uint64_t id = 0;
  EXPECT_EQ(
      kvc_manager_create_request(c.get(), PROMPT(of.ns, tokens.data(), tokens.size(), nullptr, 0), &of, &id),
      KVC_OK)
      << kvc_last_error();
  return id;
}

kvc_probe_info probe(Cache& c, uint64_t id) {
  kvc_probe_info info = sized<kvc_probe_info>();
  EXPECT_EQ(kvc_manager_probe_request(c.get(), id, &info), KVC_OK) << kvc_last_error();
  return info;
}

TEST(NeverFits, MoreThanThePoolAndNotWhatHasToWait) {
  Cache c(shape(8, B));
  const Admitted running = c.compute(text(1, 3 * B));
  Admitted r;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_allocate(text(2, 8 * B), &r));
  EXPECT_EQ(c.probe(text(2, 8 * B)).never_fits, 0u);
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate(text(2, 8 * B + 1), &r));
  EXPECT_STREQ(kvc_last_error(),
               "the admission needs 9 blocks of pool 0 at once and can never get more than 8 of its 8: end "
               "the request, ask for less, or enlarge the pool");
  const kvc_probe_info info = c.probe(text(2, 8 * B + 1));
  EXPECT_EQ(info.never_fits, 1u);
  EXPECT_EQ(info.fits, 0u);
  // What others share counts too: it must be there as long as the request.
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_allocate(text(1, 3 * B) + text(2, 5 * B + 1), &r));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_append(running.id, text(2, 5 * B + 1)));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_reserve(running.id, 8 * B + 1));
  EXPECT_STREQ(kvc_last_error(),
               "the extension needs 9 blocks of pool 0 at once and can never get more than 8 of its 8: end "
               "the request, ask for less, or enlarge the pool");
  Ids none;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_acquire(8, &none));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_acquire(9, &none));
  EXPECT_EQ(c.stats().refusals, 5u);
  c.free(running.id);
  EXPECT_EQ(c.try_allocate(text(2, 8 * B), &r), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_append(r.id, {7}));  // alone, at the end of the pool
}

TEST(NeverFits, TheWatermarkHoldsNothingBackForGood) {
  kvc_manager_config config = shape(8, B);
  config.watermark_blocks = 3;
  Cache c(config);
  const Admitted running = c.allocate(text(1, 1));
  Admitted r;
  EXPECT_EQ(c.try_allocate(text(2, 8 * B), &r), KVC_ERROR_NO_SPACE);
  c.free(running.id);
  EXPECT_EQ(c.try_allocate(text(2, 8 * B), &r), KVC_OK);
}

TEST(NeverFits, AStepGoesOnBehindIt) {
  Cache c(shape(4, B));
  const uint64_t never = create(c, text(1, 5 * B)), waits = create(c, text(2, 4 * B)),
                 small = create(c, text(3, B)), last = create(c, text(4, B));
  const std::vector<uint64_t> ids{never, small, waits, last, never};
  std::vector<uint64_t> admitted(ids.size()), cached(ids.size());
  std::vector<kvc_status> status(ids.size());
  kvc_step step = sized<kvc_step>();
  step.num_admissions = ids.size(), step.admit_requests = ids.data();
  step.admitted = admitted.data(), step.cached = cached.data(), step.status = status.data();
  ASSERT_EQ(kvc_manager_step(c.get(), &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(status, (std::vector<kvc_status>{KVC_ERROR_NEVER_FITS, KVC_OK, KVC_ERROR_NO_SPACE,
                                             KVC_ERROR_SKIPPED, KVC_ERROR_SKIPPED}));
  EXPECT_EQ(step.shortage_blocks, 1u) << "of the one that waits";
  EXPECT_EQ(step.num_refused, 4u);
  EXPECT_EQ(admitted, (std::vector<uint64_t>{0, small, 0, 0, 0}));
  step.num_admissions = 1;
  ASSERT_EQ(kvc_manager_step(c.get(), &step), KVC_OK);
  EXPECT_EQ(status[0], KVC_ERROR_NEVER_FITS);
  EXPECT_EQ(step.shortage_blocks, 0u);
  c.verify();
}

TEST(NeverFits, AChunkIsWhatMustBeHeldAtOnce) {
  Cache c(shape(8, B));
  Admitted r;
  EXPECT_EQ(c.try_allocate(text(1, 9 * B), &r, options(B, KVC_REQUEST_FULL_MUST_FIT)), KVC_ERROR_NEVER_FITS);
  ASSERT_EQ(c.try_allocate(text(1, 9 * B), &r, options(B)), KVC_OK);
  c.commit(r.id, B);
  EXPECT_EQ(c.try_reserve(r.id, 9 * B), KVC_ERROR_NEVER_FITS);
  EXPECT_EQ(c.try_reserve(r.id, 8 * B), KVC_OK);
}

TEST(NeverFits, FollowsTheSizeOfThePool) {
  kvc_manager_config config = shape(4, B);
  const kvc_pool_config pool{sizeof(kvc_pool_config), 4, 8};
  config.num_blocks = 0, config.pools = &pool, config.num_pools = 1;
  Cache c(config);
  Admitted r;
  size_t moves = 0;
  EXPECT_EQ(c.try_allocate(text(1, 5 * B), &r), KVC_ERROR_NEVER_FITS);
  ASSERT_EQ(kvc_manager_resize(c.get(), 0, 8, nullptr, 0, &moves), KVC_OK) << kvc_last_error();
  EXPECT_EQ(c.try_allocate(text(1, 5 * B), &r), KVC_OK);
}

TEST(NeverFits, WithQuotasTheMaximumAndTheMinimumsOfOthersCount) {
  kvc_manager_config config = shape(12, B);
  config.max_quotas = 2;
  Cache c(config);
  const uint64_t a = c.open("a"), b = c.open("b");
  ASSERT_EQ(kvc_manager_set_quota(c.get(), a, 0, 2, 5), KVC_OK);
  ASSERT_EQ(kvc_manager_set_quota(c.get(), b, 0, 4, 0), KVC_OK);
  Admitted r;
  const auto status = [&](uint64_t ns, size_t blocks) {
    const kvc_status got = c.try_allocate(text(1, blocks * B), &r, request_config(0, ns));
    EXPECT_EQ(c.probe(text(1, blocks * B), ns).never_fits, got == KVC_ERROR_NEVER_FITS ? 1u : 0u);
    return got;
  };
  const auto fits = [&](uint64_t ns, size_t blocks) {
    EXPECT_EQ(status(ns, blocks), KVC_OK);
    c.free(r.id);
    c.reset_all();
    EXPECT_EQ(status(ns, blocks + 1), KVC_ERROR_NEVER_FITS);
  };
  fits(a, 5);
  EXPECT_STREQ(kvc_last_error(),
               "the admission needs 6 blocks of pool 0 at once and can never get more than 5 of its 12: end "
               "the request, ask for less, or change the quotas");
  fits(b, 10);
  fits(0, 6);
  Ids none;
  EXPECT_EQ(c.try_acquire(7, &none), KVC_ERROR_NEVER_FITS);
  EXPECT_EQ(status(a, 1), KVC_OK);
  EXPECT_EQ(status(a, 5), KVC_ERROR_OVER_QUOTA);
  kvc_quota_info info = sized<kvc_quota_info>();
  ASSERT_EQ(kvc_manager_quota_info(c.get(), a, 0, &info), KVC_OK);
  EXPECT_EQ(info.refusals, 1u) << "of its maximum, not those for good";
}

// What a share holds stays when its maximum is lowered: what runs there can still get what it lacks.
TEST(NeverFits, WhatAShareHoldsAboveALoweredMaximumCounts) {
  kvc_manager_config config = shape(16, B);
  config.max_quotas = 1;
  Cache c(config);
  const uint64_t ns = c.open("a");
  ASSERT_EQ(kvc_manager_set_quota(c.get(), ns, 0, 0, 16), KVC_OK);
  const Admitted a = c.compute(text(1, 30), request_config(0, ns));
  uint64_t b = 0;
  ASSERT_EQ(kvc_manager_fork_request(c.get(), a.id, &b), KVC_OK);
  ASSERT_EQ(kvc_manager_set_quota(c.get(), ns, 0, 0, 4), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_OVER_QUOTA, c.try_append(b, {7}));  // 1 block, for the copy
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_append(b, {7, 7, 7}));
  c.free(a.id);
  EXPECT_EQ(c.try_append(b, {7}), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_append(b, {7, 7}));
}

// So do both probes say: never only of what does not fit.
TEST(NeverFits, ProbesCountWhatAShareHoldsAboveALoweredMaximum) {
  for (const uint64_t max : {4u, 9u}) {
    kvc_manager_config config = shape(16, B);
    config.max_quotas = 1;
    Cache c(config);
    const uint64_t ns = c.open("a");
    ASSERT_EQ(kvc_manager_set_quota(c.get(), ns, 0, 0, 16), KVC_OK);
    c.compute(text(1, 8 * B), request_config(0, ns));
    ASSERT_EQ(kvc_manager_set_quota(c.get(), ns, 0, 0, max), KVC_OK);
    for (const size_t length : {7 * B + 1, 8 * B, 8 * B + 1, 9 * B + 1}) {
      SCOPED_TRACE(testing::Message() << "max " << max << " length " << length);
      const uint64_t id = create(c, text(1, length), request_config(0, ns));
      for (const kvc_probe_info& info : {c.probe(text(1, length), ns), probe(c, id)}) {
        EXPECT_EQ(info.fits, max == 9 && length <= 8 * B + 1 ? 1u : 0u);
        EXPECT_EQ(info.never_fits, length > std::max<uint64_t>(max, 8) * B ? 1u : 0u);
      }
    }
  }
}

// Grows a request that is alone token by token, as far as it gets.
uint64_t reach(Cache& c, const Tokens& tokens) {
  Admitted r;
  if (c.try_allocate(tokens, &r, options(1)) != KVC_OK) return 0;
  c.commit(r.id, r.cached + 1);
  uint64_t done = r.cached + 1;
  while (done < tokens.size() && c.try_reserve(r.id, done + 1) == KVC_OK) c.commit(r.id, ++done);
  c.free(r.id);
  return done;
}

// What a chunk cannot hold another hit passes, a longer one or none.
TEST(NeverFits, IsNotSaidIfAnotherHitPassesTheChunk) {
  const Tokens tokens = text(1, 40);
  Cache c(shape(0, B), {full_group(), chunk_group(16, 0, 1)}, {14, 3});
  reach(c, Tokens(tokens.begin(), tokens.begin() + 9));
  const uint64_t id = create(c, tokens, options(8));
  EXPECT_EQ(probe(c, id).num_cached, 8u);
  EXPECT_EQ(probe(c, id).never_fits, 0u) << "16 tokens of a chunk";
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, kvc_manager_admit_request(c.get(), id, nullptr));
  c.reset_all();
  EXPECT_EQ(probe(c, id).fits, 1u) << "its first 8 tokens";
  // Without hits no chunk is passed.
  const uint64_t blind = create(c, tokens, options(16, KVC_REQUEST_NO_READ));
  EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, kvc_manager_admit_request(c.get(), blind, nullptr));
}

std::vector<kvc_group_config> kinds_of_groups() {
  std::vector<kvc_group_config> out{full_group(1)};
  for (const uint64_t window : {1u, 2u, 5u, 11u, 16u})
    out.push_back(window_group(window, 0, 0, 1)), out.push_back(window_group(window, 5, B, 1)),
        out.push_back(chunk_group(window + 1, 0, 1));
  out.push_back(state_group(0, 1));
  return out;
}

// Whatever the options ask for at once, what gets there in the smallest steps is not NEVER_FITS; with full
// attention what does not get there is.
TEST(NeverFits, IsNotSaidOfWhatSmallStepsReach) {
  kvc::test::Sample sample;
  for (const kvc_group_config& kind : kinds_of_groups()) {
    for (uint64_t room = kind.kind == KVC_GROUP_STATE ? 2 : 1; room < 14; ++room) {
      for (const size_t length : {1u, 3u, 17u, 24u, 29u, 48u}) {
        if (!sample.takes_next()) continue;
        const Tokens tokens = text(1, length);
        uint64_t reached = 0;
        {
          Cache alone(shape(0, B), {full_group(), kind}, {14, room});
          reached = reach(alone, tokens);
        }
        Cache c(shape(0, B), {full_group(), kind}, {14, room});
        for (const uint64_t slots : {0u, 1u, 7u}) {
          for (const uint32_t flags : {0u, uint32_t{KVC_REQUEST_FULL_MUST_FIT}}) {
            for (const uint64_t external : {0u, 5u, 16u, 40u}) {
              SCOPED_TRACE(testing::Message()
                           << "kind " << kind.kind << " window " << kind.window_tokens << " chunk "
                           << kind.chunk_tokens << " room " << room << " of " << length << " tokens, slots "
                           << slots << " flags " << flags << " external " << external);
              RequestOptions of = options(slots, flags);
              of.external_tokens = external;
              const uint64_t id = create(c, tokens, of);
              const bool never = probe(c, id).never_fits != 0;
              const kvc_status status = c.verify(kvc_manager_admit_request(c.get(), id, nullptr));
              ASSERT_EQ(never, status == KVC_ERROR_NEVER_FITS);
              if (reached == length) {
                ASSERT_FALSE(never);
              }
              if (kind.kind == KVC_GROUP_FULL && status != KVC_OK) {
                ASSERT_TRUE(never);
              }
              c.free(id);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace conformance
