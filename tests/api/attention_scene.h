// SPDX-License-Identifier: Apache-2.0
// A storage with random keys and values of some requests, their shuffled block tables and queries, for tests
// of attention through the C API; and plain attention in double precision over what the storage gives back.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "api/storage.h"
#include "attention_call.h"

namespace kvc::test {

struct SceneOptions {
  int32_t dtype = KVC_FLOAT32;
  uint32_t flags = 0, threads = 1, layout = KVC_LAYOUT_LBHNC;
  uint32_t heads = 2, group = 3, dim = 24, v_dim = 16, block_size = 16;
  std::vector<uint64_t> lens{37, 64}, queries{1, 5};
  float k_scale = 0, v_scale = 0;
  float outlier = 1;  // channel 5 of the keys is so many times as large, that of the queries as much smaller
  bool share_first = true;  // the requests have their first block in common
  void (*parallel_for)(void*, size_t, void (*)(void*, size_t, size_t), void*) = nullptr;
  void* parallel_context = nullptr;
};

struct Scene {
  static constexpr uint32_t kLayers = 2, kLayer = 1;

  explicit Scene(const SceneOptions& options = {}) : o(options), q_heads(o.heads * o.group), lens(o.lens) {
    size_t blocks = 1;
    for (const uint64_t len : lens) {
      stride = std::max<size_t>(stride, len / o.block_size + 2);
      blocks += len / o.block_size + 1;
    }
    num_blocks = blocks + 2;
    kvc_storage_config c = {};
    c.struct_size = sizeof c;
    c.num_blocks = num_blocks, c.num_layers = kLayers, c.num_heads = o.heads, c.head_dim = o.dim,
    c.v_head_dim = o.v_dim;
    c.block_size = o.block_size, c.dtype = o.dtype, c.flags = o.flags, c.num_threads = o.threads,
    c.k_scale = o.k_scale, c.v_scale = o.v_scale;
    c.layout = o.layout, c.parallel_for = o.parallel_for, c.parallel_context = o.parallel_context;
    if (device() != nullptr) c.memory_kind = KVC_MEMORY_DEVICE;
    storage = make(c);
    std::vector<int32_t> ids(num_blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    tables.assign(lens.size() * stride, -7);  // never to be looked at
    offsets.assign(1, 0);
    for (size_t r = 0, used = 1; r < lens.size(); ++r) {
      for (size_t j = 0; j * o.block_size < lens[r]; ++j)
        tables[r * stride + j] = j == 0 && o.share_first ? ids[0] : ids[used++];
      std::vector<float> k(kLayers * lens[r] * o.heads * o.dim), v(kLayers * lens[r] * o.heads * o.v_dim);
      for (std::vector<float>* x : {&k, &v})
        for (float& value : *x) value = normal(random);
      for (size_t i = 5; i < k.size(); i += o.dim) k[i] *= o.outlier;
      kvc_rows rows = rows_of(r, k, v);
      EXPECT_EQ(kvc_storage_store(storage.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
      offsets.push_back(offsets.back() + o.queries[r]);
    }
    q.resize(offsets.back() * q_heads * o.dim);
    for (float& value : q) value = normal(random);
    for (size_t i = 5; i < q.size(); i += o.dim) q[i] /= o.outlier;
    out.resize(offsets.back() * q_heads * o.v_dim);
    lse.resize(offsets.back() * q_heads);
    a.q = q.data(), a.out = out.data(), a.lse = lse.data();
    a.num_requests = lens.size(), a.q_offsets = offsets.data(), a.kv_lens = lens.data();
    a.block_tables = tables.data(), a.table_stride = stride, a.layer = kLayer, a.num_q_heads = q_heads;
  }
  Scene(const Scene&) = delete;

  kvc_rows rows_of(size_t request, std::vector<float>& k, std::vector<float>& v) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = k.data(), rows.v = (o.flags & KVC_STORAGE_LATENT) != 0 ? nullptr : v.data();
    rows.num_tokens = lens[request], rows.num_layers = kLayers;
    rows.block_table = &tables[request * stride], rows.block_table_size = stride;
    return rows;
  }

  void attend() {
    std::fill(out.begin(), out.end(), -99.0f);
    std::fill(lse.begin(), lse.end(), -99.0f);
    ASSERT_EQ(kvc_storage_attend(storage.get(), &a, nullptr), KVC_OK) << kvc_last_error();
  }

  // Relative L2 distance of out to plain attention, lse checked beside. sees(request, query, position, KV
  // head): besides the causal and window rules of `a`; a position may be negative if not causal.
  using Sees = std::function<bool(size_t r, uint64_t i, uint64_t j, uint32_t head)>;
  double distance(const Sees& sees = [](size_t, uint64_t, uint64_t, uint32_t) { return true; }) {
    double difference = 0, size = 0;
    const bool causal = (a.flags & KVC_ATTENTION_NOT_CAUSAL) == 0;
    for (size_t r = 0; r < lens.size(); ++r) {
      std::vector<float> k(kLayers * lens[r] * o.heads * o.dim), v(kLayers * lens[r] * o.heads * o.v_dim);
      kvc_rows rows = rows_of(r, k, v);
      EXPECT_EQ(kvc_storage_gather(storage.get(), &rows, nullptr), KVC_OK);
      const uint64_t queries = offsets[r + 1] - offsets[r];
      for (uint64_t i = 0; i < queries; ++i)
        for (uint32_t h = 0; h < q_heads; ++h) {
          const uint32_t kv = h / o.group;
          const int64_t position =
              static_cast<int64_t>(a.q_starts != nullptr ? a.q_starts[r] + i : lens[r] - queries + i);
          const uint64_t row = (offsets[r] + i) * q_heads + h;
          double sum = 0;
          std::vector<double> mean(o.v_dim);
          for (uint64_t t = 0; t < lens[r]; ++t) {
            const auto at = static_cast<int64_t>(t), window = static_cast<int64_t>(a.window);
            if (causal && at > position) continue;
            if (window != 0 && at + window <= position && t >= a.sinks) continue;
            if (!sees(r, i, t, kv)) continue;
            const float* key = &k[((kLayer * lens[r] + t) * o.heads + kv) * o.dim];
            double logit = 0;
            for (size_t e = 0; e < o.dim; ++e) logit += double{q[row * o.dim + e]} * double{key[e]};
            logit /= std::sqrt(static_cast<double>(o.dim));
            if (a.soft_cap != 0) logit = double{a.soft_cap} * std::tanh(logit / double{a.soft_cap});
            sum += std::exp(logit);
            const float* value =
                rows.v == nullptr ? key : &v[((kLayer * lens[r] + t) * o.heads + kv) * o.v_dim];
            for (size_t e = 0; e < o.v_dim; ++e) mean[e] += std::exp(logit) * double{value[e]};
          }
          if (sum == 0) {
            EXPECT_EQ(lse[row], -std::numeric_limits<float>::infinity());
          } else {
            EXPECT_NEAR(lse[row], std::log(sum), 1e-3);
          }
          for (size_t e = 0; e < o.v_dim; ++e) {
            const double wanted = sum == 0 ? 0 : mean[e] / sum;
            difference += std::pow(double{out[row * o.v_dim + e]} - wanted, 2);
            size += wanted * wanted;
          }
        }
    }
    return size == 0 ? difference : std::sqrt(difference / size);
  }

  const SceneOptions o;
  const uint32_t q_heads;
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  StoragePtr storage;
  std::vector<uint64_t> lens, offsets;
  size_t stride = 0, num_blocks = 0;
  std::vector<int32_t> tables;
  std::vector<float> q, out, lse;
  AttentionCall a;
};

}  // namespace kvc::test
