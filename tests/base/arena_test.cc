// SPDX-License-Identifier: Apache-2.0
// The arena: buffers never overlap, what comes back is used again without new chunks, the rest of a chunk is
// not lost, a failing allocator leaves everything usable, and all bytes go back at the end. Buffer: what it
// keeps when it grows or fails.
#include "base/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

class ArenaTest : public ::testing::Test {
 protected:
  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Arena arena_{memory_};
};

TEST(Arena, SizesRoundUpToPowersOfTwoFrom64) {
  const size_t sizes[][2] = {{0, 64},   {1, 64},    {63, 64},   {64, 64},
                             {65, 128}, {128, 128}, {129, 256}, {65537, 131072}};
  for (const auto& size : sizes) EXPECT_EQ(Arena::rounded(size[0]), size[1]) << size[0];
}

TEST_F(ArenaTest, BuffersOfAllClassesAreAlignedAndDisjoint) {
  struct Taken {
    unsigned char* data;
    size_t size;
    unsigned char mark;
  };
  std::vector<Taken> taken;
  std::mt19937 random(1);
  for (unsigned i = 0; i < 600; ++i) {
    const size_t size = size_t{64} << (random() % 12);
    auto* data = static_cast<unsigned char*>(arena_.allocate(size));
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    const auto mark = static_cast<unsigned char>(i);
    std::memset(data, mark, size);
    taken.push_back({data, size, mark});
    if (random() % 3 == 0) {
      const size_t victim = random() % taken.size();
      arena_.release(taken[victim].data, taken[victim].size);
      taken.erase(taken.begin() + static_cast<ptrdiff_t>(victim));
    }
  }
  for (const Taken& one : taken) {
    for (size_t i = 0; i < one.size; ++i) ASSERT_EQ(one.data[i], one.mark);
  }
}

TEST_F(ArenaTest, AReturnedBufferServesTheNextOfItsClassAndNoOther) {
  void* small = arena_.allocate(128);
  void* large = arena_.allocate(4096);
  arena_.release(small, 128);
  EXPECT_NE(arena_.allocate(256), small);
  EXPECT_NE(arena_.allocate(64), small);
  EXPECT_EQ(arena_.allocate(128), small);
  arena_.release(large, 4096);
  EXPECT_EQ(arena_.allocate(4096), large);
}

TEST_F(ArenaTest, ASteadyStateTakesNothingFromTheHeap) {
  std::vector<void*> buffers(100);
  const auto round = [&] {
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i] = arena_.allocate(size_t{64} << (i % 10));
    for (size_t i = 0; i < buffers.size(); ++i) arena_.release(buffers[i], size_t{64} << (i % 10));
  };
  round();
  const uint64_t bytes = memory_.bytes(), calls = heap_.calls();
  EXPECT_GT(bytes, 0u);
  for (int i = 0; i < 20; ++i) round();
  EXPECT_EQ(memory_.bytes(), bytes);
  EXPECT_EQ(heap_.calls(), calls);
}

TEST_F(ArenaTest, WhatIsLeftOfAChunkServesSmallerClasses) {
  ASSERT_TRUE(arena_.reserve(1024));
  ASSERT_NE(arena_.allocate(64), nullptr);
  ASSERT_NE(arena_.allocate(64 << 10), nullptr);  // fills a chunk of its own; 960 bytes of the first are left
  const uint64_t calls = heap_.calls();
  for (const size_t size : {512, 256, 128, 64}) EXPECT_NE(arena_.allocate(size), nullptr);
  EXPECT_EQ(heap_.calls(), calls) << "960 = 512 + 256 + 128 + 64 were left";
  ASSERT_NE(arena_.allocate(64), nullptr);
  EXPECT_EQ(heap_.calls(), calls + 1) << "and nothing more";
}

TEST_F(ArenaTest, ReserveMakesTheFirstBuffersFree) {
  ASSERT_TRUE(arena_.reserve(1 << 20));
  const uint64_t calls = heap_.calls();
  for (int i = 0; i < 1024; ++i) ASSERT_NE(arena_.allocate(1024), nullptr);
  EXPECT_EQ(heap_.calls(), calls);
}

