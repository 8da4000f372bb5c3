// SPDX-License-Identifier: Apache-2.0
// Keys with a scale per channel: the promises of the header one by one.
#include <cmath>
#include <thread>

#include "api/channels.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

TEST(ChannelKeys, AreTheSameBytesInOneCallAndTokenByToken) {
  std::mt19937 random(12);
  for (const uint32_t layout : kLayouts)
    for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_ASYMMETRIC}})
      for (const uint32_t threads : {1u, 3u}) {
        kvc_storage_config c = channel_config(KVC_INT4, flags);
        c.layout = layout, c.num_threads = threads, c.block_size = 8, c.channel_tokens = 4;
        c.num_blocks = 70;  // several passes
        const StoragePtr one = make(c), many = make(c);
        const kvc_storage_info info = info_of(one.get());
        Rows all(info, KVC_FLOAT32, slots_of_block(0, 0, 560), 2);
        all.fill(random);
        store(one.get(), all);
        for (int64_t t = 0; t < 560; t += 7) {
          Rows part = all;
          part.rows.slots = all.slots.data() + t;
          part.rows.num_tokens = 7;
          part.rows.k = part.k.data() + t * info.num_heads * info.head_dim * 4;
          part.rows.v = part.v.data() + t * info.num_heads * info.v_head_dim * 4;
          part.rows.k_layer_stride = 560 * info.num_heads * info.head_dim;
          part.rows.v_layer_stride = 560 * info.num_heads * info.v_head_dim;
          store(many.get(), part);
        }
        EXPECT_EQ(bytes_of(one.get()), bytes_of(many.get())) << "layout " << layout;
        EXPECT_FALSE(is_residual(many.get(), 69));
      }
}

TEST(ChannelKeys, OfAnOpenBlockComeBackBitByBit) {
  std::mt19937 random(13);
  const StoragePtr s = make(channel_config());
  const kvc_storage_info info = info_of(s.get());
  Rows in(info, KVC_BFLOAT16, slots_of_block(5, 0, 3), 3), out(info, KVC_BFLOAT16, in.slots, 3);
  in.fill(random);
  store(s.get(), in);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  EXPECT_EQ(in.k, out.k);
  Rows last(info, KVC_BFLOAT16, slots_of_block(5, 3, 4), 3);
  last.fill(random);
  store(s.get(), last);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  EXPECT_NE(in.k, out.k) << "quantized, and so quantized";
}

