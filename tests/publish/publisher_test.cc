// SPDX-License-Identifier: Apache-2.0
// What subscribers of a publisher have is what can be found in its manager: after any calls, with losses of
// any kind, restarts, and tenants; in every form and with every hash.
#include <random>

#include "conformance/fixture.h"
#include "events/hash_chain.h"
#include "publish/subscriber.h"
#include "rounds.h"
#include "seed.h"

namespace kvc {
namespace {

using conformance::Cache;
using conformance::request_config;
using conformance::text;
using conformance::Tokens;
using conformance::operator+;

constexpr uint32_t kBlock = 4;

kvc_manager_config with_events(uint64_t blocks, uint64_t events) {
  kvc_manager_config config = conformance::shape(blocks, kBlock);
  config.event_capacity = events;
  return config;
}

class PublisherOf {
 public:
  explicit PublisherOf(kvc_manager* m, uint32_t flags = 0, uint32_t max_blocks = 0, uint32_t hash = 0,
                       uint32_t replay_batches = 0) {
    kvc_publisher_config config = {};
    config.struct_size = sizeof config;
    config.manager = m;
    config.flags = flags;
    config.max_blocks = max_blocks;
    config.hash = hash;
    config.replay_batches = replay_batches;
    EXPECT_EQ(kvc_publisher_create(&config, &p_), KVC_OK) << kvc_last_error();
  }
  ~PublisherOf() { kvc_publisher_destroy(p_); }
  PublisherOf(const PublisherOf&) = delete;
  PublisherOf& operator=(const PublisherOf&) = delete;
  kvc_publisher* get() const { return p_; }
  uint64_t poll() const {
    uint64_t batches = 77;
    EXPECT_EQ(kvc_publisher_poll(p_, &batches), KVC_OK) << kvc_last_error();
    return batches;
  }
  kvc_publisher_stats stats() const {
    kvc_publisher_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_publisher_read_stats(p_, &stats), KVC_OK);
    return stats;
  }

 private:
  kvc_publisher* p_ = nullptr;
};

// Random calls: prompts with common beginnings, of some tenants, evictions, drops and resets.
class Life {
 public:
  Life(Cache& cache, uint64_t seed, bool tenants) : cache_(cache), random_(seed) {
    spaces_ = {0};
    if (tenants) spaces_.push_back(cache.open("a")), spaces_.push_back(cache.open("b"));
  }
  uint64_t draw(uint64_t n) { return random_() % n; }
  void step() {
    const uint64_t kind = draw(100);
    const Tokens tokens = prompt();
    if (kind < 70) {
      conformance::Admitted admitted;
      if (cache_.try_allocate(tokens, &admitted, request_config(0, spaces_[draw(spaces_.size())])) != KVC_OK)
        return;
      cache_.commit(admitted.id, tokens.size());
      cache_.free(admitted.id);
    } else if (kind < 85) {
      cache_.evict(draw(8));
    } else if (kind < 97) {
      cache_.drop(tokens);
    } else {
      const uint64_t which = draw(spaces_.size() + 1);
      if (which == spaces_.size())
        cache_.reset_all();
      else
        cache_.reset_namespace(spaces_[which]);
    }
  }

