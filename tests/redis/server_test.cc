// SPDX-License-Identifier: Apache-2.0
// What a tier of a real server that is well does.
#include <errno.h>

#include "redis/redis_server.h"
#include "redis/tiers.h"

namespace kvc_redis_test {
namespace {

TEST(Redis, KeepsPagesOfAllSizes) {
  RedisServer server;
  TestTier tier(server.url(), 2 << 20);
  uint64_t number = 1;
  for (const uint64_t bytes : {1u, 127u, 128u, 4096u, 16384u, 131072u, 2u << 20}) {
    EXPECT_EQ(tier.exists({number})[0], KVC_PAGE_MISS);
    EXPECT_EQ(tier.get(number, bytes), KVC_PAGE_MISS);
    EXPECT_EQ(tier.put(number, bytes), KVC_PAGE_OK);
    EXPECT_EQ(tier.put(number, bytes), KVC_PAGE_OK);
    EXPECT_EQ(tier.exists({number})[0], KVC_PAGE_OK);
    EXPECT_EQ(tier.get(number, bytes), KVC_PAGE_OK);
    EXPECT_EQ(tier.get(number, bytes == 1 ? 2 : bytes - 1), KVC_PAGE_MISS);
    EXPECT_EQ(server.command({"STRLEN", redis_key(number)}), std::to_string(bytes + 128));
    EXPECT_EQ(server.command({"GETRANGE", redis_key(number), "0", "7"}), "KVCPAGE\n");
    EXPECT_EQ(tier.remove({number, number}), (std::vector<int32_t>{KVC_PAGE_OK, KVC_PAGE_OK}));
    EXPECT_EQ(tier.get(number, bytes), KVC_PAGE_MISS);
    ++number;
  }
  EXPECT_EQ(tier.put(number, (2 << 20) + 1), KVC_PAGE_NO_SPACE);
  EXPECT_EQ(tier.stats().failures, 0u);
}

TEST(Redis, KeepsAPageOfNoBytes) {
  RedisServer server;
  TestTier tier(server.url());
  std::vector<kvc_tier_item> items(1);
  set_key(items[0].key, 5);
  tier.run(KVC_TIER_PUT, items, kPatience);
  EXPECT_EQ(items[0].result, KVC_PAGE_OK);
  items[0].generation = 0;
  tier.run(KVC_TIER_GET, items, kPatience);
  EXPECT_EQ(items[0].result, KVC_PAGE_OK);
}

TEST(Redis, ReadsPartsOfAPage) {
  RedisServer server;
  TestTier tier(server.url());
  EXPECT_EQ(tier.put(9), KVC_PAGE_OK);
  const std::string whole = page_of(9, 4096);
  const kvc_run runs[] = {{0, 3}, {100, 50}, {4000, 96}};
  std::string part(149, 0);
  std::vector<kvc_tier_item> items = {TestTier::item_of(9, part)};
  items[0].bytes = 4096;
  items[0].runs = runs;
  items[0].num_runs = 3;
  tier.run(KVC_TIER_GET, items, kPatience);
  EXPECT_EQ(items[0].result, KVC_PAGE_OK);
  EXPECT_EQ(part, whole.substr(0, 3) + whole.substr(100, 50) + whole.substr(4000, 96));
}

TEST(Redis, AnswersForEachKeyOfALargeBatch) {
  RedisServer server;
  TestTier tier(server.url("threads=1"));
  std::vector<uint64_t> numbers;
  for (uint64_t n = 0; n < 1000; ++n) {
    numbers.push_back(n);
    if (n % 7 == 0) {
      EXPECT_EQ(tier.put(n, 64), KVC_PAGE_OK);
    }
  }
  std::vector<int32_t> found = tier.exists(numbers);
  for (uint64_t n = 0; n < 1000; ++n) EXPECT_EQ(found[n], n % 7 == 0 ? KVC_PAGE_OK : KVC_PAGE_MISS) << n;
  for (const int32_t result : tier.remove(numbers)) EXPECT_EQ(result, KVC_PAGE_OK);
  EXPECT_EQ(server.command({"DBSIZE"}), "0");
}

TEST(Redis, IsSharedByProcesses) {
  RedisServer server;
  const std::string url = server.url();
  const auto work = [&](uint64_t first) {
    TestTier tier(url);
    for (uint64_t n = first; n < first + 60; ++n) EXPECT_EQ(tier.put(n), KVC_PAGE_OK);
    for (uint64_t n = 0; n < 100; ++n) {
      const int32_t result = tier.get(n);
      EXPECT_TRUE(result == KVC_PAGE_OK || result == KVC_PAGE_MISS) << name_of(result);
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    work(40);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  work(0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  TestTier tier(url);
  for (uint64_t n = 0; n < 100; ++n) EXPECT_EQ(tier.get(n), KVC_PAGE_OK);
}

TEST(Redis, PagesLiveAsLongAsTheTtlSays) {
  RedisServer server;
  TestTier for_ever(server.url());
  TestTier tier(server.url("prefix=short&ttl=1000"));
  EXPECT_EQ(for_ever.put(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.put(1), KVC_PAGE_OK);
  EXPECT_EQ(server.command({"PTTL", redis_key(1)}), "-1");
  const int left = std::stoi(server.command({"PTTL", redis_key(1, "short")}));
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 1000000);
  EXPECT_EQ(server.command({"PEXPIRE", redis_key(1, "short"), "1"}), "1");
  for (int i = 0; i < 1000 && tier.get(1) == KVC_PAGE_OK; ++i) usleep(5000);
  EXPECT_EQ(tier.get(1), KVC_PAGE_MISS);
  EXPECT_EQ(for_ever.get(1), KVC_PAGE_OK);
}

TEST(Redis, EvictedPagesAreMissesAndOthersWhole) {
  RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"});
  TestTier tier(server.url(), 65536);
  for (uint64_t n = 0; n < 300; ++n) EXPECT_EQ(tier.put(n), KVC_PAGE_OK);
  uint64_t hits = 0, misses = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    const int32_t result = tier.get(n);
    hits += result == KVC_PAGE_OK;
    misses += result == KVC_PAGE_MISS;
  }
  EXPECT_EQ(hits + misses, 300u);
  EXPECT_GT(hits, 0u);
  EXPECT_GT(misses, 0u);
}

TEST(Redis, WithoutEvictionAFullServerHasNoSpace) {
  RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", "noeviction"});
  TestTier tier(server.url(), 65536);
  uint64_t stored = 0, refused = 0;
  for (uint64_t n = 0; n < 300; ++n) {
    const int32_t result = tier.put(n);
    stored += result == KVC_PAGE_OK && refused == 0;
    refused += result == KVC_PAGE_NO_SPACE;
    EXPECT_TRUE(result == KVC_PAGE_OK || result == KVC_PAGE_NO_SPACE) << name_of(result);
  }
  EXPECT_GT(stored, 0u);
  EXPECT_GT(refused, 3u);
  for (uint64_t n = 0; n < stored; ++n) EXPECT_EQ(tier.get(n), KVC_PAGE_OK);
  EXPECT_EQ(tier.stats().available, 1u);
  EXPECT_EQ(tier.stats().outages, 0u);
  EXPECT_EQ(tier.stats().last_errno, ENOMEM);
  EXPECT_EQ(server.command({"FLUSHALL"}), "OK");
  EXPECT_EQ(tier.put(1000), KVC_PAGE_OK);
}

TEST(Redis, AsksForPasswordUserAndDatabase) {
  RedisServer server({"--requirepass", "a/b@c"});
  server.use_password("a/b@c");
  EXPECT_EQ(server.command({"ACL", "SETUSER", "engine", "on", ">pw", "~kv*", "+@all"}), "OK");
  {
    TestTier tier(server.url());
    EXPECT_EQ(tier.get(1), KVC_PAGE_FAILED);
    EXPECT_EQ(tier.stats().last_errno, EACCES);
  }
  {
    TestTier tier(server.url("", ":wrong@"));
    EXPECT_EQ(tier.get(1), KVC_PAGE_FAILED);
    EXPECT_EQ(tier.stats().last_errno, EACCES);
  }
  TestTier tier(server.url("", ":a%2Fb%40c@", "/3"));
  EXPECT_EQ(tier.put(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
  EXPECT_EQ(server.command({"DBSIZE"}), "0");
  EXPECT_EQ(server.command({"EXISTS", redis_key(1)}), "0");
  TestTier user(server.url("db=3", "engine:pw@"));
  EXPECT_EQ(user.get(1), KVC_PAGE_OK);
  TestTier elsewhere(server.url("prefix=other", "engine:pw@"));  // NOPERM
  EXPECT_EQ(elsewhere.put(1), KVC_PAGE_FAILED);
  EXPECT_EQ(elsewhere.stats().last_errno, EACCES);
  TestTier no_such_db(server.url("", ":a%2Fb%40c@", "/9999"));
  EXPECT_EQ(no_such_db.put(1), KVC_PAGE_FAILED);
}

TEST(Redis, IsReachedByASocketOfTheMachine) {
  RedisServer server;
  TestTier tier("redis://" + server.socket() + "?db=2", 2 << 20);
  EXPECT_EQ(tier.put(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
  EXPECT_EQ(server.command({"DBSIZE"}), "0");
}

TEST(Redis, TenantsNeverSeeEachOther) {
  RedisServer server;
  TestTier a(server.url("prefix=a")), b(server.url("prefix=b"));
  TestTier binary(server.url("prefix=%00%0D%0A%2A"));  // no prefix can become a command
  for (uint64_t n = 0; n < 20; ++n) EXPECT_EQ(a.put(n), KVC_PAGE_OK);
  for (uint64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(b.get(n), KVC_PAGE_MISS);
    EXPECT_EQ(binary.get(n), KVC_PAGE_MISS);
  }
  EXPECT_EQ(b.remove({1})[0], KVC_PAGE_OK);
  EXPECT_EQ(a.get(1), KVC_PAGE_OK);
  EXPECT_EQ(binary.put(1), KVC_PAGE_OK);
  EXPECT_EQ(binary.get(1), KVC_PAGE_OK);
  // Equal prefixes: whose fingerprint differs, finds nothing, even if keys were equal.
  TestTier other_model(server.url("prefix=a"), 4096, 2);
  EXPECT_EQ(other_model.get(2), KVC_PAGE_MISS);
  EXPECT_EQ(other_model.stats().bad_headers, 1u);
}

TEST(Redis, WhatOthersWroteIsAMiss) {
  RedisServer server;
  TestTier tier(server.url());
  for (uint64_t n = 0; n < 5; ++n) EXPECT_EQ(tier.put(n), KVC_PAGE_OK);
  server.command({"SETRANGE", redis_key(0), "1000", "xyz"});  // data
  server.command({"SETRANGE", redis_key(1), "30", "xyz"});    // header
  server.command({"SET", redis_key(2), "short"});
  server.command({"APPEND", redis_key(3), std::string(100000, 'x')});  // longer than any page
  server.command({"DEL", redis_key(4)});
  server.command({"RPUSH", redis_key(4), "a list"});
  for (uint64_t n = 0; n < 5; ++n) EXPECT_EQ(tier.get(n), KVC_PAGE_MISS) << n;
  EXPECT_EQ(tier.stats().bad_payloads, 1u);
  EXPECT_EQ(tier.stats().bad_headers, 1u);
  for (uint64_t n = 0; n < 5; ++n) EXPECT_EQ(tier.put(n), KVC_PAGE_OK);
  for (uint64_t n = 0; n < 5; ++n) EXPECT_EQ(tier.get(n), KVC_PAGE_OK);
  std::set<uint64_t> stored = {0, 1, 2, 3, 4};
  tier.operate_at_random(stored, 10, 200, 1);
  EXPECT_EQ(tier.stats().outages, 0u);
}

TEST(Redis, AReplicaIsReadOnly) {
  RedisServer server({"--replica-serve-stale-data", "yes"});
  TestTier tier(server.url());
  EXPECT_EQ(tier.put(1), KVC_PAGE_OK);
  const std::string nobody = std::to_string(free_port());
  EXPECT_EQ(server.command({"REPLICAOF", "127.0.0.1", nobody}), "OK");
  EXPECT_EQ(tier.put(2), KVC_PAGE_FAILED);
  EXPECT_EQ(tier.stats().last_errno, EROFS);
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
  EXPECT_EQ(server.command({"CONFIG", "SET", "replica-serve-stale-data", "no"}), "OK");
  EXPECT_EQ(tier.get(1), KVC_PAGE_UNAVAILABLE);  // MASTERDOWN
  EXPECT_EQ(server.command({"REPLICAOF", "NO", "ONE"}), "OK");
  EXPECT_EQ(tier.get(1), KVC_PAGE_OK);
  EXPECT_EQ(tier.put(2), KVC_PAGE_OK);
}

TEST(Redis, WorksWithoutThreads) {
  RedisServer server;
  TestTier tier(server.url("threads=0"));
  std::string page = page_of(3, 4096), back(4096, 0);
  for (const uint32_t kind : {KVC_TIER_PUT, KVC_TIER_GET}) {
    std::vector<kvc_tier_item> items = {TestTier::item_of(3, kind == KVC_TIER_PUT ? page : back)};
    kvc_tier_job job = {};
    job.struct_size = sizeof job;
    job.items = items.data();
    job.num_items = 1;
    job.kind = kind;
    uint64_t id = 0;
    ASSERT_EQ(kvc_tier_submit(tier.raw(), &job, &id), KVC_OK);
    ASSERT_EQ(kvc_tier_drain(tier.raw()), KVC_OK);
    EXPECT_EQ(items[0].result, KVC_PAGE_OK);
    kvc_tier_completion completion;
    size_t count = 0;
    ASSERT_EQ(kvc_tier_poll(tier.raw(), &completion, 1, &count), KVC_OK);
  }
  EXPECT_TRUE(page == back);
}

}  // namespace
}  // namespace kvc_redis_test