TEST(ChannelKeys, OfAnOpenBlockAreMeasuredAsTheyAreKept) {
  std::mt19937 random(13);
  kvc_storage_config c = channel_config();
  c.block_size = 8;  // so that eight tokens share their scales
  const StoragePtr s = make(c);
  const kvc_storage_info info = info_of(s.get());
  Rows in(info, KVC_BFLOAT16, slots_of_block(5, 0, 3, 8), 3);
  in.fill(random);
  store(s.get(), in);
  kvc_quant_metrics keys = {};
  keys.struct_size = sizeof keys;
  ASSERT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(keys.mse, 0) << "not quantized yet";
  EXPECT_EQ(keys.bytes, keys.elements * 2) << "bfloat16";
  const int32_t block = 5;
  ASSERT_EQ(kvc_storage_quantize_blocks(s.get(), &block, 1, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK);
  EXPECT_GT(keys.mse, 0);
  EXPECT_LT(keys.bytes, keys.elements * 2);
}

TEST(ChannelKeys, OfATruncatedBlockAreQuantizedOnceMore) {
  std::mt19937 random(14);
  const StoragePtr s = make(channel_config());
  const kvc_storage_info info = info_of(s.get());
  Rows all(info, KVC_FLOAT32, slots_of_block(2, 0, 4), 3), end(info, KVC_FLOAT32, slots_of_block(2, 1, 4), 3);
  all.fill(random), end.fill(random);
  store(s.get(), all);
  EXPECT_FALSE(is_residual(s.get(), 2));
  for (int64_t t = 1; t < 4; ++t) {
    Rows one = end;
    one.rows.slots = &end.slots[static_cast<size_t>(t - 1)], one.rows.num_tokens = 1;
    one.rows.k = one.k.data() + (t - 1) * info.num_heads * info.head_dim * 4;
    one.rows.v = one.v.data() + (t - 1) * info.num_heads * info.v_head_dim * 4;
    one.rows.k_layer_stride = 3 * info.num_heads * info.head_dim;
    one.rows.v_layer_stride = 3 * info.num_heads * info.v_head_dim;
    store(s.get(), one);
    EXPECT_EQ(is_residual(s.get(), 2), t < 3);
  }
  Rows out(info, KVC_FLOAT32, slots_of_block(2, 0, 4), 3);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  const size_t token = info.num_heads * info.head_dim;
  const auto* x = reinterpret_cast<const float*>(out.k.data());
  for (size_t l = 0; l < 3; ++l)
    for (size_t i = 0; i < 4 * token; ++i) {
      const auto* kept = reinterpret_cast<const float*>(all.k.data());
      const auto* fresh = reinterpret_cast<const float*>(end.k.data());
      const float wanted = i < token ? kept[l * 4 * token + i] : fresh[l * 3 * token + i - token];
      EXPECT_NEAR(x[l * 4 * token + i], wanted, 2 * 5.0 / 254 + 0.02) << "twice half a step, and bf16";
    }
}

TEST(ChannelKeys, KeepAnOutlierChannelToItself) {
  std::mt19937 random(15);
  const auto snr_of = [&](uint32_t flags) {
    kvc_storage_config c = base_config();
    c.dtype = KVC_INT4, c.flags = flags, c.block_size = 16, c.head_dim = 32;
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots_of_block(0, 0, 112), 3);
    in.fill(random);
    auto* k = reinterpret_cast<float*>(in.k.data());
    for (size_t i = 5; i < in.k.size() / 4; i += 32) k[i] *= 30;
    store(s.get(), in);
    for (size_t i = 5; i < in.k.size() / 4; i += 32) k[i] = std::nanf("");  // measure the others
    kvc_quant_metrics keys = {};
    keys.struct_size = sizeof keys;
    EXPECT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK) << kvc_last_error();
    return keys.snr_db;
  };
  const double per_row = snr_of(0), per_channel = snr_of(KVC_STORAGE_CHANNEL_KEYS);
  EXPECT_LT(per_row, 5);
  EXPECT_GT(per_channel, 18);
}

TEST(ChannelKeys, TakeWhatTheInfoSays) {
  kvc_storage_config c = channel_config(KVC_INT4);
  c.block_size = 8, c.channel_tokens = 4, c.num_blocks = 100;
  const kvc_storage_info info = info_of(make(c).get());
  EXPECT_EQ(info.channel_tokens, 4u);
  EXPECT_EQ(info.residual_blocks, 64u);
  EXPECT_EQ(info.residual_bytes, 64u * 3 * 2 * 8 * 20 * 2);
  EXPECT_EQ(info.token_bytes, 3u * 2 * (10 + 20 * 4 / 4 + 6 + 4));
  c.num_blocks = 7, c.channel_tokens = 0;
  EXPECT_EQ(info_of(make(c).get()).residual_blocks, 7u);
  EXPECT_EQ(info_of(make(c).get()).channel_tokens, 8u);
}

TEST(ChannelKeys, OfForeignMemoryAreTakenAsQuantized) {
  std::mt19937 random(16);
  kvc_storage_config c = channel_config();
  uint64_t slab_bytes = 0;
  ASSERT_EQ(kvc_storage_size(&c, nullptr, &slab_bytes), KVC_OK);
  std::vector<char> memory(slab_bytes + 64);
  c.memory = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  c.memory_size = slab_bytes;
  std::vector<float> before;
  {
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots_of_block(0, 0, 27), 3);  // the last one stays open
    in.fill(random);
    store(s.get(), in);
    const int32_t last = 6;
    ASSERT_EQ(kvc_storage_quantize_blocks(s.get(), &last, 1, nullptr), KVC_OK);
    before = keys_of(s.get(), 1);
  }
  EXPECT_EQ(keys_of(make(c).get(), 1), before);
}

