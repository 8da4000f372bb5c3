// SPDX-License-Identifier: Apache-2.0
// kvc_storage_attend through the C API: against plain attention in double precision over what the storage
// gives back, and what it refuses. The kernels themselves are tested in tests/attention.
#include <gtest/gtest.h>
#include <kvcache.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

struct Deleter {
  void operator()(kvc_storage* s) const { kvc_storage_destroy(s); }
};

constexpr uint32_t kLayers = 2, kHeads = 2, kQHeads = 6, kVDim = 16, kBlock = 16, kBlocks = 20;

// Two requests with shuffled pages, the first block shared. Channel 5 of the keys is `outlier` times as large
// as the others, that of the queries as much smaller.
struct Scene {
  explicit Scene(int32_t dtype, uint32_t flags = 0, uint32_t threads = 1, uint32_t layout = KVC_LAYOUT_LBHNC,
                 uint32_t head_dim = 24, float outlier = 1)
      : dim(head_dim) {
    kvc_storage_config c = {};
    c.struct_size = sizeof c;
    c.num_blocks = kBlocks, c.num_layers = kLayers, c.num_heads = kHeads, c.head_dim = dim,
    c.v_head_dim = kVDim;
    c.block_size = kBlock, c.dtype = dtype, c.flags = flags, c.num_threads = threads, c.layout = layout;
    kvc_storage* s = nullptr;
    EXPECT_EQ(kvc_storage_create(&c, &s), KVC_OK) << kvc_last_error();
    storage.reset(s);
    std::vector<int32_t> ids(kBlocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    tables.assign(2 * kStride, -7);  // never to be looked at
    for (size_t r = 0; r < 2; ++r) {
      for (size_t j = 0; j * kBlock < lens[r]; ++j)
        tables[r * kStride + j] = j == 0 ? ids[0] : ids[1 + 5 * r + j];
      std::vector<float> k(kLayers * lens[r] * kHeads * dim), v(kLayers * lens[r] * kHeads * kVDim);
      for (std::vector<float>* x : {&k, &v})
        for (float& value : *x) value = normal(random);
      for (size_t i = 5; i < k.size(); i += dim) k[i] *= outlier;
      kvc_rows rows = rows_of(r, k, v);
      EXPECT_EQ(kvc_storage_store(s, &rows, nullptr), KVC_OK) << kvc_last_error();
    }
    q.resize(offsets[2] * kQHeads * dim);
    for (float& value : q) value = normal(random);
    for (size_t i = 5; i < q.size(); i += dim) q[i] /= outlier;
    out.resize(offsets[2] * kQHeads * kVDim);
    lse.resize(offsets[2] * kQHeads);
    a.struct_size = sizeof a;
    a.q = q.data(), a.out = out.data(), a.lse = lse.data();
    a.num_requests = 2, a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = tables.data();
    a.table_stride = kStride, a.layer = 1, a.num_q_heads = kQHeads;
  }

  kvc_rows rows_of(size_t request, std::vector<float>& k, std::vector<float>& v) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = k.data(), rows.v = v.data();
    rows.num_tokens = lens[request], rows.num_layers = kLayers;
    rows.block_table = &tables[request * kStride], rows.block_table_size = kStride;
    return rows;
  }

  // Relative L2 distance to plain attention, lse included.
  double distance() {
    double difference = 0, size = 0;
    for (size_t r = 0; r < 2; ++r) {
      std::vector<float> k(kLayers * lens[r] * kHeads * dim), v(kLayers * lens[r] * kHeads * kVDim);
      kvc_rows rows = rows_of(r, k, v);
      EXPECT_EQ(kvc_storage_gather(storage.get(), &rows, nullptr), KVC_OK);
      for (uint64_t i = offsets[r]; i < offsets[r + 1]; ++i)
        for (size_t h = 0; h < kQHeads; ++h) {
          const size_t kv = h / (kQHeads / kHeads);
          const uint64_t position = lens[r] - (offsets[r + 1] - offsets[r]) + i - offsets[r];
          double sum = 0;
          std::vector<double> mean(kVDim);
          for (uint64_t t = 0; t < lens[r]; ++t) {
            if (t > position || (a.window != 0 && t + a.window <= position && t >= a.sinks)) continue;
            double logit = 0;
            for (size_t e = 0; e < dim; ++e) {
              logit += double{q[(i * kQHeads + h) * dim + e]} * k[((lens[r] + t) * kHeads + kv) * dim + e];
            }
            logit /= std::sqrt(static_cast<double>(dim));
            if (a.soft_cap != 0) logit = a.soft_cap * std::tanh(logit / a.soft_cap);
            sum += std::exp(logit);
            for (size_t e = 0; e < kVDim; ++e)
              mean[e] += std::exp(logit) * v[((lens[r] + t) * kHeads + kv) * kVDim + e];
          }
          EXPECT_NEAR(lse[i * kQHeads + h], std::log(sum), 1e-3);
          for (size_t e = 0; e < kVDim; ++e) {
            const double wanted = mean[e] / sum;
            difference += std::pow(out[(i * kQHeads + h) * kVDim + e] - wanted, 2);
            size += wanted * wanted;
          }
        }
    }
    return std::sqrt(difference / size);
  }

