// SPDX-License-Identifier: Apache-2.0
// kvc_storage_attend through the C API: against plain attention in double precision over what the storage
// gives back, and what it refuses. The kernels themselves are tested in tests/attention.
#include "api/attention_scene.h"
#include "attention_call.h"

namespace {

using kvc::test::Scene;

TEST(Attention, EqualsPlainAttentionOverWhatIsStored) {
  const struct {
    int32_t dtype;
    uint32_t flags;
    double limit;
  } cases[] = {{KVC_FLOAT32, 0, 1e-5},
               {KVC_FLOAT32, KVC_STORAGE_TILED_KEYS, 1e-5},
               {KVC_FLOAT16, 0, 4e-3},
               {KVC_FLOAT16, KVC_STORAGE_TILED_KEYS, 4e-3},
               {KVC_BFLOAT16, 0, 4e-3},
               {KVC_BFLOAT16, KVC_STORAGE_TILED_KEYS, 4e-3},
               {KVC_INT8, 0, 4e-3},
               {KVC_INT8, KVC_STORAGE_ASYMMETRIC, 4e-3},
               {KVC_INT4, 0, 4e-3},
               {KVC_INT4, KVC_STORAGE_ASYMMETRIC, 4e-3},
               {KVC_FLOAT8_E4M3, 0, 4e-3},
               {KVC_FLOAT8_E5M2, 0, 4e-3},
               {KVC_INT8, KVC_STORAGE_CHANNEL_KEYS, 4e-3},
               {KVC_INT4, KVC_STORAGE_CHANNEL_KEYS | KVC_STORAGE_ASYMMETRIC, 4e-3},
               {KVC_INT4, KVC_STORAGE_HADAMARD, 4e-3},
               {KVC_INT8, KVC_STORAGE_HADAMARD | KVC_STORAGE_CHANNEL_KEYS, 4e-3},
               {KVC_FLOAT8_E4M3, KVC_STORAGE_HADAMARD, 4e-3}};
  for (const auto& test : cases)
    for (const uint32_t threads : {1u, 3u})
      for (const uint32_t layout : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_LBNHC, KVC_LAYOUT_BHLNC}) {
        if (test.flags == KVC_STORAGE_TILED_KEYS && layout == KVC_LAYOUT_LBNHC) continue;
        if (kvc::test::device() != nullptr && (test.flags & KVC_STORAGE_CHANNEL_KEYS) != 0)
          continue;  // the CPU's alone
        // 24 is no multiple of a vector, 32 is a power of two.
        const uint32_t dim = (test.flags & KVC_STORAGE_HADAMARD) != 0 || threads == 1 ? 32 : 24;
        Scene scene(
            {.dtype = test.dtype, .flags = test.flags, .threads = threads, .layout = layout, .dim = dim});
        scene.attend();
        EXPECT_LT(scene.distance(), test.limit) << "type " << test.dtype << " layout " << layout;
        scene.a.window = 20, scene.a.sinks = 3, scene.a.soft_cap = 5;
        scene.attend();
        EXPECT_LT(scene.distance(), test.limit) << "type " << test.dtype << " with a window";
      }
}

TEST(Attention, FollowsTheScaleOfAllKeysAndThatOfAllValues) {
  for (const int32_t dtype : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2})
    for (const uint32_t dim : {24u, 32u}) {
      Scene scene({.dtype = dtype, .dim = dim, .k_scale = 0.4f, .v_scale = 0.07f});
      ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
      EXPECT_LT(scene.distance(), 4e-3) << "type " << dtype << " dim " << dim;
    }
}

