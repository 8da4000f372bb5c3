// SPDX-License-Identifier: Apache-2.0
// The Llama architecture (RMSNorm, rotary embedding, grouped-query attention, SwiGLU) over a storage, for the
// examples: weights, arithmetic, and the pass of a batch through the model. The storage keeps keys and values
// and computes attention; who calls says where they go.
#ifndef EXAMPLES_LLAMA_H
#define EXAMPLES_LLAMA_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <kvcache.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "safetensors.h"

namespace llama {

using Floats = std::vector<float>;

// ---- weights

struct Layer {
  Floats attention_norm, q, k, v, o, mlp_norm, gate, up, down;
};

struct Model {
  size_t vocab, dim, heads, kv_heads, head_dim, hidden;
  float theta = 10000;
  Floats embedding, norm, output;
  std::vector<Layer> layers;
};

inline Floats random_matrix(uint64_t& state, size_t size, float scale) {
  Floats out(size);
  for (float& x : out) {  // splitmix64
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    x = (static_cast<float>(z >> 40) / 8388608.0f - 1.0f) * scale * 1.7320508f;
  }
  return out;
}

// `size`: a multiple of the smallest. The smaller `gain` is, the less the next token depends on more than the
// last one, and the sooner the model repeats itself.
inline Model random_model(size_t size, int layers, float gain) {
  Model m = {512, 64 * size, 4 * size, 2, 16, 128 * size, 10000, {}, {}, {}, {}};
  uint64_t state = 2024;
  const auto matrix = [&](size_t rows, size_t columns) {
    return random_matrix(state, rows * columns, gain / std::sqrt(static_cast<float>(columns)));
  };
  m.embedding = random_matrix(state, m.vocab * m.dim, 0.4f);
  m.output = matrix(m.vocab, m.dim);
  m.norm.assign(m.dim, 1);
  for (int i = 0; i < layers; ++i) {
    m.layers.push_back({Floats(m.dim, 1), matrix(m.heads * m.head_dim, m.dim),
                        matrix(m.kv_heads * m.head_dim, m.dim), matrix(m.kv_heads * m.head_dim, m.dim),
                        matrix(m.dim, m.heads * m.head_dim), Floats(m.dim, 1), matrix(m.hidden, m.dim),
                        matrix(m.hidden, m.dim), matrix(m.dim, m.hidden)});
  }
  return m;
}

inline Model read_model(const char* path, size_t heads, float theta) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(std::string(path) + " cannot be opened");
  SafeTensors file(in);
  const auto rows = [&](const std::string& name) { return file.at(name).shape.at(0); };
  const auto part = [&](const std::string& name, size_t size) {
    Floats floats = file.read(name);
    if (floats.size() != size) throw std::runtime_error(name + " does not fit the other tensors");
    return floats;
  };
  const std::string first = "model.layers.0.";
  Model m = {};
  m.vocab = rows("model.embed_tokens.weight");
  m.dim = file.at("model.embed_tokens.weight").shape.at(1);
  m.heads = heads;
  m.head_dim = heads == 0 ? 0 : rows(first + "self_attn.q_proj.weight") / heads;
  if (m.vocab == 0 || m.dim == 0 || m.head_dim == 0) throw std::runtime_error("no model with so many heads");
  m.kv_heads = rows(first + "self_attn.k_proj.weight") / m.head_dim;
  m.hidden = rows(first + "mlp.gate_proj.weight");
  m.theta = theta;
  m.embedding = part("model.embed_tokens.weight", m.vocab * m.dim);
  m.norm = part("model.norm.weight", m.dim);
  m.output = file.has("lm_head.weight") ? part("lm_head.weight", m.vocab * m.dim) : m.embedding;
  const size_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  for (size_t i = 0; file.has("model.layers." + std::to_string(i) + ".input_layernorm.weight"); ++i) {
    const auto at = [&](const char* name, size_t size) {
      return part("model.layers." + std::to_string(i) + "." + name + ".weight", size);
    };
    m.layers.push_back({at("input_layernorm", m.dim), at("self_attn.q_proj", q * m.dim),
                        at("self_attn.k_proj", kv * m.dim), at("self_attn.v_proj", kv * m.dim),
                        at("self_attn.o_proj", m.dim * q), at("post_attention_layernorm", m.dim),
                        at("mlp.gate_proj", m.hidden * m.dim), at("mlp.up_proj", m.hidden * m.dim),
                        at("mlp.down_proj", m.dim * m.hidden)});
  }
  return m;
}

