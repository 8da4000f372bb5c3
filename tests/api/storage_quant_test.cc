// SPDX-License-Identifier: Apache-2.0
// Quantized storage: rows come back within their step, scales of all keys and all values, rotation, measures.
#include <kvcache/model.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "api/storage.h"
#include "rounds.h"

namespace kvc::test {
namespace {

TEST(Storage, QuantizedRowsComeBackWithinTheirStep) {
  std::mt19937 random(7);
  const struct {
    int32_t dtype;
    uint32_t flags;
    double step;  // of the largest magnitude of a group
  } cases[] = {{KVC_INT8, 0, 0.5 / 127},       {KVC_INT8, KVC_STORAGE_ASYMMETRIC, 0.5 / 127},
               {KVC_INT4, 0, 0.5 / 7},         {KVC_INT4, KVC_STORAGE_ASYMMETRIC, 0.5 / 7},
               {KVC_FLOAT8_E4M3, 0, 1.0 / 16}, {KVC_FLOAT8_E5M2, 0, 1.0 / 8}};
  Sample sample;
  for (const auto& test : cases)
    for (const uint32_t group : {0u, 8u})
      for (const uint32_t layout : kLayouts) {
        if (!sample.takes_next()) continue;
        kvc_storage_config c = base_config();
        c.dtype = test.dtype, c.flags = test.flags, c.scale_group = group, c.layout = layout;
        const StoragePtr s = make(c);
        const kvc_storage_info info = info_of(s.get());
        Rows in(info, KVC_FLOAT32, shuffled_slots(random, info), 3), out(info, KVC_FLOAT32, in.slots, 3);
        in.fill(random);
        ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
        ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
        const size_t dim = info.head_dim, rows = in.k.size() / 4 / dim;
        const auto* x = reinterpret_cast<const float*>(in.k.data());
        const auto* y = reinterpret_cast<const float*>(out.k.data());
        for (size_t r = 0; r < rows; ++r) {
          float most = 0;
          for (size_t e = 0; e < dim; ++e) most = std::max(most, std::fabs(x[r * dim + e]));
          for (size_t e = 0; e < dim; ++e)
            ASSERT_LE(std::fabs(x[r * dim + e] - y[r * dim + e]), most * test.step * 1.01);
        }
        EXPECT_NE(in.k, out.k) << "it is not stored as float";
      }
}

// What one row of keys comes back as; the storage has one layer, one head and one block.
std::vector<float> round_trip(kvc_storage_config c, const std::vector<float>& row) {
  c.num_layers = c.num_heads = 1, c.num_blocks = 1, c.head_dim = static_cast<uint32_t>(row.size());
  c.v_head_dim = c.head_dim;
  const StoragePtr s = make(c);
  Rows in(info_of(s.get()), KVC_FLOAT32, {1}, 1), out(info_of(s.get()), KVC_FLOAT32, {1}, 1);
  std::memcpy(in.k.data(), row.data(), row.size() * 4);
  std::memcpy(in.v.data(), row.data(), row.size() * 4);
  EXPECT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  const auto* k = reinterpret_cast<const float*>(out.k.data());
  return {k, k + row.size()};
}

TEST(TensorScales, RoundToMultiplesOfTheGivenScaleAndSaturate) {
  kvc_storage_config c = base_config();
  c.dtype = KVC_INT8, c.k_scale = 0.5f, c.v_scale = 8;
  EXPECT_EQ(round_trip(c, {0, 1.3f, -63.4f, 64, -1e9f}),
            (std::vector<float>{0, 1.5f, -63.5f, 63.5f, -63.5f}));
  c.dtype = KVC_INT4;
  EXPECT_EQ(round_trip(c, {0, 1.3f, -3.4f, 64, -1e9f}), (std::vector<float>{0, 1.5f, -3.5f, 3.5f, -3.5f}));
  c.dtype = KVC_FLOAT8_E4M3, c.k_scale = 2;
  EXPECT_EQ(round_trip(c, {17, 34, -1e9f}), (std::vector<float>{16, 32, -896}));
  c.k_scale = c.v_scale = 0;
  EXPECT_EQ(round_trip(c, {17, 34, -1e9f}), (std::vector<float>{16, 32, -448})) << "fp8: 0 is 1";
}

TEST(TensorScales, AreThoseOfKeysAndOfValues) {
  std::mt19937 random(18);
  kvc_storage_config c = base_config();
  c.dtype = KVC_INT8, c.k_scale = 1 / 64.0f, c.v_scale = 1 / 4.0f;
  const StoragePtr s = make(c);
  const kvc_storage_info info = info_of(s.get());
  EXPECT_EQ(info.k_scale, c.k_scale);
  EXPECT_EQ(info.v_scale, c.v_scale);
  EXPECT_EQ(info.scale_group, 0u);
  EXPECT_EQ(info.token_bytes, 3u * 2 * (20 + 12)) << "no scales in the blocks";
  kvc_view view;
  EXPECT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K_SCALE, 0, &view), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_storage_view(s.get(), KVC_PLANE_V_SCALE, 0, &view), KVC_ERROR_NOT_FOUND);
  Rows in(info, KVC_FLOAT32, {5, 9}, 3);
  in.fill(random);
  kvc_quant_metrics keys = {sizeof keys, 0, 0, 0, 0, 0, 0, 0}, values = keys;
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, &values), KVC_OK) << kvc_last_error();
  EXPECT_GT(keys.max_error, 0.4 / 64);
  EXPECT_GT(values.max_error, 0.4 / 4);
  for (const auto& [metrics, step] : {std::pair(keys, 1 / 64.0), std::pair(values, 1 / 4.0)})
    EXPECT_LE(metrics.max_error, std::max(step / 2, 4.5 - 127 * step) + 1e-6);
}

