// SPDX-License-Identifier: Apache-2.0
// A request's tail of unpublished tokens: its contents survive every move, its capacity stays bounded by what
// is live, and a failure changes nothing. The request table: which ids are found, and in which order slots
// are used.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "base/counting_heap.h"
#include "request/request_table.h"

namespace kvc {
namespace {

class TailTest : public ::testing::Test {
 protected:
  ~TailTest() override { request_.tail.clear(arena_); }

  static int32_t value(uint64_t position) { return static_cast<int32_t>(position * 7 + 3); }
  bool append(uint64_t count) {
    if (!request_.reserve_tail(arena_, needed_, count)) return false;
    for (uint64_t i = 0; i < count; ++i) {
      request_.tail.data[request_.known - request_.tail_base] = value(request_.known);
      ++request_.known;
    }
    return true;
  }
  void expect_contents() {
    ASSERT_LE(request_.tail_base, needed_);
    ASSERT_LE(request_.known - request_.tail_base, request_.tail.capacity);
    for (uint64_t i = needed_; i < request_.known; ++i) ASSERT_EQ(*request_.token(i), value(i)) << i;
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Arena arena_{memory_};
  Request request_ = {};
  uint32_t needed_ = 0;  // first token that may not be forgotten
};

TEST_F(TailTest, KeepsEverythingThatIsNeeded) {
  for (const uint64_t count : {1, 15, 16, 17, 300, 1, 5000}) {
    ASSERT_TRUE(append(count));
    expect_contents();
  }
  EXPECT_EQ(request_.tail_base, 0u) << "nothing may be forgotten yet";
}

TEST_F(TailTest, LongDecodingNeedsNoMoreThanAFewBlocks) {
  constexpr uint32_t kBlock = 16;
  uint32_t largest = 0;
  for (int i = 0; i < 20000; ++i) {
    ASSERT_TRUE(append(1));
    needed_ = request_.known / kBlock * kBlock;  // published
    largest = std::max(largest, request_.tail.capacity);
  }
  expect_contents();
  EXPECT_LE(largest, 4 * kBlock);
  EXPECT_LE(memory_.bytes(), 128u << 10) << "buffers were used again";
}

TEST_F(TailTest, ContentsSurviveRandomHistories) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    ASSERT_TRUE(append(random() % 40));
    if (random() % 3 == 0) needed_ += static_cast<uint32_t>(random() % (request_.known - needed_ + 1));
    if (random() % 50 == 0) request_.shrink_tail(arena_, needed_);
    expect_contents();
    if (HasFatalFailure()) return;
    // What is dead is moved away once it is as much as what is live, so no more than doubling and rounding
    // remain.
    ASSERT_LE(request_.tail.capacity, 8192u);
  }
}

TEST_F(TailTest, CompactsInPlaceWhenHalfIsDead) {
  ASSERT_TRUE(append(16));
  const int32_t* data = request_.tail.data;
  ASSERT_EQ(request_.tail.capacity, 16u);
  needed_ = 8;
  ASSERT_TRUE(append(8));
  EXPECT_EQ(request_.tail.data, data);
  EXPECT_EQ(request_.tail_base, 8u);
  expect_contents();
}

TEST_F(TailTest, AFailureChangesNothing) {
  ASSERT_TRUE(append(1000));
  needed_ = 10;
  const Buffer<int32_t> before = request_.tail;
  heap_.fail_always(true);
  EXPECT_FALSE(request_.reserve_tail(arena_, needed_, 1 << 20));
  EXPECT_FALSE(request_.reserve_tail(arena_, needed_, UINT32_MAX)) << "more than a buffer can hold";
  EXPECT_EQ(request_.tail.data, before.data);
  EXPECT_EQ(request_.tail.capacity, before.capacity);
  EXPECT_EQ(request_.tail_base, 0u);
  expect_contents();
}

TEST_F(TailTest, ShrinksOnceMostIsPublishedAndKeepsTheRest) {
  ASSERT_TRUE(append(10000));
  const uint32_t large = request_.tail.capacity;
  needed_ = 5000;
  request_.shrink_tail(arena_, needed_);
  EXPECT_EQ(request_.tail.capacity, large) << "half of it is in use";
  needed_ = 9984;
  request_.shrink_tail(arena_, needed_);
  EXPECT_LT(request_.tail.capacity, 1000u);
  EXPECT_EQ(request_.tail_base, 9984u);
  expect_contents();
  const uint32_t small = request_.tail.capacity;
  request_.shrink_tail(arena_, request_.known);
  EXPECT_EQ(request_.tail.capacity, small) << "small ones stay";
}

TEST_F(TailTest, ShrinkingWithoutMemoryKeepsTheLargeOne) {
  ASSERT_TRUE(append(1 << 16));
  needed_ = (1 << 16) - 3;
  void* hog;  // use up what the arena has, so that the smaller buffer would need the heap
  heap_.fail_always(true);
  while ((hog = arena_.allocate(1024)) != nullptr) {
  }
  const uint32_t large = request_.tail.capacity;
  request_.shrink_tail(arena_, needed_);
  EXPECT_EQ(request_.tail.capacity, large);
  expect_contents();
}

class RequestTableTest : public ::testing::Test {
 protected:
  void create(size_t max_requests, size_t num_groups = 2, uint32_t tag = 9) {
    ASSERT_TRUE(table_.create(memory_, max_requests, num_groups, tag));
  }
  Request* take_published() {
    Request* request = table_.take();
    if (request != nullptr) table_.publish(*request);
    return request;
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  RequestTable table_;
};

TEST_F(RequestTableTest, SlotsAreTakenFromTheLowestAndReusedLastInFirstOut) {
  create(4);
  Request* requests[4];
  for (uint32_t i = 0; i < 4; ++i) {
    requests[i] = take_published();
    ASSERT_NE(requests[i], nullptr);
    EXPECT_EQ(table_.index_of(*requests[i]), i);
  }
  EXPECT_EQ(table_.take(), nullptr) << "all in use";
  table_.give_back(*requests[1]);
  table_.give_back(*requests[3]);
  EXPECT_EQ(table_.index_of(*take_published()), 3u);
  EXPECT_EQ(table_.index_of(*take_published()), 1u);
  EXPECT_EQ(table_.take(), nullptr);
}

TEST_F(RequestTableTest, IsFoundOnlyBetweenPublishAndGiveBack) {
  create(2);
  Request* request = table_.take();
  EXPECT_EQ(request->id, 0u);
  EXPECT_EQ(table_.find(make_handle(9, HandleKind::kRequest, 0, 1)), nullptr) << "not published yet";
  table_.publish(*request);
  const uint64_t id = request->id;
  EXPECT_EQ(table_.find(id), request);
  table_.give_back(*request);
  EXPECT_EQ(table_.find(id), nullptr);
  Request* again = take_published();
  EXPECT_EQ(again, request) << "the same slot";
  EXPECT_NE(again->id, id);
  EXPECT_EQ(table_.find(id), nullptr) << "stale";
  EXPECT_EQ(table_.find(again->id), again);
}

TEST_F(RequestTableTest, ARecordThatWasNeverPublishedTakesNoId) {
  create(1);
  table_.give_back(*table_.take());
  Request* request = take_published();
  EXPECT_EQ(request->id, make_handle(9, HandleKind::kRequest, 0, 1));
  table_.give_back(*request);
  table_.give_back(*table_.take());
  EXPECT_EQ(take_published()->id, make_handle(9, HandleKind::kRequest, 0, 2));
}

TEST_F(RequestTableTest, ForeignAndForgedIdsAreNotFound) {
  create(3);
  const uint64_t id = take_published()->id;
  RequestTable other;
  ASSERT_TRUE(other.create(memory_, 3, 1, 10));
  Request* theirs = other.take();
  other.publish(*theirs);
  EXPECT_EQ(table_.find(theirs->id), nullptr) << "another manager's";
  EXPECT_EQ(table_.find(0), nullptr);
  for (int bit = 0; bit < 64; ++bit) EXPECT_EQ(table_.find(id ^ uint64_t{1} << bit), nullptr) << bit;
  EXPECT_EQ(table_.find(make_handle(9, HandleKind::kRequest, 3, 1)), nullptr) << "no such slot";
  EXPECT_EQ(table_.find(make_handle(9, HandleKind::kPin, 0, 1)), nullptr);
  EXPECT_EQ(table_.find(UINT64_MAX), nullptr);
  EXPECT_NE(table_.find(id), nullptr);
}

TEST_F(RequestTableTest, ATakenRecordIsClear) {
  create(1);
  Request* request = take_published();
  request->known = request->published = 5;
  request->flags = 7;
  request->cursor = NodeId{3};
  request->admitted = true;
  request->groups[1].dropped = 4;
  table_.give_back(*request);
  request = table_.take();
  EXPECT_EQ(request->known, 0u);
  EXPECT_EQ(request->published, 0u);
  EXPECT_EQ(request->flags, 0u);
  EXPECT_EQ(request->cursor, kNoNode);
  EXPECT_FALSE(request->admitted);
  EXPECT_EQ(request->groups[1].dropped, 0u);
  EXPECT_EQ(request->row, -1);
  EXPECT_EQ(request->next_full, UINT32_MAX);
}

TEST_F(RequestTableTest, GroupTablesOfSlotsAreSeparate) {
  create(3, 4);
  std::set<GroupTable*> tables;
  for (int i = 0; i < 3; ++i) {
    Request* request = table_.take();
    for (size_t g = 0; g < 4; ++g) EXPECT_TRUE(tables.insert(&request->groups[g]).second);
  }
}

TEST_F(RequestTableTest, ASlotIsRetiredAfterItsLastGeneration) {
  create(2);
  table_.at(0).generation = UINT32_MAX - 1;
  Request* last = take_published();
  ASSERT_EQ(table_.index_of(*last), 0u);
  EXPECT_EQ(last->generation, UINT32_MAX);
  const uint64_t id = last->id;
  EXPECT_EQ(table_.find(id), last);
  table_.give_back(*last);
  EXPECT_EQ(table_.find(id), nullptr);
  EXPECT_EQ(table_.index_of(*take_published()), 1u);
  EXPECT_EQ(table_.take(), nullptr) << "slot 0 is never used again";
}

TEST_F(RequestTableTest, CreationSaysWhenThereIsNoMemory) {
  RequestTable overflowing, first, second;
  EXPECT_FALSE(overflowing.create(memory_, SIZE_MAX / 2, 3, 1));
  heap_.fail_after(0);
  EXPECT_FALSE(first.create(memory_, 4, 2, 1));
  heap_.fail_after(1);
  EXPECT_FALSE(second.create(memory_, 4, 2, 1));
}

}  // namespace
}  // namespace kvc
