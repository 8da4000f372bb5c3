// SPDX-License-Identifier: Apache-2.0
// Random calls against sets in std::map. Publishers write events of random changes; a channel loses, repeats
// and reorders them; publishers begin again at sequence 0 and answer with replays and lists. Whenever the
// index calls a stream complete, its blocks are those after exactly the events before next_sequence, and
// matches are those of the sets.
#include <kvcache/manager.h>

#include <cstdlib>

#include "index_peer.h"
#include "property/random.h"
#include "seed.h"

namespace kvc::test {
namespace {

constexpr uint64_t kNamespaces = 3, kBlocks = 400, kWorkers = 8;
constexpr uint32_t kMedia = 3;
// Whose events a stream has: of the publisher that began at a time, of two, or of none.
constexpr uint64_t kMixed = UINT64_MAX - 1, kNobody = UINT64_MAX;

uint64_t operations() {
  const char* given = std::getenv("KVC_TEST_OPERATIONS");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : 60000;
}

// A publisher: what it has told, and the blocks after a number of events.
struct Publisher {
  std::vector<kvc_event> log;
  std::vector<uint64_t> numbers;     // of the blocks of the log
  std::map<uint64_t, uint64_t> now;  // block -> namespace

  uint64_t clock = 0;

  static void apply(std::map<uint64_t, uint64_t>* to, const kvc_event& event, uint64_t number) {
    if (event.kind == KVC_EVENT_STORED) {
      (*to)[number] = event.namespace_id;
    } else if (event.kind == KVC_EVENT_REMOVED) {
      to->erase(number);
    } else {
      std::erase_if(*to, [&](const auto& block) {
        return event.kind == KVC_EVENT_ALL_CLEARED || block.second == event.namespace_id;
      });
    }
  }
  void publish(uint32_t kind, uint64_t number, uint64_t namespace_id) {
    log.push_back(event_of(log.size(), kind, number, namespace_id, clock));
    numbers.push_back(number);
    apply(&now, log.back(), number);
  }
  std::map<uint64_t, uint64_t> after(size_t events) const {
    std::map<uint64_t, uint64_t> blocks;
    for (size_t i = 0; i < events; ++i) apply(&blocks, log[i], numbers[i]);
    return blocks;
  }
};

// The tree of blocks: block n of namespace n % kNamespaces; its parent is a smaller number, or none.
uint64_t parent_of(uint64_t number) {
  if (number < 12) return UINT64_MAX;
  return number - kNamespaces * (1 + number % 4);
}

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), peer_(config()) {
    for (uint64_t w = 0; w < kWorkers; ++w) add(w);
  }

  void step() {
    const uint64_t worker = random_.below(kWorkers);
    const auto medium = static_cast<uint32_t>(random_.below(kMedia));
    Publisher& from = publishers_[worker][medium];
    if (random_.chance(3)) ++now_;
    from.clock = now_;
    const uint64_t dice = random_.below(1000);
    if (dice < 600) {
      change(worker, from);
    } else if (dice < 900) {
      deliver(worker, medium, random_.below(20));
    } else if (dice < 950) {
      replay(worker, medium);
    } else if (dice < 970) {
      resync(worker, medium);
    } else if (dice < 974) {
      from = {};
      ++now_;  // two publishers never begin at the same time
      delivered_[worker][medium] = 0;
    } else if (dice < 976) {
      EXPECT_EQ(KVC_OK, peer_.index.remove_worker(id_of(worker)));
      add(worker);
    } else {
      check_match();
    }
  }

  void check_all() {
    uint64_t holdings = 0;
    for (uint64_t w = 0; w < kWorkers; ++w)
      for (uint32_t m = 0; m < kMedia; ++m) {
        const auto keys = keys_of(peer_.index, id_of(w), m);
        holdings += keys.size();
        EXPECT_EQ(keys.size(), info_of(peer_.index, id_of(w)).num_blocks[m]);
        if (is_stale(w, m)) continue;
        ++complete_;
        Keys expected;
        const Publisher& from = publishers_[w][m];
        const uint64_t next = info_of(peer_.index, id_of(w)).next_sequence[m];
        // A publisher that has begun again may not have been heard yet.
        if (next > from.log.size() || heard_[w][m] != begin_of(from)) continue;
        ++compared_;
        for (const auto& [number, ns] : from.after(next)) expected.insert(key_of(number));
        ASSERT_EQ(expected, keys) << "worker " << w << " medium " << m << " after " << next;
      }
    EXPECT_EQ(holdings, stats_of(peer_.index).num_holdings);
    EXPECT_EQ(0u, stats_of(peer_.index).evicted_blocks);
  }