  const uint32_t dim;
  static constexpr size_t kStride = 6;
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  std::unique_ptr<kvc_storage, Deleter> storage;
  const uint64_t lens[2] = {37, 64}, offsets[3] = {0, 1, 6};
  std::vector<int32_t> tables;
  std::vector<float> q, out, lse;
  kvc_attention a = {};
};

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
        const uint32_t dim = (test.flags & KVC_STORAGE_HADAMARD) != 0 ? 32 : 24;
        Scene scene(test.dtype, test.flags, threads, layout, dim);
        ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
        EXPECT_LT(scene.distance(), test.limit) << "type " << test.dtype << " layout " << layout;
        scene.a.window = 20, scene.a.sinks = 3, scene.a.soft_cap = 5;
        ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
        EXPECT_LT(scene.distance(), test.limit) << "type " << test.dtype << " with a window";
      }
}

// Keys with one large channel, in int4: rotated or with a scale per channel the output is nearer to that of
// the keys before they were quantized.
TEST(Attention, RotationAndChannelKeysAreMoreExactWhereAChannelStandsOut) {
  const auto output_of = [](int32_t dtype, uint32_t flags) {
    Scene scene(dtype, flags, 1, KVC_LAYOUT_LBHNC, 32, 20);
    EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
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
  Scene scene(KVC_FLOAT32);
  const uint64_t none[] = {0, 0}, starts[] = {0, 0};
  scene.a.kv_lens = none, scene.a.q_starts = starts;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.out, std::vector<float>(scene.out.size()));
  EXPECT_EQ(scene.lse, std::vector<float>(scene.lse.size(), -std::numeric_limits<float>::infinity()));
}

TEST(Attention, ReturnedWindowBlocksNeedNoTableEntry) {
  Scene scene(KVC_FLOAT32);
  scene.a.window = 10;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK);
  const std::vector<float> before = scene.out;
  scene.tables[0] = scene.tables[Scene::kStride] = scene.tables[Scene::kStride + 1] = -1;
  ASSERT_EQ(kvc_storage_attend(scene.storage.get(), &scene.a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(scene.out, before);
}

TEST(Attention, BadArgumentsAreRefusedBeforeAnythingIsWritten) {
  Scene scene(KVC_FLOAT32);
  const std::vector<float> before(scene.out.size(), 7);
  scene.out = before;
  scene.a.out = scene.out.data();
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_attention a = scene.a;
    change(a);
    EXPECT_EQ(kvc_storage_attend(scene.storage.get(), &a, nullptr), status);
    EXPECT_EQ(scene.out, before);
  };
  using A = kvc_attention;
  const uint64_t late[] = {1, 1, 6}, falling[] = {0, 6, 1}, longer[] = {37, 97}, shorter[] = {37, 4};
  refused([](A& a) { a.struct_size = 8; });
  refused([](A& a) { a.layer = kLayers; });
  refused([](A& a) { a.num_q_heads = 5; });
  refused([](A& a) { a.num_q_heads = 0; });
  refused([](A& a) { a.dtype = KVC_INT8; });
  refused([](A& a) { a.flags = 2; }, KVC_ERROR_UNSUPPORTED);
  refused([](A& a) { a.scale = std::numeric_limits<float>::quiet_NaN(); });
  refused([](A& a) { a.soft_cap = -1; });
  refused([&](A& a) { a.q_offsets = late; });
  refused([&](A& a) { a.q_offsets = falling; });
  refused([&](A& a) { a.kv_lens = longer; });
  refused([&](A& a) { a.kv_lens = shorter; });
  refused([](A& a) { a.q = nullptr; });
  refused([](A& a) { a.out = nullptr; });
  refused([](A& a) { a.kv_lens = nullptr; });
  refused([](A& a) { a.block_tables = nullptr; });
  refused([](A& a) { a.table_stride = 3; });
  refused([](A& a) { a.mask = reinterpret_cast<const uint8_t*>("x"); });
  scene.tables[Scene::kStride + 2] = kBlocks;
  refused([](A&) {});
  scene.tables[Scene::kStride + 2] = -1;
  refused([](A&) {});
}

}  // namespace
