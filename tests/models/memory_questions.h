// SPDX-License-Identifier: Apache-2.0
// Models and questions of the tests of memory estimates.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/model.h>

namespace kvc {

inline kvc_model grouped(uint32_t layers, uint32_t kv_heads, uint32_t head_dim) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  model.num_layers = layers;
  model.num_kv_heads = kv_heads;
  model.head_dim = head_dim;
  model.max_context = 8192;
  return model;
}

// A state of (30 + 70) elements in these layers.
inline void add_states(kvc_model& model, uint64_t layers) {
  model.state_layers[0] = layers;
  model.conv_elements = 30;
  model.recurrent_elements = 70;
}

// The decoder's layers read this many encoder tokens.
inline void add_encoder(kvc_model& model, uint64_t tokens) {
  model.num_cross_layers = model.num_layers;
  model.cross_tokens = tokens;
  model.cross_kv_heads = model.num_kv_heads;
  model.cross_head_dim = model.head_dim;
}

inline kvc_memory_query question(const kvc_model& model) {
  kvc_memory_query query = {};
  query.struct_size = sizeof query;
  query.model = &model;
  query.dtype = KVC_FLOAT16;
  return query;
}

inline kvc_memory_estimate estimate(const kvc_memory_query& query) {
  kvc_memory_estimate out = {};
  out.struct_size = sizeof out;
  EXPECT_EQ(kvc_estimate_memory(&query, &out), KVC_OK) << kvc_last_error();
  return out;
}

}  // namespace kvc
