// SPDX-License-Identifier: Apache-2.0
// Layouts: every element has a place of its own, and runs cover what they say.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "layout/parts.h"

namespace kvc {
namespace {

constexpr uint32_t kPresets[] = {KVC_LAYOUT_LBHNC, KVC_LAYOUT_LBNHC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BLNHC,
                                 KVC_LAYOUT_BHLNC};

LayoutShape shape(uint32_t preset, int32_t dtype = KVC_BFLOAT16) {
  LayoutShape s = {};
  s.preset = preset;
  s.dtype = dtype;
  s.num_layers = 3;
  s.num_heads = 4;
  s.block_size = 16;
  s.num_blocks = 5;
  s.k_dim = s.v_dim = 24;
  s.scale_group = is_quantized(dtype) ? 8 : 0;
  s.alignment = 64;
  return s;
}

// The bytes of every row of a plain layout, each claimed once.
std::map<uint64_t, int> claim_rows(const Layout& layout) {
  std::map<uint64_t, int> owners;
  for (int p = 0; p < kNumPlanes; ++p) {
    const Plane& plane = layout.plane(p);
    if (!plane.exists()) continue;
    for (uint32_t l = 0; l < layout.num_layers; ++l)
      for (uint64_t b = 0; b < layout.num_blocks; ++b)
        for (uint32_t h = 0; h < layout.num_heads; ++h)
          for (uint32_t t = 0; t < layout.block_size / layout.tokens_per_row(p); ++t) {
            const uint64_t at = plane.offset(l, b, h, t);
            for (uint32_t i = 0; i < plane.row_bytes; ++i) ++owners[at + i];
          }
  }
  return owners;
}

TEST(Layout, EveryByteBelongsToOneRowAndLiesInTheSlab) {
  for (const uint32_t preset : kPresets) {
    for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8, KVC_INT4}) {
      for (const bool latent : {false, true}) {
        LayoutShape s = shape(preset, dtype);
        s.k_dim = 25, s.v_dim = latent ? 20 : 13;
        s.latent = latent;
        s.asymmetric = dtype == KVC_INT4;
        if (dtype == KVC_INT4 && !latent) s.channel_tokens = 4;
        const Layout layout = make_layout(s);
        ASSERT_EQ(layout.v.exists(), !latent);
        ASSERT_EQ(layout.k_scale.exists(), is_quantized(dtype));
        const std::map<uint64_t, int> owners = claim_rows(layout);
        for (const auto& [at, count] : owners) ASSERT_EQ(count, 1) << "preset " << preset << ", byte " << at;
        EXPECT_LT(owners.rbegin()->first, layout.slab_bytes);
        EXPECT_EQ(layout.slab_bytes, layout.block_bytes * layout.num_blocks);
      }
    }
  }
}

TEST(Layout, PaddingIsLessThanAnAlignmentPerCell) {
  for (const uint32_t preset : kPresets) {
    const Layout layout = make_layout(shape(preset, KVC_INT8));
    const uint64_t cells = layout.slab_bytes / layout.cell_bytes;
    EXPECT_EQ(layout.slab_bytes % layout.cell_bytes, 0u);
    EXPECT_LT(layout.slab_bytes - claim_rows(layout).size(), cells * (64 + 4 * 16));
  }
}

TEST(Layout, BlocksAreAlignedAndKeysAndValuesHaveEqualStrides) {
  for (const uint32_t preset : kPresets) {
    for (const uint32_t alignment : {16u, 64u, 256u, 4096u}) {
      LayoutShape s = shape(preset);
      s.alignment = alignment;
      const Layout layout = make_layout(s);
      for (uint32_t l = 0; l < s.num_layers; ++l)
        for (uint64_t b = 0; b < s.num_blocks; ++b) {
          EXPECT_EQ(layout.k.offset(l, b, 0, 0) % alignment, 0u);
          EXPECT_EQ(layout.v.offset(l, b, 0, 0) % alignment, 0u);
        }
      EXPECT_EQ(layout.k.layer, layout.v.layer);
      EXPECT_EQ(layout.k.block, layout.v.block);
      EXPECT_EQ(layout.k.head, layout.v.head);
      EXPECT_EQ(layout.k.token, layout.v.token);
    }
  }
}

