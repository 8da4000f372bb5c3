// SPDX-License-Identifier: Apache-2.0
// What kvc_storage_explain says: golden answers for each kind of storage, and that it is what happens.
#include <string>

#include "api/attention_scene.h"
#include "attention/isa.h"

namespace {

using kvc::test::Scene;

kvc_attention_info explain(Scene& scene) {
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan;
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), &scene.a, &plan), KVC_OK) << kvc_last_error();
  return plan;
}

TEST(Explain, SaysHowKeysAndValuesAreRead) {
  const struct {
    int32_t dtype;
    uint32_t flags, dim, v_dim, block_size;
    const char *keys, *values;
  } golden[] = {
      {KVC_FLOAT32, 0, 64, 64, 16, "rows", "rows"},
      {KVC_FLOAT16, 0, 64, 64, 16, "rows", "rows"},
      {KVC_BFLOAT16, 0, 128, 128, 16, "rows", "rows"},
      {KVC_BFLOAT16, 0, 128, 128, 5, "rows", "rows"},
      {KVC_BFLOAT16, KVC_STORAGE_TILED_KEYS, 128, 128, 16, "tiles", "rows"},
      {KVC_BFLOAT16, KVC_STORAGE_TILED_KEYS, 24, 24, 32, "tiles", "converted"},
      {KVC_BFLOAT16, 0, 24, 16, 16, "converted", "rows"},
      {KVC_FLOAT32, 0, 7, 7, 16, "converted", "converted"},
      {KVC_BFLOAT16, KVC_STORAGE_LATENT, 576, 512, 16, "rows", "keys"},
      {KVC_BFLOAT16, KVC_STORAGE_LATENT, 48, 20, 16, "rows", "converted"},
      {KVC_INT8, 0, 128, 128, 16, "rows", "rows"},
      {KVC_INT4, KVC_STORAGE_ASYMMETRIC, 128, 128, 16, "rows", "rows"},
      {KVC_INT8, KVC_STORAGE_CHANNEL_KEYS, 128, 128, 16, "converted", "rows"},
      {KVC_INT4, KVC_STORAGE_HADAMARD, 128, 128, 16, "rows", "rows"},
      {KVC_INT8, 0, 24, 24, 16, "converted", "converted"},
      {KVC_FLOAT8_E4M3, 0, 128, 128, 16, "rows", "rows"},
  };
  for (const auto& wanted : golden) {
    const bool latent = (wanted.flags & KVC_STORAGE_LATENT) != 0;
    Scene scene({.dtype = wanted.dtype,
                 .flags = wanted.flags,
                 .heads = latent ? 1u : 2u,
                 .dim = wanted.dim,
                 .v_dim = wanted.v_dim,
                 .block_size = wanted.block_size});
    const kvc_attention_info plan = explain(scene);
    EXPECT_STREQ(plan.keys, wanted.keys) << wanted.dtype << ' ' << wanted.dim;
    EXPECT_STREQ(plan.values, wanted.values) << wanted.dtype << ' ' << wanted.dim;
    EXPECT_STREQ(plan.kernels, kvc::chosen_kernels().name);
    EXPECT_EQ(plan.num_workers, 1u);
    EXPECT_EQ(plan.sparse, 0u);
    EXPECT_GT(plan.scratch_bytes, 0u);
  }
}

TEST(Explain, NamesEachInstructionSet) {
  Scene scene;
  for (size_t i = 0; const kvc::Kernels* kernels = kvc::available_kernels(i); ++i) {
    kvc::force_kernels(kernels);
    EXPECT_STREQ(explain(scene).kernels, kernels->name);
  }
  kvc::force_kernels(nullptr);
}

TEST(Explain, CountsPiecesAndSplits) {
  Scene scene({.threads = 4, .lens = {3000, 264}, .queries = {1, 200}});
  kvc_attention_info plan = explain(scene);
  EXPECT_EQ(plan.num_workers, 4u);
  // A decoding request takes all heads at once; 200 queries of 3 heads are 600 rows, 510 at a time, per head.
  EXPECT_EQ(plan.num_pieces, 1u + 2 * 2);
  EXPECT_GT(plan.num_splits, plan.num_pieces) << "the long context is cut";
  scene.a.q = nullptr, scene.a.out = nullptr;
  EXPECT_EQ(explain(scene).num_splits, plan.num_splits) << "nothing is computed";
  const std::vector<uint8_t> mask(2 * 2 * 24, 0x7f);
  scene.a.block_mask = mask.data(), scene.a.block_mask_stride = 24;
  plan = explain(scene);
  EXPECT_EQ(plan.sparse, 1u);
  EXPECT_EQ(plan.num_pieces, 2u + 2 * 2) << "each head reads its own blocks";
  const std::vector<uint8_t> full(2 * 2 * 24, 0xff);
  scene.a.block_mask = full.data();
  EXPECT_EQ(explain(scene).sparse, 0u);
}

TEST(Explain, RefusesWhatAttendRefuses) {
  Scene scene;
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan, plan.num_pieces = 77;
  scene.a.layer = 9;
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), &scene.a, &plan), KVC_ERROR_INVALID_ARGUMENT);
  scene.a.layer = 0;
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), nullptr, &plan), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_explain(nullptr, &scene.a, &plan), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), &scene.a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  plan.struct_size = 8;
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), &scene.a, &plan), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(plan.num_pieces, 77u);
}

}  // namespace
