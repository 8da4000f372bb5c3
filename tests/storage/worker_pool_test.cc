// SPDX-License-Identifier: Apache-2.0
// The threads of a storage: each job runs once, on a worker that exists.
#include "storage/worker_pool.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvc {
namespace {

TEST(WorkerPool, EachJobRunsOnceOnAValidWorker) {
  for (const size_t workers : {1u, 2u, 5u}) {
    WorkerPool pool;
    ASSERT_TRUE(pool.start(workers));
    ASSERT_EQ(pool.num_workers(), workers);
    for (const size_t count : {0u, 1u, 2u, 1000u}) {
      std::unique_ptr<std::atomic<int>[]> runs(new std::atomic<int>[count + 1]());
      std::atomic<int> wrong{0};
      pool.for_each(count, [&](size_t i, size_t worker) {
        ++runs[i];
        if (worker >= workers) ++wrong;
      });
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(runs[i], 1);
      EXPECT_EQ(runs[count], 0);
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(WorkerPool, CallersWaitForEachOther) {
  WorkerPool pool;
  ASSERT_TRUE(pool.start(3));
  std::atomic<size_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) pool.for_each(7, [&](size_t, size_t) { ++total; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4u * 200 * 7);
}

}  // namespace
}  // namespace kvc
