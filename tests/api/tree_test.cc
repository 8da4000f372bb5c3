// SPDX-License-Identifier: Apache-2.0
// Through the C API: trees of draft tokens, cross attention over an encoder's keys, and merging of partial
// results.
#include "api/attention_scene.h"
#include "calls.h"
#include "rounds.h"

namespace {

using kvc::test::Scene;
using kvc::test::SceneOptions;

//        0         7
//      1   2       8
//     3 4  5       9
//            6
const std::vector<int32_t> kParents = {-1, 0, 0, 1, 1, 2, 5, -1, 7, 8};

std::vector<int32_t> path_to(int32_t node) {
  std::vector<int32_t> path;
  for (; node >= 0; node = kParents[static_cast<size_t>(node)]) path.insert(path.begin(), node);
  return path;
}

TEST(TreeMask, EachNodeSeesItselfAndItsAncestors) {
  const size_t n = kParents.size();
  for (const uint64_t first_bit : {0u, 3u, 8u, 21u}) {
    std::vector<uint8_t> mask((first_bit + n * n) / 8 + 2, 0xa5), before = mask;
    std::vector<int32_t> depths(n, -9);
    ASSERT_EQ(kvc_tree_mask(kParents.data(), n, mask.data(), first_bit, depths.data()), KVC_OK);
    EXPECT_EQ(depths, (std::vector<int32_t>{0, 1, 1, 2, 2, 2, 3, 0, 1, 2}));
    const auto bit = [](const std::vector<uint8_t>& bits, uint64_t i) { return bits[i / 8] >> i % 8 & 1; };
    for (uint64_t i = 0; i < mask.size() * 8; ++i) {
      if (i < first_bit || i >= first_bit + n * n) {
        EXPECT_EQ(bit(mask, i), bit(before, i)) << "bits of others stay";
        continue;
      }
      const auto row = static_cast<int32_t>((i - first_bit) / n),
                 column = static_cast<int32_t>((i - first_bit) % n);
      const std::vector<int32_t> path = path_to(row);
      EXPECT_EQ(bit(mask, i) != 0, std::count(path.begin(), path.end(), column) != 0) << row << ' ' << column;
    }
  }
}

TEST(TreeMask, BadTreesAreRefused) {
  std::vector<uint8_t> mask(4, 7);
  const auto refused = [&](std::vector<int32_t> parents) {
    std::vector<int32_t> depths(parents.size(), 5);
    EXPECT_EQ(kvc_tree_mask(parents.data(), parents.size(), mask.data(), 0, depths.data()),
              KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(mask, std::vector<uint8_t>(4, 7));
    EXPECT_EQ(depths, std::vector<int32_t>(parents.size(), 5));
  };
  refused({0});
  refused({-1, 1});
  refused({-1, 2, 0});
  refused({-2});
  refused(std::vector<int32_t>(65537, -1));
  EXPECT_EQ(kvc_tree_mask(nullptr, 1, mask.data(), 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_tree_mask(kParents.data(), 1, nullptr, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_tree_mask(kParents.data(), 2, mask.data(), UINT64_MAX - 3, nullptr),
            KVC_ERROR_INVALID_ARGUMENT)
      << "its last bit would be past 2^64";
  EXPECT_EQ(mask, std::vector<uint8_t>(4, 7));
  EXPECT_EQ(kvc_tree_mask(nullptr, 0, nullptr, 0, nullptr), KVC_OK);
}

// Two requests end in the tree; each branch alone, at the end of the same context, gives the same.
TEST(TreeAttention, EqualsEachBranchAlone) {
  const size_t n = kParents.size();
  kvc::test::Sample sample;
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16})
    for (const uint64_t prefix : {0u, 3u, 100u, 500u}) {
      Scene scene({.dtype = dtype,
                   .threads = 2,
                   .lens = {prefix + n, 40 + n},
                   .queries = {n, n},
                   .share_first = false});
      std::vector<uint8_t> mask(2 * (n * n / 8 + 2));
      const uint64_t offsets[] = {5, 5 + n * n}, starts[] = {prefix, 40};
      for (const uint64_t offset : offsets)
        ASSERT_EQ(kvc_tree_mask(kParents.data(), n, mask.data(), offset, nullptr), KVC_OK);
      scene.a.mask = mask.data(), scene.a.mask_offsets = offsets, scene.a.mask_starts = starts;
      scene.attend();
      EXPECT_LT(scene.distance([&](size_t r, uint64_t i, uint64_t j, uint32_t) {
        if (j < starts[r]) return true;
        const std::vector<int32_t> path = path_to(static_cast<int32_t>(i));
        return std::count(path.begin(), path.end(), static_cast<int32_t>(j - starts[r])) != 0;
      }),
                dtype == KVC_FLOAT32 ? 1e-5 : 4e-3);
      const std::vector<float> of_tree = scene.out;

      const size_t width = scene.q_heads * size_t{scene.o.v_dim},
                   q_width = scene.q_heads * size_t{scene.o.dim};
      std::vector<float> k(Scene::kLayers * scene.lens[0] * 2 * 24),
          v(Scene::kLayers * scene.lens[0] * 2 * 16);
      kvc_rows rows = scene.rows_of(0, k, v);
      ASSERT_EQ(kvc_storage_gather(scene.storage.get(), &rows, nullptr), KVC_OK);
      for (const int32_t leaf : {3, 4, 6, 9}) {
        if (!sample.takes_next()) continue;
        const std::vector<int32_t> path = path_to(leaf);
        Scene alone({.dtype = dtype, .lens = {prefix + path.size()}, .queries = {path.size()}});
        std::vector<float> k_path, v_path;
        for (size_t l = 0; l < Scene::kLayers; ++l)
          for (size_t t = 0; t < alone.lens[0]; ++t) {
            const size_t from =
                l * scene.lens[0] + (t < prefix ? t : prefix + static_cast<size_t>(path[t - prefix]));
            k_path.insert(k_path.end(), &k[from * 48], &k[from * 48] + 48);
            v_path.insert(v_path.end(), &v[from * 32], &v[from * 32] + 32);
          }
        kvc_rows own = alone.rows_of(0, k_path, v_path);
        ASSERT_EQ(kvc_storage_store(alone.storage.get(), &own, nullptr), KVC_OK);
        for (size_t i = 0; i < path.size(); ++i)
          std::copy_n(&scene.q[static_cast<size_t>(path[i]) * q_width], q_width, &alone.q[i * q_width]);
        alone.attend();
        for (size_t i = 0; i < path.size(); ++i)
          for (size_t e = 0; e < width; ++e)
            EXPECT_NEAR(alone.out[i * width + e], of_tree[static_cast<size_t>(path[i]) * width + e],
                        dtype == KVC_FLOAT32 ? 2e-6 : 8e-3);
      }
    }
}

TEST(TreeAttention, AMaskThatStartsPastTheContextIsRefused) {
  Scene scene;
  const uint8_t mask[100] = {};
  const uint64_t offsets[] = {0, 8}, starts[] = {37, 65};
  scene.a.mask = mask, scene.a.mask_offsets = offsets, scene.a.mask_starts = starts;
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

// The decoder's queries, more or fewer than the encoder's tokens, see all of them wherever they stand.
TEST(CrossAttention, QueriesSeeAllTokensOfTheEncoder) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8}) {
    Scene scene({.dtype = dtype, .threads = 2, .lens = {5, 64, 333, 0}, .queries = {40, 3, 1, 2}});
    scene.a.flags = KVC_ATTENTION_NOT_CAUSAL;
    const auto all = [](size_t, uint64_t, uint64_t, uint32_t) { return true; };
    scene.attend();
    EXPECT_LT(scene.distance(all), dtype == KVC_FLOAT32 ? 1e-5 : 4e-3);
    const std::vector<float> before = scene.out;
    const uint64_t starts[] = {1000, 0, 7, 3};
    scene.a.q_starts = starts;
    scene.attend();
    EXPECT_EQ(scene.out, before) << "positions of the decoder do not matter";
  }
}