TEST(ChannelKeys, AreQuantizedInTheOrderOfTheirStream) {
  std::mt19937 random(18);
  const StoragePtr s = make(channel_config());
  const kvc_storage_info info = info_of(s.get());
  kvc_stream* stream = nullptr;
  ASSERT_EQ(kvc_stream_create("cpu", &stream), KVC_OK) << kvc_last_error();
  Rows in(info, KVC_FLOAT32, slots_of_block(3, 0, 2), 3);
  in.fill(random);
  int32_t block = 3;
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, stream), KVC_OK);
  ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  EXPECT_TRUE(is_residual(s.get(), 3));
  ASSERT_EQ(kvc_storage_quantize_blocks(s.get(), &block, 1, stream), KVC_OK);
  block = 6;  // was copied at the call
  ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  EXPECT_FALSE(is_residual(s.get(), 3));
  kvc_stream_destroy(stream);
}

TEST(ChannelKeys, ViewsShowQuantizedCodesAndTheirScales) {
  std::mt19937 random(17);
  kvc_storage_config c = channel_config();
  c.block_size = 8, c.channel_tokens = 4;
  for (const uint32_t layout : kLayouts) {
    c.layout = layout;
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots_of_block(0, 0, 56), 3);
    in.fill(random);
    store(s.get(), in);
    const std::vector<float> keys = keys_of(s.get(), 1);
    kvc_view codes, scales;
    ASSERT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K, 1, &codes), KVC_OK);
    ASSERT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K_SCALE, 1, &scales), KVC_OK);
    EXPECT_EQ(scales.shape[2], 2);
    EXPECT_EQ(scales.shape[3], 20);
    for (int64_t i = 0; i < 7 * 2 * 8 * 20; ++i) {
      const int64_t e = i % 20, h = i / 20 % 2, t = i / 40 % 8, b = i / 320;
      const auto* code = static_cast<const signed char*>(codes.data) + b * codes.strides[0] +
                         h * codes.strides[1] + t * codes.strides[2] + e * codes.strides[3];
      float scale;
      std::memcpy(&scale,
                  static_cast<const char*>(scales.data) + b * scales.strides[0] + h * scales.strides[1] +
                      t / 4 * scales.strides[2] + e * scales.strides[3],
                  sizeof scale);
      ASSERT_EQ(*code * scale, keys[static_cast<size_t>(i)]) << "layout " << layout << " element " << i;
    }
  }
}

// Each thread has its own blocks, but they share the areas: a store of one quantizes what another has open.
TEST(ChannelKeys, OfThreadsWithBlocksOfTheirOwnStayRight) {
  kvc_storage_config c = channel_config();
  c.residual_blocks = 2, c.num_blocks = 8, c.num_threads = 2, c.num_layers = 1;
  const StoragePtr s = make(c);
  const kvc_storage_info info = info_of(s.get());
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      const std::vector<int64_t> slots = slots_of_block(0, 8 * i, 8 * i + 8);
      for (int round = 0; round < 30; ++round) {
        Rows in(info, KVC_FLOAT32, slots, 1), out(info, KVC_FLOAT32, slots, 1);
        in.fill(random);
        for (size_t t = 0; t < 8; ++t) {
          kvc_rows one = in.rows;
          one.slots += t, one.num_tokens = 1;
          one.k = in.k.data() + t * info.num_heads * info.head_dim * 4;
          one.v = in.v.data() + t * info.num_heads * info.v_head_dim * 4;
          ASSERT_EQ(kvc_storage_store(s.get(), &one, nullptr), KVC_OK);
        }
        ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
        for (size_t e = 0; e < in.k.size() / 4; ++e) {
          ASSERT_NEAR(reinterpret_cast<const float*>(out.k.data())[e],
                      reinterpret_cast<const float*>(in.k.data())[e], 0.15);
        }
        const uint64_t offsets[] = {0, 1}, length = 8;
        const int32_t table[] = {static_cast<int32_t>(2 * i), static_cast<int32_t>(2 * i + 1)};
        const std::vector<float> q(info.num_heads * info.head_dim, 0.1f);
        std::vector<float> result(info.num_heads * info.v_head_dim, std::nanf(""));
        AttentionCall a;
        a.q = q.data(), a.out = result.data(), a.num_requests = 1;
        a.q_offsets = offsets, a.kv_lens = &length, a.block_tables = table, a.table_stride = 2;
        a.num_q_heads = info.num_heads;
        ASSERT_EQ(kvc_storage_attend(s.get(), &a, nullptr), KVC_OK) << kvc_last_error();
        for (const float x : result) ASSERT_LT(std::fabs(x), 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvc::test