// Keys with one large channel, in int4: rotated or with a scale per channel the output is nearer to that of
// the keys before they were quantized.
TEST(Attention, RotationAndChannelKeysAreMoreExactWhereAChannelStandsOut) {
  const auto output_of = [](int32_t dtype, uint32_t flags) {
    Scene scene({.dtype = dtype, .flags = flags, .dim = 32, .outlier = 20});
    scene.attend();
    return scene.out;
  };
  const std::vector<float> exact = output_of(KVC_FLOAT32, 0);
  const auto distance = [&](const std::vector<float>& out) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      difference += std::pow(double{out[i]} - exact[i], 2), size += std::pow(double{exact[i]}, 2);
    }
    return std::sqrt(difference / size);
  };
  const double plain = distance(output_of(KVC_INT4, 0));
  EXPECT_LT(distance(output_of(KVC_INT4, KVC_STORAGE_HADAMARD)), plain * 0.7);
  EXPECT_LT(distance(output_of(KVC_INT4, KVC_STORAGE_CHANNEL_KEYS)), plain * 0.7);
  EXPECT_LT(distance(output_of(KVC_INT8, KVC_STORAGE_HADAMARD)), 0.05);
}

TEST(Attention, ARequestWithoutTokensGivesZeros) {
  Scene scene;
  const uint64_t none[] = {0, 0}, starts[] = {0, 0};
  scene.a.kv_lens = none, scene.a.q_starts = starts;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.out, std::vector<float>(scene.out.size()));
  EXPECT_EQ(scene.lse, std::vector<float>(scene.lse.size(), -std::numeric_limits<float>::infinity()));
}

TEST(Attention, ReturnedWindowBlocksNeedNoTableEntry) {
  Scene scene;
  scene.a.window = 10;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK);
  const std::vector<float> before = scene.out;
  scene.tables[0] = scene.tables[scene.stride] = scene.tables[scene.stride + 1] = -1;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.out, before);
}

// Requests that read nothing need no tables: a pointer whose count is 0 may be NULL.
TEST(Attention, RequestsWithoutTokensNeedNoTables) {
  Scene scene;
  const uint64_t offsets[] = {0, 1, 1}, lens[] = {0, 0}, starts[] = {0, 0};
  AttentionCall a = scene.a;
  a.q_offsets = offsets, a.kv_lens = lens, a.q_starts = starts;
  a.block_tables = nullptr, a.table_stride = 0;
  scene.out.assign(scene.out.size(), 7);
  a.out = scene.out.data();
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.out[0], 0);
  const uint64_t one[] = {1, 0};
  a.kv_lens = one;
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Attention, BadArgumentsAreRefusedBeforeAnythingIsWritten) {
  Scene scene;
  const std::vector<float> before(scene.out.size(), 7);
  scene.out = before;
  scene.a.out = scene.out.data();
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    AttentionCall a = scene.a;
    change(a);
    EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), status);
    EXPECT_EQ(scene.out, before);
  };
  using A = AttentionCall;
  constexpr uint64_t kTooLong = uint64_t{1} << 31;
  const uint64_t late[] = {1, 1, 6}, falling[] = {0, 6, 1}, longer[] = {37, 97}, shorter[] = {37, 4};
  const uint64_t endless[] = {0, 1, (uint64_t{1} << 40) + 1}, many[] = {0, 1, 1 + kTooLong},
                 starts[] = {0, 0}, far[] = {0, kTooLong}, huge[] = {37, kTooLong};
  refused([](A& a) { a.struct_size = 8; });
  refused([](A& a) { a.layer = Scene::kLayers; });
  refused([](A& a) { a.num_q_heads = 5; });
  refused([](A& a) { a.num_q_heads = 0; });
  refused([](A& a) { a.dtype = KVC_INT8; });
  refused([](A& a) { a.flags = 16; }, KVC_ERROR_UNSUPPORTED);
  refused([](A& a) { a.scale = std::numeric_limits<float>::quiet_NaN(); });
  refused([](A& a) { a.soft_cap = -1; });
  refused([](A& a) { a.soft_cap = std::numeric_limits<float>::infinity(); });
  refused([](A& a) { a.soft_cap = std::numeric_limits<float>::denorm_min(); });
  refused([](A& a) { a.soft_cap = 1e31f; });
  for (const float bad : {1e31f, -1e31f, std::numeric_limits<float>::infinity()})
    refused([&](A& a) { a.scale = bad; });
  refused([](A& a) { a.window = kTooLong; });
  refused([](A& a) { a.window = 1, a.sinks = kTooLong; });
  refused([](A& a) { a.num_q_heads = 65538; });
  refused([](A& a) { a.num_requests = uint64_t{1} << 32; });
  refused([](A& a) { a.q_offsets = nullptr; });
  refused([&](A& a) { a.q_offsets = late; });
  refused([&](A& a) { a.q_offsets = falling; });
  refused([&](A& a) { a.q_offsets = endless; });
  refused([&](A& a) { a.q_offsets = many, a.q_starts = starts; });
  refused([&](A& a) { a.q_starts = far; });
  refused([&](A& a) { a.kv_lens = huge; });
  refused([&](A& a) { a.kv_lens = longer; });
  refused([&](A& a) { a.kv_lens = shorter; });
  refused([](A& a) { a.q = nullptr; });
  refused([](A& a) { a.out = nullptr; });
  refused([](A& a) { a.kv_lens = nullptr; });
  refused([](A& a) { a.block_tables = nullptr; });
  refused([](A& a) { a.table_stride = 3; });
  refused([](A& a) { a.mask = reinterpret_cast<const uint8_t*>("x"); });
  scene.tables[scene.stride + 2] = static_cast<int32_t>(scene.num_blocks);
  refused([](A&) {});
  scene.tables[scene.stride + 2] = -1;
  refused([](A&) {});
  scene.tables[0] = -1;  // of the first request's sinks; its window does not reach it
  refused([](A& a) { a.num_requests = 1, a.window = 10, a.sinks = 1; });
}

