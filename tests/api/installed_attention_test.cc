// SPDX-License-Identifier: Apache-2.0
// kvc_storage_set_attention on the CPU: what the caller's kernel is given, and when the library's own serve.
#include "api/attention_scene.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

struct SeenCall {
  int calls = 0;
  kvc_status answer = KVC_OK;
  kvc_view k = {}, v = {};
  void* stream = nullptr;
  float scale = -1;
  kvc_attention attention = {};
};

kvc_status see(void* data, const kvc_attention* a, const kvc_view* k, const kvc_view* v, void* stream) {
  auto& seen = *static_cast<SeenCall*>(data);
  ++seen.calls;
  seen.k = *k, seen.v = *v, seen.stream = stream, seen.scale = a->scale, seen.attention = *a;
  if (seen.answer == KVC_OK) static_cast<float*>(a->out)[0] = 123;
  return seen.answer;
}

class InstalledAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (device() != nullptr) GTEST_SKIP() << "about the CPU";
  }
};

TEST_F(InstalledAttention, OfLatentRowsSeesTheValuesInsideTheKeys) {
  Scene scene({.flags = KVC_STORAGE_LATENT, .heads = 1});
  SeenCall seen;
  ASSERT_EQ(kvc_storage_set_attention(scene.storage.get(), see, &seen), KVC_OK);
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(scene.out[0], 123.0f);
  EXPECT_EQ(seen.stream, nullptr);
  kvc_view k;
  ASSERT_EQ(kvc_storage_view(scene.storage.get(), KVC_PLANE_K, Scene::kLayer, &k), KVC_OK);
  EXPECT_EQ(std::memcmp(&seen.k, &k, sizeof k), 0);
  k.shape[3] = scene.o.v_dim;
  EXPECT_EQ(std::memcmp(&seen.v, &k, sizeof k), 0);
}

TEST_F(InstalledAttention, IsGivenTheScaleThatTheLibraryWouldTake) {
  Scene scene;
  SeenCall seen;
  ASSERT_EQ(kvc_storage_set_attention(scene.storage.get(), see, &seen), KVC_OK);
  scene.a.scale = 0;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.scale, 1 / std::sqrt(static_cast<float>(scene.o.dim)));
  scene.a.scale = 0.3f;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.scale, 0.3f);
}

TEST_F(InstalledAttention, IsGivenTheStridesThatTheRowsHave) {
  Scene scene;
  SeenCall seen;
  ASSERT_EQ(kvc_storage_set_attention(scene.storage.get(), see, &seen), KVC_OK);
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.attention.q_head_stride, scene.o.dim);
  EXPECT_EQ(seen.attention.q_token_stride, scene.q_heads * scene.o.dim);
  EXPECT_EQ(seen.attention.out_head_stride, scene.o.v_dim);
  EXPECT_EQ(seen.attention.out_token_stride, scene.q_heads * scene.o.v_dim);
  const std::vector<float> sinks(scene.q_heads, 1);
  scene.a.q_token_stride = 999, scene.a.out_head_stride = 17, scene.a.sink_logits = sinks.data();
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(seen.attention.q_token_stride, 999);
  EXPECT_EQ(seen.attention.out_token_stride, scene.q_heads * 17);
  EXPECT_EQ(seen.attention.sink_logits, sinks.data());
}

TEST_F(InstalledAttention, AnErrorOfTheKernelIsThatOfTheCall) {
  Scene scene;
  SeenCall seen;
  seen.answer = KVC_ERROR_LIMIT;
  ASSERT_EQ(kvc_storage_set_attention(scene.storage.get(), see, &seen), KVC_OK);
  EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_ERROR_LIMIT);
  EXPECT_EQ(seen.calls, 1);
}

// Tiled keys have no view, and work in a stream of the CPU waits its turn, which no other kernel can be told.
TEST_F(InstalledAttention, WhereNoViewOrNoStreamCanBeGivenTheLibrarysOwnServe) {
  SeenCall seen;
  Scene tiled({.flags = KVC_STORAGE_TILED_KEYS});
  ASSERT_EQ(kvc_storage_set_attention(tiled.storage.get(), see, &seen), KVC_OK);
  tiled.attend();
  EXPECT_LT(tiled.distance(), 1e-5);

  Scene queued;
  ASSERT_EQ(kvc_storage_set_attention(queued.storage.get(), see, &seen), KVC_OK);
  kvc_stream* stream = nullptr;
  ASSERT_EQ(kvc_stream_create(nullptr, &stream), KVC_OK);
  EXPECT_EQ(kvc_storage_attend(queued.storage.get(), &queued.a, stream), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  kvc_stream_destroy(stream);
  EXPECT_LT(queued.distance(), 1e-5);
  EXPECT_EQ(seen.calls, 0);
}

}  // namespace
}  // namespace kvc::test
