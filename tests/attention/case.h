// SPDX-License-Identifier: Apache-2.0
// A random attention problem for tests: storage, block tables, queries. Whatever must not matter is poisoned:
// unused blocks, slack and tokens that no query sees hold NaN; table entries of blocks that no query sees
// lead far out of the slab.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "attention/case_parts.h"
#include "attention/isa.h"
#include "quant/convert.h"

namespace kvc::test {

class Case {
 public:
  explicit Case(const Options& options, uint64_t seed = test_seed())
      : options_(options), random_(seed), layout_(make_layout(options)) {
    slab_.assign(layout_.slab_bytes, '\xff');  // NaN in every type
    make_block_mask();
    mask_ = make_mask(options_, random_);
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
    std::fill(out_.begin(), out_.end(), kGuard);
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
    if (mask_.bits.empty() || j < mask_.starts[r]) return true;
    const uint64_t bit = mask_.offsets[r] + i * (o.kv_lens[r] - mask_.starts[r]) + j - mask_.starts[r];
    return (mask_.bits[bit / 8] >> bit % 8 & 1) != 0;
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
      for (float& x : row) x = poison ? std::numeric_limits<float>::quiet_NaN() : normal();
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

  // The sink logit of each query head, if the case has them.
  std::vector<float>& sink_logits() { return sink_logits_; }

  // Queries of floats.
  float* query(uint64_t token, uint32_t head) {
    return reinterpret_cast<float*>(q_.data()) + token * args_.q_token_stride + head * args_.q_head_stride;
  }

  // A key of floats that is not tiled.
  float* key(size_t r, uint64_t position, uint32_t head) {
    const auto block =
        static_cast<uint64_t>(tables_[r * args_.table_stride + position / options_.block_size]);
    const uint64_t at = layout_.k.offset(kLayer, block, head, position % options_.block_size);
    return reinterpret_cast<float*>(slab_.data() + at);
  }

  std::vector<float> output(size_t r, uint64_t query) const {  // of all heads
    const size_t dim = options_.v_dim;
    std::vector<float> values(args_.num_q_heads * dim);
    for (uint32_t head = 0; head < args_.num_q_heads; ++head)
      to_float(options_.q_dtype, out_.data() + out_at(q_offsets_[r] + query, head), &values[head * dim], dim);
    return values;
  }
  // Bytes between the rows of results, and behind the last one, that run_by() has changed.
  size_t num_bytes_beside_rows() const {
    std::vector<bool> of_row(out_.size());
    for_each_row(
        [&](size_t at) { std::fill_n(of_row.begin() + static_cast<ptrdiff_t>(at), out_row_bytes(), true); });
    size_t changed = 0;
    for (size_t i = 0; i < out_.size(); ++i) changed += !of_row[i] && out_[i] != kGuard;
    return changed;
  }

  // Relative L2 distance of run() from run_reference(): infinite if anything is NaN.
  double distance() const { return distance(expected_); }
  double distance(const std::vector<char>& expected) const {
    double difference = 0, norm = 0;
    const size_t bytes = dtype_bits(options_.q_dtype) / 8;
    bool any_nan = false;
    for_each_row([&](size_t at) {
      for (size_t i = at; i < at + out_row_bytes(); i += bytes) {
        const double x = static_cast<double>(read_element(options_.q_dtype, out_.data() + i));
        const double y = static_cast<double>(read_element(options_.q_dtype, expected.data() + i));
        any_nan |= std::isnan(x) || std::isnan(y);
        difference += (x - y) * (x - y), norm += y * y;
      }
    });
    if (any_nan) return std::numeric_limits<double>::infinity();
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
  size_t out_row_bytes() const { return size_t{options_.v_dim} * dtype_bits(options_.q_dtype) / 8; }
  size_t out_at(uint64_t token, uint32_t head) const {  // bytes
    return (token * args_.out_token_stride + head * args_.out_head_stride) * dtype_bits(options_.q_dtype) / 8;
  }
  template <typename F>
  void for_each_row(F&& f) const {
    for (uint64_t token = 0; token < q_offsets_.back(); ++token) {
      for (uint32_t head = 0; head < args_.num_q_heads; ++head) f(out_at(token, head));
    }
  }
  uint64_t blocks_of(size_t r) const { return kvc::test::blocks_of(options_, r); }
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
      if (options_.factor != 0)
        return quantize_with_scale({plane.dtype, 0, false}, options_.factor, row.data(), row.size(), at);
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
    const uint64_t tokens = q_offsets_.back();
    const size_t rows = tokens * o.heads * o.group, bytes = dtype_bits(o.q_dtype) / 8;
    AttentionArgs& a = args_;
    a.num_q_heads = o.heads * o.group;
    const RowStrides q_strides = strides_of(o.q_rows, tokens, o, o.k_dim);
    a.q_token_stride = q_strides.token, a.q_head_stride = q_strides.head;
    const RowStrides out_strides = strides_of(o.out_rows, tokens, o, o.v_dim);
    a.out_token_stride = out_strides.token, a.out_head_stride = out_strides.head;
    a.layout = &layout_, a.slab = slab_.data(), a.layer = kLayer, a.q_dtype = o.q_dtype;
    a.num_requests = static_cast<uint32_t>(o.kv_lens.size());
    a.q_offsets = q_offsets_.data(), a.q_starts = o.q_starts.empty() ? nullptr : options_.q_starts.data();
    a.kv_lens = options_.kv_lens.data(), a.block_tables = tables_.data();
    a.scale = 1 / std::sqrt(static_cast<float>(o.k_dim)), a.causal = o.causal, a.window = o.window;
    a.allow_bf16 = o.allow_bf16;
    a.sinks = o.sinks, a.soft_cap = o.soft_cap;
    for (uint32_t h = 0; h < a.num_q_heads; ++h) {
      slopes_.push_back(0.5f / static_cast<float>(h + 1));
      sink_logits_.push_back(h % 4 == 2 ? -std::numeric_limits<float>::infinity() : kSinkLogits[h % 4]);
    }
    a.alibi_slopes = o.alibi ? slopes_.data() : nullptr;
    a.sink_logits = o.sink_logits ? sink_logits_.data() : nullptr;
    a.mask = mask_.bits.empty() ? nullptr : mask_.bits.data(), a.mask_offsets = mask_.offsets.data();
    a.mask_starts = o.tail ? mask_.starts.data() : nullptr;
    q_.assign(q_extent(a) * bytes, '\xff');  // NaN between the rows
    for (uint64_t token = 0; token < tokens; ++token) {
      for (uint32_t h = 0; h < a.num_q_heads; ++h) {
        char* row = q_.data() + (token * a.q_token_stride + h * a.q_head_stride) * bytes;
        for (uint32_t e = 0; e < o.k_dim; ++e)
          write_element(o.q_dtype, normal() * o.q_scale, row + e * bytes);
      }
    }
    a.q = q_.data();
    out_.resize((out_extent(a) + kGuardElements) * bytes), expected_.resize(out_.size());
    lse_.resize(rows), expected_lse_.resize(rows);
  }

  // Nearly normal, and sooner drawn than by the standard library: the sum of four uniform numbers. None is
  // beyond 3.5.
  float normal() {
    const uint64_t bits = random_();
    uint64_t sum = 0;
    for (int part = 0; part < 64; part += 16) sum += bits >> part & 0xffff;
    return (static_cast<float>(sum) - 2 * 65535.0f) * (1.7320508f / 65535);
  }

  static constexpr uint32_t kLayer = 1;
  static constexpr char kGuard = '\x7b';          // of results, before they are computed
  static constexpr uint64_t kGuardElements = 64;  // behind the last row
  static constexpr float kSinkLogits[] = {1.5f, -3, 0, 8};
  static constexpr int32_t kNoBlock = 0x7fffffff;
  Options options_;
  std::mt19937_64 random_;
  Layout layout_;
  std::vector<char> slab_, q_, out_, expected_;
  std::vector<float> lse_, expected_lse_, slopes_, sink_logits_;
  std::vector<uint64_t> q_offsets_;
  std::vector<int32_t> tables_;
  std::vector<uint8_t> block_mask_;
  Mask mask_;
  AttentionArgs args_{};
};

}  // namespace kvc::test