TEST(Attention, OfNoRequestsWritesNothing) {
  Scene scene;
  scene.a.num_requests = 0;
  scene.a.q = nullptr, scene.a.out = nullptr, scene.a.q_offsets = nullptr;
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
}

// What a kernel on a device cannot look at is bounded by what the caller says of it.
TEST(Attention, BoundsOfArraysOnADeviceAreChecked) {
  Scene scene;
  scene.a.run.flags = KVC_LAUNCH_ON_DEVICE;
  scene.a.run.total_queries = 6;
  const std::vector<float> before(scene.out.size(), 7);
  scene.out = before;
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    AttentionCall a = scene.a;
    change(a);
    EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), status);
    EXPECT_EQ(scene.out, before);
  };
  using A = AttentionCall;
  const uint64_t room = scene.stride * scene.o.block_size;
  refused([](A& a) { a.run.total_queries = 0; });
  refused([](A& a) { a.q = nullptr; });
  refused([](A& a) { a.run.total_queries = uint64_t{1} << 31; });
  refused([](A& a) { a.run.max_queries = 7; });
  refused([&](A& a) { a.run.max_kv_len = room + 1; });
  refused([](A& a) { a.table_stride = size_t{1} << 40, a.run.max_kv_len = uint64_t{1} << 31; });
  refused([](A& a) { a.run.struct_size = 8; });
  refused([](A& a) { a.run.flags |= 8; }, KVC_ERROR_UNSUPPORTED);
  refused([](A& a) { a.run.reserved = 1; }, KVC_ERROR_UNSUPPORTED);
  if (kvc::test::device() != nullptr) return;
  refused([](A&) {}, KVC_ERROR_UNSUPPORTED);
  refused([&](A& a) { a.run.max_queries = 6, a.run.max_kv_len = room; }, KVC_ERROR_UNSUPPORTED);
  refused([](A& a) { a.run.flags = KVC_LAUNCH_INVARIANT; }, KVC_ERROR_UNSUPPORTED);
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan;
  EXPECT_EQ(kvc_storage_explain(scene.storage.get(), &scene.a, &plan), KVC_ERROR_UNSUPPORTED);
  std::vector<uint16_t> bounds(scene.num_blocks * scene.o.heads * 2 * scene.o.dim);
  std::vector<uint8_t> mask(1, 9);
  kvc_block_choice choice = {};
  choice.struct_size = sizeof choice;
  choice.bounds = bounds.data(), choice.top_k = 1, choice.block_mask = mask.data(),
  choice.block_mask_stride = 1;
  EXPECT_EQ(kvc_storage_select_blocks(scene.storage.get(), &scene.a, &choice, nullptr),
            KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(mask[0], 9);
}

}  // namespace
