// SPDX-License-Identifier: Apache-2.0
// Pages do not depend on the layout of a storage nor on the number of ranks; keys follow from the digests of
// events; fingerprints differ with each thing that makes pages differ.
#include "tier/page.h"

#include <gtest/gtest.h>
#include <kvcache/events.h>
#include <kvcache/manager.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/position_digest.h"
#include "calls.h"
#include "stores.h"

namespace kvc {
namespace {

constexpr uint32_t kLayers = 4, kHeads = 4, kTokens = 32;

LayoutShape shape_of(uint32_t preset, uint32_t layers, uint32_t heads) {
  LayoutShape shape = {};
  shape.preset = preset;
  shape.dtype = KVC_BFLOAT16;
  shape.num_layers = layers;
  shape.num_heads = heads;
  shape.block_size = kTokens;
  shape.num_blocks = 3;
  shape.k_dim = 24;
  shape.v_dim = 16;
  shape.alignment = 64;
  return shape;
}

constexpr uint32_t kPresets[] = {KVC_LAYOUT_LBNHC, KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BLHNC,
                                 KVC_LAYOUT_BHLNC};

// Fills a block of a rank so that each byte follows from its place in the model.
void fill(const Layout& layout, const PagePart& part, uint64_t block, std::vector<char>* slab) {
  for (int p = 0; p < kNumPlanes; ++p) {
    const Plane& plane = layout.plane(p);
    if (!plane.exists()) continue;
    std::vector<char> row(plane.row_bytes);
    for (uint32_t l = 0; l < layout.num_layers; ++l)
      for (uint32_t h = 0; h < layout.num_heads; ++h)
        for (uint32_t t = 0; t < kTokens / layout.tokens_per_row(p); ++t) {
          for (size_t i = 0; i < row.size(); ++i)
            row[i] = static_cast<char>(
                (((part.first_layer + l) * 31 + static_cast<uint32_t>(p)) * 37 + part.first_head + h) * 41 +
                t * 43 + i * 7);
          char* to = slab->data() + plane.offset(l, block, h, t);
          if (plane.tiled()) {
            write_tiled(plane, row.data(), plane.num_elements, t, to);
          } else {
            std::memcpy(to, row.data(), row.size());
          }
        }
  }
}

std::vector<char> packed(const LayoutShape& shape, const PagePart& part) {
  const Layout layout = make_layout(shape);
  std::vector<char> slab(layout.slab_bytes, 99);
  fill(layout, part, 1, &slab);
  PageShape page;
  EXPECT_EQ(make_page_shape(layout, kLayers, kHeads, &page), KVC_OK);
  std::vector<char> out(part_bytes(page, part));
  pack_page(layout, slab.data(), 1, out.data());
  // And back, into a slab of another layout, changing nothing but the block.
  std::vector<char> other(layout.slab_bytes, 55);
  unpack_page(layout, out.data(), 1, other.data());
  std::vector<char> again(out.size());
  pack_page(layout, other.data(), 1, again.data());
  EXPECT_EQ(again, out);
  for (const uint64_t block : {0u, 2u}) {
    pack_page(layout, other.data(), block, again.data());
    EXPECT_EQ(std::count(again.begin(), again.end(), 55), static_cast<ptrdiff_t>(again.size()));
  }
  return out;
}

TEST(Page, IsTheSameInEachLayout) {
  const std::vector<char> page = packed(shape_of(kPresets[0], kLayers, kHeads), {0, kLayers, 0, kHeads});
  EXPECT_EQ(page.size(), size_t{kLayers} * kHeads * kTokens * (24 + 16) * 2);
  for (const uint32_t preset : kPresets)
    EXPECT_EQ(packed(shape_of(preset, kLayers, kHeads), {0, kLayers, 0, kHeads}), page);
  LayoutShape tiled = shape_of(KVC_LAYOUT_LBHNC, kLayers, kHeads);
  tiled.tiled_keys = true;
  EXPECT_EQ(packed(tiled, {0, kLayers, 0, kHeads}), page);
}

TEST(Page, IsMadeOfTheRunsOfAllRanks) {
  LayoutShape whole = shape_of(KVC_LAYOUT_BLNHC, kLayers, kHeads);
  whole.dtype = KVC_INT8;
  whole.scale_group = 8;
  const std::vector<char> page = packed(whole, {0, kLayers, 0, kHeads});
  PageShape shape;
  ASSERT_EQ(make_page_shape(make_layout(whole), kLayers, kHeads, &shape), KVC_OK);
  ASSERT_EQ(page.size(), shape.bytes());
  for (const uint32_t heads : {1u, 2u, 4u}) {
    for (const uint32_t layers : {1u, 2u, 4u}) {
      std::vector<char> joined(page.size(), 0);
      std::vector<int> covered(page.size());
      for (uint32_t l = 0; l < kLayers; l += layers) {
        for (uint32_t h = 0; h < kHeads; h += heads) {
          const PagePart part = {l, layers, h, heads};
          LayoutShape rank = whole;
          rank.preset = kPresets[(l + h) % 5];
          rank.num_layers = layers, rank.num_heads = heads;
          const std::vector<char> own = packed(rank, part);
          kvc_run runs[64];
          const size_t count = page_runs(shape, part, runs, 64);
          ASSERT_LE(count, 64u);
          EXPECT_EQ(page_runs(shape, part, nullptr, 0), count);
          if (heads == kHeads) {
            EXPECT_EQ(count, 1u);
          }
          size_t at = 0;
          for (size_t i = 0; i < count; at += runs[i++].bytes) {
            ASSERT_LE(at + runs[i].bytes, own.size());
            std::memcpy(&joined[runs[i].offset], &own[at], runs[i].bytes);
            for (uint64_t b = 0; b < runs[i].bytes; ++b) ++covered[runs[i].offset + b];
          }
          EXPECT_EQ(at, own.size());
        }
      }
      EXPECT_EQ(joined, page);
      EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), static_cast<ptrdiff_t>(page.size()));
    }
  }
}

