// SPDX-License-Identifier: Apache-2.0
// Kept batches against a list of them: what is kept is unharmed and consecutive, and nothing gives way that
// need not.
#include "publish/kept_batches.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "seed.h"

namespace kvc {
namespace {

TEST(KeptBatches, AreTheNewestThatFit) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 50; ++round) {
    // In every other round memory alone is the limit.
    const size_t max_batches = round % 2 == 0 ? 4096 : 1 + random() % 20, max_bytes = 64 + random() % 400;
    Memory memory(default_env());
    KeptBatches kept;
    ASSERT_TRUE(kept.create(memory, max_batches, max_bytes));
    std::deque<std::vector<uint8_t>> all;
    for (uint64_t n = 0; n < 2000; ++n) {
      const size_t most = 1 + random() % 64, size = random() % (most + 1);
      uint8_t* const out = kept.begin(most);
      std::vector<uint8_t> bytes(size);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
      if (size != 0) std::memcpy(out, bytes.data(), size);
      if (most > size) std::memset(out + size, 0xee, most - size);  // it may write all that it asked for
      const KeptBatches::Batch batch = kept.end(size);
      all.push_back(std::move(bytes));
      ASSERT_EQ(batch.sequence, n);
      ASSERT_EQ(kept.next_sequence(), n + 1);
      ASSERT_LE(kept.count(), max_batches);
      uint64_t bytes_of_kept = 0;
      for (uint64_t at = kept.oldest(); at <= n; ++at) {
        const KeptBatches::Batch other = kept[at];
        const std::vector<uint8_t>& expected = all[at];
        ASSERT_EQ(other.size, expected.size());
        ASSERT_TRUE(other.size == 0 || std::memcmp(other.data, expected.data(), other.size) == 0) << at;
        bytes_of_kept += other.size;
      }
      ASSERT_EQ(kept.bytes(), bytes_of_kept);
      // What gave way stood where the batch may have reached, or where the ring ends.
      ASSERT_TRUE(max_batches == 4096 ? kept.count() == n + 1 || bytes_of_kept + 3 * 64 >= max_bytes
                                      : kept.count() != 0);
    }
  }
}

}  // namespace
}  // namespace kvc
