// SPDX-License-Identifier: Apache-2.0
// Streams of events, workers that come and go, eviction, and what a match says of each.
#include <kvcache/manager.h>

#include "index_peer.h"

namespace kvc::test {
namespace {

constexpr uint32_t kStored = KVC_EVENT_STORED, kRemoved = KVC_EVENT_REMOVED,
                   kCleared = KVC_EVENT_NAMESPACE_CLEARED, kAllCleared = KVC_EVENT_ALL_CLEARED;

class IndexStreams : public ::testing::Test {
 protected:
  kvc_index_applied apply(uint64_t worker, const std::vector<kvc_event>& events, uint32_t medium = 0,
                          uint64_t now = 0) {
    kvc_index_applied applied = {};
    EXPECT_EQ(KVC_OK, index.apply(worker, medium, events.data(), events.size(), now, &applied));
    return applied;
  }
  void store(uint64_t worker, const std::vector<uint64_t>& blocks, uint32_t medium = 0, uint64_t ns = 0) {
    std::vector<kvc_event> events;
    uint64_t next = info_of(index, worker).next_sequence[medium];
    for (const uint64_t block : blocks) events.push_back(event_of(next++, kStored, block, ns));
    apply(worker, events, medium);
  }
  void add(uint64_t worker, uint64_t now = 0) { EXPECT_EQ(KVC_OK, index.add_worker(worker, "name", now)); }

