// SPDX-License-Identifier: Apache-2.0
// kvc_attention's strides of queries and results, and its sink logits, through the C API: what their defaults
// are, what is refused, and that the results are those of rows side by side, or of a merge with the sink.
#include <cstddef>
#include <cstring>
#include <string>

#include "api/attention_scene.h"
#include "attention_call.h"
#include "calls.h"

namespace {

using kvc::test::Scene;
using kvc::test::SceneOptions;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kGuard = -777;

// The rows of a scene elsewhere, with guards between those of results.
struct Elsewhere {
  Elsewhere(Scene& of, int64_t q_token, int64_t q_head, int64_t out_token, int64_t out_head) : scene(of) {
    const uint64_t tokens = scene.offsets.back(), heads = scene.q_heads;
    const auto fill = [&](std::vector<float>& x, float with, int64_t token, int64_t head, uint32_t dim) {
      x.assign((tokens - 1) * static_cast<uint64_t>(token) + (heads - 1) * static_cast<uint64_t>(head) + dim,
               with);
    };
    fill(q, std::numeric_limits<float>::quiet_NaN(), q_token, q_head, scene.o.dim);
    fill(out, kGuard, out_token, out_head, scene.o.v_dim);
    a = scene.a;
    a.q_token_stride = q_token, a.q_head_stride = q_head;
    a.out_token_stride = out_token, a.out_head_stride = out_head;
    a.q = q.data(), a.out = out.data();
    for_each_row([&](uint64_t t, uint64_t h) {
      std::copy_n(&scene.q[(t * heads + h) * scene.o.dim], scene.o.dim,
                  &q[t * static_cast<uint64_t>(q_token) + h * static_cast<uint64_t>(q_head)]);
    });
  }
  template <typename F>
  void for_each_row(F&& f) {
    for (uint64_t t = 0; t < scene.offsets.back(); ++t)
      for (uint64_t h = 0; h < scene.q_heads; ++h) f(t, h);
  }
  // That the rows hold what scene.attend() gave, on the CPU bit by bit, and that nothing else was written.
  void expect_same(int64_t out_token, int64_t out_head) {
    const uint32_t dim = scene.o.v_dim;
    for_each_row([&](uint64_t t, uint64_t h) {
      float* row = &out[t * static_cast<uint64_t>(out_token) + h * static_cast<uint64_t>(out_head)];
      const float* wanted = &scene.out[(t * scene.q_heads + h) * dim];
      for (uint32_t e = 0; e < dim; ++e)
        ASSERT_NEAR(row[e], wanted[e], kvc::test::device() == nullptr ? 0 : 1e-5) << t << ", head " << h;
      std::fill_n(row, dim, kGuard);
    });
    EXPECT_EQ(std::count(out.begin(), out.end(), kGuard), static_cast<ptrdiff_t>(out.size()));
  }

  Scene& scene;
  std::vector<float> q, out;
  AttentionCall a;
};

TEST(AttentionRows, LieWhereTheStridesSay) {
  for (const uint32_t threads : {1u, 3u}) {
    Scene scene({.threads = threads, .lens = {37, 600}, .queries = {5, 1}});
    ASSERT_NO_FATAL_FAILURE(scene.attend());
    const int64_t heads = scene.q_heads, dim = scene.o.dim, v_dim = scene.o.v_dim, tokens = 6;
    const struct {
      int64_t q_token, q_head, out_token, out_head;
    } cases[] = {{(heads + 4) * dim, dim, heads * v_dim, v_dim},  // queries of a fused projection
                 {heads * dim, dim, (heads + 4) * v_dim + 1, v_dim},
                 {heads * (dim + 3), dim + 3, heads * (v_dim + 1) + 7, v_dim + 1},
                 {dim, tokens * dim, v_dim, tokens * v_dim},  // head-major
                 {dim + 1, tokens * dim + 99, v_dim + 2, tokens * (v_dim + 2) - 2}};
    for (const auto& c : cases) {
      Elsewhere rows(scene, c.q_token, c.q_head, c.out_token, c.out_head);
      ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &rows.a, nullptr), KVC_OK) << kvc_last_error();
      ASSERT_NO_FATAL_FAILURE(rows.expect_same(c.out_token, c.out_head));
    }
  }
}

TEST(AttentionRows, AStrideOfZeroFollowsFromTheOther) {
  Scene scene;
  ASSERT_NO_FATAL_FAILURE(scene.attend());
  const int64_t heads = scene.q_heads, dim = scene.o.dim, v_dim = scene.o.v_dim;
  Elsewhere far_heads(scene, heads * (dim + 5), dim + 5, heads * (v_dim + 5), v_dim + 5);
  far_heads.a.q_token_stride = far_heads.a.out_token_stride = 0;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &far_heads.a, nullptr), KVC_OK) << kvc_last_error();
  far_heads.expect_same(heads * (v_dim + 5), v_dim + 5);
  Elsewhere far_tokens(scene, heads * dim + 5, dim, heads * v_dim + 5, v_dim);
  far_tokens.a.q_head_stride = far_tokens.a.out_head_stride = 0;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &far_tokens.a, nullptr), KVC_OK) << kvc_last_error();
  far_tokens.expect_same(heads * v_dim + 5, v_dim);
}

