// SPDX-License-Identifier: Apache-2.0
// Quotas that a manager does not have: whoever asks gets all, and what they are told changes nothing.
#include "pool/quotas.h"

#include <gtest/gtest.h>

#include "base/counting_heap.h"

namespace kvc {
namespace {

TEST(Quotas, WithoutAnyTheyGiveAllAndKeepNothing) {
  CountingHeap heap;
  Memory memory{heap.env()};
  const uint64_t size = 4;
  BlockPool pool;
  ASSERT_TRUE(pool.create(memory, &size, 1, false));
  const uint64_t before = memory.bytes();
  Quotas quotas;
  ASSERT_TRUE(quotas.create(memory, 0, pool));
  EXPECT_EQ(memory.bytes(), before);
  const BlockId block{0};
  quotas.take(block, 0, 0, kNoPayer);
  quotas.fence(block, 0);
  quotas.leave_fence(block, 0);
  quotas.cache_held(block, 0);
  quotas.hit(block, 0, false);
  quotas.free_held(block, 0);
  quotas.move(block, BlockId{1});
  quotas.expect(0, 0, 3);
  quotas.forget(0, 0, 2);
  EXPECT_EQ(quotas.room(0, 0, 3), 3u);
  EXPECT_EQ(quotas.most_room(0, 0, 4), 4u);
  EXPECT_EQ(quotas.max(0, 0), Quotas::kNoMaximum);
  EXPECT_FALSE(quotas.exceeds(0, 0, 1000, 0));
  EXPECT_EQ(quotas.evictable(0, 0), Shelves::kAllClasses);
  EXPECT_EQ(quotas.above(0), Shelves::kAllClasses);
  EXPECT_EQ(quotas.lacking(0), 0u);
}

}  // namespace
}  // namespace kvc
