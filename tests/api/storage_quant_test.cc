// SPDX-License-Identifier: Apache-2.0
// Quantized storage: rows come back within their step, scales of all keys and all values, rotation, measures.
#include <cmath>

#include "api/storage.h"

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
  for (const auto& test : cases)
    for (const uint32_t group : {0u, 8u})
      for (const uint32_t layout : kLayouts) {
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

TEST(Storage, TakesWhatTheEstimateSays) {
  for (const char* name : {"llama-3.1-8b", "qwen2.5-7b", "phi-3-mini-4k", "deepseek-v3"}) {
    kvc_model model = {};
    model.struct_size = sizeof model;
    ASSERT_EQ(kvc_model_find(name, &model), KVC_OK) << kvc_last_error();
    for (const int32_t dtype : {KVC_FLOAT16, KVC_FLOAT32, KVC_INT8, KVC_INT4}) {
      kvc_memory_query query = {};
      query.struct_size = sizeof query, query.model = &model, query.tokens = 64, query.dtype = dtype;
      query.scale_group = dtype == KVC_INT4 ? 32 : 0;
      kvc_memory_estimate estimate = {};
      estimate.struct_size = sizeof estimate;
      ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
      kvc_storage_config c = {};
      c.struct_size = sizeof c, c.num_blocks = 4, c.num_layers = model.num_layers, c.dtype = dtype;
      c.num_heads = model.num_kv_heads,
      c.head_dim = model.latent_dim != 0 ? model.latent_dim : model.head_dim;
      c.flags = model.latent_dim != 0 ? KVC_STORAGE_LATENT : 0, c.scale_group = query.scale_group;
      uint64_t block_bytes = 0;
      ASSERT_EQ(kvc_storage_size(&c, &block_bytes, nullptr), KVC_OK) << kvc_last_error();
      EXPECT_EQ(block_bytes, estimate.full_block_bytes + estimate.window_block_bytes)
          << name << " type " << dtype;
    }
  }
}

}  // namespace
}  // namespace kvc::test