TEST(TensorScales, OfLatentRowsAreThatOfTheKeys) {
  kvc_storage_config c = base_config();
  c.dtype = KVC_INT8, c.flags = KVC_STORAGE_LATENT, c.num_heads = 1, c.k_scale = 0.25f;
  const StoragePtr s = make(c);
  const kvc_storage_info info = info_of(s.get());
  EXPECT_EQ(info.token_bytes, 3u * 20);
  Rows in(info, KVC_FLOAT32, {9}, 1), out(info, KVC_FLOAT32, {9}, 1);
  for (size_t e = 0; e < 20; ++e) {
    const float x = 0.3f * static_cast<float>(e);
    std::memcpy(in.k.data() + e * 4, &x, 4);
  }
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  for (size_t e = 0; e < 20; ++e) {
    float x;
    std::memcpy(&x, out.k.data() + e * 4, 4);
    EXPECT_EQ(x, 0.25f * std::nearbyint(0.3f * static_cast<float>(e) / 0.25f));
  }
  kvc_quant_metrics keys = {sizeof keys, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, &keys), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK);
  EXPECT_EQ(keys.bytes, 20u);
}

// One large channel, as keys have them.
void fill_with_outlier(std::mt19937& random, Rows& rows, size_t dim) {
  rows.fill(random);
  auto* k = reinterpret_cast<float*>(rows.k.data());
  for (size_t i = 3; i < rows.k.size() / 4; i += dim) k[i] *= 20;
}

TEST(Hadamard, MakesInt4OfRowsWithAnOutlierMoreExact) {
  std::mt19937 random(19);
  const auto snr_of = [&](uint32_t flags, int32_t dtype) {
    kvc_storage_config c = base_config();
    c.dtype = dtype, c.flags = flags, c.head_dim = 64, c.v_head_dim = 16, c.num_threads = 2;
    const StoragePtr s = make(c);
    Rows in(info_of(s.get()), KVC_FLOAT32, shuffled_slots(random, info_of(s.get())), 3);
    fill_with_outlier(random, in, 64);
    EXPECT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
    kvc_quant_metrics keys = {sizeof keys, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK);
    return keys.snr_db;
  };
  for (const uint32_t other : {0u, uint32_t{KVC_STORAGE_ASYMMETRIC}})
    EXPECT_GT(snr_of(other | KVC_STORAGE_HADAMARD, KVC_INT4), snr_of(other, KVC_INT4) + 1);
  EXPECT_GT(snr_of(KVC_STORAGE_HADAMARD, KVC_INT8), 38);
  EXPECT_GT(snr_of(KVC_STORAGE_HADAMARD, KVC_FLOAT8_E4M3), 25);
  if (device() == nullptr) {  // others have no keys per channel
    EXPECT_GT(snr_of(KVC_STORAGE_HADAMARD | KVC_STORAGE_CHANNEL_KEYS, KVC_INT4), 15);
  }
}

TEST(Hadamard, ARowThatIsNotFiniteIsZerosOrNaN) {
  kvc_storage_config c = base_config();
  c.flags = KVC_STORAGE_HADAMARD;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::nanf("")}) {
    for (const int32_t dtype : {KVC_INT8, KVC_INT4}) {
      c.dtype = dtype;
      EXPECT_EQ(round_trip(c, {1, bad, 2, 3}), std::vector<float>(4));
    }
    c.dtype = KVC_FLOAT8_E4M3;
    for (const float x : round_trip(c, {1, bad, 2, 3})) EXPECT_TRUE(std::isnan(x));
  }
}