TEST(Layout, AUsualModelHasNoPadding) {
  LayoutShape s = shape(KVC_LAYOUT_LBHNC, KVC_FLOAT16);
  s.num_layers = 32, s.num_heads = 8, s.k_dim = s.v_dim = 128, s.num_blocks = 512;
  EXPECT_EQ(make_layout(s).slab_bytes, 1073741824u) << "8,192 tokens";
}

TEST(Layout, TilesOfSixteenTokensHoldEachElementOnce) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16}) {
    LayoutShape s = shape(KVC_LAYOUT_LBHNC, dtype);
    s.block_size = 48;
    s.tiled_keys = true;
    const Layout layout = make_layout(s);
    const size_t size = dtype_bits(dtype) / 8;
    EXPECT_EQ(layout.k.element_tile * size, 4u);
    std::set<uint64_t> seen;
    for (uint32_t t = 0; t < 48; ++t)
      for (uint32_t e = 0; e < s.k_dim; ++e) {
        const uint64_t at = layout.k.offset(1, 2, 3, t) + layout.k.tile_offset(e, t, size);
        EXPECT_TRUE(seen.insert(at).second);
        EXPECT_LT(at, layout.k.offset(1, 2, 3, 0) + 48 * layout.k.row_bytes);
        EXPECT_GE(at, layout.k.offset(1, 2, 3, 0));
      }
  }
}

TEST(Layout, SizesThatOverflowGiveNothing) {
  LayoutShape s = shape(KVC_LAYOUT_LBHNC, KVC_FLOAT32);
  s.num_blocks = INT32_MAX, s.num_layers = 65536, s.num_heads = 65536, s.block_size = 1024, s.k_dim = 8192;
  EXPECT_EQ(make_layout(s).slab_bytes, 0u);
  s = shape(KVC_LAYOUT_LBHNC);
  const uint64_t block = make_layout(s).block_bytes;
  s.num_blocks = (uint64_t{1} << 63) / block + 1;  // no pointer can go so far
  EXPECT_EQ(make_layout(s).slab_bytes, 0u);
}

std::vector<kvc_run> runs(const Layout& layout, uint64_t block, const kvc_selection& selection) {
  std::vector<kvc_run> out(layout_runs(layout, block, selection, nullptr, 0));
  EXPECT_EQ(layout_runs(layout, block, selection, out.data(), out.size()), out.size());
  return out;
}

TEST(Runs, AreExactlyTheSelectedRowsJoined) {
  for (const uint32_t preset : kPresets) {
    for (const int32_t dtype : {KVC_BFLOAT16, KVC_INT8, KVC_INT4}) {
      LayoutShape of = shape(preset, dtype);
      if (dtype == KVC_INT4) of.channel_tokens = 4;
      const Layout layout = make_layout(of);
      for (const kvc_selection& s : {kvc_selection{0, 3, 0, 4, 0, 16}, kvc_selection{1, 2, 0, 4, 0, 16},
                                     kvc_selection{0, 3, 1, 2, 0, 16}, kvc_selection{0, 1, 0, 4, 3, 5},
                                     kvc_selection{0, 3, 0, 4, 0, 7}, kvc_selection{2, 1, 3, 1, 15, 1}}) {
        std::set<uint64_t> wanted;
        for (int p = 0; p < kNumPlanes; ++p) {
          const Plane& plane = layout.plane(p);
          for (uint32_t l = s.first_layer; l < s.first_layer + s.num_layers && plane.exists(); ++l)
            for (uint32_t h = s.first_head; h < s.first_head + s.num_heads; ++h)
              for (uint32_t t = s.first_token; t < s.first_token + s.num_tokens; ++t)
                for (uint32_t i = 0; i < plane.row_bytes; ++i)
                  wanted.insert(plane.offset(l, 2, h, t / layout.tokens_per_row(p)) + i);
        }
        std::set<uint64_t> found;
        uint64_t end = 0;
        bool first = true;
        for (const kvc_run& run : runs(layout, 2, s)) {
          EXPECT_TRUE(first || run.offset > end) << "ascending, and neighbours are joined";
          first = false;
          end = run.offset + run.bytes;
          for (uint64_t i = 0; i < run.bytes; ++i) found.insert(run.offset + i);
        }
        for (const uint64_t at : wanted) ASSERT_TRUE(found.count(at) == 1) << "preset " << preset;
        // More than the rows only where whole cells, padding included, were taken.
        if (found.size() != wanted.size()) {
          EXPECT_EQ(s.num_tokens, 16u);
          EXPECT_EQ(found.size() % layout.cell_bytes, 0u);
        }
      }
    }
  }
}

