// SPDX-License-Identifier: Apache-2.0
// A small inference engine of the Llama architecture (RMSNorm, rotary embedding, grouped-query attention,
// SwiGLU) over the public headers alone: the manager says where keys and values go and what is known already,
// the storage keeps them and computes attention. Prints the tokens and the time to the first one with the
// prefix cache off and on, and shows that the tokens really come from the cache: with one block spoiled they
// change.
//
//   05_generate [FILE.safetensors [HEADS [THETA]]]   float32, float16 or bfloat16 weights with Hugging Face's
//   names
//                                                    (Llama); without a file a small random model
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <kvcache.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "safetensors.h"

namespace {

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

Floats random_matrix(uint64_t& state, size_t size, float scale) {
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

Model random_model() {
  Model m = {512, 128, 8, 2, 16, 256, 10000, {}, {}, {}, {}};
  uint64_t state = 2024;
  const auto matrix = [&](size_t rows, size_t columns) {
    return random_matrix(state, rows * columns, 1.6f / std::sqrt(static_cast<float>(columns)));
  };
  m.embedding = random_matrix(state, m.vocab * m.dim, 0.4f);
  m.output = matrix(m.vocab, m.dim);
  m.norm.assign(m.dim, 1);
  for (int i = 0; i < 4; ++i) {
    m.layers.push_back({Floats(m.dim, 1), matrix(m.heads * m.head_dim, m.dim),
                        matrix(m.kv_heads * m.head_dim, m.dim), matrix(m.kv_heads * m.head_dim, m.dim),
                        matrix(m.dim, m.heads * m.head_dim), Floats(m.dim, 1), matrix(m.hidden, m.dim),
                        matrix(m.hidden, m.dim), matrix(m.dim, m.hidden)});
  }
  return m;
}

Model read_model(const char* path, size_t heads, float theta) {
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

Floats multiply(const Floats& x, const Floats& weight, size_t columns, size_t rows) {
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

Floats normalize(const Floats& x, const Floats& weight) {
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
void rotate(Floats& x, size_t heads, size_t head_dim, const Floats& table) {
  auto rows = kvc::make<kvc_rope_rows>();
  rows.x = x.data();
  rows.num_tokens = x.size() / heads / head_dim;
  rows.num_heads = static_cast<uint32_t>(heads);
  rows.head_dim = static_cast<uint32_t>(head_dim);
  rows.table = table.data();
  rows.table_rows = rows.num_tokens;
  kvc::check(kvc_rope_apply(&rows));
}

void add(Floats& x, const Floats& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// ---- the engine

struct Answer {
  std::vector<int32_t> tokens;
  uint64_t cached = 0;
  double first_ms = 0;
};

class Engine {
 public:
  explicit Engine(const Model& model)
      : model_(model), manager_(kBlocks, kBlockSize), storage_(storage_of(model)) {
    auto rope = kvc::make<kvc_model>();
    rope.num_layers = 1;
    rope.head_dim = static_cast<uint32_t>(model.head_dim);
    rope.rope_theta = static_cast<double>(model.theta);
    frequencies_.resize(model.head_dim / 2);
    kvc::check(
        kvc_model_rope(&rope, 0, 0, nullptr, frequencies_.data(), frequencies_.size(), &attention_factor_));
  }

  // Greedy: the most likely token each time. With `share` the prefix cache may serve the prompt.
  Answer generate(const std::vector<int32_t>& prompt, size_t count, bool share) {
    const auto start = std::chrono::steady_clock::now();
    auto config = kvc::make<kvc_request_config>();
    config.flags = share ? 0 : KVC_REQUEST_NO_READ;
    kvc::Request request = manager_.allocate(prompt, &config);
    if (!request) throw std::runtime_error("the prompt does not fit");
    Answer answer;
    answer.cached = request.info().num_cached;
    std::vector<int32_t> all = prompt;
    for (size_t done = answer.cached; answer.tokens.size() < count;) {
      const Floats logits = forward(request, {all.begin() + static_cast<ptrdiff_t>(done), all.end()}, done);
      request.commit(all.size());
      done = all.size();
      const auto next = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      if (answer.tokens.empty()) {
        answer.first_ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      }
      answer.tokens.push_back(next);
      all.push_back(next);
      if (!request.append({&next, 1})) throw std::runtime_error("the cache is full");
    }
    return answer;
  }

  // The block that holds position 0 of a cached prompt.
  int32_t first_block(const std::vector<int32_t>& prompt) {
    kvc::Request request = manager_.allocate(prompt);
    int32_t table[kBlocks];
    request.table(table);
    return table[0];
  }
  void spoil(int32_t block) { storage_.zero({&block, 1}); }

 private:
  static constexpr uint32_t kBlocks = 256, kBlockSize = 16;

  static kvc_storage_config storage_of(const Model& model) {
    auto config = kvc::make<kvc_storage_config>();
    config.num_blocks = kBlocks;
    config.block_size = kBlockSize;
    config.num_layers = static_cast<uint32_t>(model.layers.size());
    config.num_heads = static_cast<uint32_t>(model.kv_heads);
    config.head_dim = static_cast<uint32_t>(model.head_dim);
    config.dtype = KVC_FLOAT32;
    return config;
  }

  // Logits after the last of `tokens`, which stand from `position` on; earlier ones are in the storage.
  Floats forward(const kvc::Request& request, const std::vector<int32_t>& tokens, size_t position) {
    const Model& m = model_;
    const size_t length = position + tokens.size();
    std::vector<int64_t> slots(tokens.size());
    request.slots(slots, position);
    std::vector<int32_t> table((length + kBlockSize - 1) / kBlockSize + 1);
    request.table(table);

    std::vector<int64_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), static_cast<int64_t>(position));
    Floats rope_rows(tokens.size() * m.head_dim);
    kvc::check(kvc_rope_table(frequencies_.data(), frequencies_.size(), attention_factor_, positions.data(),
                              positions.size(), rope_rows.data()));

    Floats x;
    for (const int32_t token : tokens) {
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
      add(x, multiply(attend(l, q, k, v, slots, table, length), layer.o, m.heads * m.head_dim, m.dim));

      const Floats inner = normalize(x, layer.mlp_norm);
      Floats gate = multiply(inner, layer.gate, m.dim, m.hidden);
      const Floats up = multiply(inner, layer.up, m.dim, m.hidden);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      add(x, multiply(gate, layer.down, m.hidden, m.dim));
    }
    const Floats last(x.end() - static_cast<ptrdiff_t>(m.dim), x.end());
    return multiply(normalize(last, m.norm), m.output, m.dim, m.vocab);
  }

  // Stores the new keys and values, then attends to all that the table reaches.
  Floats attend(size_t layer, const Floats& q, Floats& k, Floats& v, const std::vector<int64_t>& slots,
                const std::vector<int32_t>& table, uint64_t length) {
    auto rows = kvc::make<kvc_rows>();
    rows.first_layer = static_cast<uint32_t>(layer);
    rows.num_tokens = slots.size();
    rows.k = k.data();
    rows.v = v.data();
    rows.slots = slots.data();
    storage_.store(rows);

    Floats out(q.size());
    const uint64_t offsets[] = {0, slots.size()};
    auto attention = kvc::make<kvc_attention>();
    attention.layer = static_cast<uint32_t>(layer);
    attention.num_q_heads = static_cast<uint32_t>(model_.heads);
    attention.q = q.data();
    attention.out = out.data();
    attention.num_requests = 1;
    attention.q_offsets = offsets;
    attention.kv_lens = &length;
    attention.block_tables = table.data();
    attention.table_stride = table.size();
    storage_.attend(attention);
    return out;
  }

  const Model& model_;
  kvc::Manager manager_;
  kvc::Storage storage_;
  std::vector<double> frequencies_;  // of the rotary embedding
  double attention_factor_ = 1;
};

void print(const char* title, const Answer& answer) {
  std::printf("%-22s %3d cached tokens, first token after %7.2f ms:", title, static_cast<int>(answer.cached),
              answer.first_ms);
  for (const int32_t token : answer.tokens) std::printf(" %d", token);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  const Model model = argc > 1 ? read_model(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 32,
                                            argc > 3 ? std::strtof(argv[3], nullptr) : 10000.0f)
                               : random_model();
  Engine engine(model);
  std::vector<int32_t> prompt(200);
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = static_cast<int32_t>((i * i * 31 + 7 * i + 3) % model.vocab);

  constexpr size_t kTokens = 48;
  const Answer off = engine.generate(prompt, kTokens, false);
  print("prefix cache off:", off);
  const Answer on = engine.generate(prompt, kTokens, true);
  print("prefix cache on:", on);
  engine.spoil(engine.first_block(prompt));
  const Answer spoiled = engine.generate(prompt, kTokens, true);
  print("with a spoiled block:", spoiled);

  const size_t distinct = std::set<int32_t>(off.tokens.begin(), off.tokens.end()).size();
  const bool good =
      off.tokens == on.tokens && off.cached == 0 && on.cached == 192 && spoiled.tokens != off.tokens;
  std::printf(
      "%d distinct tokens; the same with and without the cache: %s; other ones from a spoiled block: %s\n",
      static_cast<int>(distinct), off.tokens == on.tokens ? "yes" : "NO",
      spoiled.tokens != off.tokens ? "yes" : "NO");
  return good && (argc > 1 || distinct >= 20) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
