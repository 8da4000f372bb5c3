// SPDX-License-Identifier: Apache-2.0
// Many rows against many tokens, where tiles go together (Worker::attend_run): every form and source of keys
// and values, every tail of rows and tokens, logits that grow, and what is not finite.
#include "attention/expect.h"
#include "base/copy.h"
#include "rounds.h"

namespace kvc::test {
namespace {

std::vector<Options> stores() {
  std::vector<Options> all;
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_FLOAT16}) {
    all.push_back({.dtype = dtype});
    all.push_back({.dtype = dtype, .tiled = true});
    all.push_back({.dtype = dtype, .token_major = true, .block_size = 4});
  }
  all.push_back({.dtype = KVC_FLOAT8_E4M3});
  all.push_back({.dtype = KVC_INT4, .scale_group = 32});
  all.push_back({.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16, .tiled = true});
  all.push_back({.dtype = KVC_FLOAT32, .q_dtype = KVC_BFLOAT16});
  all.push_back({.dtype = KVC_FLOAT32, .latent = true, .k_dim = 96, .v_dim = 64, .heads = 1});
  for (Options& o : all) o.group = 4;
  return all;
}

TEST(AttentionRuns, AnyNumberOfRowsAndTokens) {
  Sample sample;
  for (Options o : stores()) {
    for (const uint64_t queries : {8, 9, 15}) {  // rows from 32 on
      if (!sample.takes_next()) continue;
      o.q_lens = {queries, queries, queries}, o.kv_lens = {queries, 130, 313};
      expect_right(o);
    }
    o.q_lens = {130}, o.kv_lens = {193}, o.heads = 1;  // more than a piece has
    expect_right(o);
    o.q_lens = {9}, o.kv_lens = {700};  // several runs
    expect_right(o);
  }
}

TEST(AttentionRuns, DimsThatFitAndDimsThatDoNot) {
  Sample sample;
  for (Options o : stores()) {
    if (o.latent) continue;
    o.q_lens = {11}, o.kv_lens = {140}, o.heads = 1;
    for (const uint32_t dim : {32u, 80u, 96u, 1056u}) {
      if (!sample.takes_next()) continue;
      o.k_dim = dim, o.v_dim = dim == 96 ? 32 : dim;
      expect_right(o);
    }
  }
}

// Results of 4 MiB and more are written past the caches, whole lines of them.
TEST(AttentionRuns, LargeResults) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    Options o{.dtype = dtype, .q_dtype = dtype, .k_dim = 32, .group = 16, .kv_lens = {129}, .q_lens = {129}};
    for (const uint32_t bytes : {1024u, 1040u}) {
      o.v_dim = bytes * 8 / dtype_bits(dtype);
      ASSERT_GE(size_t{129} * o.heads * o.group * bytes, kStreamBytes);
      expect_right(o);
    }
  }
}

TEST(AttentionRuns, MasksOfAllKinds) {
  for (Options o : stores()) {
    o.q_lens = {20, 30}, o.kv_lens = {200, 130}, o.heads = 1;
    o.causal = false;
    expect_right(o);
    o.mask_percent = 40;
    expect_right(o);
    o.mask_percent = 0, o.causal = true, o.window = 70, o.sinks = 3;
    expect_right(o);
    o.window = 0, o.tree = true;
    expect_right(o);
  }
}

// Logits so far apart that rows start again from their highest one, in later tiles too; and those of scales
// that leave the way of many rows.
TEST(AttentionRuns, LargeLogits) {
  for (Options o : stores()) {
    o.q_lens = {10}, o.kv_lens = {400}, o.q_scale = 40;
    expect_right(o);
    for (const float scale : {-0.125f, 0.0f}) {
      Case c(o);
      c.args().scale = scale;
      c.run_reference();
      for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
        c.run(kernels);
        const bool exact = o.dtype == KVC_FLOAT32 && o.q_dtype == KVC_FLOAT32;
        EXPECT_LE(c.distance(), exact ? 1e-5 : 8e-3) << kernels->name << ": " << describe(o);
      }
    }
  }
}

