// SPDX-License-Identifier: Apache-2.0
// A random attention problem for tests: storage, block tables, queries. Whatever must not matter is poisoned:
// unused blocks, slack and tokens that no query sees hold NaN; table entries of blocks that no query sees
// lead far out of the slab.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attention/attention.h"
#include "attention/isa.h"
#include "quant/convert.h"
#include "quant/quantize.h"

namespace kvc::test {

struct Options {
  int32_t dtype = KVC_FLOAT32;  // stored
  int32_t q_dtype = KVC_FLOAT32;
  bool tiled = false, tiled_values = false;
  bool token_major = false;  // heads of a token side by side, and gaps between rows
  bool latent = false;
  uint32_t scale_group = 0;  // quantized: 0 = the whole row
  bool asymmetric = false;
  uint32_t k_dim = 64, v_dim = 64, heads = 2, group = 2, block_size = 16;
  std::vector<uint64_t> kv_lens{33}, q_lens{1};
  std::vector<uint64_t> q_starts{};  // empty = not given
  bool causal = true;
  uint64_t window = 0, sinks = 0;
  float soft_cap = 0;
  bool alibi = false;
  bool shared = false;    // later requests read the blocks of the first one where they have that many
  int mask_percent = 0;   // of bits set; 0 = no bit mask
  bool tree = false;      // bit mask: the last q_len positions are a random tree
  bool tail = false;      // bit mask: of the last q_len positions alone
  int block_percent = 0;  // of blocks that a KV head reads; 0 = no block mask
  float q_scale = 1;
};

inline std::string describe(const Options& o) {
  std::string text = std::string(dtype_name(o.dtype)) + (o.tiled ? " tiled" : "") +
                     (o.tiled_values ? " tiled-v" : "") + (o.token_major ? " token-major" : "") +
                     (o.latent ? " latent" : "") + (o.asymmetric ? " asymmetric" : "") +
                     (o.scale_group != 0 ? " scale group " + std::to_string(o.scale_group) : "") + ", q " +
                     dtype_name(o.q_dtype) + ", dims " + std::to_string(o.k_dim) + "/" +
                     std::to_string(o.v_dim) + ", heads " + std::to_string(o.heads) + " x " +
                     std::to_string(o.group) + ", blocks of " + std::to_string(o.block_size) + ", lengths";
  for (size_t r = 0; r < o.kv_lens.size(); ++r) {
    text += " " + std::to_string(o.q_lens[r]) + "/" + std::to_string(o.kv_lens[r]);
  }
  if (o.causal) text += ", causal";
  if (o.window != 0) text += ", window " + std::to_string(o.window) + "+" + std::to_string(o.sinks);
  if (o.soft_cap != 0) text += ", soft cap";
  if (o.alibi) text += ", alibi";
  if (o.tree) text += ", tree";
  if (o.mask_percent != 0) text += ", mask " + std::to_string(o.mask_percent) + " %";
  if (o.tail) text += " of the tail";
  if (o.block_percent != 0) text += ", blocks " + std::to_string(o.block_percent) + " %";
  return text;
}

// Random, printed once; KVC_TEST_SEED sets it.
inline uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("KVC_TEST_SEED");
    const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::cout << "KVC_TEST_SEED=" << value << std::endl;
    return value;
  }();
  return seed;
}

class Case {
 public:
  explicit Case(const Options& options, uint64_t seed = test_seed()) : options_(options), random_(seed) {
    make_layout();
    make_block_mask();
    make_mask();
    make_tables();
    make_queries();
    for (size_t r = 0; r < options_.kv_lens.size(); ++r) {
      for (uint64_t j = 0; j < options_.kv_lens[r]; ++j) {
        for (uint32_t head = 0; head < options_.heads; ++head) {
          if (seen_by_any(r, j, head)) fill_token(r, j, false, head);
        }
      }
    }
  }
  Case(const Case&) = delete;

  AttentionArgs& args() { return args_; }
  const std::vector<char>& out() const { return out_; }
  const std::vector<float>& lse() const { return lse_; }
  const std::vector<float>& expected_lse() const { return expected_lse_; }

