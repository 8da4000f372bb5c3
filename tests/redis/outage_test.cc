// SPDX-License-Identifier: Apache-2.0
// A real server that stops, dies, sleeps, or comes back: no wrong bytes, no job that hangs, and one interval
// of the breaker after the server is well again, so is the tier.
#include <errno.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "redis/redis_server.h"
#include "redis/tiers.h"

namespace kvc_redis_test {
namespace {

constexpr char kParameters[] = "threads=3&probe=100&connect=2000";
constexpr uint64_t kPages = 30;

class Outage : public testing::Test {
 protected:
  Outage()
      : tier_(server_.url(kParameters), 65536), bystander_(server_.url("prefix=other&probe=100"), 65536) {
    for (uint64_t n = 0; n < kPages; ++n) {
      EXPECT_EQ(tier_.put(n), KVC_PAGE_OK);
      all_.insert(n);
    }
  }

  // Calls of all kinds while the server does not answer.
  void endure(std::set<int32_t> expected, uint64_t timeout_ns) {
    for (uint64_t n = 0; n < 10; ++n) {
      for (const int32_t result : {tier_.get(n, 0, timeout_ns), tier_.put(100 + n, 0, timeout_ns),
                                   tier_.exists({n}, timeout_ns)[0], tier_.remove({200 + n}, timeout_ns)[0]})
        EXPECT_EQ(expected.count(result), 1u) << name_of(result);
    }
    EXPECT_EQ(tier_.stats().available, 0u);
    // Reads are given up. Two writes have failed before; on a slow machine the interval may end just before
    // another write: then writes are given up, too.
    outages_ = tier_.stats().outages;
    EXPECT_TRUE(outages_ == 1 || outages_ == 2) << outages_;
    EXPECT_NE(tier_.stats().last_errno, 0);
  }

  // The server is well: the first call after the interval is answered, and all that follow are right.
  void expect_recovery(std::set<uint64_t> stored) {
    usleep(110000);
    EXPECT_EQ(tier_.get(1), stored.count(1) != 0 ? KVC_PAGE_OK : KVC_PAGE_MISS);
    EXPECT_TRUE(outages_ == 2 || tier_.stats().available == 1);
    for (uint64_t n = 100; n < 110; ++n) EXPECT_EQ(tier_.remove({n})[0], KVC_PAGE_OK);
    EXPECT_EQ(tier_.stats().available, 1u);
    tier_.operate_at_random(stored, kPages, 300, 7);
    EXPECT_EQ(tier_.stats().outages, outages_);
    usleep(110000);
    for (uint64_t n = 0; n < kPages; ++n) EXPECT_EQ(bystander_.get(n), KVC_PAGE_MISS);
  }

  RedisServer server_;
  TestTier tier_, bystander_;  // another tenant
  std::set<uint64_t> all_;
  uint64_t outages_ = 0;  // of reads, and of writes
};

TEST_F(Outage, OfAStoppedServer) {
  server_.signal(SIGSTOP);
  endure({KVC_PAGE_TIMEOUT, KVC_PAGE_UNAVAILABLE}, 50 * kMs);
  // Neither does a call without a deadline hang (TestTier would end the program), nor one to a new
  // connection.
  EXPECT_EQ(tier_.stats().last_errno, ETIMEDOUT);
  usleep(2200000);  // longer than a connection may take
  server_.signal(SIGCONT);
  expect_recovery(all_);
}

TEST_F(Outage, OfAStoppedServerWithoutDeadlines) {
  TestTier tier(server_.url("timeout=150&probe=100"), 1 << 20);
  EXPECT_EQ(tier.put(1000), KVC_PAGE_OK);
  server_.signal(SIGSTOP);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tier.get(1000, 0, 0), KVC_PAGE_TIMEOUT);
  }
  const int32_t next = tier.put(1001, 0, 0);  // on a slow machine the interval of the breaker may be over
  EXPECT_TRUE(next == KVC_PAGE_UNAVAILABLE || next == KVC_PAGE_TIMEOUT) << name_of(next);
  usleep(110000);
  EXPECT_EQ(tier.put(1001, 0, 0), KVC_PAGE_TIMEOUT);  // more than the sockets hold
  server_.signal(SIGCONT);
  usleep(110000);
  EXPECT_EQ(tier.get(1000), KVC_PAGE_OK);
}

TEST_F(Outage, OfADeadServer) {
  server_.stop();
  endure({KVC_PAGE_FAILED, KVC_PAGE_UNAVAILABLE}, kPatience);
  server_.start();  // at the same port, with nothing in it
  expect_recovery({});
}

TEST_F(Outage, IsNotSeenIfTheServerIsBackInTime) {
  server_.stop();
  server_.start();
  // The connections of all threads are to the dead server.
  for (uint64_t n = 0; n < kPages; ++n) EXPECT_EQ(tier_.get(n), KVC_PAGE_MISS);
  EXPECT_EQ(tier_.stats().failures, 0u);
  std::set<uint64_t> none;
  tier_.operate_at_random(none, kPages, 100, 9);
}

TEST_F(Outage, OfASleepingServer) {
  std::thread sleeper([&] { EXPECT_EQ(server_.command({"DEBUG", "SLEEP", "2"}), "OK"); });
  usleep(200000);
  endure({KVC_PAGE_TIMEOUT, KVC_PAGE_UNAVAILABLE}, 50 * kMs);
  sleeper.join();
  expect_recovery(all_);
}

TEST_F(Outage, OfConnectionsThatTheServerEnds) {
  for (int i = 0; i < 10; ++i) {
    server_.command({"CLIENT", "KILL", "TYPE", "normal"});
    for (uint64_t n = 0; n < kPages; n += 5) EXPECT_EQ(tier_.get(n), KVC_PAGE_OK);
  }
  EXPECT_EQ(tier_.stats().outages, 0u);
}

// Stopped and continued at any time, under load: what is got is right, what is not is said.
TEST_F(Outage, ManyTimesUnderLoad) {
  std::atomic<bool> done{false};
  std::thread fault([&] {
    for (int i = 0; i < 15; ++i) {
      usleep(20000);
      server_.signal(SIGSTOP);
      usleep(60000);
      server_.signal(SIGCONT);
    }
    done = true;
  });
  uint64_t state = 3, calls = 0, good = 0;
  tier_.reset_slowest();
  while (!done) {
    state = mix(state + 1);
    const uint64_t number = state % kPages;
    const int32_t result = state >> 32 & 1 ? tier_.get(number, 0, 30 * kMs) : tier_.put(number, 0, 30 * kMs);
    EXPECT_TRUE(result == KVC_PAGE_OK || result == KVC_PAGE_TIMEOUT || result == KVC_PAGE_UNAVAILABLE)
        << name_of(result);
    ++calls;
    good += result == KVC_PAGE_OK;
  }
  const double slowest_ms = static_cast<double>(tier_.slowest_ns()) / 1e6;
  fault.join();
  EXPECT_GT(good, 0u);
  usleep(110000);
  for (uint64_t n = 0; n < kPages; ++n) EXPECT_EQ(tier_.get(n), KVC_PAGE_OK);
  tier_.operate_at_random(all_, kPages, 200, 11);
  std::printf("%llu calls, %llu done, the slowest %.1f ms, of 30 ms\n",
              static_cast<unsigned long long>(calls), static_cast<unsigned long long>(good), slowest_ms);
}

}  // namespace
}  // namespace kvc_redis_test
