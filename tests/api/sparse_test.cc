// SPDX-License-Identifier: Apache-2.0
// Block-sparse attention through the C API: masks per KV head, bounds of blocks, and picking the best blocks.
#include <cstring>

#include "api/sparse_scene.h"

namespace {

using kvc::test::long_ones;
using kvc::test::Scene;
using kvc::test::SceneOptions;
using kvc::test::Sparse;
using kvc::test::to_float;

TEST(SparseAttention, BoundsAreThoseOfTheKeysRoundedOutwards) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16, KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3})
    for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_TILED_KEYS}}) {
      if (flags != 0 && dtype != KVC_FLOAT32 && dtype != KVC_BFLOAT16) continue;
      Scene scene({.dtype = dtype, .flags = flags, .lens = {64, 48}, .queries = {1, 1}});
      const Sparse sparse(scene);
      std::vector<float> k(Scene::kLayers * 64 * 2 * 24), v(Scene::kLayers * 64 * 2 * 16);
      kvc_rows rows = scene.rows_of(0, k, v);
      ASSERT_EQ(kvc_storage_gather(scene.storage.get(), &rows, nullptr), KVC_OK);
      for (size_t block = 0; block < 4; ++block)
        for (uint32_t head = 0; head < 2; ++head)
          for (uint32_t e = 0; e < 24; ++e) {
            float most = -INFINITY, least = INFINITY;
            for (size_t t = 0; t < 16; ++t) {
              const float x = k[((Scene::kLayer * 64 + block * 16 + t) * 2 + head) * 24 + e];
              most = std::max(most, x), least = std::min(least, x);
            }
            const uint16_t* of = sparse.bounds_of(scene.tables[block], head);
            const float above = to_float(of[e]), below = to_float(of[24 + e]);
            EXPECT_GE(above, most);
            EXPECT_LE(above, most + std::abs(most) / 1024 + 6e-8f);
            EXPECT_LE(below, least);
            EXPECT_GE(below, least - std::abs(least) / 1024 - 6e-8f);
          }
    }
}

TEST(SparseAttention, BoundsOfOtherBlocksStayUntouched) {
  Scene scene({.lens = {64}, .queries = {1}});
  Sparse sparse(scene);
  std::vector<uint16_t> one(sparse.bounds.size(), 0x1234), before = one;
  ASSERT_EQ(
      kvc_storage_key_bounds(scene.storage.get(), Scene::kLayer, &scene.tables[2], 1, one.data(), nullptr),
      KVC_OK);
  const auto at = static_cast<ptrdiff_t>(sparse.block_bounds()) * scene.tables[2];
  std::copy_n(sparse.bounds.begin() + at, sparse.block_bounds(), before.begin() + at);
  EXPECT_EQ(one, before);
}

TEST(SparseAttention, ReadsTheBlocksOfTheMaskAlone) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8})
    for (const uint32_t threads : {1u, 3u}) {
      Scene scene(long_ones(dtype, 0, threads));
      Sparse sparse(scene);
      for (uint8_t& byte : sparse.mask) byte = static_cast<uint8_t>(scene.random());
      sparse.attend();
      EXPECT_LT(sparse.distance(), dtype == KVC_FLOAT32 ? 1e-5 : 4e-3);
      for (size_t r = 0; r < scene.lens.size(); ++r)  // what no head reads needs no block
        for (uint64_t b = 0; b < sparse.num_blocks(r); ++b)
          if (!sparse.bit(r, 0, b) && !sparse.bit(r, 1, b)) scene.tables[r * scene.stride + b] = -1;
      const std::vector<float> before = scene.out;
      sparse.attend();
      EXPECT_EQ(scene.out, before);
    }
}

TEST(SparseAttention, AHeadThatReadsNothingGivesZeros) {
  Scene scene(long_ones());
  Sparse sparse(scene);
  std::fill(sparse.mask.begin(), sparse.mask.end(), uint8_t{0});
  sparse.attend();
  EXPECT_EQ(scene.out, std::vector<float>(scene.out.size()));
  EXPECT_EQ(scene.lse, std::vector<float>(scene.lse.size(), -INFINITY));
}