  void run_reference() {
    args_.out = expected_.data(), args_.lse = expected_lse_.data();
    attend_reference(args_);
  }
  // By something that writes args.out and args.lse, which hold nothing of use before.
  template <typename Attend>
  void run_by(Attend&& attend_by) {
    std::fill(out_.begin(), out_.end(), '\x7b');
    std::fill(lse_.begin(), lse_.end(), -12345.0f);
    args_.out = out_.data(), args_.lse = lse_.data();
    attend_by(std::as_const(args_));
  }
  // With these kernels (nullptr: those chosen for this machine); workers > 1 are threads.
  void run(const Kernels* kernels = nullptr, size_t workers = 1) {
    force_kernels(kernels);
    const size_t bytes = attention_scratch_bytes(layout_, args_.num_q_heads);
    std::vector<char> memory(workers * bytes + 64);
    char* scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    std::memset(scratch, 0xff, workers * bytes);  // NaN
    ParallelFor parallel_for{nullptr, nullptr, workers};
    if (workers > 1) parallel_for.run = run_threads;
    run_by([&](const AttentionArgs& args) { attend(args, parallel_for, scratch); });
    force_kernels(nullptr);
  }

  bool sees(size_t r, uint64_t i, uint64_t j, uint32_t head) const {
    const Options& o = options_;
    const int64_t at = static_cast<int64_t>(j), p = start(r) + static_cast<int64_t>(i);
    if (o.causal && at > p) return false;
    const bool behind = p > at && static_cast<uint64_t>(p - at) >= o.window;
    if (o.window != 0 && j >= o.sinks && behind) return false;
    if (!block_mask_.empty()) {
      const uint64_t row = (r * o.heads + head) * args_.block_mask_stride, block = j / o.block_size;
      if ((block_mask_[row + block / 8] >> block % 8 & 1) == 0) return false;
    }
    if (mask_.empty() || j < mask_starts_[r]) return true;
    const uint64_t bit = mask_offsets_[r] + i * (o.kv_lens[r] - mask_starts_[r]) + j - mask_starts_[r];
    return (mask_[bit / 8] >> bit % 8 & 1) != 0;
  }
  bool seen_by_any(size_t r, uint64_t j, uint32_t head) const {
    for (uint64_t i = 0; i < options_.q_lens[r]; ++i) {
      if (sees(r, i, j, head)) return true;
    }
    return false;
  }
  bool seen_by_any(size_t r, uint64_t j) const {
    for (uint32_t head = 0; head < options_.heads; ++head) {
      if (seen_by_any(r, j, head)) return true;
    }
    return false;
  }
  bool has_block(size_t r, uint64_t position) const {
    return tables_[r * args_.table_stride + position / options_.block_size] != kNoBlock;
  }
  void fill_token(size_t r, uint64_t position, bool poison) {
    for (uint32_t head = 0; head < options_.heads; ++head) fill_token(r, position, poison, head);
  }
  void fill_token(size_t r, uint64_t position, bool poison, uint32_t head) {
    const int32_t block = tables_[r * args_.table_stride + position / options_.block_size];
    for (int keys = 0; keys < 2; ++keys) {
      const Plane& plane = keys != 0 ? layout_.k : layout_.v;
      if (!plane.exists()) continue;
      std::vector<float> row(plane.num_elements);
      for (float& x : row) x = poison ? std::numeric_limits<float>::quiet_NaN() : normal_(random_);
      write_row(keys != 0, static_cast<uint64_t>(block), head, position % options_.block_size, row);
    }
  }

  // The values of all heads: zeros but for one element. Floats alone.
  void fill_values(size_t r, uint64_t position, uint32_t element, float x) {
    std::vector<float> row(options_.v_dim);
    row[element] = x;
    const int32_t block = tables_[r * args_.table_stride + position / options_.block_size];
    for (uint32_t head = 0; head < options_.heads; ++head)
      write_row(false, static_cast<uint64_t>(block), head, position % options_.block_size, row);
  }

  std::vector<float> output(size_t r, uint64_t query) const {  // of all heads
    const size_t width = size_t{args_.num_q_heads} * options_.v_dim;
    std::vector<float> values(width);
    to_float(options_.q_dtype,
             out_.data() + (q_offsets_[r] + query) * width * dtype_bits(options_.q_dtype) / 8, values.data(),
             width);
    return values;
  }

