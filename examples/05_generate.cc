// SPDX-License-Identifier: Apache-2.0
// A small inference engine of the Llama architecture (RMSNorm, rotary embedding, grouped-query attention,
// SwiGLU) over the public header alone: the manager says where keys and values go and what is known already,
// the storage keeps them and computes attention. Prints the tokens and the time to the first one with the
// prefix cache off and on, and shows that the tokens really come from the cache: with one block spoiled they
// change.
//
//   05_generate [FILE.safetensors [HEADS [THETA]]]   float32, float16 or bfloat16 weights with Hugging Face's
//   names
//                                                    (Llama); without a file a small random model
#include <kvcache.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Floats = std::vector<float>;

void check(kvc_status status) {
  if (status != KVC_OK) throw std::runtime_error(kvc_last_error());
}

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

// The header of a safetensors file is JSON: "name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}. That
// is all that is read of it.
struct Tensor {
  std::string dtype;
  std::vector<size_t> shape;
  size_t begin, end;
};

std::vector<size_t> numbers(const std::string& json, const std::string& key) {
  std::vector<size_t> out;
  size_t at = json.find('[', json.find("\"" + key + "\""));
  while (at != std::string::npos && json[at] != ']') {
    char* end = nullptr;
    out.push_back(std::strtoull(&json[at + 1], &end, 10));
    at = static_cast<size_t>(end - json.data());
    if (json[at] != ',' && json[at] != ']') throw std::runtime_error("the file's header is not as expected");
  }
  return out;
}

class SafeTensors {
 public:
  explicit SafeTensors(const char* path) : file_(path, std::ios::binary) {
    uint64_t size = 0;
    file_.read(reinterpret_cast<char*>(&size), 8);
    if (!file_ || size == 0 || size > (100u << 20))
      throw std::runtime_error(std::string(path) + " is no safetensors file");
    std::string json(size, ' ');
    file_.read(json.data(), static_cast<std::streamsize>(size));
    if (!file_) throw std::runtime_error(std::string(path) + " is cut short");
    data_ = 8 + size;
    for (size_t at = json.find("\"dtype\""); at != std::string::npos; at = json.find("\"dtype\"", at + 1)) {
      const size_t open = json.rfind('{', at), close = json.find('}', at);
      const size_t name_end = json.rfind('"', open), name = json.rfind('"', name_end - 1) + 1;
      const std::string body = json.substr(open, close - open + 1);
      const size_t type = body.find('"', body.find(':')) + 1;
      const std::vector<size_t> offsets = numbers(body, "data_offsets");
      if (offsets.size() != 2) throw std::runtime_error("a tensor without data_offsets");
      tensors_[json.substr(name, name_end - name)] = {body.substr(type, body.find('"', type) - type),
                                                      numbers(body, "shape"), offsets[0], offsets[1]};
    }
  }

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  const Tensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::runtime_error("the file has no tensor " + name);
    return found->second;
  }
  Floats read(const std::string& name) {
    const Tensor& t = at(name);
    size_t count = 1;
    for (const size_t n : t.shape) count *= n;
    const size_t width = t.dtype == "F32" ? 4 : t.dtype == "BF16" || t.dtype == "F16" ? 2 : 0;
    if (width == 0 || t.end - t.begin != count * width) throw std::runtime_error(name + ": type " + t.dtype);
    std::vector<char> raw(count * width);
    file_.seekg(static_cast<std::streamoff>(data_ + t.begin));
    file_.read(raw.data(), static_cast<std::streamsize>(raw.size()));
    if (!file_) throw std::runtime_error("the file is cut short");
    Floats out(count);
    for (size_t i = 0; i < count; ++i) out[i] = value(&raw[i * width], t.dtype);
    return out;
  }

 private:
  static float value(const char* from, const std::string& dtype) {
    uint32_t bits = 0;
    float out;
    if (dtype == "F16") {
      uint16_t half;
      std::memcpy(&half, from, 2);
      const int exponent = half >> 10 & 31;
      const float fraction = static_cast<float>(half & 1023) / 1024;
      out = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
      return half >> 15 ? -out : out;
    }
    const size_t width = dtype == "F32" ? 4 : 2;
    std::memcpy(reinterpret_cast<char*>(&bits) + 4 - width, from, width);
    std::memcpy(&out, &bits, 4);
    return out;
  }

  std::ifstream file_;
  size_t data_ = 0;
  std::map<std::string, Tensor> tensors_;
};

