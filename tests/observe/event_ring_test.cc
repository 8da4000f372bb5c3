// SPDX-License-Identifier: Apache-2.0
// The event ring: sequences without gaps until it wraps, each reader with its own cursor, tokens that fit or
// end the read, and elements larger than the event that this library knows.
#include "observe/event_ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

constexpr uint32_t kBlockSize = 3;

uint64_t fake_time = 0;
uint64_t fake_clock() { return ++fake_time; }

class EventRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    env_.wall_clock_ns = fake_clock;
    fake_time = 100;
  }
  void create(size_t capacity) { ASSERT_TRUE(ring_.create(memory_, env_, capacity, kBlockSize)); }
  // Event i has block i and the tokens 10 i, 10 i + 1, 10 i + 2.
  kvc_event& push(int32_t i) {
    const int32_t tokens[kBlockSize] = {10 * i, 10 * i + 1, 10 * i + 2};
    kvc_event& event = ring_.add(tokens, kBlockSize);
    event.kind = KVC_EVENT_STORED;
    event.block = i;
    event.num_tokens = kBlockSize;
    return event;
  }
  void push_cleared() {
    kvc_event& event = ring_.add(nullptr, 0);
    event.kind = KVC_EVENT_CLEARED;
    event.num_tokens = 0;
    event.block = -1;
  }
  size_t read(uint64_t* cursor, std::vector<kvc_event>* events, int32_t* tokens = nullptr, size_t room = 0) {
    size_t used = 0;
    return ring_.read(cursor, events->data(), sizeof(kvc_event), events->size(), tokens, room, &used);
  }

  CountingHeap heap_;
  Env env_ = heap_.env();
  Memory memory_{env_};
  EventRing ring_;
};

TEST_F(EventRingTest, CapacityZeroIsOffAndTakesNoMemory) {
  create(0);
  EXPECT_FALSE(ring_.enabled());
  EXPECT_EQ(heap_.calls(), 0u);
  EXPECT_EQ(ring_.next_sequence(), 0u);
}

TEST_F(EventRingTest, EventsComeInOrderWithSequenceTimeAndTokens) {
  create(8);
  EXPECT_TRUE(ring_.enabled());
  for (int32_t i = 0; i < 3; ++i) {
    push(i);
    ring_.end_call();
  }
  std::vector<kvc_event> events(8);
  int32_t tokens[9];
  uint64_t cursor = 0;
  ASSERT_EQ(read(&cursor, &events, tokens, 9), 3u);
  EXPECT_EQ(cursor, 3u);
  for (int32_t i = 0; i < 3; ++i) {
    const kvc_event& event = events[static_cast<size_t>(i)];
    EXPECT_EQ(event.sequence, static_cast<uint64_t>(i));
    EXPECT_EQ(event.time_ns, 101u + static_cast<uint64_t>(i));
    EXPECT_EQ(event.block, i);
    for (int32_t t = 0; t < 3; ++t) EXPECT_EQ(tokens[3 * i + t], 10 * i + t);
  }
  EXPECT_EQ(read(&cursor, &events), 0u) << "nothing new";
  EXPECT_EQ(cursor, 3u);
}

TEST_F(EventRingTest, TheEventsOfOneCallHaveOneTime) {
  create(4);
  push(0);
  push(1);
  ring_.end_call();
  push(2);
  std::vector<kvc_event> events(4);
  uint64_t cursor = 0;
  ASSERT_EQ(read(&cursor, &events), 3u);
  EXPECT_EQ(events[0].time_ns, 101u);
  EXPECT_EQ(events[1].time_ns, 101u);
  EXPECT_EQ(events[2].time_ns, 102u);
}

TEST_F(EventRingTest, ReadingStopsAtAnEventThatWaits) {
  create(2);
  push(0);
  push(1);
  ring_.wait(7, 42);
  std::vector<kvc_event> events(4);
  uint64_t cursor = 0;
  ASSERT_EQ(read(&cursor, &events), 1u);
  EXPECT_EQ(cursor, 1u);
  EXPECT_TRUE(ring_.waits(1));
  EXPECT_EQ(ring_.owner(1), 7);
  EXPECT_EQ(read(&cursor, &events), 0u);
  EXPECT_EQ(ring_.end_wait(1), 42u);
  ring_[1].block = 5;
  ASSERT_EQ(read(&cursor, &events), 1u);
  EXPECT_EQ(events[0].block, 5);
  push(2);
  push(3);  // takes the place of the one that waited
  EXPECT_FALSE(ring_.holds(1));
  EXPECT_EQ(read(&cursor, &events), 2u);
}

