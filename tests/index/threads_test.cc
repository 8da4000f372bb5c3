// SPDX-License-Identifier: Apache-2.0
// Readers beside a writer. Worker 1 has two prompts all the time, and every match must say so, while other
// workers come, store, remove and go, their places are used again, and entries change their chains. A worker
// with an even number only ever has blocks of prompt 0, one with an odd number of prompt 1.
#include <atomic>
#include <thread>

#include "index_peer.h"
#include "property/random.h"
#include "seed.h"

namespace kvc::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kRounds = 3000;
#else
constexpr uint64_t kRounds = 30000;
#endif
constexpr uint64_t kLength = 40, kSteady = 1;

std::vector<uint64_t> prompt_of(uint64_t which) {
  std::vector<uint64_t> blocks;
  for (uint64_t i = 0; i < kLength; ++i) blocks.push_back(which * 1000 + i);
  return blocks;
}

void read(PrefixIndex& index, uint64_t which, const std::atomic<bool>& ends, std::atomic<uint64_t>& matches) {
  const auto digests = digests_of(prompt_of(which));
  std::vector<uint64_t> ids(KVC_INDEX_MAX_WORKERS);
  std::vector<uint32_t> matched(ids.size() * 4);
  while (!ends) {
    size_t count = 0;
    ASSERT_EQ(KVC_OK, index.match(digests.data(), kLength, ids.data(), matched.data(), ids.size(), &count));
    bool has_steady = false;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t* row = matched.data() + 4 * i;
      ASSERT_LE(row[0], kLength);
      ASSERT_GE(row[0], 1u);
      for (int medium = 1; medium < 4; ++medium) ASSERT_LE(row[medium], row[0]);
      if (ids[i] == kSteady) {
        has_steady = true;
        ASSERT_EQ(kLength, row[0]);
        ASSERT_EQ(kLength, row[2]);
      } else {
        ASSERT_EQ(which, ids[i] % 2) << "worker " << ids[i] << " never had this prompt";
      }
    }
    ASSERT_TRUE(has_steady);
    ++matches;
  }
}

TEST(IndexThreads, ReadersSeeWhatIsAlwaysThereAndNothingThatNeverWas) {
  kvc_index_config config = small_config();
  config.max_blocks = 200;  // few chains, so that entries meet
  config.max_namespaces = 24;
  IndexPeer peer(config);
  PrefixIndex& index = peer.index;
  ASSERT_EQ(KVC_OK, index.add_worker(kSteady, nullptr, 0));
  std::vector<kvc_event> events;
  for (const uint64_t which : {0, 1})
    for (const uint64_t block : prompt_of(which))
      events.push_back(event_of(events.size(), KVC_EVENT_STORED, block));
  ASSERT_EQ(KVC_OK, index.apply(kSteady, 1, events.data(), events.size(), 0, nullptr));

  std::atomic<bool> ends{false};
  std::atomic<uint64_t> matches{0};
  std::thread readers[2];
  for (uint64_t which : {0, 1})
    readers[which] = std::thread([&, which] { read(index, which, ends, matches); });

  Random random(test_seed());
  struct Guest {
    uint64_t id = 0, next = 0;
  };
  Guest guests[6];
  uint64_t next_id = 100, extra = 10000;
  for (uint64_t round = 0; round < kRounds || matches < 50; ++round) {
    Guest& guest = guests[random.below(6)];
    if (guest.id == 0 || random.chance(2)) {
      if (guest.id != 0) {
        ASSERT_EQ(KVC_OK, index.remove_worker(guest.id));
      }
      guest = {next_id++, 0};
      ASSERT_EQ(KVC_OK, index.add_worker(guest.id, nullptr, 0));
    }
    const uint64_t which = guest.id % 2, ns = random.below(3);
    events.clear();
    for (uint64_t n = random.between(1, 20), at = random.below(kLength); n-- > 0; at = (at + 1) % kLength) {
      const uint32_t kind = random.chance(70) ? KVC_EVENT_STORED : KVC_EVENT_REMOVED;
      events.push_back(event_of(guest.next++, kind, which * 1000 + at, ns));
    }
    // A block of its own, which is gone again at once: its entry is used for the next one.
    events.push_back(event_of(guest.next++, KVC_EVENT_STORED, extra, ns));
    events.push_back(event_of(guest.next++, KVC_EVENT_REMOVED, extra++, ns));
    ASSERT_EQ(KVC_OK, index.apply(guest.id, static_cast<uint32_t>(random.below(3)), events.data(),
                                  events.size(), 0, nullptr));
  }
  ends = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(0u, stats_of(index).evicted_blocks);
  EXPECT_EQ(0u, stats_of(index).dropped_events);
}

}  // namespace
}  // namespace kvc::test
