// SPDX-License-Identifier: Apache-2.0
// The event ring: sequences without gaps, the newest events until it wraps or somebody drops the oldest, one
// time for a call, and a count of what left unread.
#include "observe/event_ring.h"

#include <gtest/gtest.h>
#include <kvcache/events.h>

#include "base/counting_heap.h"

namespace kvc {
namespace {

uint64_t fake_time = 0;
uint64_t fake_clock() { return ++fake_time; }

class EventRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    env_.wall_clock_ns = fake_clock;
    fake_time = 100;
  }
  void create(size_t capacity) { ASSERT_TRUE(ring_.create(memory_, env_, capacity)); }
  // Event i has block i.
  void push(int32_t i) {
    ring_.add(KVC_EVENT_STORED, 7, NodeId{i + 1000}, static_cast<size_t>(i % 3), BlockId{i});
  }
  void push(int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; ++i) push(i);
  }
  // The ring holds [oldest, next), where event i is that of push(i).
  void expect_holds(uint64_t oldest, uint64_t next) {
    EXPECT_EQ(ring_.oldest(), oldest);
    EXPECT_EQ(ring_.next_sequence(), next);
    EXPECT_FALSE(ring_.holds(oldest - 1));
    EXPECT_FALSE(ring_.holds(next));
    for (uint64_t i = oldest; i < next; ++i) {
      EXPECT_TRUE(ring_.holds(i));
      EXPECT_EQ(raw(ring_[i].block), static_cast<int32_t>(i));
      EXPECT_EQ(raw(ring_[i].position), static_cast<int32_t>(i) + 1000);
      EXPECT_EQ(ring_[i].group, i % 3);
      EXPECT_EQ(ring_[i].epoch, 7u);
      EXPECT_EQ(ring_[i].kind, static_cast<uint32_t>(KVC_EVENT_STORED));
    }
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
  EXPECT_EQ(ring_.capacity(), 0u);
}

TEST_F(EventRingTest, AnEventTakes32Bytes) {
  create(1000);
  EXPECT_TRUE(ring_.enabled());
  EXPECT_EQ(ring_.capacity(), 1000u);
  EXPECT_EQ(memory_.bytes(), 32000u);
}

TEST_F(EventRingTest, EventsOfOneCallHaveOneTime) {
  create(4);
  push(0, 2);
  ring_.end_call();
  push(2);
  EXPECT_EQ(ring_[0].time_ns, 101u);
  EXPECT_EQ(ring_[1].time_ns, 101u);
  EXPECT_EQ(ring_[2].time_ns, 102u);
}

class EventRingOf : public EventRingTest, public ::testing::WithParamInterface<size_t> {};

TEST_P(EventRingOf, ItHoldsTheNewest) {
  create(GetParam());
  for (int32_t i = 0; i < 25; ++i) {
    const auto next = static_cast<uint64_t>(i);
    expect_holds(next > GetParam() ? next - GetParam() : 0, next);
    push(i);
  }
}

INSTANTIATE_TEST_SUITE_P(Capacities, EventRingOf, ::testing::Values(1, 3, 4, 100),
                         ::testing::PrintToStringParamName());

TEST_F(EventRingTest, WhatLeavesUnreadIsCounted) {
  create(4);
  push(0, 4);
  EXPECT_EQ(ring_.dropped(), 0u);
  push(4);
  EXPECT_EQ(ring_.dropped(), 1u);
  ring_.note_read(3);
  ring_.note_read(2);  // another reader, behind
  push(5, 7);
  EXPECT_EQ(ring_.dropped(), 1u) << "events 1 and 2 were read";
  push(7);
  EXPECT_EQ(ring_.dropped(), 2u) << "event 3 was not";
}

TEST_F(EventRingTest, TheOldestCanBeDropped) {
  create(8);
  push(0, 6);
  ring_.note_read(1);
  ring_.drop_before(0);
  expect_holds(0, 6);
  ring_.drop_before(4);
  expect_holds(4, 6);
  EXPECT_EQ(ring_.dropped(), 3u) << "1, 2, 3";
  ring_.drop_before(2);
  expect_holds(4, 6);
  EXPECT_EQ(ring_.dropped(), 3u);
  push(6, 12);
  expect_holds(4, 12);
  push(12);
  expect_holds(5, 13);
  EXPECT_EQ(ring_.dropped(), 4u);
  ring_.drop_before(13);
  expect_holds(13, 13);
  push(13);
  expect_holds(13, 14);
}

TEST_F(EventRingTest, CreationSaysWhenThereIsNoMemory) {
  EXPECT_FALSE(ring_.create(memory_, env_, SIZE_MAX / 2)) << "the bytes overflow";
  heap_.fail_after(0);
  EXPECT_FALSE(EventRing().create(memory_, env_, 4));
  EXPECT_EQ(memory_.bytes(), 0u);
}

}  // namespace
}  // namespace kvc