 private:
  Tokens prompt() {
    Tokens out = text(static_cast<int32_t>(draw(3)), 4 * draw(5));
    return out + text(10 + static_cast<int32_t>(draw(6)), 2 + draw(20));
  }
  Cache& cache_;
  std::mt19937_64 random_;
  std::vector<uint64_t> spaces_;
};

struct World {
  const char* name;
  uint64_t events;  // of the ring
  uint32_t max_blocks;
  std::vector<kvc_group_config> groups;
  bool tenants;
  uint32_t flags;
};

kvc_group_config state_group(uint64_t retention) {
  kvc_group_config group = conformance::full_group();
  group.kind = KVC_GROUP_STATE, group.retention_tokens = retention;
  return group;
}
const std::vector<kvc_group_config> kFull = {conformance::full_group()};
const std::vector<kvc_group_config> kFullAndWindow = {conformance::full_group(),
                                                      conformance::window_group(2 * kBlock)};

class Published : public ::testing::TestWithParam<World> {};

TEST_P(Published, IsWhatCanBeFoundAfterAnyCalls) {
  const World& world = GetParam();
  Cache cache(with_events(40, world.events), world.groups);
  Life life(cache, test::test_seed(), world.tenants);
  for (int i = 0; i < 20; ++i) life.step();  // before there is a publisher
  const PublisherOf publisher(cache.get(), world.flags, world.max_blocks);
  Subscriber subscriber;
  for (int i = 0; i < test::rounds(120); ++i) {
    for (uint64_t n = life.draw(30); n != 0; --n) life.step();
    publisher.poll();
    ASSERT_TRUE(subscriber.read(publisher.get()));
    ASSERT_EQ(subscriber.blocks(), contents(cache.get())) << "after round " << i;
    if (::testing::Test::HasFailure()) FAIL() << "in round " << i;
  }
  const kvc_publisher_stats stats = publisher.stats();
  EXPECT_EQ(stats.stored_blocks, subscriber.stored());
  EXPECT_EQ(stats.next_sequence, subscriber.next());
  EXPECT_GT(stats.cancelled_events, 0u);
  EXPECT_EQ(stats.lost_events != 0, world.events < 100);
  EXPECT_EQ(stats.resyncs > 1, world.events < 100 || world.tenants);
  EXPECT_EQ(stats.unresolved_blocks, 0u);
  EXPECT_EQ(subscriber.unknown_parents(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, Published,
    ::testing::Values(
        World{"Plain", 4096, 0, kFull, false, 0},
        World{"SmallBatches", 4096, 3, kFull, false, KVC_PUBLISHER_ARRAYS},
        World{"OneBlock", 4096, 1, kFullAndWindow, false, 0},
        World{"Windows", 4096, 0, kFullAndWindow, false, KVC_PUBLISHER_BYTES},
        World{"WindowsAlone", 4096, 0, {conformance::window_group(2 * kBlock)}, false, 0},
        World{"ChunksAlone", 4096, 5, {conformance::chunk_group(3 * kBlock, 6 * kBlock)}, false, 0},
        World{"StatesAlone", 4096, 0, {state_group(2 * kBlock)}, false, 0},
        World{"States", 4096, 7, {conformance::full_group(), state_group(2 * kBlock)}, true, 0},
        World{"Tenants", 4096, 16, kFullAndWindow, true, 0}, World{"Overrun", 16, 8, kFull, false, 0},
        World{"OverrunStates", 16, 8, {state_group(0)}, false, 0},
        World{"All", 32, 5, kFullAndWindow, true, KVC_PUBLISHER_ARRAYS | KVC_PUBLISHER_BYTES}),
    [](const auto& world) { return std::string(world.param.name); });

TEST(Publisher, ASubscriberThatLosesBatchesAsksForThemAgain) {
  Cache cache(with_events(40, 4096));
  Life life(cache, test::test_seed(), false);
  const PublisherOf publisher(cache.get(), 0, 4);
  Subscriber subscriber;
  uint64_t sent = 0, lost = 0, replays = 0, compared = 0;
  for (int i = 0; i < 400; ++i) {
    for (int n = 0; n < 5; ++n) life.step();
    publisher.poll();
    for (const uint64_t end = publisher.stats().next_sequence; sent < end; ++sent) {
      if (life.draw(10) == 0) {
        ++lost;
      } else if (sent >= subscriber.next()) {
        replays += sent != subscriber.next();
        ASSERT_TRUE(subscriber.read(publisher.get())) << "a replay, or what came";
      }
    }
    if (subscriber.next() != sent) continue;  // the last one was lost, which shows with the next
    ++compared;
    ASSERT_EQ(subscriber.blocks(), contents(cache.get()));
  }
  EXPECT_GT(lost, 0u);
  EXPECT_GT(replays, 0u);
  EXPECT_GT(compared, 300u);
}

TEST(Publisher, BeginsAnewWithAllThatIsCached) {
  Cache cache(with_events(40, 4096));
  Life life(cache, test::test_seed(), false);
  for (int i = 0; i < 50; ++i) life.step();
  Subscriber subscriber;
  for (int restart = 0; restart < 3; ++restart) {
    const PublisherOf publisher(cache.get(), 0, 8);
    publisher.poll();
    subscriber.restart();  // its numbers begin at 0
    ASSERT_TRUE(subscriber.read(publisher.get()));
    EXPECT_EQ(subscriber.blocks(), contents(cache.get()));
    EXPECT_EQ(publisher.stats().resyncs, 1u);
    life.step();
  }
}

TEST(Publisher, ASubscriberThatComesTooLateIsHelpedByAResync) {
  Cache cache(with_events(40, 4096));
  Life life(cache, test::test_seed(), false);
  const PublisherOf publisher(cache.get(), 0, 4, 0, 5);  // keeps five batches
  for (int i = 0; i < 100; ++i) {
    life.step();
    publisher.poll();
  }
  Subscriber late;
  EXPECT_FALSE(late.read(publisher.get())) << "batch 0 is gone";
  EXPECT_EQ(publisher.stats().kept_batches, 5u);
  late.restart(publisher.stats().next_sequence);
  ASSERT_EQ(kvc_publisher_resync(publisher.get()), KVC_OK);
  uint64_t batches = publisher.poll();
  ASSERT_LE(batches, 5u) << "else the test's ring is too small";
  ASSERT_TRUE(late.read(publisher.get()));
  EXPECT_EQ(late.blocks(), contents(cache.get()));
}

// The names of blocks, worked out from tokens alone.
class ChainedHashes : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ChainedHashes, AreThoseOfThePrefix) {
  const uint32_t hash = GetParam();
  Cache cache(with_events(40, 64));
  const uint64_t tenant = cache.open("tenant");
  const PublisherOf publisher(cache.get(), 0, 0, hash);
  const kvc_publisher_namespace named = {sizeof named, tenant, "sql", "/adapters/sql", nullptr};
  ASSERT_EQ(kvc_publisher_name_namespace(publisher.get(), &named), KVC_OK);
  const auto number = [&](const Digest256& d) {
    uint64_t out = 0;
    const size_t first = hash == KVC_PUBLISHER_SGLANG ? 0 : 24;
    for (size_t i = first; i < first + 8; ++i) out = out << 8 | d.bytes[i];
    return out;
  };
  Subscriber subscriber;
  for (const uint64_t ns : {uint64_t{0}, tenant}) {
    const Tokens tokens = text(1, 3 * kBlock);
    cache.store(tokens, request_config(0, ns));
    publisher.poll();
    ASSERT_TRUE(subscriber.read(publisher.get()));
    ChainKeys keys;
    if (ns != 0) keys.lora_name = "sql", keys.lora_path = "/adapters/sql";
    Digest256 parent = vllm_root("vllm-none-hash");
    std::set<Subscriber::Block> expected;
    for (size_t i = 0; i < 3; ++i) {
      const int32_t* block = tokens.data() + i * kBlock;
      parent = hash == KVC_PUBLISHER_VLLM ? vllm_hash(parent, block, kBlock, keys)
                                          : sglang_hash(i == 0 ? nullptr : &parent, block, kBlock, keys);
      expected.insert({0, number(parent)});
    }
    for (const auto& block : expected) EXPECT_EQ(subscriber.blocks().count(block), 1u);
    EXPECT_EQ(subscriber.blocks().size(), ns == 0 ? 3u : 6u);
    const auto& last = subscriber.decoder().events().back();
    EXPECT_EQ(last.lora_name, ns == 0 ? "" : "sql");
  }
  cache.evict(40);
  publisher.poll();
  ASSERT_TRUE(subscriber.read(publisher.get()));
  EXPECT_TRUE(subscriber.blocks().empty()) << "removed under the names they were stored with";
}

TEST_P(ChainedHashes, FollowTheManagerThroughLossesAndTenants) {
  for (const uint64_t ring : {16u, 4096u}) {
    std::vector<kvc_group_config> groups = {conformance::full_group(), conformance::window_group(2 * kBlock)};
    Cache cache(with_events(40, ring), groups);
    Life life(cache, test::test_seed() + ring, true);
    const PublisherOf publisher(cache.get(), 0, 7, GetParam());
    Subscriber subscriber;
    for (int i = 0; i < test::rounds(60); ++i) {
      for (uint64_t n = life.draw(12); n != 0; --n) life.step();
      publisher.poll();
      ASSERT_TRUE(subscriber.read(publisher.get()));
      const uint64_t unresolved = publisher.stats().unresolved_blocks;
      if (ring == 4096) {
        ASSERT_EQ(unresolved, 0u);
      }
      ASSERT_LE(subscriber.blocks().size(), contents(cache.get()).size());
      ASSERT_TRUE(unresolved != 0 || subscriber.blocks().size() == contents(cache.get()).size())
          << "in round " << i;
      if (::testing::Test::HasFailure()) FAIL() << "in round " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hashes, ChainedHashes, ::testing::Values(KVC_PUBLISHER_VLLM, KVC_PUBLISHER_SGLANG));

TEST(Publisher, MergesChainsIntoOneEvent) {
  Cache cache(with_events(40, 64));
  const PublisherOf publisher(cache.get());
  publisher.poll();
  cache.store(text(1, 5 * kBlock));
  EXPECT_EQ(publisher.poll(), 1u);
  Subscriber subscriber;
  ASSERT_TRUE(subscriber.read(publisher.get()));
  ASSERT_EQ(subscriber.decoder().events().size(), 1u);
  const WireEvent& event = subscriber.decoder().events()[0];
  EXPECT_EQ(event.hashes.size(), 5u);
  EXPECT_EQ(event.spec_kind, "full_attention");
  EXPECT_EQ(event.group, 0);
  EXPECT_EQ(event.medium, "GPU");
  const Tokens tokens = text(1, 5 * kBlock);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), event.tokens.begin(), event.tokens.end()));
  EXPECT_EQ(publisher.poll(), 0u) << "nothing new";
}

TEST(Publisher, ATenantsResetClearsAllOnlyIfNobodyElseHasBlocks) {
  Cache cache(with_events(40, 64));
  const uint64_t tenant = cache.open("tenant");
  const PublisherOf publisher(cache.get());
  publisher.poll();
  Subscriber subscriber;
  cache.store(text(1, 8), request_config(0, tenant));
  cache.reset_namespace(tenant);
  publisher.poll();
  EXPECT_EQ(publisher.stats().resyncs, 1u) << "nothing to tell anew";
  cache.store(text(1, 8), request_config(0, tenant));
  cache.store(text(1, 8));
  publisher.poll();
  cache.reset_namespace(tenant);
  publisher.poll();
  EXPECT_EQ(publisher.stats().resyncs, 2u);
  ASSERT_TRUE(subscriber.read(publisher.get()));
  EXPECT_EQ(subscriber.blocks().size(), 2u);
  EXPECT_EQ(subscriber.blocks(), contents(cache.get()));
}

TEST(Publisher, ManyTinyBatchesKeepTheRingInItsBounds) {
  Cache cache(with_events(8, 64));
  const PublisherOf publisher(cache.get(), 0, 1, 0, 1000);
  Subscriber subscriber;
  for (int i = 0; i < 25000; ++i) {
    kvc_manager* m = cache.get();
    const Tokens tokens = text(i % 50, kBlock);
    uint64_t request = 0;
    ASSERT_EQ(kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &request, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, tokens.size()), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(m, request), KVC_OK);
    if (i % 10 == 0) publisher.poll();
    if (i % 100 != 0) continue;
    ASSERT_TRUE(subscriber.read(publisher.get()));
  }
  publisher.poll();
  ASSERT_TRUE(subscriber.read(publisher.get()));
  EXPECT_EQ(subscriber.blocks(), contents(cache.get()));
  EXPECT_GT(subscriber.next(), 20000u);
  EXPECT_EQ(publisher.stats().kept_batches, 1000u);
}