Model read_model(const char* path, size_t heads, float theta) {
  SafeTensors file(path);
  Model m = {};
  m.vocab = file.at("model.embed_tokens.weight").shape.at(0);
  m.dim = file.at("model.embed_tokens.weight").shape.at(1);
  m.heads = heads;
  m.head_dim = file.at("model.layers.0.self_attn.q_proj.weight").shape.at(0) / heads;
  m.kv_heads = file.at("model.layers.0.self_attn.k_proj.weight").shape.at(0) / m.head_dim;
  m.hidden = file.at("model.layers.0.mlp.gate_proj.weight").shape.at(0);
  m.theta = theta;
  m.embedding = file.read("model.embed_tokens.weight");
  m.norm = file.read("model.norm.weight");
  m.output = file.has("lm_head.weight") ? file.read("lm_head.weight") : m.embedding;
  for (size_t i = 0; file.has("model.layers." + std::to_string(i) + ".input_layernorm.weight"); ++i) {
    const auto part = [&](const char* name) {
      return file.read("model.layers." + std::to_string(i) + "." + name + ".weight");
    };
    m.layers.push_back({part("input_layernorm"), part("self_attn.q_proj"), part("self_attn.k_proj"),
                        part("self_attn.v_proj"), part("self_attn.o_proj"), part("post_attention_layernorm"),
                        part("mlp.gate_proj"), part("mlp.up_proj"), part("mlp.down_proj")});
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
  kvc_rope_rows rows = {};
  rows.struct_size = sizeof rows;
  rows.x = x.data();
  rows.num_tokens = x.size() / heads / head_dim;
  rows.num_heads = static_cast<uint32_t>(heads);
  rows.head_dim = static_cast<uint32_t>(head_dim);
  rows.table = table.data();
  rows.table_rows = rows.num_tokens;
  check(kvc_rope_apply(&rows));
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
  explicit Engine(const Model& model) : model_(model) {
    kvc_manager_config manager = {};
    manager.struct_size = sizeof manager;
    manager.num_blocks = kBlocks;
    manager.block_size = kBlockSize;
    check(kvc_manager_create(&manager, &manager_));
    kvc_storage_config storage = {};
    storage.struct_size = sizeof storage;
    storage.num_blocks = kBlocks;
    storage.block_size = kBlockSize;
    storage.num_layers = static_cast<uint32_t>(model.layers.size());
    storage.num_heads = static_cast<uint32_t>(model.kv_heads);
    storage.head_dim = static_cast<uint32_t>(model.head_dim);
    storage.dtype = KVC_FLOAT32;
    check(kvc_storage_create(&storage, &storage_));
    kvc_model rope = {};
    rope.struct_size = sizeof rope;
    rope.num_layers = 1;
    rope.head_dim = static_cast<uint32_t>(model.head_dim);
    rope.rope_theta = static_cast<double>(model.theta);
    frequencies_.resize(model.head_dim / 2);
    size_t count = 0;
    check(kvc_model_rope(&rope, 0, 0, nullptr, frequencies_.data(), frequencies_.size(), &count,
                         &attention_factor_));
  }
  ~Engine() {
    kvc_storage_destroy(storage_);
    kvc_manager_destroy(manager_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Greedy: the most likely token each time. With `share` the prefix cache may serve the prompt.
  Answer generate(const std::vector<int32_t>& prompt, size_t count, bool share) {
    const auto start = std::chrono::steady_clock::now();
    kvc_request_config config = {};
    config.struct_size = sizeof config;
    config.flags = share ? 0 : KVC_REQUEST_NO_READ;
    Answer answer;
    uint64_t request;
    check(kvc_manager_allocate_request(manager_, prompt.data(), prompt.size(), nullptr, 0, &config, &request,
                                       &answer.cached));
    std::vector<int32_t> all = prompt;
    for (size_t done = answer.cached; answer.tokens.size() < count;) {
      const Floats logits = forward(request, {all.begin() + static_cast<ptrdiff_t>(done), all.end()}, done);
      check(kvc_manager_commit_tokens(manager_, request, all.size()));
      done = all.size();
      const auto next = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      if (answer.tokens.empty()) {
        answer.first_ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      }
      answer.tokens.push_back(next);
      all.push_back(next);
      check(kvc_manager_append_tokens(manager_, request, &next, 1));
    }
    check(kvc_manager_free_request(manager_, request));
    return answer;
  }

  // The block that holds position 0 of a cached prompt.
  int32_t first_block(const std::vector<int32_t>& prompt) {
    int32_t blocks[kBlocks];
    size_t count = 0;
    check(kvc_manager_acquire_prefix(manager_, 0, 0, prompt.data(), prompt.size(), nullptr, 0, blocks,
                                     kBlocks, &count));
    check(kvc_manager_release_blocks(manager_, blocks, count));
    return blocks[0];
  }
  void spoil(int32_t block) { check(kvc_storage_zero_blocks(storage_, &block, 1, nullptr)); }

 private:
  static constexpr size_t kBlocks = 256, kBlockSize = 16;

  // Logits after the last of `tokens`, which stand from `position` on; earlier ones are in the storage.
  Floats forward(uint64_t request, const std::vector<int32_t>& tokens, size_t position) {
    const Model& m = model_;
    const size_t length = position + tokens.size();
    std::vector<int64_t> slots(tokens.size());
    check(kvc_manager_export_slots(manager_, request, 0, position, tokens.size(), slots.data(),
                                   sizeof slots[0]));
    std::vector<int32_t> table((length + kBlockSize - 1) / kBlockSize + 1);
    check(kvc_manager_export_tables(manager_, &request, 1, 0, -1, table.data(), table.size()));

    std::vector<int64_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), static_cast<int64_t>(position));
    Floats rope_rows(tokens.size() * m.head_dim);
    check(kvc_rope_table(frequencies_.data(), frequencies_.size(), attention_factor_, positions.data(),
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
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.first_layer = static_cast<uint32_t>(layer);
    rows.num_tokens = slots.size();
    rows.k = k.data();
    rows.v = v.data();
    rows.slots = slots.data();
    check(kvc_storage_store(storage_, &rows, nullptr));

    Floats out(q.size());
    const uint64_t offsets[] = {0, slots.size()};
    kvc_attention attention = {};
    attention.struct_size = sizeof attention;
    attention.layer = static_cast<uint32_t>(layer);
    attention.num_q_heads = static_cast<uint32_t>(model_.heads);
    attention.q = q.data();
    attention.out = out.data();
    attention.num_requests = 1;
    attention.q_offsets = offsets;
    attention.kv_lens = &length;
    attention.block_tables = table.data();
    attention.table_stride = table.size();
    check(kvc_storage_attend(storage_, &attention, nullptr));
    return out;
  }

  const Model& model_;
  kvc_manager* manager_ = nullptr;
  kvc_storage* storage_ = nullptr;
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