TEST(Runs, PageFirstIsOneRunPerBlockAndOnePerShareOfTheHeads) {
  const kvc_selection all = {0, 3, 0, 4, 0, 16}, half = {0, 3, 2, 2, 0, 16};
  for (const uint32_t preset : {KVC_LAYOUT_BLHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BHLNC}) {
    const Layout layout = make_layout(shape(preset));
    const std::vector<kvc_run> whole = runs(layout, 3, all);
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_EQ(whole[0].offset, 3 * layout.block_bytes);
    EXPECT_EQ(whole[0].bytes, layout.block_bytes);
  }
  EXPECT_EQ(runs(make_layout(shape(KVC_LAYOUT_BHLNC)), 0, half).size(), 1u);
  EXPECT_EQ(runs(make_layout(shape(KVC_LAYOUT_BLHNC)), 0, half).size(), 3u * 2)
      << "keys and values per layer";
  EXPECT_EQ(runs(make_layout(shape(KVC_LAYOUT_BLNHC)), 0, half).size(), 3u * 2 * 16) << "and per token";
  EXPECT_EQ(runs(make_layout(shape(KVC_LAYOUT_LBHNC)), 0, all).size(), 3u) << "one per layer";
}

TEST(Runs, OfTiledPlanesAreWholeTiles) {
  for (const uint32_t preset : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BHLNC}) {
    LayoutShape s = shape(preset);
    s.block_size = 48;
    s.tiled_keys = true;
    const Layout layout = make_layout(s);
    // Token 20 lies in the second tile, tokens 20 to 40 in the second and third; rows of values are not
    // tiled.
    for (const uint32_t num_tokens : {1u, 21u}) {
      const std::vector<kvc_run> found = runs(layout, 2, {1, 1, 3, 1, 20, num_tokens});
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(found[0].offset, layout.k.offset(1, 2, 3, 16));
      EXPECT_EQ(found[0].bytes, (num_tokens == 1 ? 1u : 2u) * 16 * layout.k.row_bytes);
      EXPECT_EQ(found[1].offset, layout.v.offset(1, 2, 3, 20));
      EXPECT_EQ(found[1].bytes, uint64_t{num_tokens} * layout.v.row_bytes);
    }
  }
}

TEST(Runs, OfNothingAreNone) {
  for (const uint32_t preset : kPresets) {
    const Layout layout = make_layout(shape(preset));
    for (const kvc_selection& nothing : {kvc_selection{1, 0, 0, 4, 0, 16}, kvc_selection{0, 3, 2, 0, 0, 16},
                                         kvc_selection{0, 3, 0, 4, 5, 0}})
      EXPECT_EQ(runs(layout, 1, nothing).size(), 0u) << "preset " << preset;
  }
}

}  // namespace
}  // namespace kvc
