// SPDX-License-Identifier: Apache-2.0
// Conformance group G: lookups beside writers change nothing and never see half a prefix. Sized for the
// thread sanitizer.
#include <atomic>
#include <thread>

#include "calls.h"
#include "conformance/fixture.h"

namespace conformance {
namespace {

template <typename Function>
void in_threads(int count, Function function) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([=] { function(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Concurrent, LookupsAreReadOnly) {  // C48
  Cache c(shape(64, B));
  for (int32_t i = 0; i < 8; ++i) c.store(text(i, 4 * B));
  const Admitted live = c.compute(text(20, 3 * B));
  c.fork(live.id);
  const uint64_t before = c.digest();
  const kvc_stats stats = c.stats();
  std::atomic<int> wrong{0};
  in_threads(8, [&](int thread) {
    for (int i = 0; i < 2000; ++i) {
      const int32_t which = (thread + i) % 10;
      const Tokens tokens = text(which, 4 * B + 1);
      kvc_probe_info info = sized<kvc_probe_info>();
      if (kvc_manager_probe(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &info) != KVC_OK)
        ++wrong;
      if (info.num_cached != (which < 8 ? 4u * B : 0u)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(c.digest(), before);
  EXPECT_EQ(c.stats().evictions, stats.evictions);
  EXPECT_EQ(c.stats().block_queries, stats.block_queries);
}

// Writers publish, readers acquire, others drop. A reader that holds a block must find in it the tokens of
// the position.
TEST(Concurrent, WhatIsAcquiredIsCompleteWhileOthersDropIt) {  // C49
  const uint32_t kTexts = 6, kBlocks = 3;
  Cache c(shape(40, B));
  std::vector<std::atomic<int32_t>> memory(40 * B);  // the engine's memory: the token written to each slot
  std::atomic<int> torn{0}, hits{0}, absent{0}, published{0};
  std::atomic<int> writers_left{2};
  in_threads(6, [&](int thread) {
    // Writers go on until there was a hit, readers until the writers are done: which run first is up to the
    // system.
    for (int i = 0; i < 400 || (thread < 2 ? hits == 0 : thread < 5 && writers_left > 0); ++i) {
      const int32_t which = static_cast<int32_t>(static_cast<uint32_t>(i * 7 + thread * 3) % kTexts);
      const Tokens tokens = text(which, kBlocks * B);
      if (thread < 2) {
        Ids blocks(kBlocks);
        if (kvc_manager_acquire_blocks(c.get(), 0, blocks.data(), kBlocks) != KVC_OK) continue;
        for (size_t t = 0; t < tokens.size(); ++t)
          memory[static_cast<size_t>(blocks[t / B]) * B + t % B].store(tokens[t], std::memory_order_relaxed);
        if (kvc_manager_publish_blocks(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), 0,
                                       blocks.data(), kBlocks) == KVC_OK)
          ++published;
        if (kvc_manager_release_blocks(c.get(), blocks.data(), kBlocks) != KVC_OK) ++torn;
      } else if (thread < 5) {
        Ids blocks(kBlocks);
        size_t count = 0;
        if (kvc_manager_acquire_prefix(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), 0,
                                       blocks.data(), kBlocks, &count) != KVC_OK)
          ++torn;
        ++(count ? hits : absent);
        for (size_t t = 0; t < count * B; ++t)
          if (memory[static_cast<size_t>(blocks[t / B]) * B + t % B].load(std::memory_order_relaxed) !=
              tokens[t])
            ++torn;
        if (kvc_manager_release_blocks(c.get(), blocks.data(), count) != KVC_OK) ++torn;
      } else {
        uint64_t dropped = 0;
        if (kvc_manager_drop_prefix(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &dropped) !=
            KVC_OK)
          ++torn;
      }
    }
    if (thread < 2) --writers_left;
  });
  EXPECT_EQ(torn, 0);
  EXPECT_GT(published, 0);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(c.available() + c.stats().blocks_live, 40u);
}

}  // namespace
}  // namespace conformance