  // Relative L2 distance of run() from run_reference(): infinite if anything is NaN.
  double distance() const { return distance(expected_); }
  double distance(const std::vector<char>& expected) const {
    double difference = 0, norm = 0;
    const size_t bytes = dtype_bits(options_.q_dtype) / 8;
    for (size_t i = 0; i < out_.size(); i += bytes) {
      const double x = static_cast<double>(read_element(options_.q_dtype, out_.data() + i));
      const double y = static_cast<double>(read_element(options_.q_dtype, expected.data() + i));
      if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::infinity();
      difference += (x - y) * (x - y), norm += y * y;
    }
    return norm == 0 ? difference : std::sqrt(difference / norm);
  }
  double lse_distance() const {
    double most = 0;
    for (size_t i = 0; i < lse_.size(); ++i) {
      if (lse_[i] == expected_lse_[i]) continue;  // -inf too
      const double difference =
          std::abs(static_cast<double>(lse_[i]) - static_cast<double>(expected_lse_[i]));
      if (!(difference <= most)) most = std::isnan(difference) ? 1e300 : difference;
    }
    return most;
  }
  size_t num_empty_rows() const {
    return static_cast<size_t>(std::count(lse_.begin(), lse_.end(), -std::numeric_limits<float>::infinity()));
  }

