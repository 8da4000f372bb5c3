// SPDX-License-Identifier: Apache-2.0
// Eight managers behind a channel that loses batches, and an index. Managers evict, drop, reset, open and
// close namespaces, and restart; their rings of events are short, so that readers lose events. Whenever the
// index has caught up with a manager, it has exactly what the manager lists.
#include <kvcache/manager.h>
#include <kvcache/prefix.h>

#include <cstdlib>

#include "calls.h"
#include "event_calls.h"
#include "index_peer.h"
#include "property/random.h"
#include "seed.h"

namespace kvc::test {
namespace {

constexpr uint32_t kBlockSize = 4;
constexpr size_t kNumManagers = 8, kRoom = 64;

class Engine {
 public:
  explicit Engine(uint64_t id) : id_(id) { start(); }
  ~Engine() { kvc_manager_destroy(m_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void restart() {
    kvc_manager_destroy(m_);
    start();
  }

  void change(Random& random) {
    const uint64_t dice = random.below(1000);
    if (dice < 900) {
      serve(random);
    } else if (dice < 940) {
      size_t evicted = 0;
      kvc_manager_evict_blocks(m_, -1, random.below(8), &evicted);
    } else if (dice < 970) {
      const auto prompt = random_prompt(random);
      uint64_t dropped = 0;
      kvc_manager_drop_prefix(m_, PROMPT(any_namespace(random), prompt.data(), prompt.size(), nullptr, 0),
                              &dropped);
    } else if (dice < 980) {
      const uint64_t which = random.below(3);
      which == 0 ? kvc_manager_reset_all(m_)
                 : kvc_manager_reset_namespace(m_, which == 1 ? 0 : any_namespace(random));
    } else {
      open_or_close(random);
    }
  }

  // Reads events once; false if there were none.
  bool read(kvc_event* events, size_t* count) {
    EXPECT_EQ(KVC_OK, poll_events(m_, &cursor, events, sizeof *events, kRoom, count, nullptr, 0));
    return *count != 0;
  }
  // Lists everything into each(events, count); returns the cursor for events.
  template <typename Each>
  uint64_t list(Each&& each) {
    uint64_t place = 0, event_cursor = 0;
    kvc_event events[kRoom];
    do {
      kvc_event_batch batch = {sizeof batch, events, sizeof *events, kRoom, 0, nullptr, 0};
      EXPECT_EQ(KVC_OK, kvc_manager_list_prefixes(m_, &place, &event_cursor, &batch));
      each(events, batch.count);
    } while (place != 0);
    return event_cursor;
  }
  uint64_t id() const { return id_; }

  uint64_t cursor = 0;  // of its reader

 private:
  void start() {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = 48;
    config.block_size = kBlockSize;
    config.event_capacity = 128;
    config.max_request_tokens = 256;
    ASSERT_EQ(KVC_OK, kvc_manager_create(&config, &m_));
    for (uint64_t& ns : namespaces_) ns = 0;
  }
  uint64_t any_namespace(Random& random) { return namespaces_[random.below(3)]; }
  std::vector<int32_t> random_prompt(Random& random) {
    std::vector<int32_t> tokens;
    const auto family = static_cast<int32_t>(random.below(3));
    for (size_t blocks = random.between(1, 12), b = 0; b < blocks; ++b) {
      const auto branch = static_cast<int32_t>(b < 3 ? 0 : random.below(3));
      for (int32_t t = 0; t < static_cast<int32_t>(kBlockSize); ++t) tokens.push_back(family * 10 + branch);
    }
    return tokens;
  }
  void serve(Random& random) {
    const auto prompt = random_prompt(random);
    uint64_t request = 0, cached = 0;
    if (kvc_manager_allocate_request(m_,
                                     PROMPT(any_namespace(random), prompt.data(), prompt.size(), nullptr, 0),
                                     nullptr, &request, &cached) != KVC_OK)
      return;
    EXPECT_EQ(KVC_OK, kvc_manager_commit_tokens(m_, request, prompt.size()));
    EXPECT_EQ(KVC_OK, kvc_manager_free_request(m_, request));
  }
  void open_or_close(Random& random) {
    uint64_t& ns = namespaces_[1 + random.below(2)];
    if (ns != 0) {
      EXPECT_EQ(KVC_OK, kvc_manager_close_namespace(m_, std::exchange(ns, 0)));
      return;
    }
    kvc_namespace_config config = {};
    config.struct_size = sizeof config;
    config.tenant = &ns == &namespaces_[1] ? "one" : "two";
    config.tenant_size = 3;
    EXPECT_EQ(KVC_OK, kvc_manager_open_namespace(m_, &config, &ns));
  }

  const uint64_t id_;
  kvc_manager* m_ = nullptr;
  uint64_t namespaces_[3] = {};
};

class Router {
 public:
  void add(Engine& engine) { EXPECT_EQ(KVC_OK, peer_.index.add_worker(engine.id(), nullptr, 0)); }

  // Takes what there is; `loses`: one batch does not arrive. False: there was nothing.
  bool take(Engine& engine, bool loses) {
    kvc_event events[kRoom];
    size_t count = 0;
    bool any = false;
    while (engine.read(events, &count)) {
      any = true;
      if (std::exchange(loses, false)) continue;
      EXPECT_EQ(KVC_OK, peer_.index.apply(engine.id(), 0, events, count, 0, nullptr));
    }
    return any;
  }
  // Whether the index has what its reader has read: lost events at the end show here.
  bool is_behind(const Engine& engine) const {
    const kvc_index_worker info = info_of(peer_.index, engine.id());
    return info.is_stale[0] != 0 || info.next_sequence[0] != engine.cursor;
  }
  // Makes the stream complete: by a replay if the ring still has the events, else by a list.
  void mend(Engine& engine) {
    take(engine, false);
    const uint64_t next = info_of(peer_.index, engine.id()).next_sequence[0];
    if (is_behind(engine) && next <= engine.cursor) {
      engine.cursor = next - (next != 0);
      take(engine, false);
      ++replays_;
    }
    if (!is_behind(engine)) return;
    ++lists_;
    EXPECT_EQ(KVC_OK, peer_.index.begin_resync(engine.id(), 0));
    const uint64_t cursor = engine.list([&](const kvc_event* events, size_t count) {
      EXPECT_EQ(KVC_OK, peer_.index.apply(engine.id(), 0, events, count, 0, nullptr));
    });
    EXPECT_EQ(KVC_OK, peer_.index.end_resync(engine.id(), 0, cursor));
    engine.cursor = cursor;
  }
  void expect_equal(Engine& engine) {
    mend(engine);
    EXPECT_FALSE(is_behind(engine));
    Keys listed;
    engine.list([&](const kvc_event* events, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        if (events[i].block < 0) continue;  // a position without a block
        const BlockKey key = BlockKey::of(events[i].digest);
        listed.emplace(key.low, key.high);
      }
    });
    ASSERT_EQ(listed, keys_of(peer_.index, engine.id(), 0));
    most_ = std::max(most_, listed.size());
  }
  void restarted(Engine& engine, bool is_told) {
    engine.cursor = 0;
    if (!is_told) return;
    EXPECT_EQ(KVC_OK, peer_.index.remove_worker(engine.id()));
    add(engine);
  }
  uint64_t replays() const { return replays_; }
  uint64_t lists() const { return lists_; }
  size_t most() const { return most_; }
  const PrefixIndex& index() const { return peer_.index; }

 private:
  IndexPeer peer_;
  uint64_t replays_ = 0, lists_ = 0;
  size_t most_ = 0;
};

TEST(IndexOfManagers, HasExactlyWhatTheyHave) {
  const char* given = std::getenv("KVC_TEST_OPERATIONS");
  const uint64_t operations = given != nullptr ? std::strtoull(given, nullptr, 0) : 40000;
  Random random(test_seed());
  std::vector<std::unique_ptr<Engine>> engines;
  Router router;
  for (uint64_t i = 0; i < kNumManagers; ++i) {
    engines.push_back(std::make_unique<Engine>(1000 + i));
    router.add(*engines.back());
  }
  for (uint64_t i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
    Engine& engine = *engines[random.below(kNumManagers)];
    const uint64_t dice = random.below(1000);
    if (dice < 880) {
      engine.change(random);
    } else if (dice < 980) {
      router.take(engine, random.chance(10));
    } else if (dice < 985) {
      engine.restart();
      // Its first events reach the router, or the router is told.
      const bool is_told = random.chance(50);
      router.restarted(engine, is_told);
      do engine.change(random);
      while (!router.take(engine, is_told && random.chance(20)) && !is_told);
    } else {
      router.expect_equal(engine);
    }
  }
  for (const auto& engine : engines) router.expect_equal(*engine);
  EXPECT_GT(router.replays(), 20u);
  EXPECT_GT(router.lists(), 20u);
  EXPECT_GT(router.most(), 30u);
  EXPECT_GT(stats_of(router.index()).restarts, 5u);
  EXPECT_EQ(0u, stats_of(router.index()).dropped_events);
}

}  // namespace
}  // namespace kvc::test