// Rows of queries are only read: they may overlap. Of one token, or one head, the stride does not matter.
// Of what there is only one, the stride is not used: any number, also with a plan, which needs even ones.
TEST(AttentionRows, OfOneQueryHaveAnyStrideBetweenQueries) {
  Scene scene({.lens = {37}, .queries = {1}});
  ASSERT_NO_FATAL_FAILURE(scene.attend());
  const std::vector<float> expected = scene.out;
  for (const int64_t stride : {int64_t{1}, int64_t{12345}, INT64_MAX, int64_t{-1}}) {
    AttentionCall a = scene.a;
    a.q_token_stride = a.out_token_stride = stride;
    std::fill(scene.out.begin(), scene.out.end(), kGuard);
    ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), KVC_OK)
        << stride << ": " << kvc_last_error();
    EXPECT_EQ(scene.out, expected) << stride;
  }
}

TEST(AttentionRows, MayOverlapWhereTheyAreReadAlone) {
  Scene scene;
  scene.a.q_token_stride = 3, scene.a.q_head_stride = 1;
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  Scene one_token({.lens = {37}, .queries = {1}});
  one_token.a.out_token_stride = 1;
  EXPECT_EQ(kvc_storage_attend(one_token.storage.get(), &one_token.a, nullptr), KVC_OK) << kvc_last_error();
  Scene one_head({.heads = 1, .group = 1});
  one_head.a.out_head_stride = 1, one_head.a.out_token_stride = one_head.o.v_dim;
  EXPECT_EQ(kvc_storage_attend(one_head.storage.get(), &one_head.a, nullptr), KVC_OK) << kvc_last_error();
}

void expect_refused(Scene& scene, const kvc_attention& a, const std::string& text) {
  const std::vector<float> before(scene.out.size(), 7);
  scene.out = before;
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
  EXPECT_EQ(scene.out, before);
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan;
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), &a, &plan), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(AttentionRows, BadStridesAreRefusedWithTheirValues) {
  Scene scene;  // 6 queries, 6 heads of 24 and 16
  using A = AttentionCall;
  const auto refused = [&](const std::string& text, auto&& change) {
    A a = scene.a;
    change(a);
    expect_refused(scene, a, text);
  };
  refused("q_token_stride is -1", [](A& a) { a.q_token_stride = -1; });
  refused("q_head_stride -24", [](A& a) { a.q_head_stride = -24; });
  refused("out_token_stride is -96", [](A& a) { a.out_token_stride = -96; });
  refused("out_head_stride -1", [](A& a) { a.out_head_stride = -1; });
  refused("out_head_stride is 15", [](A& a) { a.out_head_stride = 15; });
  refused("need 96 elements", [](A& a) { a.out_token_stride = 95; });
  refused("out_token_stride is 100", [](A& a) { a.out_head_stride = 17, a.out_token_stride = 100; });
  refused("out_token_stride is 15", [](A& a) { a.out_token_stride = 15, a.out_head_stride = 96; });
  refused("out_head_stride is 95", [](A& a) { a.out_token_stride = 16, a.out_head_stride = 95; });
  refused("out_token_stride is 95", [](A& a) { a.out_token_stride = 95, a.out_head_stride = 95; });
  constexpr int64_t kLimit = int64_t{1} << 60, kEndless = std::numeric_limits<int64_t>::max();
  refused("kvc_attention.q_token_stride is", [](A& a) { a.q_token_stride = kLimit / 6 + 1; });
  refused("kvc_attention.q_token_stride is", [](A& a) { a.q_head_stride = kEndless; });
  refused("kvc_attention.q_token_stride is",
          [](A& a) { a.q_head_stride = a.q_token_stride = kLimit / 12 + 1; });
  refused("kvc_attention.out_token_stride is", [](A& a) { a.out_token_stride = kEndless; });
  refused("kvc_attention.out_token_stride is", [](A& a) { a.out_head_stride = kEndless; });
}

