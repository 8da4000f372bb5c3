// SPDX-License-Identifier: Apache-2.0
// The snapshot of counters: what was published is what is read, and readers never see a mixture of two
// publications while a writer is at work. The last is worth running under the thread sanitizer.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "observe/counters.h"

namespace kvc {
namespace {

constexpr size_t kWords = sizeof(Counters) / sizeof(uint64_t);

Counters filled_with(uint64_t value) {
  uint64_t words[kWords];
  for (size_t i = 0; i < kWords; ++i) words[i] = value * (i + 1);
  Counters counters;
  std::memcpy(&counters, words, sizeof counters);
  return counters;
}

// The value that filled all words, or UINT64_MAX if they are of several.
uint64_t value_of(const Counters& counters) {
  uint64_t words[kWords];
  std::memcpy(words, &counters, sizeof counters);
  for (size_t i = 0; i < kWords; ++i) {
    if (words[i] != words[0] * (i + 1)) return UINT64_MAX;
  }
  return words[0];
}

TEST(Snapshot, StartsAtZero) {
  const Snapshot snapshot;
  EXPECT_EQ(value_of(snapshot.read()), 0u);
}

TEST(Snapshot, ReadsWhatWasPublishedLast) {
  Snapshot snapshot;
  for (const uint64_t value : {3, 4, 1}) {
    snapshot.publish(filled_with(value));
    EXPECT_EQ(value_of(snapshot.read()), value);
    EXPECT_EQ(value_of(snapshot.read()), value) << "reading changes nothing";
  }
}

TEST(Snapshot, EveryFieldKeepsItsPlace) {
  Snapshot snapshot;
  Counters counters = {};
  counters.epoch = 1;
  counters.blocks_pinned = 2;
  counters.evictions = 3;
  counters.metadata_bytes = 4;
  snapshot.publish(counters);
  const Counters read = snapshot.read();
  EXPECT_EQ(std::memcmp(&read, &counters, sizeof read), 0);
}

TEST(SnapshotThreads, ReadersNeverSeeATornSnapshotAndNeverGoBack) {
  constexpr uint64_t kRounds = 20000;
  Snapshot snapshot;
  std::atomic<bool> torn{false}, backwards{false};
  std::atomic<uint64_t> distinct{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      uint64_t last = 0, seen = 0;
      while (last < kRounds) {
        const uint64_t value = value_of(snapshot.read());
        if (value > kRounds) {
          torn = true;
          return;
        }
        if (value < last) backwards = true;
        seen += value != last;
        last = value;
      }
      distinct += seen;
    });
  }
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      snapshot.publish(filled_with(i));
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  writer.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(torn);
  EXPECT_FALSE(backwards);
  EXPECT_GE(distinct, 2u);
}

}  // namespace
}  // namespace kvc