// ---- arithmetic; x is [tokens][columns]

inline Floats multiply(const Floats& x, const Floats& weight, size_t columns, size_t rows) {
  const size_t tokens = x.size() / columns;
  Floats out(tokens * rows);
  for (size_t t = 0; t < tokens; ++t)
    for (size_t r = 0; r < rows; ++r) {
      float sum = 0;
      for (size_t c = 0; c < columns; ++c) sum += x[t * columns + c] * weight[r * columns + c];
      out[t * rows + r] = sum;
    }
  return out;
}

inline Floats normalize(const Floats& x, const Floats& weight) {
  const size_t dim = weight.size();
  Floats out(x.size());
  for (size_t t = 0; t < x.size() / dim; ++t) {
    float sum = 0;
    for (size_t c = 0; c < dim; ++c) sum += x[t * dim + c] * x[t * dim + c];
    const float scale = 1 / std::sqrt(sum / static_cast<float>(dim) + 1e-5f);
    for (size_t c = 0; c < dim; ++c) out[t * dim + c] = x[t * dim + c] * scale * weight[c];
  }
  return out;
}

// Turns each head's pairs by the token's position; the table begins with the first token of x.
inline void rotate(Floats& x, size_t heads, size_t head_dim, const Floats& table) {
  auto rows = kvc::make<kvc_rope_rows>();
  rows.x = x.data();
  rows.num_tokens = x.size() / heads / head_dim;
  rows.num_heads = static_cast<uint32_t>(heads);
  rows.head_dim = static_cast<uint32_t>(head_dim);
  rows.table = table.data();
  rows.table_rows = rows.num_tokens;
  kvc::check(kvc_rope_apply(&rows));
}

inline void add(Floats& x, const Floats& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// ---- a batch

// Tokens of requests, one after the other. Those of request r are offsets[r] .. offsets[r + 1] - 1; they end
// at position lengths[r], and its block table is tables[r].
struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int64_t> positions, slots;  // of each token
  std::vector<uint64_t> offsets{0}, lengths;
  std::vector<int32_t> tables;  // [requests][stride]
  size_t stride = 0;
  std::vector<size_t> asked;  // tokens after which logits are wanted

  void end_request() {
    offsets.push_back(tokens.size());
    lengths.push_back(static_cast<uint64_t>(positions.back()) + 1);
  }
};

class Llama {
 public:
  Llama(const Model& model, kvc::Storage& storage) : model_(model), storage_(storage) {
    auto rope = kvc::make<kvc_model>();
    rope.num_layers = 1;
    rope.head_dim = static_cast<uint32_t>(model.head_dim);
    rope.rope_theta = static_cast<double>(model.theta);
    frequencies_.resize(model.head_dim / 2);
    kvc::check(
        kvc_model_rope(&rope, 0, 0, nullptr, frequencies_.data(), frequencies_.size(), &attention_factor_));
  }

  // A storage for a model, of so many blocks.
  static kvc_storage_config storage_of(const Model& model, uint32_t blocks, uint32_t block_size) {
    auto config = kvc::make<kvc_storage_config>();
    config.num_blocks = blocks;
    config.block_size = block_size;
    config.num_layers = static_cast<uint32_t>(model.layers.size());
    config.num_heads = static_cast<uint32_t>(model.kv_heads);
    config.head_dim = static_cast<uint32_t>(model.head_dim);
    config.dtype = KVC_FLOAT32;
    return config;
  }

