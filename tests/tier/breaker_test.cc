// SPDX-License-Identifier: Apache-2.0
// A server that fails is left alone and comes back without a restart; a slow one delays nobody past
// deadlines, and the queue in front of it stays bounded.
#include "tier/breaker.h"

#include <gtest/gtest.h>

#include <thread>

#include "plugin_stores.h"

namespace kvc {
namespace {

using test::digest_of;
using test::page_of;
using test::told_ns;

constexpr uint64_t kMs = 1000000;

class RemoteTier : public test::PluginTier {
 protected:
  void TearDown() override { faulty_.set(FAULTY_NONE, 0, 0); }
  void set(int mode) { faulty_.set(mode, 0, 0); }
  uint64_t calls() const { return faulty_.counts().calls; }
  test::Faulty faulty_{"remote"};
};

TEST_F(RemoteTier, IsLeftAloneAfterThreeFailuresAndProbed) {
  ASSERT_EQ(open("remote://host?threads=0&probe=50"), KVC_OK) << kvc_last_error();
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  set(FAULTY_FAILED);
  EXPECT_EQ(get(1), KVC_PAGE_FAILED);
  EXPECT_EQ(get(1), KVC_PAGE_FAILED);
  set(FAULTY_NONE);
  EXPECT_EQ(get(1), KVC_PAGE_OK) << "an answer between: the count begins anew";
  set(FAULTY_FAILED);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get(1), KVC_PAGE_FAILED);
  EXPECT_FALSE(tier_->stats().available);
  EXPECT_EQ(tier_->stats().outages, 1u);
  set(FAULTY_NONE);
  const uint64_t before = calls();
  told_ns += 50 * kMs - 1;
  EXPECT_EQ(get(1), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(put(2), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(exists(1), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(remove(1), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(calls(), before) << "nothing was sent";
  told_ns += 1;
  set(FAULTY_FAILED);
  EXPECT_EQ(get(1), KVC_PAGE_FAILED) << "the probe";
  EXPECT_EQ(calls(), before + 1);
  EXPECT_EQ(get(1), KVC_PAGE_UNAVAILABLE) << "from then on, as long again";
  set(FAULTY_NONE);
  told_ns += 50 * kMs - 1;
  EXPECT_EQ(get(1), KVC_PAGE_UNAVAILABLE);
  told_ns += 1;
  EXPECT_EQ(get(1), KVC_PAGE_OK);
  EXPECT_TRUE(tier_->stats().available);
  EXPECT_EQ(put(2), KVC_PAGE_OK) << "all comes back";
  EXPECT_EQ(tier_->stats().outages, 1u);
}

TEST_F(RemoteTier, ThatRefusesWritesIsRead) {
  ASSERT_EQ(open("remote://host?threads=0&probe=50"), KVC_OK) << kvc_last_error();
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  set(FAULTY_READ_ONLY);
  EXPECT_EQ(put(2), KVC_PAGE_FAILED);
  EXPECT_EQ(get(1), KVC_PAGE_OK) << "which says nothing of writes";
  EXPECT_EQ(remove(1), KVC_PAGE_FAILED);
  EXPECT_EQ(put(2), KVC_PAGE_FAILED);
  EXPECT_FALSE(tier_->stats().available);
  EXPECT_EQ(tier_->stats().outages, 1u);
  const uint64_t before = calls();
  EXPECT_EQ(put(2), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(remove(1), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(calls(), before) << "nothing was sent";
  EXPECT_EQ(get(1), KVC_PAGE_OK);
  EXPECT_EQ(exists(1), KVC_PAGE_OK);
  told_ns += 50 * kMs;
  EXPECT_EQ(put(2), KVC_PAGE_FAILED) << "the probe";
  EXPECT_EQ(put(2), KVC_PAGE_UNAVAILABLE);
  EXPECT_EQ(get(1), KVC_PAGE_OK);
  set(FAULTY_NONE);
  told_ns += 50 * kMs;
  EXPECT_EQ(put(2), KVC_PAGE_OK);
  EXPECT_TRUE(tier_->stats().available);
  EXPECT_EQ(tier_->stats().outages, 1u);
}

TEST_F(RemoteTier, IsNotWrittenToAsLongAsItIsNotRead) {
  ASSERT_EQ(open("remote://host?threads=0&probe=50"), KVC_OK) << kvc_last_error();
  set(FAULTY_FAILED);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(exists(1), KVC_PAGE_FAILED);
  EXPECT_EQ(put(1), KVC_PAGE_UNAVAILABLE);
  told_ns += 50 * kMs;
  EXPECT_EQ(put(1), KVC_PAGE_FAILED) << "sent, and it is no probe of reads";
  EXPECT_EQ(get(1), KVC_PAGE_FAILED) << "this is one";
  EXPECT_EQ(put(1), KVC_PAGE_UNAVAILABLE);
  set(FAULTY_NONE);
  told_ns += 50 * kMs;
  EXPECT_EQ(put(1), KVC_PAGE_OK) << "a server that nobody reads from is written to";
  EXPECT_FALSE(tier_->stats().available);
  EXPECT_EQ(get(1), KVC_PAGE_OK);
  EXPECT_TRUE(tier_->stats().available);
  EXPECT_EQ(tier_->stats().outages, 1u);
}

TEST_F(RemoteTier, MissesAndLiesAreAnswers) {
  ASSERT_EQ(open("remote://host?threads=0"), KVC_OK);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get(1), KVC_PAGE_MISS);
  for (int i = 0; i < 10; ++i) {
    set(FAULTY_NONE);
    ASSERT_EQ(put(1), KVC_PAGE_OK);
    set(FAULTY_FLIP_DATA);
    EXPECT_EQ(get(1), KVC_PAGE_MISS);
  }
  EXPECT_TRUE(tier_->stats().available);
}

TEST_F(RemoteTier, WhatIsNotSentEndsNoOutage) {
  ASSERT_EQ(open("remote://host?threads=0&probe=50"), KVC_OK);
  set(FAULTY_FAILED);
  for (int i = 0; i < 3; ++i) get(1);
  ASSERT_FALSE(tier_->stats().available);
  told_ns += 50 * kMs;
  std::vector<char> larger(kBytes + 1);
  EXPECT_EQ(one(TierJobKind::kPut, 4, larger.data(), nullptr, 0, kBytes + 1), KVC_PAGE_NO_SPACE);
  EXPECT_FALSE(tier_->stats().available);
  EXPECT_EQ(get(1), KVC_PAGE_FAILED) << "this is the probe";
}

TEST_F(RemoteTier, WhatIsTooLargeToBeThereEndsNoOutage) {
  ASSERT_EQ(open("remote://host?threads=0&probe=50"), KVC_OK);
  std::vector<char> larger(kBytes + 1);
  const auto get_larger = [&] { return one(TierJobKind::kGet, 4, larger.data(), nullptr, 0, kBytes + 1); };
  set(FAULTY_FAILED);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(get_larger(), KVC_PAGE_MISS);
    EXPECT_EQ(get(1), KVC_PAGE_FAILED);
  }
  EXPECT_FALSE(tier_->stats().available) << "nothing came between the three failures";
  told_ns += 50 * kMs;
  EXPECT_EQ(get_larger(), KVC_PAGE_MISS);
  EXPECT_FALSE(tier_->stats().available);
}

TEST_F(RemoteTier, ThatCannotRemoveIsAvailable) {
  test::Faulty keeping{"keeping"};
  ASSERT_EQ(open("keeping://host?threads=0"), KVC_OK) << kvc_last_error();
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(remove(1), KVC_PAGE_FAILED);
  EXPECT_TRUE(tier_->stats().available) << "the server was never asked";
  EXPECT_EQ(get(1), KVC_PAGE_OK);
}

TEST_F(RemoteTier, TellsThePluginTheDeadline) {
  ASSERT_EQ(open("remote://host?threads=0"), KVC_OK);
  told_ns = 7000;
  EXPECT_EQ(get(1, 500), KVC_PAGE_MISS);
  EXPECT_EQ(faulty_.counts().deadline_ns, 7500u);
  EXPECT_EQ(get(1), KVC_PAGE_MISS);
  EXPECT_EQ(faulty_.counts().deadline_ns, 0u);
}

TEST_F(RemoteTier, ThatIsSlowEndsItemsByTheDeadline) {
  ASSERT_EQ(open("remote://host?threads=1", true), KVC_OK);
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  set(FAULTY_TIMEOUT);
  EXPECT_EQ(get(1, 20 * kMs), KVC_PAGE_TIMEOUT);
  // Many items share one deadline: after the first the others are not sent.
  std::vector<std::vector<char>> data(20, std::vector<char>(kBytes));
  std::vector<kvc_tier_item> items(20);
  for (size_t i = 0; i < items.size(); ++i)
    set_key(&items[i], digest_of(1)), items[i].data = data[i].data(), items[i].bytes = kBytes;
  TierJob job = {};
  job.kind = TierJobKind::kGet, job.items = items.data(), job.num_items = items.size();
  job.timeout_ns = 20 * kMs;
  uint64_t id = 0;
  const uint64_t before = calls();
  ASSERT_EQ(tier_->submit(job, &id), KVC_OK);
  tier_->drain();
  EXPECT_EQ(calls(), before + 1);
  for (const kvc_tier_item& item : items) EXPECT_EQ(item.result, KVC_PAGE_TIMEOUT);
}

TEST_F(RemoteTier, ThatHangsKeepsTheQueueBoundedAndLoadsOvertakeStores) {
  ASSERT_EQ(open("remote://host?threads=2&jobs=8", true), KVC_OK);
  ASSERT_EQ(put(1), KVC_PAGE_OK);
  const uint64_t puts_before = faulty_.counts().puts, gets_before = faulty_.counts().gets;
  faulty_.set(FAULTY_NONE, 0, 1);  // holds each call
  std::vector<std::vector<char>> data;
  std::vector<kvc_tier_item> items(10);
  const auto submit = [&](TierJobKind kind, TierPriority priority, size_t i) {
    const uint64_t number = kind == TierJobKind::kPut ? 10 + i : 1;
    data.push_back(page_of(digest_of(number), kBytes));
    set_key(&items[i], digest_of(number));
    items[i].data = data.back().data(), items[i].bytes = kBytes;
    TierJob job = {};
    job.kind = kind, job.priority = priority, job.items = &items[i], job.num_items = 1, job.tag = i;
    uint64_t id = 0;
    return tier_->submit(job, &id);
  };
  data.reserve(items.size());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, i), KVC_OK);
  EXPECT_EQ(submit(TierJobKind::kPut, TierPriority::kStore, 4), KVC_ERROR_LIMIT) << "half of the jobs";
  while (faulty_.counts().inside < 1) std::this_thread::yield();
  for (size_t i = 5; i < 9; ++i) EXPECT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, i), KVC_OK);
  EXPECT_EQ(submit(TierJobKind::kGet, TierPriority::kLoad, 9), KVC_ERROR_LIMIT) << "all of them";
  while (faulty_.counts().inside < 2) std::this_thread::yield();
  EXPECT_EQ(faulty_.counts().puts - puts_before, 1u) << "stores do not take the last thread";
  EXPECT_EQ(faulty_.counts().gets, gets_before + 1) << "a load overtakes the stores that wait";
  const TierStats stats = tier_->stats();
  EXPECT_EQ(stats.waiting_jobs + stats.running_jobs, 8u);
  EXPECT_EQ(stats.refused_jobs[0], 1u);
  EXPECT_EQ(stats.refused_jobs[2], 1u);
  faulty_.set(FAULTY_NONE, 0, 0);
  tier_->drain();
  TierCompletion done[8];
  EXPECT_EQ(tier_->poll(done, 8), 8u);
  for (const TierCompletion& each : done) EXPECT_EQ(each.num_ok, 1u) << each.tag;
}

// ---- the breaker alone: calls of several threads end in any order

TEST(Breaker, OneProbeAtATimeWhateverEndsMeanwhile) {
  using Turn = Breaker::Turn;
  using Answer = Breaker::Answer;
  Breaker breaker(100);
  const Turn late = breaker.begin(0);
  for (int i = 0; i < 3; ++i) breaker.end(breaker.begin(0), Answer::kBad, 0);
  EXPECT_EQ(breaker.begin(99), Turn::kNot);
  const Turn probe = breaker.begin(100);
  EXPECT_EQ(probe, Turn::kProbe);
  EXPECT_EQ(breaker.begin(100), Turn::kNot);
  breaker.end(late, Answer::kBad, 100);
  EXPECT_EQ(breaker.begin(250), Turn::kNot) << "the probe is still out";
  breaker.end(probe, Answer::kGood, 250);
  EXPECT_EQ(breaker.begin(250), Turn::kCall);
  EXPECT_EQ(breaker.outages(), 1u);
}

TEST(Breaker, AnAnswerOfACallFromBeforeEndsTheOutage) {
  Breaker breaker(100);
  const Breaker::Turn late = breaker.begin(0);
  for (int i = 0; i < 3; ++i) breaker.end(breaker.begin(0), Breaker::Answer::kBad, 0);
  EXPECT_FALSE(breaker.available());
  breaker.end(late, Breaker::Answer::kGood, 10);
  EXPECT_TRUE(breaker.available());
}

}  // namespace
}  // namespace kvc
