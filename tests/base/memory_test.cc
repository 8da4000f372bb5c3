// SPDX-License-Identifier: Apache-2.0
// Memory counts what it hands out; Array is zeroed, grows without losing anything, and a failure leaves it as
// it was.
#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

class ArrayTest : public ::testing::Test {
 protected:
  CountingHeap heap_;
  Memory memory_{heap_.env()};
};

TEST_F(ArrayTest, BytesAreCountedAndComeBack) {
  {
    Array<uint64_t> a, b;
    ASSERT_TRUE(a.create(memory_, 10));
    ASSERT_TRUE(b.create(memory_, 3));
    EXPECT_EQ(memory_.bytes(), 13 * sizeof(uint64_t));
    EXPECT_EQ(heap_.bytes(), memory_.bytes());
  }
  EXPECT_EQ(memory_.bytes(), 0u);
  EXPECT_EQ(heap_.bytes(), 0u);
}

TEST_F(ArrayTest, ElementsAreZeroedAndAligned) {
  Array<uint32_t> array;
  ASSERT_TRUE(array.create(memory_, 1000));
  EXPECT_EQ(array.size(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 64, 0u);
  for (size_t i = 0; i < array.size(); ++i) ASSERT_EQ(array[i], 0u);
}

TEST_F(ArrayTest, ASizeThatOverflowsIsRefusedBeforeAllocating) {
  Array<uint64_t> array;
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 8 + 1, size_t{1} << 61})
    EXPECT_FALSE(array.create(memory_, size));
  EXPECT_EQ(heap_.calls(), 0u);
  EXPECT_EQ(array.size(), 0u);
  EXPECT_EQ(array.data(), nullptr);
}

TEST_F(ArrayTest, GrowKeepsContentsAndZeroesTheRest) {
  Array<int32_t> array;
  ASSERT_TRUE(array.create(memory_, 5));
  for (int32_t i = 0; i < 5; ++i) array[static_cast<size_t>(i)] = i + 1;
  ASSERT_TRUE(array.grow(memory_, 12));
  ASSERT_EQ(array.size(), 12u);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(array[i], i < 5 ? static_cast<int32_t>(i + 1) : 0);
  EXPECT_EQ(memory_.bytes(), 12 * sizeof(int32_t)) << "the old elements went back";
}

TEST_F(ArrayTest, AFailedGrowLeavesItUnchanged) {
  Array<int32_t> array;
  ASSERT_TRUE(array.create(memory_, 4));
  for (size_t i = 0; i < 4; ++i) array[i] = static_cast<int32_t>(7 * i);
  const int32_t* data = array.data();
  heap_.fail_always(true);
  EXPECT_FALSE(array.grow(memory_, 100));
  EXPECT_FALSE(array.grow(memory_, SIZE_MAX));
  EXPECT_EQ(array.data(), data);
  EXPECT_EQ(array.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(array[i], static_cast<int32_t>(7 * i));
  EXPECT_EQ(memory_.bytes(), 4 * sizeof(int32_t)) << "a failed allocation is not counted";
}

TEST_F(ArrayTest, SwapExchangesOwnership) {
  Array<int32_t> kept;
  {
    Array<int32_t> inner;
    ASSERT_TRUE(inner.create(memory_, 2));
    inner[1] = 9;
    inner.swap(kept);
    EXPECT_EQ(inner.size(), 0u);
  }
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1], 9);
}

TEST_F(ArrayTest, TheFailpointNamedMemoryFailsBeforeTheAllocator) {
  Env env = heap_.env();
  env.failpoint = [](const char* name) { return std::strcmp(name, "memory") == 0; };
  Memory failing(env);
  EXPECT_EQ(failing.allocate(64, 64), nullptr);
  EXPECT_EQ(failing.bytes(), 0u);
  EXPECT_EQ(heap_.calls(), 0u);
}

TEST_F(ArrayTest, ReleasingNothingCountsNothing) {
  memory_.release(nullptr, 100, 64);
  EXPECT_EQ(memory_.bytes(), 0u);
}

// Of an array of 16 MiB: which bytes the system has given.
size_t touched_bytes(const Env& env, size_t first) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Memory memory(env);
  memory.touch_first(first);
  Array<char> array;
  EXPECT_TRUE(array.create(memory, size_t{16} << 20));
  std::vector<unsigned char> resident(array.size() / page);
  EXPECT_EQ(mincore(array.data(), array.size(), resident.data()), 0);
  size_t touched = 0;
  while (touched < resident.size() && (resident[touched] & 1) != 0) ++touched;
  for (size_t i = touched; i < resident.size(); ++i) EXPECT_EQ(resident[i] & 1, 0) << i;
  EXPECT_TRUE(std::all_of(array.data(), array.data() + array.size(), [](char byte) { return byte == 0; }));
  return touched * page;
}

TEST(Memory, PagesAreTouchedUpToABound) {
  Env env = default_env();
  EXPECT_EQ(touched_bytes(env, 0), 0u);
  EXPECT_EQ(touched_bytes(env, size_t{4} << 20), size_t{4} << 20);
  EXPECT_EQ(touched_bytes(env, SIZE_MAX), size_t{16} << 20);
  env.touches = true;
  EXPECT_EQ(touched_bytes(env, 0), size_t{16} << 20);
}

TEST(Memory, ABoundHoldsForWhatIsTakenBehindIt) {
  Memory memory(default_env());
  memory.touch_first(SIZE_MAX);
  memory.touch_first(0);
  Array<char> array;
  ASSERT_TRUE(array.create(memory, size_t{4} << 20));
  unsigned char resident = 1;
  EXPECT_EQ(mincore(array.data(), 4096, &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

}  // namespace
}  // namespace kvc