// The encoder's rows are written once; each later step reads the same bytes.
TEST(CrossAttention, StepsReadAStaticCache) {
  Scene scene({.lens = {77}, .queries = {6}});
  scene.a.flags = KVC_ATTENTION_NOT_CAUSAL;
  scene.attend();
  const std::vector<float> together = scene.out;
  const size_t width = scene.q_heads * size_t{scene.o.v_dim}, q_width = scene.q_heads * size_t{scene.o.dim};
  const uint64_t one[] = {0, 1};
  scene.a.q_offsets = one;
  for (size_t i = 0; i < 6; ++i) {
    scene.a.q = &scene.q[i * q_width];
    ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK);
    for (size_t e = 0; e < width; ++e) EXPECT_NEAR(scene.out[e], together[i * width + e], 1e-6);
  }
}

// Attention over parts of a context, cut at any tokens, some empty, merged.
TEST(Merge, PartsOfAContextBecomeTheWhole) {
  for (const uint64_t queries : {1u, 5u}) {
    Scene scene({.lens = {320}, .queries = {queries}});
    scene.a.flags = KVC_ATTENTION_NOT_CAUSAL;
    scene.attend();
    const std::vector<float> whole = scene.out, whole_lse = scene.lse;
    for (const std::vector<uint64_t>& cuts :
         {std::vector<uint64_t>{0, 320}, {0, 16, 320}, {0, 0, 160, 160, 176, 320, 320}}) {
      const size_t parts = cuts.size() - 1;
      std::vector<float> outs, lses, out(whole.size()), lse(whole_lse.size());
      for (size_t p = 0; p < parts; ++p) {
        const uint64_t length = cuts[p + 1] - cuts[p];
        scene.a.kv_lens = &length, scene.a.block_tables = &scene.tables[cuts[p] / 16];
        scene.attend();
        if (length == 0) std::fill(scene.out.begin(), scene.out.end(), NAN);  // not to be read
        outs.insert(outs.end(), scene.out.begin(), scene.out.end());
        lses.insert(lses.end(), scene.lse.begin(), scene.lse.end());
      }
      ASSERT_EQ(merge_attention(outs.data(), lses.data(), parts, lse.size(), scene.o.v_dim, 0, out.data(),
                                lse.data()),
                KVC_OK);
      for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], whole[i], 1e-6);
      for (size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], whole_lse[i], 1e-5);
      ASSERT_EQ(merge_attention(outs.data(), lses.data(), parts, lse.size(), scene.o.v_dim, KVC_FLOAT32,
                                outs.data(), lses.data()),
                KVC_OK);
      EXPECT_TRUE(std::equal(out.begin(), out.end(), outs.begin())) << "in place";
      EXPECT_TRUE(std::equal(lse.begin(), lse.end(), lses.begin()));
    }
  }
}