 private:
  static void run_threads(void* /*context*/, size_t count, void (*job)(void*, size_t, size_t), void* data) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(job, data, i, i);
    for (std::thread& thread : threads) thread.join();
  }
  uint64_t blocks_of(size_t r) const {
    return (options_.kv_lens[r] + options_.block_size - 1) / options_.block_size;
  }
  int64_t start(size_t r) const {
    return options_.q_starts.empty()
               ? static_cast<int64_t>(options_.kv_lens[r]) - static_cast<int64_t>(options_.q_lens[r])
               : static_cast<int64_t>(options_.q_starts[r]);
  }
  void write_row(bool keys, uint64_t block, uint32_t head, uint64_t token, const std::vector<float>& row) {
    const Plane& plane = keys ? layout_.k : layout_.v;
    char* at = slab_.data() + plane.offset(kLayer, block, head, token);
    if (is_quantized(plane.dtype)) {
      const QuantFormat format{plane.dtype, layout_.scale_group, layout_.asymmetric};
      const Plane& scales = keys ? layout_.k_scale : layout_.v_scale;
      auto* of_row = reinterpret_cast<float*>(slab_.data() + scales.offset(kLayer, block, head, token));
      quantize_row(format, row.data(), row.size(), at, of_row);
      if (std::isnan(row[0])) std::fill_n(of_row, scales.num_elements, row[0]);  // codes hold no NaN
      return;
    }
    const uint32_t bytes = dtype_bits(plane.dtype) / 8;
    for (uint32_t e = 0; e < row.size(); ++e) {
      write_element(plane.dtype, row[e],
                    at + (plane.tiled() ? plane.tile_offset(e, token, bytes) : e * bytes));
    }
  }

  void make_layout() {
    const Options& o = options_;
    uint64_t blocks = 2;
    for (size_t r = 0; r < o.kv_lens.size(); ++r) blocks += blocks_of(r);
    layout_.num_layers = 2, layout_.num_heads = o.heads, layout_.block_size = o.block_size;
    layout_.num_blocks = blocks, layout_.k_dim = o.k_dim, layout_.v_dim = o.v_dim, layout_.latent = o.latent;
    const QuantFormat format{o.dtype, o.scale_group, o.asymmetric};
    if (is_quantized(o.dtype)) {
      layout_.scale_group = o.scale_group != 0 ? o.scale_group : std::max(o.k_dim, o.v_dim);
      layout_.asymmetric = o.asymmetric;
    }
    uint64_t end = 0;
    const auto plane = [&](int32_t dtype, uint32_t dim, bool tiled) {
      Plane p{};
      p.dtype = dtype, p.num_elements = dim, p.row_bytes = (dim * dtype_bits(dtype) + 7) / 8;
      p.element_tile = tiled ? 32 / dtype_bits(dtype) : 0;
      const uint32_t tokens = tiled ? (o.block_size + 15) / 16 * 16 : o.block_size;
      if (o.token_major && !tiled) {
        p.head = p.row_bytes + 8, p.token = p.head * o.heads;
        p.block = p.token * tokens;
      } else {
        p.token = p.row_bytes, p.head = p.token * tokens;
        p.block = p.head * o.heads;
      }
      p.base = end = (end + 15) / 16 * 16;
      p.layer = p.block * static_cast<int64_t>(blocks);
      end += static_cast<uint64_t>(p.layer) * layout_.num_layers;
      return p;
    };
    layout_.k = plane(o.dtype, o.k_dim, o.tiled);
    if (!o.latent) layout_.v = plane(o.dtype, o.v_dim, o.tiled_values);
    if (is_quantized(o.dtype)) {
      const auto scales = [&](uint32_t dim) {
        return plane(KVC_FLOAT32, static_cast<uint32_t>(scales_of(format, dim)), false);
      };
      layout_.k_scale = scales(o.k_dim);
      if (!o.latent) layout_.v_scale = scales(o.v_dim);
    }
    layout_.slab_bytes = end;
    slab_.assign(end, '\xff');  // NaN in every type
  }

  void make_block_mask() {
    const Options& o = options_;
    if (o.block_percent == 0) return;
    for (size_t r = 0; r < o.kv_lens.size(); ++r)
      args_.block_mask_stride = std::max(args_.block_mask_stride, (blocks_of(r) + 7) / 8);
    block_mask_.assign(args_.block_mask_stride * o.heads * o.kv_lens.size(), 0);
    for (uint8_t& byte : block_mask_) {
      for (int bit = 0; bit < 8; ++bit) {
        const bool read = random_() % 100 < static_cast<uint64_t>(o.block_percent);
        byte = static_cast<uint8_t>(byte | uint8_t{read} << bit);
      }
    }
    args_.block_mask = block_mask_.data();
  }

  void make_mask() {
    const Options& o = options_;
    uint64_t bits = 5;  // masks need not begin at a byte
    for (size_t r = 0; r < o.kv_lens.size(); ++r) {
      mask_starts_.push_back(o.tail ? o.kv_lens[r] - std::min(o.kv_lens[r], o.q_lens[r]) : 0);
      mask_offsets_.push_back(bits);
      bits += (o.kv_lens[r] - mask_starts_[r]) * o.q_lens[r] + 3;
    }
    if (o.mask_percent == 0 && !o.tree) return;
    mask_.assign(bits / 8 + 1, 0);
    for (size_t r = 0; r < o.kv_lens.size(); ++r) {
      const uint64_t kv_len = o.kv_lens[r], queries = o.q_lens[r],
                     before = kv_len - std::min(kv_len, queries);
      std::vector<uint64_t> parent(queries);
      for (uint64_t i = 1; i < queries; ++i) parent[i] = random_() % i;
      for (uint64_t i = 0; i < queries; ++i) {
        const auto set = [&](uint64_t j) {
          if (j < mask_starts_[r]) return;
          const uint64_t bit = mask_offsets_[r] + i * (kv_len - mask_starts_[r]) + j - mask_starts_[r];
          mask_[bit / 8] = static_cast<uint8_t>(mask_[bit / 8] | 1u << bit % 8);
        };
        for (uint64_t j = 0; j < kv_len; ++j) {
          if (o.tree ? j < before : random_() % 100 < static_cast<uint64_t>(o.mask_percent)) set(j);
        }
        for (uint64_t node = i; o.tree && before + node < kv_len; node = parent[node]) {
          set(before + node);
          if (node == 0) break;
        }
      }
    }
  }

  void make_tables() {
    const Options& o = options_;
    uint64_t stride = 1;
    for (size_t r = 0; r < o.kv_lens.size(); ++r) stride = std::max(stride, blocks_of(r) + 1);
    std::vector<int32_t> ids(layout_.num_blocks);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    std::shuffle(ids.begin(), ids.end(), random_);
    tables_.assign(stride * o.kv_lens.size(), kNoBlock);
    size_t used = 0;
    for (size_t r = 0; r < o.kv_lens.size(); ++r) {
      for (uint64_t b = 0; b < blocks_of(r); ++b) {
        bool seen = false;
        for (uint64_t j = b * o.block_size; j < std::min((b + 1) * o.block_size, o.kv_lens[r]); ++j) {
          seen = seen || seen_by_any(r, j);
        }
        const bool share = o.shared && r > 0 && b < blocks_of(0) && tables_[b] != kNoBlock;
        if (seen) tables_[r * stride + b] = share ? tables_[b] : ids[used++];
      }
    }
    args_.table_stride = stride;
  }

  void make_queries() {
    const Options& o = options_;
    q_offsets_.push_back(0);
    for (size_t r = 0; r < o.q_lens.size(); ++r) q_offsets_.push_back(q_offsets_.back() + o.q_lens[r]);
    const size_t rows = q_offsets_.back() * o.heads * o.group, bytes = dtype_bits(o.q_dtype) / 8;
    q_.resize(rows * o.k_dim * bytes);
    for (size_t i = 0; i < q_.size(); i += bytes) {
      write_element(o.q_dtype, normal_(random_) * o.q_scale, q_.data() + i);
    }
    out_.resize(rows * o.v_dim * bytes), expected_.resize(out_.size());
    lse_.resize(rows), expected_lse_.resize(rows);
    for (uint32_t h = 0; h < o.heads * o.group; ++h) slopes_.push_back(0.5f / static_cast<float>(h + 1));
    AttentionArgs& a = args_;
    a.layout = &layout_, a.slab = slab_.data(), a.layer = kLayer, a.q_dtype = o.q_dtype;
    a.num_q_heads = o.heads * o.group, a.q = q_.data(), a.num_requests = o.kv_lens.size();
    a.q_offsets = q_offsets_.data(), a.q_starts = o.q_starts.empty() ? nullptr : options_.q_starts.data();
    a.kv_lens = options_.kv_lens.data(), a.block_tables = tables_.data();
    a.scale = 1 / std::sqrt(static_cast<float>(o.k_dim)), a.causal = o.causal, a.window = o.window;
    a.sinks = o.sinks, a.soft_cap = o.soft_cap, a.alibi_slopes = o.alibi ? slopes_.data() : nullptr;
    a.mask = mask_.empty() ? nullptr : mask_.data(), a.mask_offsets = mask_offsets_.data();
    a.mask_starts = o.tail ? mask_starts_.data() : nullptr;
  }

  static constexpr uint32_t kLayer = 1;
  static constexpr int32_t kNoBlock = 0x7fffffff;
  Options options_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_{0, 1};
  Layout layout_{};
  std::vector<char> slab_, q_, out_, expected_;
  std::vector<float> lse_, expected_lse_, slopes_;
  std::vector<uint64_t> q_offsets_, mask_offsets_, mask_starts_;
  std::vector<int32_t> tables_;
  std::vector<uint8_t> mask_, block_mask_;
  AttentionArgs args_{};
};