  // Brings every stream to its end by a list, and compares.
  void settle() {
    for (uint64_t w = 0; w < kWorkers; ++w)
      for (uint32_t m = 0; m < kMedia; ++m) {
        resync(w, m);
        EXPECT_FALSE(is_stale(w, m));
      }
    compared_ = 0;
    check_all();
    EXPECT_EQ(kWorkers * kMedia, compared_);
    for (int i = 0; i < 50; ++i) check_match();
  }
  uint64_t compared() const { return compared_; }
  PrefixIndex& index() { return peer_.index; }

 private:
  static kvc_index_config config() {
    kvc_index_config config = small_config();
    config.num_media = kMedia;
    config.max_namespaces = kWorkers * kNamespaces;
    return config;
  }
  static uint64_t id_of(uint64_t worker) { return worker * 0x1000000001u + 5; }
  // A worker's own number of a namespace; 0 is the default one of all.
  static uint64_t namespace_id(uint64_t worker, uint64_t number) {
    const uint64_t ns = number % kNamespaces;
    return ns == 0 ? 0 : ns + worker * 100;
  }
  static uint64_t begin_of(const Publisher& from) { return from.log.empty() ? kNobody : from.log[0].time_ns; }
  bool is_stale(uint64_t w, uint32_t m) { return info_of(peer_.index, id_of(w)).is_stale[m] != 0; }

  void add(uint64_t worker) {
    EXPECT_EQ(KVC_OK, peer_.index.add_worker(id_of(worker), "worker", 0));
    for (uint32_t m = 0; m < kMedia; ++m) heard_[worker][m] = kNobody;
  }

  void change(uint64_t worker, Publisher& from) {
    for (uint64_t n = random_.between(1, 6); n-- > 0;) {
      const uint64_t number = random_.below(kBlocks), ns = namespace_id(worker, number);
      const bool has = from.now.count(number) != 0;
      if (random_.below(200) == 0) {
        const uint64_t which = random_.below(3);
        from.publish(which == 0 ? KVC_EVENT_ALL_CLEARED : KVC_EVENT_NAMESPACE_CLEARED, 0,
                     which == 0   ? KVC_ALL_NAMESPACES
                     : which == 1 ? 0
                                  : namespace_id(worker, number));
      } else if (has && random_.chance(40)) {
        from.publish(KVC_EVENT_REMOVED, number, ns);
      } else {  // its ancestors too, most of them
        std::vector<uint64_t> chain;
        for (uint64_t at = number; at < kBlocks; at = parent_of(at)) chain.push_back(at);
        for (size_t i = chain.size(); i-- > 0;)
          if (from.now.count(chain[i]) == 0 && !random_.chance(5))
            from.publish(KVC_EVENT_STORED, chain[i], ns);
      }
    }
  }