// N(0, 1): what is promised, measured through the C API.
TEST(Measure, NormalRowsMeetTheirSnr) {
  std::mt19937 random(20);
  const struct {
    int32_t dtype;
    uint32_t group, flags;
    double least;
    uint64_t row_bytes;
  } cases[] = {{KVC_INT8, 0, 0, 38, 128 + 4},
               {KVC_INT8, 0, KVC_STORAGE_ASYMMETRIC, 38, 128 + 8},
               {KVC_INT4, 32, 0, 18, 64 + 4 * 4},
               {KVC_INT4, 32, KVC_STORAGE_HADAMARD, 18, 64 + 4 * 4},
               {KVC_INT4, 0, KVC_STORAGE_CHANNEL_KEYS, 18, 64 + 128 * 4 / 16},
               {KVC_FLOAT8_E4M3, 0, 0, 28, 128},
               {KVC_FLOAT8_E4M3, 32, 0, 28, 128 + 16},
               {KVC_FLOAT16, 0, 0, 60, 256}};
  for (const auto& test : cases) {
    if (test.flags == KVC_STORAGE_CHANNEL_KEYS && device() != nullptr) continue;  // not on devices
    kvc_storage_config c = base_config();
    c.head_dim = c.v_head_dim = 128, c.block_size = 16;
    c.dtype = test.dtype, c.scale_group = test.group, c.flags = test.flags;
    const StoragePtr s = make(c);
    std::vector<int64_t> slots(112);
    for (size_t i = 0; i < 112; ++i) slots[i] = static_cast<int64_t>(i);
    Rows in(info_of(s.get()), KVC_FLOAT32, slots, 3);
    in.fill(random);
    ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
    kvc_quant_metrics keys = {sizeof keys, 0, 0, 0, 0, 0, 0, 0}, values = keys;
    ASSERT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, &values), KVC_OK) << kvc_last_error();
    const uint64_t rows = 3 * 112 * 2;
    EXPECT_GE(keys.snr_db, test.least) << "type " << test.dtype << " group " << test.group;
    EXPECT_LE(keys.snr_db, test.least + 25) << "more would mean that it is not what is stored";
    EXPECT_EQ(keys.elements, rows * 128);
    EXPECT_EQ(keys.bytes, rows * test.row_bytes);
    EXPECT_EQ(keys.fp16_bytes, rows * 256);
    EXPECT_DOUBLE_EQ(keys.ratio, 256.0 / static_cast<double>(test.row_bytes));
    EXPECT_NEAR(10 * std::log10(1 / keys.mse), keys.snr_db, 0.1) << "of a signal of power 1";
    EXPECT_GT(keys.max_error, std::sqrt(keys.mse));
    EXPECT_NEAR(values.snr_db, keys.snr_db, (test.flags & KVC_STORAGE_CHANNEL_KEYS) != 0 ? 6 : 0.5);
  }
}