// Runs the case with every available instruction set against the reference.
inline void expect_right(const Options& options, uint64_t seed = test_seed()) {
  Case c(options, seed);
  c.run_reference();
  // Quantized elements are exact to the kernels; integers meet queries and probabilities of 16 bits.
  const bool exact =
      options.q_dtype == KVC_FLOAT32 && options.dtype != KVC_FLOAT16 && options.dtype != KVC_BFLOAT16;
  const double limit = !exact ? 4e-3 : is_quantized(options.dtype) ? 5e-4 : 1e-5;
  for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
    c.run(kernels);
    EXPECT_LE(c.distance(), limit) << kernels->name << ": " << describe(options) << ", seed " << seed;
    EXPECT_LE(c.lse_distance(), 1e-3) << kernels->name << ": " << describe(options) << ", seed " << seed;
  }
}

// The first 4 of 9 queries must not notice what the last 5 tokens hold, which they do not see, not even NaN.
inline void expect_later_tokens_unseen(Options o) {
  o.q_lens = {9};
  const uint64_t kv_len = o.kv_lens[0];
  for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
    for (const bool poison : {false, true}) {
      Case c(o);
      c.run(kernels);
      std::vector<std::vector<float>> before;
      for (uint64_t q = 0; q < 4; ++q) before.push_back(c.output(0, q));
      for (uint64_t j = kv_len - 5; j < kv_len; ++j) c.fill_token(0, j, poison);
      c.run(kernels);
      for (uint64_t q = 0; q < 4; ++q)
        EXPECT_EQ(c.output(0, q), before[q]) << kernels->name << ": " << describe(o);
      EXPECT_EQ(std::isnan(c.output(0, 8)[0]), poison) << "a NaN that is seen must show";
    }
  }
}

// NaN or infinity in a query is that of its own head's row: pairs and integers made of rows know nothing of
// others. Queries are floats.
inline void expect_bad_query_alone(const Options& o) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Case c(o);
    auto* q = static_cast<float*>(const_cast<void*>(c.args().q));
    q[(o.heads * o.group + 2) * o.k_dim + 5] = bad;  // query 1, head 2
    for (size_t i = 0; const Kernels* kernels = available_kernels(i); ++i) {
      c.run(kernels);
      for (uint64_t query = 0; query < o.q_lens[0]; ++query) {
        const std::vector<float> out = c.output(0, query);
        for (uint32_t e = 0; e < out.size(); ++e) {
          ASSERT_EQ(std::isnan(out[e]), query == 1 && e / o.v_dim == 2)
              << kernels->name << ": query " << query << ", element " << e << " is " << out[e] << ": "
              << describe(o);
        }
      }
    }
  }
}

}  // namespace kvc::test