TEST_F(EventRingTest, AReaderThatFallsBehindSeesTheGap) {
  create(4);
  for (int32_t i = 0; i < 10; ++i) push(i);
  EXPECT_EQ(ring_.next_sequence(), 10u);
  std::vector<kvc_event> events(8);
  int32_t tokens[24];
  uint64_t cursor = 0;
  ASSERT_EQ(read(&cursor, &events, tokens, 24), 4u);
  EXPECT_EQ(events[0].sequence, 6u);
  EXPECT_EQ(events[3].sequence, 9u);
  EXPECT_EQ(events[0].block, 6);
  EXPECT_EQ(tokens[0], 60) << "the tokens belong to the events that are left";
  EXPECT_EQ(tokens[11], 92);
  EXPECT_EQ(cursor, 10u);
}

TEST_F(EventRingTest, ExactlyFullLosesNothing) {
  create(4);
  for (int32_t i = 0; i < 4; ++i) push(i);
  std::vector<kvc_event> events(4);
  uint64_t cursor = 0;
  ASSERT_EQ(read(&cursor, &events), 4u);
  EXPECT_EQ(events[0].sequence, 0u);
}

TEST_F(EventRingTest, ReadersHaveTheirOwnCursors) {
  create(4);
  push(0);
  push(1);
  uint64_t fast = 0, slow = 0;
  std::vector<kvc_event> one(1), many(4);
  EXPECT_EQ(read(&fast, &many), 2u);
  EXPECT_EQ(read(&slow, &one), 1u);
  EXPECT_EQ(one[0].sequence, 0u);
  push(2);
  EXPECT_EQ(read(&slow, &one), 1u);
  EXPECT_EQ(one[0].sequence, 1u);
  EXPECT_EQ(read(&fast, &many), 1u);
  EXPECT_EQ(many[0].sequence, 2u);
}

TEST_F(EventRingTest, ReadingStopsAtTheEventWhoseTokensDoNotFit) {
  create(8);
  push(0);
  push_cleared();
  push(1);
  push(2);
  std::vector<kvc_event> events(8);
  int32_t tokens[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
  uint64_t cursor = 0;
  ASSERT_EQ(read(&cursor, &events, tokens, 8), 3u) << "two events of 3 tokens and one without";
  EXPECT_EQ(cursor, 3u);
  EXPECT_EQ(events[1].kind, static_cast<uint32_t>(KVC_EVENT_CLEARED));
  EXPECT_EQ(tokens[3], 10);
  EXPECT_EQ(tokens[6], -7) << "nothing was written behind";
  ASSERT_EQ(read(&cursor, &events, tokens, 3), 1u);
  EXPECT_EQ(tokens[0], 20);
  EXPECT_EQ(cursor, 4u);
}

TEST_F(EventRingTest, NoRoomForTheFirstTokensReadsNothing) {
  create(2);
  push(0);
  std::vector<kvc_event> events(2);
  int32_t tokens[2];
  uint64_t cursor = 0;
  EXPECT_EQ(read(&cursor, &events, tokens, 2), 0u);
  EXPECT_EQ(cursor, 0u);
  EXPECT_EQ(read(&cursor, &events, nullptr, 0), 1u) << "tokens not wanted";
}

TEST_F(EventRingTest, LargerElementsAreZeroedBehindTheKnownEvent) {
  create(4);
  push(5);
  push(6);
  constexpr size_t kSize = sizeof(kvc_event) + 24;
  std::vector<unsigned char> raw_bytes(2 * kSize, 0xee);
  uint64_t cursor = 0;
  size_t used = 0;
  ASSERT_EQ(ring_.read(&cursor, raw_bytes.data(), kSize, 2, nullptr, 0, &used), 2u);
  for (size_t i = 0; i < 2; ++i) {
    kvc_event event;
    std::memcpy(&event, raw_bytes.data() + i * kSize, sizeof event);
    EXPECT_EQ(event.block, static_cast<int32_t>(5 + i));
    for (size_t b = sizeof event; b < kSize; ++b) ASSERT_EQ(raw_bytes[i * kSize + b], 0);
  }
}

TEST_F(EventRingTest, CreationSaysWhenThereIsNoMemory) {
  EXPECT_FALSE(ring_.create(memory_, env_, SIZE_MAX / 2, kBlockSize)) << "the tokens overflow";
  heap_.fail_after(0);
  EXPECT_FALSE(EventRing().create(memory_, env_, 4, kBlockSize));
  heap_.fail_after(1);
  EXPECT_FALSE(EventRing().create(memory_, env_, 4, kBlockSize));
  EXPECT_EQ(memory_.bytes(), 0u);
}

}  // namespace
}  // namespace kvc