  // Logits [asked][vocab]. Keys and values of the tokens go to their slots; earlier ones are in the storage.
  Floats forward(const Batch& batch) {
    const Model& m = model_;
    Floats rope_rows(batch.tokens.size() * m.head_dim);
    kvc::check(kvc_rope_table(frequencies_.data(), frequencies_.size(), attention_factor_,
                              batch.positions.data(), batch.positions.size(), rope_rows.data()));
    Floats x;
    for (const int32_t token : batch.tokens) {
      const auto row = m.embedding.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(token) * m.dim);
      x.insert(x.end(), row, row + static_cast<ptrdiff_t>(m.dim));
    }
    for (size_t l = 0; l < m.layers.size(); ++l) {
      const Layer& layer = m.layers[l];
      const Floats normal = normalize(x, layer.attention_norm);
      Floats q = multiply(normal, layer.q, m.dim, m.heads * m.head_dim);
      Floats k = multiply(normal, layer.k, m.dim, m.kv_heads * m.head_dim);
      Floats v = multiply(normal, layer.v, m.dim, m.kv_heads * m.head_dim);
      rotate(q, m.heads, m.head_dim, rope_rows);
      rotate(k, m.kv_heads, m.head_dim, rope_rows);
      add(x, multiply(attend(l, q, k, v, batch), layer.o, m.heads * m.head_dim, m.dim));

      const Floats inner = normalize(x, layer.mlp_norm);
      Floats gate = multiply(inner, layer.gate, m.dim, m.hidden);
      const Floats up = multiply(inner, layer.up, m.dim, m.hidden);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      add(x, multiply(gate, layer.down, m.hidden, m.dim));
    }
    Floats last;
    for (const size_t token : batch.asked) {
      const auto row = x.begin() + static_cast<ptrdiff_t>(token * m.dim);
      last.insert(last.end(), row, row + static_cast<ptrdiff_t>(m.dim));
    }
    return multiply(normalize(last, m.norm), m.output, m.dim, m.vocab);
  }

  // The most likely token of each row of logits.
  std::vector<int32_t> greedy(const Floats& logits) const {
    std::vector<int32_t> tokens;
    for (auto row = logits.begin(); row != logits.end(); row += static_cast<ptrdiff_t>(model_.vocab))
      tokens.push_back(
          static_cast<int32_t>(std::max_element(row, row + static_cast<ptrdiff_t>(model_.vocab)) - row));
    return tokens;
  }

 private:
  // Stores the new keys and values, then attends to all that the tables reach.
  Floats attend(size_t layer, const Floats& q, Floats& k, Floats& v, const Batch& batch) {
    auto rows = kvc::make<kvc_rows>();
    rows.first_layer = static_cast<uint32_t>(layer);
    rows.num_tokens = batch.slots.size();
    rows.k = k.data();
    rows.v = v.data();
    rows.slots = batch.slots.data();
    storage_.store(rows);

    Floats out(q.size());
    auto attention = kvc::make<kvc_attention>();
    attention.layer = static_cast<uint32_t>(layer);
    attention.num_q_heads = static_cast<uint32_t>(model_.heads);
    attention.q = q.data();
    attention.out = out.data();
    attention.num_requests = batch.lengths.size();
    attention.q_offsets = batch.offsets.data();
    attention.kv_lens = batch.lengths.data();
    attention.block_tables = batch.tables.data();
    attention.table_stride = batch.stride;
    storage_.attend(attention);
    return out;
  }

  const Model& model_;
  kvc::Storage& storage_;
  std::vector<double> frequencies_;  // of the rotary embedding
  double attention_factor_ = 1;
};

}  // namespace llama
#endif  // EXAMPLES_LLAMA_H
