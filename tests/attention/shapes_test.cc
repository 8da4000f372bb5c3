// SPDX-License-Identifier: Apache-2.0
// attend() against the reference over shapes: element types, dims, groups, block sizes, lengths around every
// edge of a block and a tile, prefill and decode, each with every instruction set of this machine.
#include "attention/expect.h"
#include "rounds.h"

namespace kvc::test {
namespace {

constexpr int32_t kTypes[] = {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16};

TEST(AttentionShapes, EveryTypeOfStorageAndQuery) {
  for (int32_t dtype : kTypes) {
    for (int32_t q_dtype : kTypes) {
      for (int tiled = 0; tiled < 2; ++tiled) {
        expect_right({.dtype = dtype,
                      .q_dtype = q_dtype,
                      .tiled = tiled != 0,
                      .k_dim = 128,
                      .v_dim = 128,
                      .group = 4,
                      .kv_lens = {77, 130},
                      .q_lens = {1, 3}});
      }
    }
  }
}

// Only where it is allowed are probabilities of float32 queries rounded: in decode, in prefill and in runs.
TEST(AttentionShapes, FloatQueriesMayUseTheArithmeticOfBfloat16) {
  for (const uint64_t queries : {1, 20, 90}) {
    for (const bool tiled : {false, true}) {
      Options options{.dtype = KVC_BFLOAT16,
                      .q_dtype = KVC_FLOAT32,
                      .tiled = tiled,
                      .k_dim = 64,
                      .v_dim = 64,
                      .kv_lens = {300},
                      .q_lens = {queries}};
      expect_right(options);
      options.allow_bf16 = true;
      expect_right(options);
    }
  }
}

TEST(AttentionShapes, EveryDimAndGroup) {
  Sample sample;
  for (int32_t dtype : kTypes) {
    for (uint32_t dim : {1u, 8u, 64u, 80u, 128u}) {
      for (uint32_t group : {1u, 3u, 4u, 8u}) {
        for (int tiled = 0; tiled < 2; ++tiled) {
          if (tiled != 0 && dtype != KVC_FLOAT32 && dim % 2 != 0) continue;
          if (!sample.takes_next()) continue;
          expect_right({.dtype = dtype,
                        .tiled = tiled != 0,
                        .k_dim = dim,
                        .v_dim = dim,
                        .group = group,
                        .kv_lens = {70},
                        .q_lens = {2}});
        }
      }
    }
  }
  expect_right({.k_dim = 192, .v_dim = 128, .kv_lens = {50}, .q_lens = {2}});
  expect_right(
      {.dtype = KVC_BFLOAT16, .tiled = true, .k_dim = 128, .v_dim = 72, .kv_lens = {50}, .q_lens = {2}});
}

// More heads of a group than a piece has rows, and rows beyond what products of integers have room for.
TEST(AttentionShapes, LargeGroupsAndLongRows) {
  for (const int32_t dtype : {KVC_BFLOAT16, KVC_INT8}) {
    expect_right(
        {.dtype = dtype, .k_dim = 32, .v_dim = 32, .heads = 1, .group = 600, .kv_lens = {40}, .q_lens = {2}});
    for (const uint64_t queries : {1, 20})
      expect_right(
          {.dtype = dtype, .k_dim = 2080, .v_dim = 32, .heads = 1, .kv_lens = {40}, .q_lens = {queries}});
  }
}

TEST(AttentionShapes, LatentValuesArePartOfTheKeys) {
  for (int32_t dtype : kTypes) {
    for (int tiled = 0; tiled < 2; ++tiled) {
      for (uint32_t group : {1u, 16u, 72u, 130u}) {
        expect_right({.dtype = dtype,
                      .q_dtype = dtype,
                      .tiled = tiled != 0,
                      .latent = true,
                      .k_dim = 576,
                      .v_dim = 512,
                      .heads = 1,
                      .group = group,
                      .kv_lens = {39},
                      .q_lens = {2}});
      }
      expect_right({.dtype = dtype,
                    .tiled = tiled != 0,
                    .latent = true,
                    .k_dim = 48,
                    .v_dim = 20,
                    .heads = 1,
                    .kv_lens = {39},
                    .q_lens = {2}});
    }
  }
}

TEST(AttentionShapes, EveryBlockSizeAndLength) {
  Sample sample;
  for (int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    for (uint32_t block_size : {1u, 2u, 4u, 16u, 24u, 64u}) {
      for (int kind = 0; kind < 3; ++kind) {  // plain, token-major, tiled
        std::vector<uint64_t> lengths{0, 1, 15, 16, 17, 63, 64, 65, 129};
        for (uint64_t blocks : {1, 2}) {
          for (uint64_t around : {0, 1, 2}) lengths.push_back(blocks * block_size + around - 1);
        }
        for (uint64_t queries : {1u, 3u, 17u}) {
          if (!sample.takes_next()) continue;
          Options options{.dtype = dtype,
                          .tiled = kind == 2,
                          .token_major = kind == 1,
                          .block_size = block_size,
                          .kv_lens = lengths,
                          .q_lens = std::vector<uint64_t>(lengths.size(), queries)};
          options.causal = queries != 3;
          expect_right(options);
        }
      }
    }
  }
}

TEST(AttentionShapes, QuantizedRows) {
  Sample sample;
  for (int32_t dtype : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2}) {
    for (bool asymmetric : {false, true}) {
      if (asymmetric && dtype != KVC_INT8 && dtype != KVC_INT4) continue;
      for (uint32_t scale_group : {0u, 16u, 24u, 32u, 64u, 1000u}) {
        for (uint32_t dim : {32u, 48u, 80u, 128u}) {
          for (int32_t q_dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
            if (!sample.takes_next()) continue;
            expect_right({.dtype = dtype,
                          .q_dtype = q_dtype,
                          .token_major = dim == 48,
                          .scale_group = scale_group,
                          .asymmetric = asymmetric,
                          .k_dim = dim,
                          .v_dim = dim,
                          .group = dim == 128 ? 4u : 3u,
                          .kv_lens = {77, 130},
                          .q_lens = {1, 3}});  // few and many rows
          }
        }
      }
      for (uint32_t scale_group : {0u, 32u}) {  // many rows
        expect_right({.dtype = dtype,
                      .scale_group = scale_group,
                      .asymmetric = asymmetric,
                      .k_dim = 96,
                      .v_dim = 64,
                      .group = 2,
                      .kv_lens = {150},
                      .q_lens = {60}});
      }
      expect_right({.dtype = dtype,
                    .latent = true,
                    .asymmetric = asymmetric,
                    .k_dim = 576,
                    .v_dim = 512,
                    .heads = 1,
                    .group = 16,
                    .kv_lens = {39},
                    .q_lens = {2}});
    }
  }
}

TEST(AttentionShapes, TiledValues) {
  expect_right({.dtype = KVC_BFLOAT16, .tiled = true, .tiled_values = true, .kv_lens = {100}, .q_lens = {3}});
  expect_right({.tiled_values = true, .kv_lens = {100}, .q_lens = {3}});
}

TEST(AttentionShapes, LongerContextsAndPrefill) {
  for (int tiled = 0; tiled < 2; ++tiled) {
    expect_right({.dtype = KVC_BFLOAT16,
                  .q_dtype = KVC_BFLOAT16,
                  .tiled = tiled != 0,
                  .k_dim = 128,
                  .v_dim = 128,
                  .group = 4,
                  .kv_lens = {1000, 150, 1},
                  .q_lens = {1, 70, 1}});
    expect_right({.tiled = tiled != 0, .group = 4, .kv_lens = {200, 500}, .q_lens = {200, 20}, .q_scale = 4});
  }
}

TEST(AttentionShapes, RandomOnes) {
  std::mt19937_64 random(test_seed());
  const auto pick = [&](auto... values) {
    const uint32_t all[] = {static_cast<uint32_t>(values)...};
    return all[random() % (sizeof all / sizeof *all)];
  };
  for (int i = 0; i < rounds(50); ++i) {
    Options o;
    o.dtype = kTypes[random() % 3], o.q_dtype = kTypes[random() % 3];
    o.tiled = random() % 2, o.token_major = random() % 2, o.shared = random() % 2,
    o.causal = random() % 4 != 0;
    o.heads = pick(1, 2, 3), o.group = pick(1, 2, 5, 8), o.block_size = pick(1, 2, 4, 8, 16, 32, 48);
    o.k_dim = pick(2, 16, 48, 64, 96, 128), o.v_dim = pick(2, 16, 48, 64, 96, 128);
    o.latent = random() % 8 == 0;
    if (o.latent) o.v_dim = std::min(o.v_dim, o.k_dim);
    o.kv_lens.resize(1 + random() % 3), o.q_lens.resize(o.kv_lens.size());
    for (size_t r = 0; r < o.kv_lens.size(); ++r) o.kv_lens[r] = random() % 200, o.q_lens[r] = random() % 20;
    if (random() % 3 == 0) {
      o.q_starts.resize(o.kv_lens.size());
      for (uint64_t& start : o.q_starts) start = random() % 250;
    }
    if (random() % 3 == 0) o.window = 1 + random() % 100, o.sinks = random() % 2 * (random() % 40);
    if (random() % 4 == 0) o.soft_cap = 2;
    if (random() % 4 == 0) o.alibi = true;
    if (random() % 4 == 0) o.mask_percent = static_cast<int>(1 + random() % 99);
    if (random() % 4 == 0) o.block_percent = static_cast<int>(1 + random() % 99);
    o.tail = random() % 2;
    if (random() % 4 == 0) {
      o.dtype = std::vector<int32_t>{KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3}[random() % 3];
      o.tiled = false, o.scale_group = pick(0, 16, 32);
      o.asymmetric = o.dtype != KVC_FLOAT8_E4M3 && random() % 2;
      o.hadamard = !o.latent && o.k_dim % 3 != 0 && o.v_dim % 3 != 0 && random() % 2;  // powers of 2
    }
    o.sink_logits = random() % 3 == 0;
    constexpr Rows kRows[] = {Rows::kContiguous, Rows::kFused, Rows::kPadded, Rows::kHeadMajor,
                              Rows::kOverlapping};
    if (random() % 2) o.q_rows = kRows[random() % 5];
    if (random() % 2) o.out_rows = kRows[random() % 4];
    expect_right(o, test_seed() + static_cast<uint64_t>(i), 1 + random() % 2 * (random() % 4));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kvc::test