TEST(SparseAttention, PicksTheHighestBounds) {
  for (const uint32_t threads : {1u, 3u})
    for (const uint32_t dim : {24u, 64u, 20u, 7u})
      for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_LATENT}}) {
        SceneOptions options = long_ones(KVC_FLOAT32, flags, threads);
        options.dim = dim, options.v_dim = 7, options.heads = flags != 0 ? 1 : 2, options.group = 20;
        Scene scene(options);
        Sparse sparse(scene);
        sparse.select(9, 2, 3);
        for (uint32_t head = 0; head < options.heads; ++head) {
          EXPECT_EQ(sparse.count(0, head), 9u);
          EXPECT_EQ(sparse.count(1, head), 4u) << "all there are";
          EXPECT_EQ(sparse.count(2, head), 1u);
          double least_picked = INFINITY, most_left = -INFINITY;
          for (uint64_t b = 0; b < 32; ++b) {
            if (b < 2 || b >= 29) {
              EXPECT_TRUE(sparse.bit(0, head, b)) << "sinks and recent blocks";
            } else if (sparse.bit(0, head, b)) {
              least_picked = std::min(least_picked, sparse.bound(0, head, b));
            } else {
              most_left = std::max(most_left, sparse.bound(0, head, b));
            }
          }
          EXPECT_GE(least_picked, most_left - 1e-4);
          EXPECT_TRUE(std::isfinite(least_picked) && std::isfinite(most_left));
        }
        sparse.attend();
        EXPECT_LT(sparse.distance(), 1e-5);
      }
}

// Rounded queries in their own type pick what the same numbers pick as floats; a negative scale turns bounds
// around.
TEST(SparseAttention, QueriesOfEveryTypeAndScale) {
  Scene scene(long_ones());
  Sparse sparse(scene);
  std::vector<uint16_t> rounded(scene.q.size());
  for (size_t i = 0; i < rounded.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &scene.q[i], 4);
    rounded[i] = static_cast<uint16_t>(bits >> 16);
    bits &= 0xffff0000u;
    std::memcpy(&scene.q[i], &bits, 4);
  }
  sparse.select(9);
  const std::vector<uint8_t> wanted = sparse.mask;
  scene.a.q = rounded.data(), scene.a.dtype = KVC_BFLOAT16;
  std::fill(sparse.mask.begin(), sparse.mask.end(), uint8_t{0x55});
  sparse.select(9);
  EXPECT_EQ(sparse.mask, wanted);
  scene.a.scale = -0.5f;
  sparse.select(9);
  EXPECT_NE(sparse.mask, wanted);
  for (float& x : scene.q) x = -x;
  scene.a.q = scene.q.data(), scene.a.dtype = KVC_FLOAT32, scene.a.scale = 0.5f;
  const std::vector<uint8_t> turned = sparse.mask;
  sparse.select(9);
  EXPECT_EQ(sparse.mask, turned);
}

TEST(SparseAttention, ABoundIsAbove) {
  Scene scene({.dtype = KVC_INT4, .lens = {500}, .queries = {1}});
  const Sparse sparse(scene);
  std::vector<float> k(Scene::kLayers * 500 * 2 * 24), v(Scene::kLayers * 500 * 2 * 16);
  kvc_rows rows = scene.rows_of(0, k, v);
  ASSERT_EQ(kvc_storage_gather(scene.storage.get(), &rows, nullptr), KVC_OK);
  for (uint64_t j = 0; j < 496; ++j)
    for (uint32_t h = 0; h < 6; ++h) {
      double logit = 0;
      for (size_t e = 0; e < 24; ++e)
        logit += double{scene.q[h * 24 + e]} * double{k[((Scene::kLayer * 500 + j) * 2 + h / 3) * 24 + e]};
      EXPECT_LE(logit, sparse.bound(0, h / 3, j / 16) + 1e-9);
    }
}