  void send(uint64_t worker, uint32_t medium, size_t begin, size_t end) {
    const Publisher& from = publishers_[worker][medium];
    if (begin >= end) return;
    const uint64_t next = info_of(peer_.index, id_of(worker)).next_sequence[medium];
    uint64_t& heard = heard_[worker][medium];
    const uint64_t before = heard, mine = begin_of(from);
    kvc_index_applied applied = {};
    ASSERT_EQ(KVC_OK,
              peer_.index.apply(id_of(worker), medium, from.log.data() + begin, end - begin, now_, &applied));
    ASSERT_EQ(end - begin, applied.applied + applied.ignored);
    // Event 0 and the last event that was applied in order tell another publisher from this one, unless the
    // index has only a list before it.
    bool& is_known = is_known_[worker][medium];
    const bool tells = begin == 0 || (is_known && begin < next && next <= end);
    if (tells && before != mine && before < kMixed && begin != 0) {
      ASSERT_GT(applied.restarts, 0u);
    }
    if (begin == 0 || applied.restarts != 0) {
      heard = mine;
    } else if (before != mine && applied.applied != 0) {
      heard = kMixed;  // nobody can know
    }
    is_known |= applied.applied != 0;
  }
  void deliver(uint64_t worker, uint32_t medium, uint64_t fate) {
    size_t& delivered = delivered_[worker][medium];
    const size_t end = publishers_[worker][medium].log.size();
    if (fate == 0) {  // lost
      delivered = end;
    } else if (fate == 1) {  // again
      send(worker, medium, delivered - std::min<size_t>(delivered, random_.below(30)), end);
      delivered = end;
    } else if (fate == 2 && end - delivered > 1) {  // the later half first
      const size_t middle = (delivered + end) / 2;
      send(worker, medium, middle, end);
      send(worker, medium, delivered, middle);
      delivered = end;
    } else {
      send(worker, medium, delivered, end);
      delivered = end;
    }
  }
  void replay(uint64_t worker, uint32_t medium) {
    const Publisher& from = publishers_[worker][medium];
    const uint64_t next = info_of(peer_.index, id_of(worker)).next_sequence[medium];
    // From the last one that is known, which shows whether it is the same publisher.
    send(worker, medium, std::min<size_t>(next - (next != 0), from.log.size()), from.log.size());
    delivered_[worker][medium] = from.log.size();
  }
  void resync(uint64_t worker, uint32_t medium) {
    const Publisher& from = publishers_[worker][medium];
    ASSERT_EQ(KVC_OK, peer_.index.begin_resync(id_of(worker), medium));
    EXPECT_TRUE(is_stale(worker, medium));
    std::vector<kvc_event> list;
    for (const auto& [number, ns] : from.now)
      list.push_back(event_of(from.log.size(), KVC_EVENT_STORED, number, ns, 0));
    if (!list.empty()) {
      ASSERT_EQ(KVC_OK, peer_.index.apply(id_of(worker), medium, list.data(), list.size(), now_, nullptr));
    }
    ASSERT_EQ(KVC_OK, peer_.index.end_resync(id_of(worker), medium, from.log.size()));
    delivered_[worker][medium] = from.log.size();
    is_known_[worker][medium] = false;
    heard_[worker][medium] = begin_of(from);
  }

  // The answer from what the index says of single blocks.
  void check_match() {
    std::vector<uint64_t> prompt;
    for (uint64_t at = random_.below(kBlocks); at < kBlocks; at = parent_of(at)) prompt.push_back(at);
    std::reverse(prompt.begin(), prompt.end());
    Matches expected;
    for (uint64_t w = 0; w < kWorkers; ++w) {
      std::vector<Keys> media;
      for (uint32_t m = 0; m < kMedia; ++m) media.push_back(keys_of(peer_.index, id_of(w), m));
      std::vector<uint32_t> row(1 + kMedia);
      for (uint32_t column = 0; column <= kMedia; ++column)
        for (const uint64_t number : prompt) {
          bool has = false;
          for (uint32_t m = 0; m < kMedia; ++m)
            has |= (column == 0 || column == m + 1) && media[m].count(key_of(number)) != 0;
          if (!has) break;
          ++row[column];
        }
      if (row[0] != 0) expected[id_of(w)] = row;
    }
    ASSERT_EQ(expected, match(peer_.index, prompt));
  }

  Random random_;
  IndexPeer peer_;
  Publisher publishers_[kWorkers][kMedia];
  size_t delivered_[kWorkers][kMedia] = {};
  uint64_t heard_[kWorkers][kMedia];      // begin of the publisher that the stream is of
  bool is_known_[kWorkers][kMedia] = {};  // the time of event next - 1
  uint64_t now_ = 1, complete_ = 0, compared_ = 0;
};

TEST(Index, CompleteStreamsHaveExactlyThePublishedBlocks) {
  World world(test_seed());
  const uint64_t count = operations();
  for (uint64_t i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    world.step();
    if (i % 500 == 0) world.check_all();
  }
  EXPECT_GT(world.compared(), 100u);
  EXPECT_GT(stats_of(world.index()).restarts, 10u);
  EXPECT_GT(stats_of(world.index()).gaps, 100u);
  world.settle();
}

}  // namespace
}  // namespace kvc::test
