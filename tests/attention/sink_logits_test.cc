// SPDX-License-Identifier: Apache-2.0
// A learned logit per query head: it takes its share of the softmax once, however the work is cut, by no
// rule of other logits, and without one nothing changes.
#include "attention/expect.h"

namespace kvc::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

std::vector<Options> stores() {
  std::vector<Options> all{{.dtype = KVC_FLOAT32},
                           {.dtype = KVC_FLOAT32, .tiled = true},
                           {.dtype = KVC_BFLOAT16, .q_dtype = KVC_BFLOAT16, .tiled = true},
                           {.dtype = KVC_BFLOAT16},
                           {.dtype = KVC_FLOAT16, .q_dtype = KVC_FLOAT16, .latent = true, .k_dim = 96},
                           {.dtype = KVC_INT8, .hadamard = true},
                           {.dtype = KVC_INT4, .q_dtype = KVC_BFLOAT16}};
  for (Options& o : all) o.sink_logits = true, o.heads = o.latent ? 1 : 2, o.group = 4;
  return all;
}

TEST(AttentionSinkLogits, AreOneMoreLogitOfEveryQuery) {
  for (Options o : stores()) {
    o.kv_lens = {5, 100, 31, 130}, o.q_lens = {2, 3, 17, 130};
    expect_right(o);
    o.kv_lens = {700}, o.q_lens = {9}, o.q_scale = 8;
    expect_right(o);
  }
}

TEST(AttentionSinkLogits, BesideAllOtherRules) {
  for (Options o : stores()) {
    o.kv_lens = {100, 31}, o.q_lens = {3, 17};
    for (const uint64_t window : {0, 20}) {
      o.window = window, o.sinks = 3, o.mask_percent = 0;
      o.soft_cap = 2, o.q_scale = 5;
      expect_right(o);
      o.alibi = true;
      expect_right(o);
      o.soft_cap = 0, o.alibi = false, o.mask_percent = 50, o.block_percent = 60;
      expect_right(o);
      o.block_percent = 0;
    }
  }
}

TEST(AttentionSinkLogits, CountOnceWhateverTheSplits) {
  for (Options o : stores()) {
    o.kv_lens = {2500, 500, 20, 0}, o.q_lens = {1, 20, 1, 1};
    for (const size_t workers : {1, 2, 3, 8}) expect_right(o, test_seed(), workers);
  }
}

TEST(AttentionSinkLogits, OfMinusInfinityAreNone) {
  for (Options o : stores()) {
    o.kv_lens = {300, 31}, o.q_lens = {3, 17};
    Case c(o);
    std::fill(c.sink_logits().begin(), c.sink_logits().end(), -kInfinity);
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      c.run(kernels, 2);
      const std::vector<char> out = c.out();
      const std::vector<float> lse = c.lse();
      const float* const given = c.args().sink_logits;
      c.args().sink_logits = nullptr;
      c.run(kernels, 2);
      c.args().sink_logits = given;
      EXPECT_EQ(c.out(), out) << kernels->name << ": " << describe(o);
      EXPECT_EQ(c.lse(), lse) << kernels->name << ": " << describe(o);
    }
  }
}

TEST(AttentionSinkLogits, AreAllThatAQueryWithoutTokensSees) {
  for (Options o : stores()) {
    o.kv_lens = {0, 4, 20}, o.q_lens = {2, 7, 1};  // three queries of the second lie before its first token
    Case c(o);
    const float special[] = {1.5f, -1e30f, kMost, -kMost, 1e-40f, -kInfinity, 0.1f, -3e30f};
    for (size_t h = 0; h < c.sink_logits().size(); ++h) c.sink_logits()[h] = special[h % 8];
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      for (const size_t workers : {1, 3}) {
        c.run(kernels, workers);
        for (const uint64_t token : {0, 1, 2, 3, 4}) {  // the first of the second request is token 2
          for (size_t h = 0; h < c.sink_logits().size(); ++h)
            EXPECT_EQ(c.lse()[token * c.sink_logits().size() + h], c.sink_logits()[h]) << kernels->name;
        }
        for (float x : c.output(0, 0)) EXPECT_EQ(x, 0);
        for (float x : c.output(1, 2)) EXPECT_EQ(x, 0);
      }
    }
  }
}

// Far above all other logits nothing else is seen; far below nothing changes. No sum overflows.
TEST(AttentionSinkLogits, OfAnySizeGiveFiniteResults) {
  for (Options o : stores()) {
    o.kv_lens = {90, 300}, o.q_lens = {17, 1};
    for (const float sink : {kMost, 1e38f, 1e30f, 1000.0f, 90.0f, 30.0f, -30.0f, -90.0f, -1e30f, -kMost}) {
      Case c(o);
      std::fill(c.sink_logits().begin(), c.sink_logits().end(), sink);
      c.run_reference();
      for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
        c.run(kernels, 2);
        EXPECT_LE(c.distance(), 8e-3) << kernels->name << ": " << sink << ": " << describe(o);
        if (std::abs(sink) <= 1000) {
          EXPECT_LE(c.lse_distance(), 1e-3) << kernels->name << ": " << sink;
        } else if (sink > 0) {
          for (const float lse : c.lse()) EXPECT_EQ(lse, sink) << kernels->name;
        } else {
          EXPECT_LE(c.lse_distance(), 1e-3) << kernels->name << ": " << sink;
        }
      }
    }
  }
}

TEST(AttentionSinkLogits, DoNotHideWhatIsNotANumber) {
  for (Options o : stores()) {
    o.kv_lens = {40}, o.q_lens = {3};
    Case c(o);
    c.fill_token(0, 7, true);
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      c.run(kernels);
      for (const float x : c.output(0, 1)) ASSERT_TRUE(std::isnan(x)) << kernels->name << ": " << describe(o);
    }
  }
}

}  // namespace
}  // namespace kvc::test