// The first tokens far below all others, by so much that a float of one's logit does not tell others apart.
TEST(AttentionRuns, LogitsFarApart) {
  for (const float far : {1e4f, 1e9f, 1e11f, 1e12f, 1e20f}) {
    for (const float shift : {0.0f, -2000.0f, 2000.0f}) {
      Options o{.heads = 1, .group = 16, .kv_lens = {700}, .q_lens = {9}};
      Case c(o);
      for (uint64_t token = 0; token < 700; ++token) {
        float* key = c.key(0, token, 0);
        key[0] = token < 200 ? -std::sqrt(far) : 0, key[1] = 1;
      }
      auto* q = static_cast<float*>(const_cast<void*>(c.args().q));
      for (size_t row = 0; row < size_t{9} * o.group; ++row)
        q[row * o.k_dim] = std::sqrt(far), q[row * o.k_dim + 1] = shift;
      c.run_reference();
      for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
        c.run(kernels);
        EXPECT_LE(c.distance(), 1e-3) << kernels->name << ": " << far << " apart, and " << shift;
      }
    }
  }
}

TEST(AttentionRuns, TokensSeenByOtherQueriesNeverChangeABit) {
  for (Options o : stores()) {
    o.kv_lens = {218}, o.heads = 1, o.group = 16;  // 16 rows a query, 144 together
    expect_later_tokens_unseen(o);
  }
}

TEST(AttentionRuns, WhatIsNotFiniteShowsInAllRowsThatSeeIt) {
  for (Options o : stores()) {
    o.kv_lens = {200}, o.q_lens = {9};
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      Case c(o);
      c.fill_token(0, 7, true);
      c.run(kernels);
      for (uint64_t q = 0; q < 9; ++q) {
        for (const float x : c.output(0, q))
          ASSERT_TRUE(std::isnan(x)) << kernels->name << ": " << describe(o);
      }
    }
  }
}

// One element of a value that only later queries see, in the second of two tiles that go together.
TEST(AttentionRuns, AHugeElementOfAValueShowsInItsOwnColumnAlone) {
  constexpr uint64_t kAt = 251;
  constexpr uint32_t kElement = 5;
  for (Options o : stores()) {
    if (o.latent || is_quantized(o.dtype)) continue;
    o.kv_lens = {256}, o.q_lens = {9}, o.heads = 1, o.group = 16;
    const double limit = o.dtype == KVC_FLOAT32 && o.q_dtype == KVC_FLOAT32 ? 1e-5 : 8e-3;
    for (const float huge : {std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
      Case c(o);
      c.fill_values(0, kAt, kElement, huge);
      c.run_by(attend_reference);
      std::vector<std::vector<float>> expected;
      for (uint64_t query = 0; query < 9; ++query) expected.push_back(c.output(0, query));
      for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
        c.run(kernels);
        for (uint64_t query = 0; query < 9; ++query) {
          const std::vector<float> out = c.output(0, query);
          for (uint32_t e = 0; e < out.size(); ++e) {
            const float right = expected[query][e];
            const bool is_right = std::isfinite(right)
                                      ? std::abs(out[e] - right) <= limit * std::max(1.0f, std::abs(right))
                                      : !std::isfinite(out[e]);
            ASSERT_TRUE(is_right) << kernels->name << ": query " << query << ", element " << e << " is "
                                  << out[e] << ", not " << right << ": " << describe(o);
          }
        }
      }
    }
  }
}

// Keys and queries of 11 bits, that is two terms, beside keys of 24 that only later queries see.
TEST(AttentionRuns, FewerTermsAreAsExactAndNeverDependOnOtherTokens) {
  for (const bool tiled : {false, true}) {
    Options o{.tiled = tiled, .heads = 1, .group = 16, .kv_lens = {256}, .q_lens = {9}, .q_scale = 8};
    const auto cut = [](const void* floats, size_t bytes) {
      auto* bits = static_cast<uint32_t*>(const_cast<void*>(floats));
      for (size_t i = 0; i < bytes / 4; ++i) bits[i] &= 0xffffe000;
    };
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      Case c(o);
      cut(c.args().slab, c.args().layout->slab_bytes);
      cut(c.args().q, size_t{9} * o.group * o.k_dim * 4);
      c.run_reference();
      c.run(kernels);
      EXPECT_LE(c.distance(), 1e-5) << kernels->name << ": " << describe(o);
      EXPECT_LE(c.lse_distance(), 3e-5) << kernels->name << ": " << describe(o);
      const std::vector<float> before = c.output(0, 2);
      c.fill_token(0, 252, false);
      c.run(kernels);
      EXPECT_EQ(c.output(0, 2), before) << kernels->name << ": " << describe(o);
    }
  }
}

TEST(AttentionRuns, AQueryThatIsNotFiniteSpoilsItsOwnRowAlone) {
  for (Options o : stores()) {
    if (o.q_dtype != KVC_FLOAT32) continue;
    o.kv_lens = {150}, o.q_lens = {20};
    ASSERT_NO_FATAL_FAILURE(expect_bad_query_alone(o));
  }
}

}  // namespace
}  // namespace kvc::test