TEST(Merge, NothingGivesZerosAndMinusInfinity) {
  const float nan[] = {NAN, NAN, NAN, NAN}, lses[] = {-INFINITY, -INFINITY};
  float out[2] = {7, 7}, lse = 7;
  ASSERT_EQ(merge_attention(nan, lses, 2, 1, 2, 0, out, &lse), KVC_OK);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(lse, -INFINITY);
  out[0] = lse = 7;
  ASSERT_EQ(merge_attention(nullptr, nullptr, 0, 1, 2, 0, out, &lse), KVC_OK);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(lse, -INFINITY);
  ASSERT_EQ(merge_attention(nan, lses, 2, 1, 2, 0, out, nullptr), KVC_OK);
}

TEST(Merge, LargeLogarithmsAndHalvesDoNotOverflow) {
  const float lses[] = {10000, 9999};
  const uint16_t outs[] = {0x3c00, 0xbc00};  // 1, -1
  uint16_t out;
  float lse;
  ASSERT_EQ(merge_attention(outs, lses, 2, 1, 1, KVC_FLOAT16, &out, &lse), KVC_OK);
  EXPECT_EQ(out, 0x3765);  // tanh(0.5) = 0.46212, rounded
  EXPECT_NEAR(lse, 10000.31326, 1e-3);
}

TEST(Merge, BadArgumentsAreRefused) {
  float x = 3;
  const auto refused = [&](kvc_status status) {
    EXPECT_EQ(status, KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(x, 3);
  };
  const float in[] = {1};
  refused(merge_attention(nullptr, in, 1, 1, 1, 0, &x, nullptr));
  refused(merge_attention(in, nullptr, 1, 1, 1, 0, &x, nullptr));
  refused(merge_attention(in, in, 1, 1, 1, 0, nullptr, nullptr));
  refused(merge_attention(in, in, 1, 1, 0, 0, &x, nullptr));
  refused(merge_attention(in, in, 1, 1, 8193, 0, &x, nullptr));
  refused(merge_attention(in, in, 1, 1, 1, KVC_INT8, &x, nullptr));
  EXPECT_EQ(merge_attention(nullptr, nullptr, 3, 0, 1, 0, nullptr, nullptr), KVC_OK);
}

}  // namespace