TEST(AttentionRows, BlocksAreChosenByQueriesWhereverTheyLie) {
  Scene scene({.lens = {500, 400}, .queries = {1, 5}});
  std::vector<int32_t> blocks;
  for (const int32_t block : scene.tables)
    if (block >= 0) blocks.push_back(block);
  std::vector<uint16_t> bounds(scene.num_blocks * scene.o.heads * 2 * scene.o.dim);
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  ASSERT_EQ(kvc_storage_key_bounds(scene.storage.get(), Scene::kLayer, blocks.data(), blocks.size(),
                                   bounds.data(), nullptr),
            KVC_OK);
  kvc_block_choice choice = {};
  choice.struct_size = sizeof choice;
  choice.bounds = bounds.data(), choice.top_k = 4, choice.block_mask_stride = 8;
  const auto select = [&](const kvc_attention& a) {
    std::vector<uint8_t> mask(scene.lens.size() * scene.o.heads * choice.block_mask_stride);
    choice.block_mask = mask.data();
    EXPECT_EQ(kvc_storage_select_blocks(scene.storage.get(), &a, &choice, nullptr), KVC_OK)
        << kvc_last_error();
    return mask;
  };
  const std::vector<uint8_t> wanted = select(scene.a);
  EXPECT_NE(wanted, std::vector<uint8_t>(wanted.size()));
  Elsewhere rows(scene, 700, scene.o.dim + 1, 200, scene.o.v_dim);
  EXPECT_EQ(select(rows.a), wanted);
  // Results and sink logits are not used.
  const std::vector<float> sinks(scene.q_heads, std::numeric_limits<float>::quiet_NaN());
  rows.a.sink_logits = sinks.data(), rows.a.out = nullptr, rows.a.out_head_stride = -1;
  EXPECT_EQ(select(rows.a), wanted);
  rows.a.q_head_stride = -1;
  EXPECT_EQ(kvc_storage_select_blocks(scene.storage.get(), &rows.a, &choice, nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
}

// As many partial results as there are, the sink is one more: of no values.
TEST(SinkLogits, AreAMergeWithResultsThatAreZero) {
  for (const uint32_t threads : {1u, 3u}) {
    Scene scene({.threads = threads, .lens = {37, 600, 3}, .queries = {5, 1, 3}});
    ASSERT_NO_FATAL_FAILURE(scene.attend());
    std::vector<float> outs = scene.out, lses = scene.lse, sinks(scene.q_heads);
    for (size_t h = 0; h < sinks.size(); ++h) sinks[h] = h == 2 ? -kInfinity : 2 * static_cast<float>(h) - 3;
    outs.resize(2 * outs.size());
    for (size_t row = 0; row < scene.lse.size(); ++row) lses.push_back(sinks[row % sinks.size()]);
    std::vector<float> out(scene.out.size()), lse(scene.lse.size());
    ASSERT_EQ(merge_attention(outs.data(), lses.data(), 2, lse.size(), scene.o.v_dim, KVC_FLOAT32, out.data(),
                              lse.data()),
              KVC_OK);
    scene.a.sink_logits = sinks.data();
    scene.a.soft_cap = 0;
    ASSERT_NO_FATAL_FAILURE(scene.attend());
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(scene.out[i], out[i], 1e-5) << "element " << i;
    for (size_t i = 0; i < lse.size(); ++i) ASSERT_NEAR(scene.lse[i], lse[i], 1e-5) << "row " << i;
  }
}

TEST(SinkLogits, OfARequestWithoutTokensAreItsLse) {
  Scene scene;
  const uint64_t none[] = {0, 0}, starts[] = {0, 0};
  const std::vector<float> sinks{1.5f, -2, -kInfinity, 1e30f, 0, 7};
  scene.a.kv_lens = none, scene.a.q_starts = starts, scene.a.sink_logits = sinks.data();
  ASSERT_NO_FATAL_FAILURE(scene.attend());
  EXPECT_EQ(scene.out, std::vector<float>(scene.out.size()));
  for (size_t row = 0; row < scene.lse.size(); ++row)
    EXPECT_FLOAT_EQ(scene.lse[row], sinks[row % sinks.size()]);
}

TEST(SinkLogits, NaNAndInfinityAreRefusedWithTheirIndex) {
  Scene scene;
  std::vector<float> sinks(scene.q_heads);
  scene.a.sink_logits = sinks.data();
  sinks[4] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(scene, scene.a, "sink_logits[4] is nan");
  sinks[0] = kInfinity;
  expect_refused(scene, scene.a, "sink_logits[0] is inf");
}

TEST(AttentionWorkspace, OfTheCpuIsNothing) {
  if (kvc::test::device() != nullptr) GTEST_SKIP() << "about the CPU";
  Scene scene;
  kvc_attention_info plan;
  std::memset(&plan, 0x5a, sizeof plan);
  plan.struct_size = sizeof plan;
  ASSERT_EQ(kvc_storage_explain(scene.storage.get(), &scene.a, &plan), KVC_OK);
  EXPECT_EQ(plan.workspace_bytes, 0u);
  EXPECT_EQ(plan.selection_bytes, 0u);
  ASSERT_NO_FATAL_FAILURE(scene.attend());
  const std::vector<float> out = scene.out;
  char memory[3] = {1, 2, 3};
  scene.a.run.workspace = memory + 1, scene.a.run.workspace_bytes = 1;
  ASSERT_NO_FATAL_FAILURE(scene.attend());
  EXPECT_EQ(scene.out, out);
  EXPECT_EQ(memory[1], 2);
}

}  // namespace