TEST(Measure, IsWhatGatherGivesBack) {
  std::mt19937 random(21);
  const StoragePtr s = make([] {
    kvc_storage_config c = base_config();
    c.dtype = KVC_INT4, c.scale_group = 8;
    return c;
  }());
  const kvc_storage_info info = info_of(s.get());
  Rows in(info, KVC_FLOAT32, {3, 17, 9}, 3), out(info, KVC_FLOAT32, in.slots, 3);
  in.fill(random);
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
  in.slots[1] = out.slots[1] = -1;  // not compared
  double noise = 0, most = 0;
  const auto* x = reinterpret_cast<const float*>(in.v.data());
  const auto* y = reinterpret_cast<const float*>(out.v.data());
  const size_t token = info.num_heads * info.v_head_dim;
  for (size_t i = 0; i < 9 * token; ++i) {
    if (i / token % 3 == 1) continue;
    noise += std::pow(double{x[i]} - y[i], 2), most = std::max(most, std::abs(double{x[i]} - y[i]));
  }
  kvc_quant_metrics values = {sizeof values, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(kvc_storage_measure(s.get(), &in.rows, nullptr, &values), KVC_OK);
  EXPECT_EQ(values.elements, 6 * token);
  EXPECT_NEAR(values.mse, noise / static_cast<double>(6 * token), 1e-12);
  EXPECT_EQ(values.max_error, most);
}

TEST(Measure, OfNothingZerosAndWhatIsNotFiniteIsDefined) {
  const float infinity = std::numeric_limits<float>::infinity();
  kvc_storage_config c = base_config();
  c.dtype = KVC_INT4, c.head_dim = c.v_head_dim = 3;
  const StoragePtr s = make(c);
  const auto measure = [&](std::vector<float> row) {
    Rows in(info_of(s.get()), KVC_FLOAT32, {2}, 1);
    for (size_t i = 0; i < 6; ++i) std::memcpy(in.k.data() + i * 4, &row[i % 3], 4);
    EXPECT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK);
    kvc_quant_metrics keys = {sizeof keys, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(kvc_storage_measure(s.get(), &in.rows, &keys, nullptr), KVC_OK);
    return keys;
  };
  const kvc_quant_metrics zeros = measure({0, 0, 0});
  EXPECT_EQ(zeros.mse, 0);
  EXPECT_EQ(zeros.snr_db, infinity);
  EXPECT_EQ(zeros.bytes, 2u * (2 + 4)) << "an odd row of int4 ends in a whole byte";
  const kvc_quant_metrics hostile = measure({7, std::nanf(""), infinity});
  EXPECT_EQ(hostile.elements, 6u);
  EXPECT_EQ(hostile.max_error, 0) << "7 is a code, the others have no error";
  EXPECT_EQ(hostile.snr_db, infinity);
  Rows none(info_of(s.get()), KVC_FLOAT32, {-1}, 1);
  kvc_quant_metrics keys = {sizeof keys, 9, 9, 9, 9, 9, 9, 9};
  ASSERT_EQ(kvc_storage_measure(s.get(), &none.rows, &keys, nullptr), KVC_OK);
  EXPECT_EQ(keys.elements, 0u);
  EXPECT_EQ(keys.ratio, 0);
}

TEST(Storage, TakesWhatTheEstimateSays) {
  for (const char* name : {"llama-3.1-8b", "qwen2.5-7b", "phi-3-mini-4k", "deepseek-v3"}) {
    kvc_model model = {};
    model.struct_size = sizeof model;
    ASSERT_EQ(kvc_model_find(name, &model), KVC_OK) << kvc_last_error();
    const struct {
      int32_t dtype;
      uint32_t scale_group, asymmetric, tensor_scales, channel_keys, channel_tokens;
    } cases[] = {
        {KVC_FLOAT16, 0, 0, 0, 0, 0},      {KVC_FLOAT32, 0, 0, 0, 0, 0},     {KVC_INT8, 0, 0, 0, 0, 0},
        {KVC_INT4, 32, 0, 0, 0, 0},        {KVC_INT8, 64, 1, 0, 0, 0},       {KVC_INT8, 0, 0, 1, 0, 0},
        {KVC_INT4, 0, 0, 1, 0, 0},         {KVC_FLOAT8_E4M3, 0, 0, 0, 0, 0}, {KVC_FLOAT8_E5M2, 0, 0, 1, 0, 0},
        {KVC_FLOAT8_E4M3, 32, 0, 0, 0, 0}, {KVC_INT4, 32, 0, 0, 1, 0},       {KVC_INT8, 32, 1, 0, 1, 16}};
    for (const auto& test : cases) {
      if (test.channel_keys != 0 && model.latent_dim != 0) continue;
      kvc_memory_query query = {};
      query.struct_size = sizeof query, query.model = &model, query.tokens = 64, query.dtype = test.dtype;
      query.block_size = 32, query.scale_group = test.scale_group, query.asymmetric = test.asymmetric;
      query.tensor_scales = test.tensor_scales, query.channel_keys = test.channel_keys;
      query.channel_tokens = test.channel_tokens;
      kvc_memory_estimate estimate = {};
      estimate.struct_size = sizeof estimate;
      ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
      kvc_storage_config c = {};
      c.struct_size = sizeof c, c.num_blocks = 4, c.num_layers = model.num_layers, c.dtype = test.dtype;
      c.num_heads = model.num_kv_heads, c.block_size = 32;
      c.head_dim = model.latent_dim != 0 ? model.latent_dim : model.head_dim;
      c.flags = KVC_STORAGE_NOT_ZEROED;
      if (model.latent_dim != 0) c.flags |= KVC_STORAGE_LATENT;
      if (test.asymmetric != 0) c.flags |= KVC_STORAGE_ASYMMETRIC;
      if (test.channel_keys != 0) c.flags |= KVC_STORAGE_CHANNEL_KEYS;
      c.scale_group = test.scale_group, c.channel_tokens = test.channel_tokens;
      if (test.tensor_scales != 0) c.k_scale = 0.1f, c.v_scale = model.latent_dim != 0 ? 0 : 0.1f;
      uint64_t block_bytes = 0;
      ASSERT_EQ(kvc_storage_size(&c, &block_bytes, nullptr), KVC_OK) << kvc_last_error();
      EXPECT_EQ(block_bytes, estimate.full_block_bytes + estimate.window_block_bytes)
          << name << " type " << test.dtype;
      if (device() != nullptr && test.channel_keys != 0) continue;  // the CPU's alone
      c.residual_blocks = test.channel_keys;
      const kvc_storage_info info = info_of(make(c).get());
      EXPECT_EQ(info.residual_bytes, estimate.residual_bytes);
      EXPECT_EQ(info.token_bytes, estimate.bytes_per_token);
    }
  }
}

}  // namespace
}  // namespace kvc::test