TEST_F(ArenaTest, AFailingAllocatorLeavesItUsable) {
  ASSERT_TRUE(arena_.reserve(256));
  void* first = arena_.allocate(128);
  heap_.fail_always(true);
  EXPECT_EQ(arena_.allocate(256), nullptr);
  EXPECT_EQ(arena_.allocate(1 << 20), nullptr);
  EXPECT_FALSE(arena_.reserve(4096));
  void* second = arena_.allocate(128);
  EXPECT_NE(second, nullptr) << "the chunk still has 128 bytes";
  arena_.release(first, 128);
  EXPECT_EQ(arena_.allocate(128), first);
  EXPECT_EQ(arena_.allocate(128), nullptr);
  heap_.fail_always(false);
  EXPECT_NE(arena_.allocate(128), nullptr);
  EXPECT_NE(arena_.allocate(1 << 20), nullptr);
}

TEST_F(ArenaTest, ASizeThatOverflowsIsRefused) {
  EXPECT_FALSE(arena_.reserve(SIZE_MAX));
  EXPECT_FALSE(arena_.reserve(SIZE_MAX - 63));
  EXPECT_EQ(heap_.calls(), 0u);
}

TEST(Arena, ReturnsEverythingAtTheEnd) {
  CountingHeap heap;
  Memory memory(heap.env());
  {
    Arena arena(memory);
    for (size_t i = 0; i < 50; ++i) ASSERT_NE(arena.allocate(size_t{64} << (i % 14)), nullptr);
    EXPECT_GT(heap.bytes(), 0u);
    EXPECT_EQ(memory.bytes(), heap.bytes());
  }
  EXPECT_EQ(heap.bytes(), 0u);
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST_F(ArenaTest, ABufferKeepsWhatIsInUseWhenItGrows) {
  Buffer<int32_t> buffer = {};
  ASSERT_TRUE(buffer.reserve(arena_, 0, 0));
  EXPECT_EQ(buffer.data, nullptr);
  ASSERT_TRUE(buffer.reserve(arena_, 10, 0));
  EXPECT_GE(buffer.capacity, 10u);
  for (int32_t i = 0; i < 10; ++i) buffer.data[i] = 100 + i;
  int32_t* before = buffer.data;
  ASSERT_TRUE(buffer.reserve(arena_, buffer.capacity, 10));
  EXPECT_EQ(buffer.data, before) << "there was room";
  ASSERT_TRUE(buffer.reserve(arena_, 5000, 10));
  EXPECT_GE(buffer.capacity, 5000u);
  for (int32_t i = 0; i < 10; ++i) EXPECT_EQ(buffer.data[i], 100 + i);
}

TEST_F(ArenaTest, ABufferThatCannotGrowIsUnchanged) {
  Buffer<int32_t> buffer = {};
  ASSERT_TRUE(buffer.reserve(arena_, 16, 0));
  for (int32_t i = 0; i < 16; ++i) buffer.data[i] = i;
  const Buffer<int32_t> before = buffer;
  heap_.fail_always(true);
  EXPECT_FALSE(buffer.reserve(arena_, 1 << 20, 16));
  EXPECT_EQ(buffer.data, before.data);
  EXPECT_EQ(buffer.capacity, before.capacity);
  for (int32_t i = 0; i < 16; ++i) EXPECT_EQ(buffer.data[i], i);
}

// The size that clear() computes from the capacity must be the one that reserve() took, for elements of any
// size.
TEST_F(ArenaTest, AClearedBufferGoesBackToItsClass) {
  struct Odd {
    char bytes[48];
  };
  for (size_t count = 1; count < 1000; count += 7) {
    Buffer<Odd> buffer = {};
    ASSERT_TRUE(buffer.reserve(arena_, count, 0));
    ASSERT_GE(buffer.capacity, count);
    const void* data = buffer.data;
    buffer.clear(arena_);
    EXPECT_EQ(buffer.data, nullptr);
    EXPECT_EQ(buffer.capacity, 0u);
    ASSERT_TRUE(buffer.reserve(arena_, count, 0));
    EXPECT_EQ(buffer.data, data) << count;
    buffer.clear(arena_);
  }
}

}  // namespace
}  // namespace kvc