  IndexPeer peer;
  PrefixIndex& index = peer.index;
};

TEST_F(IndexStreams, AMatchCountsToTheFirstGapOfEachMediumAndOfAllTogether) {
  add(1);
  add(2);
  store(1, {10, 11, 13});
  store(1, {12, 13, 14}, 1);
  store(2, {10}, 2);
  EXPECT_EQ((Matches{{1, {5, 2, 0, 0}}, {2, {1, 0, 0, 1}}}), match(index, {10, 11, 12, 13, 14, 15}));
  EXPECT_EQ((Matches{{1, {2, 1, 0, 0}}}), match(index, {11, 12}));
  EXPECT_EQ(Matches{}, match(index, {99, 10}));
  EXPECT_EQ(Matches{}, match(index, {}));
}

TEST_F(IndexStreams, ARepeatedEventChangesNothing) {
  add(1);
  apply(1, {event_of(0, kStored, 10), event_of(1, kRemoved, 10)});
  const auto again = apply(1, {event_of(0, kStored, 10)});
  EXPECT_EQ(1u, again.ignored);
  EXPECT_EQ(0u, again.applied);
  EXPECT_EQ(0u, again.is_stale);
  EXPECT_EQ(Matches{}, match(index, {10}));
}

TEST_F(IndexStreams, AGapMakesAStreamStaleUntilTheReplayIsComplete) {
  add(1);
  apply(1, {event_of(0, kStored, 10)});
  auto done = apply(1, {event_of(3, kStored, 11)});
  EXPECT_EQ(1u, done.is_stale);
  EXPECT_EQ(1u, done.next_sequence);
  EXPECT_EQ((Matches{{1, {2, 2, 0, 0}}}), match(index, {10, 11})) << "still used";
  done = apply(1, {event_of(1, kStored, 12), event_of(2, kRemoved, 10)});
  EXPECT_EQ(1u, done.is_stale) << "event 3 has not come behind event 2";
  done = apply(1, {event_of(3, kStored, 11)});
  EXPECT_EQ(0u, done.is_stale);
  EXPECT_EQ(Matches{}, match(index, {10, 11}));
  EXPECT_EQ((Matches{{1, {2, 2, 0, 0}}}), match(index, {12, 11}));
}

TEST_F(IndexStreams, ALateEventDoesNotUndoANewerOne) {
  add(1);
  apply(1, {event_of(1, kRemoved, 10), event_of(2, kStored, 11)});
  apply(1, {event_of(0, kStored, 10), event_of(1, kRemoved, 10), event_of(2, kStored, 11)});
  EXPECT_EQ(0u, info_of(index, 1).is_stale[0]);
  EXPECT_EQ(Matches{}, match(index, {10}));
}

TEST_F(IndexStreams, HideStaleLeavesAStaleWorkerOut) {
  kvc_index_config config = small_config();
  config.flags = KVC_INDEX_HIDE_STALE;
  IndexPeer hiding(config);
  ASSERT_EQ(KVC_OK, hiding.index.add_worker(1, nullptr, 0));
  ASSERT_EQ(KVC_OK, hiding.index.add_worker(2, nullptr, 0));
  const kvc_event first = event_of(0, kStored, 10), third = event_of(2, kStored, 11);
  for (const uint64_t worker : {1, 2})
    EXPECT_EQ(KVC_OK, hiding.index.apply(worker, 0, &first, 1, 0, nullptr));
  EXPECT_EQ(KVC_OK, hiding.index.apply(1, 0, &third, 1, 0, nullptr));
  EXPECT_EQ((Matches{{2, {1, 1, 0, 0}}}), match(hiding.index, {10, 11}));
}

TEST_F(IndexStreams, EventZeroWithAnotherTimeIsARestart) {
  add(1);
  apply(1, {event_of(0, kStored, 10, 0, 500), event_of(1, kStored, 11, 0, 500)});
  store(1, {10}, 1);
  const auto done = apply(1, {event_of(0, kStored, 20, 0, 400)});  // the clock went back too
  EXPECT_EQ(1u, done.restarts);
  EXPECT_EQ(0u, done.is_stale);
  EXPECT_EQ(1u, done.next_sequence);
  EXPECT_EQ((Matches{{1, {1, 0, 1, 0}}}), match(index, {10, 11})) << "the other medium is another stream";
  EXPECT_EQ((Matches{{1, {1, 1, 0, 0}}}), match(index, {20}));
}

TEST_F(IndexStreams, AnOldSequenceWithANewTimeIsARestart) {
  add(1);
  apply(1, {event_of(0, kStored, 10, 0, 500), event_of(1, kStored, 11, 0, 500),
            event_of(2, kStored, 12, 0, 510)});
  const auto done = apply(1, {event_of(1, kStored, 20, 0, 900)});  // event 0 was lost
  EXPECT_EQ(1u, done.restarts);
  EXPECT_EQ(1u, done.is_stale);
  EXPECT_EQ(0u, done.next_sequence);
  EXPECT_EQ(Matches{}, match(index, {10}));
}

TEST_F(IndexStreams, TheLastEventWithAnotherTimeIsARestart) {
  add(1);
  apply(1, {event_of(0, kStored, 10, 0, 500), event_of(1, kStored, 11, 0, 600)});
  EXPECT_EQ(1u, apply(1, {event_of(1, kStored, 20, 0, 550), event_of(2, kStored, 21, 0, 700)}).restarts);
  EXPECT_EQ(Matches{}, match(index, {10}));
}

TEST_F(IndexStreams, AClockThatGoesBackIsNoRestart) {
  add(1);
  apply(1, {event_of(0, kStored, 10, 0, 500), event_of(1, kStored, 11, 0, 100),
            event_of(2, kStored, 12, 0, 50)});
  EXPECT_EQ(0u, apply(1, {event_of(0, kStored, 10, 0, 500), event_of(1, kStored, 11, 0, 100)}).restarts);
  EXPECT_EQ((Matches{{1, {3, 3, 0, 0}}}), match(index, {10, 11, 12}));
}

TEST_F(IndexStreams, AResyncReplacesWhatAMediumHas) {
  add(1);
  apply(1, {event_of(0, kStored, 10), event_of(5, kStored, 11)});
  store(1, {10, 11}, 1);
  EXPECT_EQ(KVC_ERROR_BUSY, index.end_resync(1, 0, 6));
  ASSERT_EQ(KVC_OK, index.begin_resync(1, 0));
  EXPECT_EQ((Matches{{1, {2, 0, 2, 0}}}), match(index, {10, 11}));
  apply(1, {event_of(7, kStored, 20, 0, 0), event_of(7, kStored, 21, 0, 0)});
  EXPECT_EQ(1u, info_of(index, 1).is_stale[0]);
  ASSERT_EQ(KVC_OK, index.end_resync(1, 0, 7));
  EXPECT_EQ(0u, info_of(index, 1).is_stale[0]);
  EXPECT_EQ(7u, info_of(index, 1).next_sequence[0]);
  EXPECT_EQ((Matches{{1, {2, 2, 0, 0}}}), match(index, {20, 21}));
  apply(1, {event_of(6, kStored, 30), event_of(7, kStored, 22)});
  EXPECT_EQ(Matches{}, match(index, {30})) << "the list had it";
  EXPECT_EQ((Matches{{1, {3, 3, 0, 0}}}), match(index, {20, 21, 22}));
}

TEST_F(IndexStreams, ClearedForgetsANamespaceOfTheWorkerAlone) {
  add(1);
  add(2);
  store(1, {10}, 0, 0);
  store(1, {20}, 0, 7);
  store(1, {30}, 0, 8);
  store(2, {20}, 0, 9);  // the same namespace, which worker 2 calls 9
  apply(1, {event_of(3, kCleared, 0, 7)});
  EXPECT_EQ((Matches{{2, {1, 1, 0, 0}}}), match(index, {20}));
  apply(1, {event_of(4, kCleared, 0, 0)});
  EXPECT_EQ(Matches{}, match(index, {10}));
  EXPECT_EQ(1u, match(index, {30}).size());
  apply(1, {event_of(5, kAllCleared, 0, KVC_ALL_NAMESPACES)});
  EXPECT_EQ(Matches{}, match(index, {30}));
  EXPECT_EQ(1u, stats_of(index).num_holdings);
}

TEST_F(IndexStreams, AWorkerThatIsGoneLeavesNothingToItsSuccessor) {
  add(1);
  store(1, {10, 11}, 0, 5);
  EXPECT_EQ(KVC_ERROR_BUSY, index.add_worker(1, nullptr, 0));
  EXPECT_EQ(KVC_OK, index.remove_worker(1));
  EXPECT_EQ(KVC_ERROR_NOT_FOUND, index.remove_worker(1));
  EXPECT_EQ(0u, stats_of(index).num_blocks);
  add(2);
  EXPECT_EQ(Matches{}, match(index, {10}));
  store(2, {10}, 0, 6);
  EXPECT_EQ((Matches{{2, {1, 1, 0, 0}}}), match(index, {10, 11}));
}

TEST_F(IndexStreams, SilentWorkersExpire) {
  kvc_index_config config = small_config();
  config.ttl_ns = 100;
  IndexPeer expiring(config);
  for (uint64_t worker = 1; worker <= 3; ++worker)
    ASSERT_EQ(KVC_OK, expiring.index.add_worker(worker, nullptr, 1000));
  EXPECT_EQ(0u, expiring.index.expire(1100));
  EXPECT_EQ(KVC_OK, expiring.index.touch_worker(2, 1050));
  EXPECT_EQ(KVC_OK, expiring.index.touch_worker(2, 900));  // a clock that went back
  EXPECT_EQ(KVC_OK, expiring.index.apply(3, 0, nullptr, 0, 1060, nullptr));
  EXPECT_EQ(1u, expiring.index.expire(1150));
  EXPECT_EQ(0u, expiring.index.expire(10));
  EXPECT_EQ(2u, stats_of(expiring.index).num_workers);
  EXPECT_EQ(2u, expiring.index.expire(5000));
  EXPECT_EQ(3u, stats_of(expiring.index).expired_workers);
  EXPECT_EQ(0u, index.expire(UINT64_MAX)) << "without a ttl nobody expires";
}

TEST_F(IndexStreams, AtMaxBlocksTheOnesThatNobodyMatchesLeave) {
  kvc_index_config config = small_config();
  config.max_blocks = 64;
  IndexPeer small(config);
  ASSERT_EQ(KVC_OK, small.index.add_worker(1, nullptr, 0));
  uint64_t sequence = 0;
  const auto put = [&](uint64_t block) {
    const kvc_event event = event_of(sequence++, kStored, block);
    ASSERT_EQ(KVC_OK, small.index.apply(1, 0, &event, 1, 0, nullptr));
  };
  for (uint64_t block = 0; block < 4; ++block) put(block);
  for (uint64_t block = 100; block < 1100; ++block) {
    put(block);
    ASSERT_EQ((Matches{{1, {4, 4, 0, 0}}}), match(small.index, {0, 1, 2, 3})) << "matched all the time";
    ASSERT_LE(stats_of(small.index).num_blocks, 64u);
  }
  EXPECT_EQ(1004u - 64u, stats_of(small.index).evicted_blocks);
  EXPECT_EQ(64u, info_of(small.index, 1).num_blocks[0]);
  EXPECT_EQ(64u, stats_of(small.index).num_holdings);
}

TEST_F(IndexStreams, ABatchWithGarbageIsRefusedWhole) {
  add(1);
  std::vector<kvc_event> events = {event_of(0, kStored, 10), event_of(1, 4, 11)};
  for (const uint32_t kind : {0u, 3u, 6u}) {  // 3 was a clear in which namespace 0 meant all
    events[1].kind = kind;
    EXPECT_EQ(KVC_ERROR_INVALID_ARGUMENT, index.apply(1, 0, events.data(), 2, 0, nullptr)) << kind;
  }
  events[1].kind = kStored;
  events[1].sequence = UINT64_MAX;
  EXPECT_EQ(KVC_ERROR_INVALID_ARGUMENT, index.apply(1, 0, events.data(), 2, 0, nullptr));
  EXPECT_EQ(KVC_ERROR_INVALID_ARGUMENT, index.apply(1, 3, events.data(), 1, 0, nullptr));
  EXPECT_EQ(KVC_ERROR_NOT_FOUND, index.apply(2, 0, events.data(), 1, 0, nullptr));
  EXPECT_EQ(0u, stats_of(index).num_blocks);
  EXPECT_EQ(0u, info_of(index, 1).next_sequence[0]);
}

TEST_F(IndexStreams, NamespacesWithoutBlocksMakeRoomForOthers) {
  add(1);
  uint64_t sequence = 0;
  for (uint64_t ns = 1; ns <= 1000; ++ns)  // max_namespaces is 64
    apply(1, {event_of(sequence, kStored, ns, ns), event_of(sequence + 1, kCleared, 0, ns)}), sequence += 2;
  EXPECT_EQ(0u, stats_of(index).dropped_events);
  for (uint64_t ns = 1; ns <= 65; ++ns) apply(1, {event_of(sequence++, kStored, ns, ns)});
  EXPECT_EQ(1u, stats_of(index).dropped_events);
  EXPECT_EQ(1u, info_of(index, 1).is_stale[0]) << "what had no room is missing";
}

TEST_F(IndexStreams, AThousandWorkersAreTold) {
  kvc_index_config config = small_config();
  config.max_workers = KVC_INDEX_MAX_WORKERS;
  config.max_namespaces = 2 * KVC_INDEX_MAX_WORKERS;
  IndexPeer large(config);
  for (uint64_t worker = 0; worker < KVC_INDEX_MAX_WORKERS; ++worker) {
    ASSERT_EQ(KVC_OK, large.index.add_worker(worker, nullptr, 0));
    for (uint64_t block = 0; block < 20; ++block) {
      if (block > worker % 20) continue;
      const kvc_event event = event_of(block, kStored, block);
      ASSERT_EQ(KVC_OK, large.index.apply(worker, static_cast<uint32_t>(worker % 3), &event, 1, 0, nullptr));
    }
  }
  EXPECT_EQ(KVC_ERROR_LIMIT, large.index.add_worker(5000, nullptr, 0));
  std::vector<uint64_t> prompt;
  for (uint64_t block = 0; block < 20; ++block) prompt.push_back(block);
  const Matches matches = match(large.index, prompt);
  ASSERT_EQ(size_t{KVC_INDEX_MAX_WORKERS}, matches.size());
  for (const auto& [worker, row] : matches) {
    ASSERT_EQ(worker % 20 + 1, row[0]);
    ASSERT_EQ(worker % 20 + 1, row[1 + worker % 3]);
  }
  const auto digests = digests_of(prompt);
  uint64_t ids[4];
  uint32_t matched[16];
  size_t count = 0;
  EXPECT_EQ(KVC_ERROR_BUFFER_TOO_SMALL, large.index.match(digests.data(), 20, ids, matched, 4, &count));
  EXPECT_EQ(size_t{KVC_INDEX_MAX_WORKERS}, count);
}

}  // namespace
}  // namespace kvc::test
