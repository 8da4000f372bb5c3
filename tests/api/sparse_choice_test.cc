// SPDX-License-Identifier: Apache-2.0
// The choice of blocks by ratio and by threshold, beside top_k.
#include "api/sparse_scene.h"

namespace {

using kvc::test::long_ones;
using kvc::test::Scene;
using kvc::test::SceneOptions;
using kvc::test::Sparse;

TEST(SparseAttention, ARatioIsTopKOfThatPartOfTheReachableBlocks) {
  Scene scene(long_ones());  // 32, 4 and 1 blocks
  Sparse sparse(scene);
  const struct {
    double ratio;
    uint64_t of_32;
  } cases[] = {{0.25, 8}, {0.250001, 9}, {0.5, 16}, {1e-300, 1}, {1.0 / 32, 1}, {0.7, 23}, {0.999, 32}};
  for (const auto& test : cases) {
    sparse.select(test.of_32, 1, 2);
    const std::vector<uint8_t> by_number = sparse.mask;
    sparse.select_ratio(test.ratio, 1, 2);
    const size_t first = scene.o.heads * sparse.stride;  // the first request's bits
    EXPECT_TRUE(std::equal(by_number.begin(), by_number.begin() + static_cast<std::ptrdiff_t>(first),
                           sparse.mask.begin()))
        << test.ratio;
  }
  sparse.select_ratio(0.5);
  EXPECT_EQ(sparse.count(0, 0), 16u);
  EXPECT_EQ(sparse.count(1, 1), 2u) << "of 4, each request has its own number";
  EXPECT_EQ(sparse.count(2, 0), 1u);
  scene.a.window = 100, scene.a.sinks = 20;
  sparse.select_ratio(0.5);
  EXPECT_EQ(sparse.count(0, 0), 5u) << "of the last 7 and the first 2, which are reached";
  sparse.attend();
  EXPECT_LT(sparse.distance(), 1e-5);
}

// A tenth of ten blocks is one block, though 0.1 has no exact binary form; so are other decimal fractions.
TEST(SparseAttention, ARatioOfWholeBlocksIsNotRoundedUp) {
  Scene scene({.lens = {1600}, .queries = {1}, .share_first = false});
  Sparse sparse(scene);
  for (uint64_t percent = 1; percent <= 100; ++percent) {
    sparse.select_ratio(static_cast<double>(percent) / 100);
    EXPECT_EQ(sparse.count(0, 0), percent);
  }
}

TEST(SparseAttention, AThresholdPicksWhatIsCloseToTheBestOfSomeQuery) {
  for (const uint32_t threads : {1u, 3u})
    for (const uint32_t dim : {24u, 64u, 7u}) {
      SceneOptions options = long_ones(KVC_FLOAT32, 0, threads);
      options.dim = dim, options.v_dim = 7, options.group = 20;  // more rows than are multiplied at once
      Scene scene(options);
      Sparse sparse(scene);
      uint64_t before = 0;
      for (const double threshold : {1e-50, 0.3, 1.0, 4.0, 1e30}) {
        sparse.select_close(threshold, 2, 3);
        uint64_t picked = 0;
        for (size_t r = 0; r < 3; ++r)
          for (uint32_t head = 0; head < 2; ++head) {
            const uint64_t blocks = sparse.num_blocks(r);
            const uint64_t recent = std::max<uint64_t>(blocks, 3) - 3;
            for (uint64_t b = 0; b < blocks; ++b) {
              picked += sparse.bit(r, head, b);
              if (b < 2 || b >= recent) {
                EXPECT_TRUE(sparse.bit(r, head, b)) << "sinks and recent blocks";
                continue;
              }
              double closest = INFINITY;  // to the best of its query
              for (uint64_t i = scene.offsets[r]; i < scene.offsets[r + 1]; ++i)
                for (uint32_t g = 0; g < 20; ++g) {
                  double best = -INFINITY;
                  for (uint64_t other = 2; other < recent; ++other)
                    best = std::max(best, sparse.bound_of(i, r, head, head * 20 + g, other));
                  closest = std::min(closest, best - sparse.bound_of(i, r, head, head * 20 + g, b));
                }
              closest /= std::sqrt(static_cast<double>(dim));
              if (std::abs(closest - threshold) < 1e-4 && closest != 0) continue;  // rounding decides
              EXPECT_EQ(sparse.bit(r, head, b), closest <= threshold) << threshold << ' ' << b;
            }
          }
        EXPECT_GE(picked, before) << "a larger threshold picks more";
        before = picked;
        sparse.attend();
        EXPECT_LT(sparse.distance(), 1e-5);
      }
    }
}

// A block with NaN bounds is picked, and hides no other one.
TEST(SparseAttention, AThresholdLooksPastNaNAndInfinity) {
  Scene scene({.lens = {320}, .queries = {1}, .share_first = false});
  Sparse sparse(scene);
  sparse.select_close(0.75);
  std::vector<uint8_t> expected = sparse.mask;
  uint64_t left = 0;
  while (sparse.bit(0, 0, left)) ++left;  // a block that is not picked
  ASSERT_LT(left, 19u);
  expected[left / 8] = static_cast<uint8_t>(expected[left / 8] | 1u << left % 8);
  const auto at = static_cast<size_t>(scene.tables[left]) * sparse.block_bounds();
  for (const uint16_t bad : {uint16_t{0x7e00}, uint16_t{0x7c00}}) {
    std::fill_n(sparse.bounds.begin() + static_cast<std::ptrdiff_t>(at), 2 * scene.o.dim, bad);
    sparse.select_close(0.75);
    EXPECT_EQ(sparse.mask, expected);
  }
}

}  // namespace
