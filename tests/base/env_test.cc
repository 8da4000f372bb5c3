// SPDX-License-Identifier: Apache-2.0
// The real environment does what its callers rely on, and failpoints are asked by name.
#include "base/env.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <string>

namespace kvc {
namespace {

TEST(Env, MemoryIsAlignedAndWritableAtEverySize) {
  const Env env = default_env();
  for (const size_t size :
       {size_t{1}, size_t{63}, size_t{64}, size_t{4097}, size_t{4} << 20, (size_t{4} << 20) + 1}) {
    for (const size_t alignment : {size_t{8}, size_t{64}, size_t{4096}}) {
      void* memory = env.allocate(env.allocator_data, size, alignment);
      ASSERT_NE(memory, nullptr) << size;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
      std::memset(memory, 1, size);
      env.release(env.allocator_data, memory, size, alignment);
    }
  }
}

TEST(Env, LargeMemoryStartsOnAHugePage) {
  const Env env = default_env();
  const size_t size = size_t{6} << 20;
  void* memory = env.allocate(env.allocator_data, size, 64);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (size_t{2} << 20), 0u);
  env.release(env.allocator_data, memory, size, 64);
  const size_t further = size_t{8} << 20;  // an alignment beyond that is kept
  memory = env.allocate(env.allocator_data, size, further);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % further, 0u);
  env.release(env.allocator_data, memory, size, further);
}

TEST(Env, LargeMemoryIsZeroAlsoAfterItWasUsed) {
  Env env = default_env();
  EXPECT_FALSE(env.gives_zeroes(4096));
  for (int round = 0; round < 3; ++round) {
    const size_t size = size_t{3} << 20;
    ASSERT_TRUE(env.gives_zeroes(size));
    auto* memory = static_cast<unsigned char*>(env.allocate(env.allocator_data, size, 64));
    ASSERT_NE(memory, nullptr);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(memory[i], 0) << i;
    std::memset(memory, 0xff, size);
    env.release(env.allocator_data, memory, size, 64);
  }
  env.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_FALSE(env.gives_zeroes(size_t{3} << 20)) << "memory of somebody else";
}

TEST(Env, ASizeThatCannotBeRoundedUpGivesNull) {
  const Env env = default_env();
  EXPECT_EQ(env.allocate(env.allocator_data, SIZE_MAX, 64), nullptr);
  EXPECT_EQ(env.allocate(env.allocator_data, SIZE_MAX - 62, 64), nullptr);
}

TEST(Env, TheWallClockCountsNanosecondsSince1970) {
  const auto before = static_cast<uint64_t>(std::time(nullptr));
  const uint64_t now = default_env().wall_clock_ns();
  EXPECT_GE(now / 1000000000u + 1, before);
  EXPECT_LE(now / 1000000000u, before + 60);
}

TEST(Env, RandomBytesDiffer) {
  const Env env = default_env();
  uint64_t a[4] = {}, b[4] = {};
  ASSERT_TRUE(env.random_bytes(a, sizeof a));
  ASSERT_TRUE(env.random_bytes(b, sizeof b));
  EXPECT_NE(std::memcmp(a, b, sizeof a), 0);
}

TEST(Env, FailpointsAreAskedByName) {
  Env env = default_env();
  EXPECT_EQ(env.failpoint, nullptr);
  EXPECT_FALSE(env.fails("anything"));
  static std::string asked;
  env.failpoint = [](const char* name) {
    asked = name;
    return asked == "yes";
  };
  EXPECT_TRUE(env.fails("yes"));
  EXPECT_FALSE(env.fails("no"));
  EXPECT_EQ(asked, "no");
}

}  // namespace
}  // namespace kvc
