// SPDX-License-Identifier: Apache-2.0
// Blocks that hold a whole request each: keys and values in one piece, tables of one entry.
#include "api/attention_scene.h"

namespace {

using kvc::test::device;
using kvc::test::Scene;
using kvc::test::SceneOptions;

SceneOptions whole_requests(uint32_t block_size) {
  return {.block_size = block_size, .lens = {3000, 40}, .queries = {3, 40}, .share_first = false};
}

TEST(WholeRequest, AttentionEqualsPlainAttentionOverWhatIsStored) {
  if (device() != nullptr) GTEST_SKIP() << "the CPU's alone";
  const struct {
    int32_t dtype;
    uint32_t flags, layout;
    double limit;
  } cases[] = {{KVC_FLOAT32, 0, KVC_LAYOUT_LBHNC, 1e-5},
               {KVC_FLOAT32, KVC_STORAGE_TILED_KEYS, KVC_LAYOUT_LBHNC, 1e-5},
               {KVC_BFLOAT16, KVC_STORAGE_TILED_KEYS, KVC_LAYOUT_BHLNC, 4e-3},
               {KVC_INT8, 0, KVC_LAYOUT_BLHNC, 4e-3},
               {KVC_INT4, KVC_STORAGE_ASYMMETRIC, KVC_LAYOUT_LBNHC, 4e-3}};
  for (const auto& test : cases)
    for (const uint32_t block_size : {3008u, 4099u, 65536u}) {  // tiles need multiples of 16
      SceneOptions options = whole_requests(block_size);
      options.dtype = test.dtype, options.flags = test.flags, options.layout = test.layout;
      if (block_size % 16 != 0 && (test.flags & KVC_STORAGE_TILED_KEYS) != 0) continue;
      Scene scene(options);
      scene.attend();
      EXPECT_LT(scene.distance(), test.limit) << "type " << test.dtype << " blocks of " << block_size;
      scene.a.window = 100, scene.a.sinks = 3;
      scene.attend();
      EXPECT_LT(scene.distance(), test.limit) << "type " << test.dtype << " with a window";
    }
}

// What attention computes does not depend on how tokens are cut into blocks.
TEST(WholeRequest, EqualsBlocksOfSixteenTokens) {
  if (device() != nullptr) GTEST_SKIP() << "the CPU's alone";
  for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_TILED_KEYS}}) {
    SceneOptions options = whole_requests(3008);
    options.dtype = KVC_BFLOAT16, options.flags = flags;
    Scene whole(options);
    options.block_size = 16;
    Scene paged(options);
    std::vector<float> k(Scene::kLayers * 3000 * 2 * 24), v(Scene::kLayers * 3000 * 2 * 16);
    for (size_t r = 0; r < 2; ++r) {
      kvc_rows rows = whole.rows_of(r, k, v);
      ASSERT_EQ(kvc_storage_gather(whole.storage.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
      rows = paged.rows_of(r, k, v);
      ASSERT_EQ(kvc_storage_store(paged.storage.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
    }
    paged.q = whole.q, paged.a.q = paged.q.data();
    whole.attend(), paged.attend();
    EXPECT_EQ(whole.out, paged.out) << "flags " << flags;
  }
}

TEST(WholeRequest, KeysOfAHeadLieInOnePiece) {
  if (device() != nullptr) GTEST_SKIP() << "the CPU's alone";
  Scene scene(whole_requests(4096));
  const kvc_selection head = {1, 1, 1, 1, 0, 3000};
  kvc_run runs[3];
  size_t count = 3;
  ASSERT_EQ(kvc_storage_runs(scene.storage.get(), scene.tables[0], &head, runs, 3, &count), KVC_OK)
      << kvc_last_error();
  ASSERT_EQ(count, 2u);  // keys, values
  EXPECT_EQ(runs[0].bytes, 3000u * 24 * sizeof(float));
  EXPECT_EQ(runs[1].bytes, 3000u * 16 * sizeof(float));
}

}  // namespace