TEST(Publisher, AThreadOfItsOwnPublishesByItself) {
  Cache cache(with_events(64, 1 << 16));
  const PublisherOf publisher(cache.get(), KVC_PUBLISHER_THREAD);
  Life life(cache, test::test_seed(), false);
  for (int i = 0; i < 2000; ++i) life.step();
  // It publishes without a call; how soon is not the test's concern.
  while (publisher.stats().next_sequence == 0) continue;
  publisher.poll();
  Subscriber subscriber;
  ASSERT_TRUE(subscriber.read(publisher.get()));
  EXPECT_EQ(subscriber.blocks(), contents(cache.get()));
}

TEST(Publisher, RefusesWhatItCannotDo) {
  Cache cache(with_events(8, 64), {conformance::full_group(), conformance::window_group(8)});
  Cache silent(with_events(8, 0));
  const auto refused = [&](auto&& change, kvc_status status, const char* says) {
    kvc_publisher_config config = {};
    config.struct_size = sizeof config;
    config.manager = cache.get();
    change(config);
    kvc_publisher* publisher = nullptr;
    EXPECT_EQ(kvc_publisher_create(&config, &publisher), status) << says;
    EXPECT_EQ(publisher, nullptr);
    EXPECT_NE(std::string(kvc_last_error()).find(says), std::string::npos) << kvc_last_error();
  };
  const std::string long_text(256, 'x');
  refused([&](auto& c) { c.manager = silent.get(); }, KVC_ERROR_UNSUPPORTED, "event_capacity > 0");
  refused([](auto& c) { c.manager = nullptr; }, KVC_ERROR_INVALID_ARGUMENT, "manager is NULL");
  refused([](auto& c) { c.groups = 4; }, KVC_ERROR_INVALID_ARGUMENT,
          "groups is 0x4; the manager has groups 0 .. 1");
  refused([](auto& c) { c.flags = KVC_PUBLISHER_NO_GROUPS; }, KVC_ERROR_INVALID_ARGUMENT,
          "publish one group");
  refused([](auto& c) { c.flags = 64; }, KVC_ERROR_UNSUPPORTED, "flags is 0x40");
  refused([](auto& c) { c.hash = 3; }, KVC_ERROR_UNSUPPORTED, "hash is 3");
  refused([](auto& c) { c.rank = 1u << 31; }, KVC_ERROR_INVALID_ARGUMENT, "rank is 2147483648");
  refused([](auto& c) { c.reserved = 1; }, KVC_ERROR_UNSUPPORTED, "reserved is 1");
  refused([](auto& c) { c.interval_ns = 2000000000; }, KVC_ERROR_INVALID_ARGUMENT,
          "interval_ns is 2000000000");
  refused([](auto& c) { c.max_blocks = 65537; }, KVC_ERROR_INVALID_ARGUMENT, "max_blocks is 65537");
  refused([](auto& c) { c.replay_bytes = 1000; }, KVC_ERROR_INVALID_ARGUMENT,
          "replay_bytes is 1000; a batch of");
  refused([&](auto& c) { c.topic = long_text.c_str(); }, KVC_ERROR_INVALID_ARGUMENT,
          "topic has more than 255 bytes");
  refused([](auto& c) { c.url = "tcp"; }, KVC_ERROR_INVALID_ARGUMENT, "begins with the name of a plug-in");
  refused([](auto& c) { c.url = "nothere:x"; }, KVC_ERROR_NOT_FOUND, "there is no plug-in \"nothere\"");
}

}  // namespace
}  // namespace kvc