TEST(SparseAttention, EnoughBlocksAreDenseBitForBit) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8})
    for (const uint32_t threads : {1u, 4u}) {
      Scene scene(long_ones(dtype, 0, threads));
      scene.attend();
      const std::vector<float> dense = scene.out, dense_lse = scene.lse;
      Sparse sparse(scene);
      for (const uint64_t top_k : {uint64_t{32}, UINT64_MAX}) {
        sparse.select(top_k);
        sparse.attend();
        EXPECT_EQ(scene.out, dense);
        EXPECT_EQ(scene.lse, dense_lse);
      }
      sparse.select_ratio(1);
      sparse.attend();
      EXPECT_EQ(scene.out, dense);
      EXPECT_EQ(scene.lse, dense_lse);
      for (const double threshold : {double{INFINITY}, 1e300}) {
        sparse.select_close(threshold);
        sparse.attend();
        EXPECT_EQ(scene.out, dense);
        EXPECT_EQ(scene.lse, dense_lse);
      }
      sparse.select_close(
          1e30);  // finite: picks all blocks that a query reaches, and computes as with a mask
      sparse.attend();
      for (size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(scene.out[i], dense[i], 1e-5);
      for (const auto& fewer : {std::function<void()>([&] { sparse.select(31); }),
                                std::function<void()>([&] { sparse.select_ratio(0.9); }),
                                std::function<void()>([&] { sparse.select_close(0.01); })}) {
        fewer();
        sparse.attend();
        EXPECT_NE(scene.out, dense);
      }
    }
}