TEST(Page, FingerprintsDifferInEachThingThatMatters) {
  std::set<std::string> seen;
  const auto add = [&](const LayoutShape& layout, PageSource source, uint32_t layers = kLayers) {
    PageShape shape;
    Digest256 out;
    ASSERT_EQ(make_page_shape(make_layout(layout), layers, kHeads, &shape), KVC_OK);
    ASSERT_EQ(page_fingerprint(source, shape, &out), KVC_OK);
    EXPECT_TRUE(seen.insert(std::string(reinterpret_cast<char*>(out.bytes), 32)).second) << seen.size();
  };
  const LayoutShape base = shape_of(KVC_LAYOUT_BLNHC, kLayers, kHeads);
  const PageSource source = {"model", 5, "v1", 2, nullptr, 0};
  add(base, source);
  add(base, source, kLayers + 1);
  add(base, {"modem", 5, "v1", 2, nullptr, 0});
  add(base, {"modelv", 6, "1", 1, nullptr, 0});  // fields are framed
  add(base, {"model", 5, "v2", 2, nullptr, 0});
  add(base, {"model", 5, "v1", 2, "fa3", 3});
  const auto with = [&](auto change) {
    LayoutShape shape = base;
    change(shape);
    add(shape, source);
  };
  with([](LayoutShape& s) { s.dtype = KVC_FLOAT16; });
  with([](LayoutShape& s) { s.dtype = KVC_INT8, s.scale_group = 8; });
  with([](LayoutShape& s) { s.dtype = KVC_INT8, s.scale_group = 8, s.asymmetric = true; });
  with([](LayoutShape& s) { s.dtype = KVC_INT8, s.scale_group = 4; });
  with([](LayoutShape& s) { s.dtype = KVC_INT8, s.scale_group = 8, s.hadamard = true; });
  with([](LayoutShape& s) { s.dtype = KVC_INT8, s.k_factor = 1; });
  with([](LayoutShape& s) { s.dtype = KVC_INT8, s.v_factor = 1; });
  with([](LayoutShape& s) { s.k_dim = 16, s.v_dim = 24; });
  with([](LayoutShape& s) { s.latent = true; });
  with([](LayoutShape& s) { s.block_size = 16; });

  Digest256 out;
  PageShape shape;
  ASSERT_EQ(make_page_shape(make_layout(base), kLayers, kHeads, &shape), KVC_OK);
  EXPECT_EQ(page_fingerprint({"model", 5, "", 0, nullptr, 0}, shape, &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(page_fingerprint({"", 0, "v1", 2, nullptr, 0}, shape, &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(make_page_shape(make_layout(base), kLayers - 1, kHeads, &shape), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(make_page_shape(make_layout(base), UINT32_MAX, UINT32_MAX, &shape), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Page, LayoutsDoNotChangeTheFingerprint) {
  std::set<std::string> seen;
  for (const uint32_t preset : kPresets) {
    for (const uint32_t heads : {1u, 4u}) {
      PageShape shape;
      Digest256 out;
      ASSERT_EQ(make_page_shape(make_layout(shape_of(preset, kLayers, heads)), kLayers, kHeads, &shape),
                KVC_OK);
      ASSERT_EQ(page_fingerprint({"m", 1, "w", 1, nullptr, 0}, shape, &out), KVC_OK);
      seen.insert(std::string(reinterpret_cast<char*>(out.bytes), 32));
    }
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(Page, KeysDifferInPositionGroupAndFingerprint) {
  const auto key_of = [](int position, uint32_t group, int fingerprint) {
    return page_key(test::digest_of(position), page_salt(group, test::digest_of(fingerprint)));
  };
  const Digest256 key = key_of(1, 0, 2);
  EXPECT_EQ(key, key_of(1, 0, 2));
  EXPECT_NE(key, key_of(3, 0, 2));
  EXPECT_NE(key, key_of(1, 1, 2));
  EXPECT_NE(key, key_of(1, 0, 3));
}

TEST(Page, PositionsAreThoseOfEvents) {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 16;
  config.block_size = 4;
  config.event_capacity = 16;
  kvc_manager* m = nullptr;
  ASSERT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
  const int32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_allocate_request(m, PROMPT(0, tokens, 9, nullptr, 0), nullptr, &request, nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(m, request, 9), KVC_OK);
  kvc_event events[4] = {};
  kvc_event_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.events = events;
  batch.event_size = sizeof(kvc_event);
  batch.capacity = 4;
  uint64_t cursor = 0;
  ASSERT_EQ(kvc_manager_poll_events(m, &cursor, &batch), KVC_OK) << kvc_last_error();
  ASSERT_EQ(batch.count, 2u);
  Digest256 parent;
  std::memcpy(parent.bytes, events[0].parent_digest, 32);
  for (size_t i = 0; i < 2; ++i) {
    parent = PositionDigests(4, tokens + 4 * i).next(parent, {}, nullptr);
    EXPECT_EQ(std::memcmp(parent.bytes, events[i].digest, 32), 0);
  }
  kvc_manager_destroy(m);
}

}  // namespace
}  // namespace kvc
