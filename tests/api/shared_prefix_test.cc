// SPDX-License-Identifier: Apache-2.0
// kvc_attention.shared_tokens, on any device: the result is that of the tables, whether a prefix is read once
// or by each request; and what is refused.
#include <cstring>
#include <string>

#include "api/attention_scene.h"

namespace kvc::test {
namespace {

constexpr uint64_t kShared = 80;  // five blocks

// Requests whose first five blocks are those of the first one.
struct SharedScene : Scene {
  explicit SharedScene(SceneOptions options = {}) : Scene(with_requests(std::move(options))) {
    for (size_t r = 1; r < lens.size(); ++r)
      std::copy_n(tables.begin(), kShared / o.block_size, &tables[r * stride]);
    a.shared_tokens = kShared;
  }
  static SceneOptions with_requests(SceneOptions options) {
    options.lens = {150, 81, 200, 133}, options.queries = {1, 1, 20, 5};
    return options;
  }
  kvc_attention_info plan() {
    kvc_attention_info found = {};
    found.struct_size = sizeof found;
    EXPECT_EQ(kvc_storage_explain(storage.get(), &a, &found), KVC_OK) << kvc_last_error();
    return found;
  }
  // As without the hint, but for rounding.
  void expect_near() {
    attend();
    const std::vector<float> hinted = out;
    const uint64_t shared = std::exchange(a.shared_tokens, 0);
    attend();
    a.shared_tokens = shared;
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(hinted[i], out[i], 1e-5);
  }
  // The result without the hint, bit by bit.
  void expect_unchanged() {
    attend();
    const std::vector<float> hinted = out, hinted_lse = lse;
    const uint64_t shared = std::exchange(a.shared_tokens, 0);
    attend();
    a.shared_tokens = shared;
    EXPECT_EQ(std::memcmp(hinted.data(), out.data(), out.size() * 4), 0);
    EXPECT_EQ(std::memcmp(hinted_lse.data(), lse.data(), lse.size() * 4), 0);
  }
};

TEST(SharedPrefixAttention, IsReadOnceOnADeviceAndChangesNothingOnTheCpu) {
  for (const uint32_t layout : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC})
    for (const uint64_t shared : {uint64_t{1}, uint64_t{16}, uint64_t{75}, kShared}) {
      SharedScene scene({.layout = layout});
      scene.a.shared_tokens = shared, scene.a.soft_cap = shared == 75 ? 5.0f : 0.0f;
      EXPECT_EQ(scene.plan().shared_tokens, device() == nullptr ? 0 : shared);
      scene.attend();
      EXPECT_LT(scene.distance(), 1e-5) << shared;
      if (device() == nullptr) scene.expect_unchanged();
    }
}

TEST(SharedPrefixAttention, IsRightForQuantizedAndLatentStorages) {
  for (const int32_t dtype : {KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_INT8, KVC_INT4}) {
    SharedScene scene({.dtype = dtype, .dim = 64, .v_dim = 64});
    EXPECT_EQ(scene.plan().shared_tokens, device() == nullptr ? 0 : kShared);
    scene.expect_near();
    EXPECT_LT(scene.distance(), 4e-3) << dtype;
  }
  SharedScene latent({.flags = KVC_STORAGE_LATENT, .heads = 1, .dim = 48, .v_dim = 32});
  latent.expect_near();
  EXPECT_LT(latent.distance(), 1e-5);
}

TEST(SharedPrefixAttention, KnowsRequestsWithoutQueriesAndQueriesBeforeTheEnd) {
  SharedScene scene;
  std::vector<uint64_t> starts = {149, 80, 100, 90};
  scene.a.q_starts = starts.data();
  scene.attend();
  EXPECT_LT(scene.distance(), 1e-5);
  SharedScene first;  // has none
  first.offsets = {0, 0, 1, 21, 26}, first.a.q_offsets = first.offsets.data();
  first.lens[0] = 0;
  first.attend();
  first.lens[0] = 150;
  EXPECT_LT(first.distance(), 1e-5);
}

TEST(SharedPrefixAttention, ATreeOfDraftTokensStandsBehindIt) {
  SharedScene scene;
  const std::vector<uint64_t> mask_starts = {149, 80, 130, 128};
  std::vector<uint64_t> offsets;
  uint64_t bits = 0;
  for (size_t r = 0; r < 4; ++r) {
    offsets.push_back(bits);
    bits += (scene.offsets[r + 1] - scene.offsets[r]) * (scene.lens[r] - mask_starts[r]);
  }
  std::vector<uint8_t> mask(bits / 8 + 1);
  for (uint8_t& byte : mask) byte = static_cast<uint8_t>(scene.random());
  scene.a.mask = mask.data(), scene.a.mask_offsets = offsets.data(), scene.a.mask_starts = mask_starts.data();
  EXPECT_EQ(scene.plan().shared_tokens, device() == nullptr ? 0 : kShared);
  scene.attend();
  EXPECT_LT(scene.distance([&](size_t r, uint64_t i, uint64_t j, uint32_t) {
    if (j < mask_starts[r]) return true;
    const uint64_t bit = offsets[r] + i * (scene.lens[r] - mask_starts[r]) + j - mask_starts[r];
    return (mask[bit / 8] >> bit % 8 & 1) != 0;
  }),
            1e-5);
}

// What keeps queries from all of the prefix is computed as without the hint.
TEST(SharedPrefixAttention, IsLeftOutWhereItDoesNotFit) {
  const auto expect_left_out = [](auto&& change) {
    SharedScene scene;
    change(scene);
    EXPECT_EQ(scene.plan().shared_tokens, 0u);
    scene.expect_unchanged();
  };
  const std::vector<float> slopes(6, 0.25f);
  const std::vector<uint8_t> blocks(4 * 2 * 4, 0x55), bits(4096, 0xff);
  const std::vector<uint64_t> mask_offsets = {0, 200, 400, 15000};
  expect_left_out([](Scene& s) { s.a.window = 60; });
  expect_left_out([&](Scene& s) { s.a.alibi_slopes = slopes.data(); });
  expect_left_out([&](Scene& s) { s.a.block_mask = blocks.data(), s.a.block_mask_stride = 4; });
  expect_left_out([&](Scene& s) { s.a.mask = bits.data(), s.a.mask_offsets = mask_offsets.data(); });
  expect_left_out([](Scene& s) { s.a.flags = KVC_ATTENTION_NOT_CAUSAL; });
  expect_left_out([](Scene& s) { s.a.num_requests = 1; });
  if (device() != nullptr) expect_left_out([](Scene& s) { s.a.run.flags = KVC_LAUNCH_INVARIANT; });
}

TEST(SharedPrefixAttention, IsRefusedWhereItIsNotTrue) {
  SharedScene scene;
  std::fill(scene.out.begin(), scene.out.end(), -99.0f);
  const auto refused = [&](const char* text) {
    EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(std::count(scene.out.begin(), scene.out.end(), -99.0f),
              static_cast<ptrdiff_t>(scene.out.size()));
  };
  scene.a.shared_tokens = 81;
  refused("table entry 5 of request 1");
  std::vector<uint64_t> starts = {149, 79, 100, 90};
  scene.a.shared_tokens = kShared, scene.a.q_starts = starts.data();
  refused("request 1 has a query, or a mask, or its end at 79");
  scene.a.q_starts = nullptr;
  const std::vector<uint8_t> bits(4096, 0xff);
  const std::vector<uint64_t> mask_offsets(4), mask_starts = {149, 80, 79, 128};
  scene.a.mask = bits.data(), scene.a.mask_offsets = mask_offsets.data();
  scene.a.mask_starts = mask_starts.data();
  refused("request 2 has a query, or a mask, or its end at 79");
  std::vector<uint64_t> late_masks = {150, 81, 200, 133};
  scene.a.mask_starts = late_masks.data(), scene.a.q_starts = starts.data();
  refused("request 1 has a query, or a mask, or its end at 79");
  scene.a.mask = nullptr, scene.a.mask_starts = scene.a.q_starts = nullptr;
  scene.lens[3] = 79, scene.a.flags = KVC_ATTENTION_NOT_CAUSAL;
  refused("request 3 has a query, or a mask, or its end at 79");
  scene.lens[3] = 133, scene.a.flags = 0;
  for (const uint64_t many : {uint64_t{scene.stride * 16 + 1}, UINT64_MAX}) {
    scene.a.shared_tokens = many;
    refused("table_stride");
  }
  scene.a.shared_tokens = kShared;
  std::swap(scene.tables[scene.stride], scene.tables[scene.stride + 1]);
  refused("table entry 0 of request 1");
}

}  // namespace
}  // namespace kvc::test