// A key that answers one query shows in the choice: recall against the true softmax is far above that of
// any fixed choice of as many blocks.
TEST(SparseAttention, FindsWhatAttentionLooksAt) {
  const struct {
    int32_t dtype;
    uint32_t flags;
  } cases[] = {{KVC_FLOAT32, 0}, {KVC_INT8, 0}, {KVC_INT8, KVC_STORAGE_HADAMARD}};
  for (const auto& test : cases) {
    Scene scene(
        {.dtype = test.dtype, .flags = test.flags, .group = 1, .dim = 32, .lens = {4096}, .queries = {1}});
    std::vector<float> k(Scene::kLayers * 2 * 32), v(Scene::kLayers * 2 * 16, 1);
    for (const int64_t position : {100, 1500, 3000}) {
      for (uint32_t l = 0; l < Scene::kLayers; ++l)
        for (size_t e = 0; e < 64; ++e) k[l * 64 + e] = 5 * scene.q[e];
      const int64_t slot = scene.tables[static_cast<size_t>(position / 16)] * 16 + position % 16;
      kvc_rows rows = scene.rows_of(0, k, v);
      rows.num_tokens = 1, rows.slots = &slot;
      ASSERT_EQ(kvc_storage_store(scene.storage.get(), &rows, nullptr), KVC_OK);
    }
    scene.attend();
    const std::vector<float> dense = scene.out;
    Sparse sparse(scene);
    sparse.select(8);  // of 256
    for (uint32_t head = 0; head < 2; ++head)
      for (const uint64_t position : {100u, 1500u, 3000u})
        EXPECT_TRUE(sparse.bit(0, head, position / 16)) << test.dtype << ' ' << test.flags;
    sparse.attend();
    for (size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(scene.out[i], dense[i], 0.02);
  }
}

TEST(SparseAttention, EqualBoundsGoToTheFirstBlocksAndNaNComesBeforeAll) {
  Scene scene({.lens = {320}, .queries = {1}, .share_first = false});
  Sparse sparse(scene);
  std::fill(sparse.bounds.begin(), sparse.bounds.end(), uint16_t{0x3c00});
  sparse.select(4);
  for (uint64_t b = 0; b < 20; ++b) EXPECT_EQ(sparse.bit(0, 1, b), b < 3 || b == 19) << b;
  std::vector<float> k(Scene::kLayers * 2 * 24), v(Scene::kLayers * 2 * 16);
  k[Scene::kLayer * 48 + 30] = NAN;  // head 1, element 6
  const int64_t slot = scene.tables[11] * 16 + 5;
  kvc_rows rows = scene.rows_of(0, k, v);
  rows.num_tokens = 1, rows.slots = &slot;
  ASSERT_EQ(kvc_storage_store(scene.storage.get(), &rows, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_key_bounds(scene.storage.get(), Scene::kLayer, &scene.tables[11], 1,
                                   sparse.bounds.data(), nullptr),
            KVC_OK);
  EXPECT_TRUE(std::isnan(to_float(sparse.bounds_of(scene.tables[11], 1)[6])));
  EXPECT_FALSE(std::isnan(to_float(sparse.bounds_of(scene.tables[11], 1)[7])));
  EXPECT_FALSE(std::isnan(to_float(sparse.bounds_of(scene.tables[11], 0)[6])));
  sparse.select(2);
  for (uint64_t b = 0; b < 20; ++b) EXPECT_EQ(sparse.bit(0, 1, b), b == 11 || b == 19) << b;
}

TEST(SparseAttention, PicksInsideTheWindow) {
  Scene scene(long_ones());
  scene.a.window = 100, scene.a.sinks = 20;
  Sparse sparse(scene);
  sparse.select(4);
  for (uint32_t head = 0; head < 2; ++head) {
    EXPECT_EQ(sparse.count(0, head), 4u);
    for (uint64_t b = 2; b < 25; ++b) EXPECT_FALSE(sparse.bit(0, head, b)) << "no query reaches it";
  }
  sparse.attend();
  EXPECT_LT(sparse.distance(), 1e-5);
}

// The keys of later queries of a chunk are kept, and the last block where nothing is causal.
TEST(SparseAttention, KeepsWhatIsNew) {
  Scene scene({.lens = {320}, .queries = {40}});
  Sparse sparse(scene);
  sparse.select(1);
  for (uint64_t b = 0; b < 20; ++b) EXPECT_EQ(sparse.bit(0, 0, b), b >= 17) << b;
  sparse.select(1, 1, 2);
  for (uint64_t b = 0; b < 20; ++b) EXPECT_EQ(sparse.bit(0, 0, b), b == 0 || b >= 16) << b;
  scene.a.flags = KVC_ATTENTION_NOT_CAUSAL;
  sparse.select(1);
  for (uint64_t b = 0; b < 20; ++b) EXPECT_EQ(sparse.bit(0, 0, b), b == 19) << b;
}

TEST(SparseAttention, BadArgumentsAreRefused) {
  Scene scene(long_ones());
  Sparse sparse(scene);
  kvc_storage* s = scene.storage.get();
  const std::vector<uint8_t> before = sparse.mask;
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_block_choice choice = sparse.choice;
    choice.top_k = 3;
    change(choice);
    EXPECT_EQ(kvc_storage_select_blocks(s, &scene.a, &choice, nullptr), status);
    EXPECT_EQ(sparse.mask, before);
  };
  using C = kvc_block_choice;
  refused([](C& c) { c.struct_size = 0; });
  refused([](C& c) { c.top_k = 0; });
  const auto refused_text = [&](auto&& change, const std::string& text) {
    refused(change);
    EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
  };
  refused_text([](C& c) { c.top_k = 0; }, "top_k is 0, ratio is 0 and threshold is 0; set exactly one");
  refused_text([](C& c) { c.ratio = 0.5; }, "top_k is 3, ratio is 0.5 and threshold is 0; set exactly one");
  refused_text([](C& c) { c.threshold = 6; }, "threshold is 6; set exactly one");
  refused_text([](C& c) { c.top_k = 0, c.ratio = 0.5, c.threshold = 6; }, "set exactly one");
  for (const double bad : {-0.25, 1.25, double{NAN}, double{INFINITY}, -double{INFINITY}})
    refused_text([&](C& c) { c.top_k = 0, c.ratio = bad; }, "give a number above 0 and at most 1");
  for (const double bad : {-6.0, double{NAN}, -double{INFINITY}})
    refused_text([&](C& c) { c.top_k = 0, c.threshold = bad; }, "give a number above 0, or infinity");
  refused([](C& c) { c.bounds = nullptr; });
  refused([](C& c) { c.block_mask = nullptr; });
  refused([](C& c) { c.block_mask_stride = 3; });
  const int32_t last = scene.tables[5];
  scene.tables[5] = static_cast<int32_t>(scene.num_blocks);
  refused([](C&) {});
  scene.tables[5] = last;
  scene.a.q = nullptr;
  refused([](C&) {});
  scene.a.struct_size = 8;
  refused([](C&) {});
  scene.a.struct_size = sizeof(kvc_attention);
  scene.a.q = scene.q.data();
  EXPECT_EQ(kvc_storage_select_blocks(s, nullptr, &sparse.choice, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_select_blocks(s, &scene.a, nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);

  const std::vector<uint16_t> bounds = sparse.bounds;
  const int32_t blocks[] = {0, static_cast<int32_t>(scene.num_blocks)}, negative = -1;
  EXPECT_EQ(kvc_storage_key_bounds(s, 0, blocks, 2, sparse.bounds.data(), nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_key_bounds(s, 0, &negative, 1, sparse.bounds.data(), nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_key_bounds(s, Scene::kLayers, blocks, 1, sparse.bounds.data(), nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_key_bounds(s, 0, blocks, 1, nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_key_bounds(s, 0, nullptr, 1, sparse.bounds.data(), nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(sparse.bounds, bounds);

  scene.a.block_mask = sparse.mask.data(), scene.a.block_mask_stride = 3;
  EXPECT_EQ(kvc_storage_attend(s, &scene.a, nullptr), KVC_ERROR_INVALID_ARGUMENT) << "32 blocks need 4 bytes";
  scene.a.block_mask_stride = 4;
  EXPECT_EQ(kvc_storage_attend(s, &scene.a, nullptr), KVC_OK) << kvc_last_error();
}

// Bounds, choice and attention in one stream: each step reads what the one before it writes.
TEST(SparseAttention, AStreamRunsTheStepsInOrder) {
  Scene scene(long_ones(KVC_BFLOAT16, 0, 2));
  Sparse sparse(scene);
  sparse.select(7, 1, 2);
  sparse.attend();
  const std::vector<float> out = scene.out, lse = scene.lse;
  const std::vector<uint8_t> mask = sparse.mask;
  const std::vector<uint16_t> bounds = sparse.bounds;

  std::fill(sparse.bounds.begin(), sparse.bounds.end(), uint16_t{0x7e00});
  std::fill(sparse.mask.begin(), sparse.mask.end(), uint8_t{0x55});
  std::fill(scene.out.begin(), scene.out.end(), -1.0f);
  kvc_stream* stream = nullptr;
  ASSERT_EQ(kvc_stream_create(kvc::test::device(), &stream), KVC_OK);
  kvc_storage* s = scene.storage.get();
  {
    std::vector<int32_t> blocks = sparse.blocks, tables = scene.tables;
    std::vector<uint64_t> offsets = scene.offsets, lens = scene.lens;
    AttentionCall a = scene.a;
    a.block_tables = tables.data(), a.q_offsets = offsets.data(), a.kv_lens = lens.data();
    EXPECT_EQ(
        kvc_storage_key_bounds(s, Scene::kLayer, blocks.data(), blocks.size(), sparse.bounds.data(), stream),
        KVC_OK);
    EXPECT_EQ(kvc_storage_select_blocks(s, &a, &sparse.choice, stream), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_storage_attend(s, &a, stream), KVC_OK) << kvc_last_error();
    tables[3] = -1;
    EXPECT_EQ(kvc_storage_attend(s, &a, stream), KVC_ERROR_INVALID_ARGUMENT)
        << "the mask of now says nothing about the one that will be read";
    std::fill(blocks.begin(), blocks.end(), -1);
    std::fill(tables.begin(), tables.end(), -1);
    offsets.assign(4, 1u << 30), lens.assign(3, 1u << 30);
  }
  ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  EXPECT_EQ(sparse.bounds, bounds);
  EXPECT_EQ(sparse.mask, mask);
  EXPECT_EQ(scene.out, out);
  EXPECT_EQ(scene.lse, lse);
  kvc_stream_destroy(stream);
}

TEST(SparseAttention, NothingToPick) {
  Scene scene(long_ones());
  Sparse sparse(scene);
  const std::vector<uint64_t> none(4);
  scene.a.q_offsets = none.data();
  sparse.select(1);
  EXPECT_EQ(sparse.count(0, 0), 0u);
  scene.a.q_offsets = scene.offsets.data(), scene.a.kv_lens = none.data(), scene.a.q_starts = none.data();
  const std::vector<uint8_t> before = sparse.mask;
  sparse.select(1);
  EXPECT_EQ(sparse.mask, before) << "a request without tokens has no blocks, and no bits";
  scene.a.num_requests = 0;
  sparse.select(1);
}

}  // namespace
