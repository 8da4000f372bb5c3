// SPDX-License-Identifier: Apache-2.0
// Attention with mma.m16n8k16, decode and prefill: S = Q K^T, online softmax to base 2, O += P V, with sums
// in float32. The M dimension is rows (query, query head of one KV head): grouped heads fill it in decode.
//
// cp.async copies tiles of 64 tokens into a pipeline of kStages stages in shared memory. Entries of the block
// table are loaded one tile earlier still, so that small blocks add no latency. Tokens that no row sees are
// not read: shared memory has zeros for them, whatever they hold.
//
// Quantized rows are codes in shared memory and are dequantized to fp16 in registers. A key's scale
// multiplies its logit, a value's scale its weight. Weights are divided by a power of two (`unit`) that keeps
// them in the range of fp16; O is in units of it. Offsets of asymmetric rows have their own accumulator. A
// bfloat16 query row is scaled into the range of fp16 in the same way. All sizes are in
// attention_mma_shape.cuh.
#pragma once
#include "kernels/attention_mma_products.cuh"

namespace kvc::gpu {

template <class Shape>
class MmaWorker {
 public:
  KVC_DEVICE MmaWorker(const AttentionArgs& args, const Plan& plan, unsigned char* shared)
      : args_(args), plan_(plan), shared_(shared) {}

  KVC_DEVICE void run(const Part& part) {
    TokenScales scales = begin(part);  // of the next tile to copy
    const int32_t tiles = part.end_tile - part.first_tile;
    for (int32_t t = 0; t < tiles; ++t) {
      wait_async<static_cast<int>(Shape::kStages) - 2>();
      sync_block();
      const int32_t next = t + static_cast<int32_t>(Shape::kStages) - 1, prefetched = next + 1;
      if (next < tiles) copy_tile(next);
      commit_async();
      TokenPlace place;
      if (prefetched < tiles) place = tokens().find(args_, part, prefetched);
      attend_tile(part, t);
      if (next < tiles) keep_scales(next, scales);
      if (prefetched < tiles) {
        tokens().keep(args_, part, prefetched, place);
        scales = load_scales(part, place);
      }
    }
    wait_async<0>();
    sync_block();
    if constexpr (Shape::kTokenWarps == 1) {
      write_rows(part);
    } else {
      write_merged(part);
    }
  }

 private:
  using S = Shape;
  using Products = MmaProducts<S>;
  using Weights = typename Products::Weights;
  static constexpr uint32_t kDimTiles = Products::kDimTiles, kStepTiles = Products::kStepTiles;

  // ---- shared memory ----

  KVC_DEVICE TokenRing<S::kRingTiles> tokens() const {
    return TokenRing<S::kRingTiles>(shared_ + S::kTokens);
  }
  KVC_DEVICE ScaleRing<S::kRingTiles> scales() const {
    return ScaleRing<S::kRingTiles>(shared_ + S::kScales);
  }
  KVC_DEVICE unsigned char* keys(int32_t tile) const {
    return shared_ + S::kTiles + static_cast<uint32_t>(tile) % S::kStages * S::kTileBytes;
  }
  KVC_DEVICE unsigned char* values(int32_t tile) const { return keys(tile) + S::kTileBytes / 2; }
  KVC_DEVICE MmaRow& row_info(uint32_t m) const {
    return reinterpret_cast<MmaRow*>(shared_ + S::kRowInfo)[m];
  }

  // ---- what is loaded for a tile ----

  KVC_DEVICE bool has_scales() const { return S::kQuantized && args_.scale_group != 0; }
  KVC_DEVICE float key_factor() const { return S::kQuantized && args_.k_factor != 0 ? args_.k_factor : 1; }
  KVC_DEVICE TokenScales load_scales(const Part& part, const TokenPlace& place) const {
    return has_scales() ? TokenScales::load(args_, part, place) : TokenScales{};
  }
  KVC_DEVICE void keep_scales(int32_t tile, const TokenScales& of_token) const {
    if (has_scales()) scales().keep(tile, of_token);
  }

  // A thread copies the same chunk of several rows. Keys and values have the same strides.
  KVC_DEVICE void copy_tile(int32_t tile) const {
    constexpr uint32_t kTokensAtOnce = S::kThreads / S::kChunks;
    static_assert(S::kThreads % S::kChunks == 0 && kAttentionTile % kTokensAtOnce == 0);
    const uint32_t first = threadIdx.x / S::kChunks, chunk = threadIdx.x % S::kChunks;
    unsigned char* const k = keys(tile);
    unsigned char* const v = values(tile);
    RowOffset rows[kAttentionTile / kTokensAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAttentionTile / kTokensAtOnce; ++i)
      rows[i] = tokens().row(tile, first + i * kTokensAtOnce);
#pragma unroll
    for (uint32_t i = 0; i < kAttentionTile / kTokensAtOnce; ++i) {
      const uint32_t token = first + i * kTokensAtOnce, valid = rows[i].is_read() ? 16 : 0;
      const uint64_t from = rows[i].bytes() + chunk * 16;
      copy_async(k + token * S::kRowBytes + S::key_chunk(token, chunk) * 16, args_.k.data + from, valid);
      copy_async(v + token * S::kRowBytes + S::value_chunk(token, chunk) * 16, args_.v.data + from, valid);
    }
  }

  // ---- the beginning of a part ----

  KVC_DEVICE TokenScales begin(const Part& part) {
    constexpr auto kStages = static_cast<int32_t>(S::kStages);
    const int32_t tiles = part.end_tile - part.first_tile;
    TokenPlace places[kStages];
    TokenScales scales[kStages];
#pragma unroll
    for (int32_t t = 0; t < kStages; ++t) {
      if (t < tiles) places[t] = tokens().find(args_, part, t);
    }
#pragma unroll
    for (int32_t t = 0; t < kStages; ++t) {
      if (t >= tiles) continue;
      tokens().keep(args_, part, t, places[t]);
      scales[t] = load_scales(part, places[t]);
    }
    sync_block();
    for (int32_t t = 0; t + 1 < kStages; ++t) {
      if (t < tiles) copy_tile(t);
      commit_async();
    }
#pragma unroll
    for (int32_t t = 0; t + 1 < kStages; ++t) {
      if (t < tiles) keep_scales(t, scales[t]);
    }
    stage_queries<S::kBfloat, S::kDim, S::kRows, S::kThreads / 32>(
        args_, part, shared_ + S::kQ, &row_info(0), key_factor(),
        [](uint32_t x) { return S::key_element(x); });
    sync_block();
    row_ = warp_rows();
    num_rows_ = part.piece.rows;
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        row_max_[i][half] = minus_infinity();
        row_sum_[i][half] = offset_[i][half] = 0;
      }
#pragma unroll
      for (uint32_t n = 0; n < kDimTiles; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) sums_[i][n][c] = 0;
      }
    }
    unit_ = inverse_unit_ = 0;
    return scales[kStages - 1];
  }

  KVC_DEVICE static uint32_t warp() { return threadIdx.x / 32; }
  KVC_DEVICE static uint32_t warp_rows() { return S::kDecode ? 0 : warp() * S::kRowTiles * 16; }
  KVC_DEVICE static uint32_t warp_tokens() { return S::kDecode ? warp() * S::kWarpTokens : 0; }
  KVC_DEVICE uint32_t row_at(uint32_t i, uint32_t half) const {
    return row_ + 16 * i + lane() / 4 + 8 * half;
  }

  // ---- a tile ----

  KVC_DEVICE void attend_tile(const Part& part, int32_t tile) {
    if (row_ >= num_rows_) return;  // of the whole warp
    if (tokens().is_empty(tile)) return;
    const bool full = tokens().is_full(tile);
    const Products products(shared_ + S::kQ, row_, args_.asymmetric == 0);
#pragma unroll 1
    for (uint32_t step = 0; step < S::kWarpTokens; step += S::kStepTokens) {
      const uint32_t first = warp_tokens() + step;
      Weights weights = {};
      products.multiply_keys(keys(tile), first, weights);
      make_logits(part, tile, first, full, weights);
      update_softmax(tile, first, weights);
      products.multiply_values(values(tile), first, weights, sums_);
    }
  }

  KVC_DEVICE void make_logits(const Part& part, int32_t tile, uint32_t first, bool full,
                              Weights& weights) const {
    const uint32_t column = first + lane() % 4 * 2;
    for_each_row([&](uint32_t i, uint32_t half) {
      const float factor = row_info(row_at(i, half)).factor;
      for_each_pair(weights[i], half, [&](uint32_t, float& x, float& y) { x *= factor, y *= factor; });
    });
    if (has_scales()) scale_logits(tile, column, weights);
    if (full && args_.soft_cap == 0 && args_.alibi_slopes == nullptr) return;
    const int64_t position = part.piece.span.position(part.first_tile + tile) + column;
    const uint32_t may_see = tokens().seen(tile, column);
    for_each_row([&](uint32_t i, uint32_t half) {
      finish_logits(args_, part, row_info(row_at(i, half)), position, may_see, full, half, weights[i]);
    });
  }

  // `column`: this lane's first one.
  KVC_DEVICE void scale_logits(int32_t tile, uint32_t column, Weights& weights) const {
    scale_columns(scales().of_keys(tile) + column, 1, weights);
    if (args_.asymmetric == 0) return;
    for_each_row([&](uint32_t i, uint32_t half) {
      const float sum = row_info(row_at(i, half)).sum;
      for_each_pair(weights[i], half, [&](uint32_t n, float& x, float& y) {
        float offset[2];
        load_pair(scales().key_offsets(tile) + column + n, offset);
        x += sum * offset[0], y += sum * offset[1];
      });
    });
  }

  // The rows of this lane.
  template <typename Row>
  KVC_DEVICE static void for_each_row(Row&& row) {
    static_assert(S::kRowTiles <= 2);  // compilers do not unroll so large a loop
    row(0, 0);
    row(0, 1);
    if constexpr (S::kRowTiles == 2) {
      row(1, 0);
      row(1, 1);
    }
  }

  // Online softmax: logits become weights, and sums are rescaled to the new row max.
  KVC_DEVICE void update_softmax(int32_t tile, uint32_t first, Weights& weights) {
    float unit_change = 1;
    if (has_scales()) {
      float most = 0;
#pragma unroll
      for (uint32_t n = 0; n < kStepTiles; ++n) {
        float scale[2];
        load_pair(scales().of_values(tile) + first + 8 * n + lane() % 4 * 2, scale);
        most = greater(most, greater(scale[0], scale[1]));
      }
      most = team_greatest(most, 4);
      const uint32_t exponent = float_bits(most) >> 23;
      if (most > unit_ && exponent < 253) {
        inverse_unit_ = bits_float((253 - exponent) << 23);
        unit_change = unit_ * inverse_unit_;
        unit_ = bits_float((exponent + 1) << 23);
      }
    }
    bool changes = unit_change != 1;
    float decay[S::kRowTiles][2];
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        float row_max = row_max_[i][half];
#pragma unroll
        for (uint32_t n = 0; n < kStepTiles; ++n) {
          row_max = greater(row_max, greater(weights[i][n][2 * half], weights[i][n][2 * half + 1]));
        }
        row_max = team_greatest(row_max, 4);
        const float origin = row_max == minus_infinity() ? 0 : row_max;
        decay[i][half] = exp2_fast(row_max_[i][half] - origin);
        changes |= row_max != row_max_[i][half];
        row_max_[i][half] = row_max;
        float sum = 0;
#pragma unroll
        for (uint32_t n = 0; n < kStepTiles; ++n) {
#pragma unroll
          for (uint32_t c = 0; c < 2; ++c) {
            float& x = weights[i][n][2 * half + c];
            x = exp2_fast(x - origin);
            sum += x;
          }
        }
        row_sum_[i][half] = row_sum_[i][half] * decay[i][half] + sum;
      }
    }
    if (has_scales()) weigh_values(tile, first, decay, weights);
    if (ballot(changes) == 0) return;
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (uint32_t n = 0; n < kDimTiles; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) sums_[i][n][c] *= decay[i][c / 2] * unit_change;
      }
    }
  }

  // Scales and offsets of values.
  KVC_DEVICE void weigh_values(int32_t tile, uint32_t first, const float (&decay)[S::kRowTiles][2],
                               Weights& weights) {
    const uint32_t column = first + lane() % 4 * 2;
    if (args_.asymmetric != 0) add_offsets(scales().value_offsets(tile) + column, decay, weights);
    scale_columns(scales().of_values(tile) + column, inverse_unit_, weights);
  }

  KVC_DEVICE void add_offsets(const float* of_columns, const float (&decay)[S::kRowTiles][2],
                              const Weights& weights) {
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
      offset_[i][0] *= decay[i][0];
      offset_[i][1] *= decay[i][1];
    }
#pragma unroll
    for (uint32_t n = 0; n < kStepTiles; ++n) {
      float offset[2];
      load_pair(of_columns + 8 * n, offset);
#pragma unroll
      for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) offset_[i][c / 2] += weights[i][n][c] * offset[c % 2];
      }
    }
  }

  // ---- the end of a part ----

  // The unit of the sums.
  KVC_DEVICE float sum_unit() const {
    if constexpr (!S::kQuantized) return 1;
    return has_scales() ? unit_ : args_.v_factor != 0 ? args_.v_factor : 1;
  }

  // Writes pairs of adjacent elements: two columns of a tile or, of quantized values, one column of two
  // tiles.
  KVC_DEVICE void write_rows(const Part& part) {
    const PartOutput output{args_, plan_, part};
    for_each_row([&](uint32_t i, uint32_t half) {
      const uint32_t m = row_at(i, half);
      const float row_sum = team_sum(row_sum_[i][half], 4), offset = team_sum(offset_[i][half], 4);
      if (m < part.piece.rows) {
        const RowEnd end = output.end(m, natural_lse(row_max_[i][half], row_sum), row_sum);
        const float unit = sum_unit() * end.factor, more = offset * end.factor;
        const OutputRow row = output.row(m);
#pragma unroll
        for (uint32_t n = 0; n < kDimTiles; n += 2) {
#pragma unroll
          for (uint32_t c = 0; c < 2; ++c) {
            const uint32_t tile = S::kQuantized ? n : n + c,
                           column = lane() % 4 * 2 + (S::kQuantized ? c : 0);
            const float first = sums_[i][tile][2 * half + (S::kQuantized ? c : 0)];
            const float second = sums_[i][S::kQuantized ? n + 1 : tile][2 * half + (S::kQuantized ? c : 1)];
            row.put_pair(S::value_element(tile, column), first * unit + more, second * unit + more);
          }
        }
        if (lane() % 4 == 0) output.put_lse(m, end.lse);
      }
    });
  }

  // Merges the warps' sums in shared memory, which replace the tiles and their tokens.
  KVC_DEVICE void write_merged(const Part& part) {
    static_assert(S::kTokenWarps * 16 * (S::kDim + 2) * 4 <= S::kRowInfo - S::kTiles);
    float* const sums = reinterpret_cast<float*>(shared_ + S::kTiles);  // [warps][16][dim]
    float* const row_maxima = sums + S::kTokenWarps * 16 * S::kDim;     // [warps][16]
    float* const row_sums = row_maxima + S::kTokenWarps * 16;           // [warps][16]
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = warp() * 16 + row_at(0, half);
      const float row_sum = team_sum(row_sum_[0][half], 4), offset = team_sum(offset_[0][half], 4);
#pragma unroll
      for (uint32_t n = 0; n < kDimTiles; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 2; ++c) {
          sums[row * S::kDim + S::value_element(n, lane() % 4 * 2 + c)] =
              sums_[0][n][2 * half + c] * sum_unit() + offset;
        }
      }
      if (lane() % 4 == 0) row_maxima[row] = row_max_[0][half], row_sums[row] = row_sum;
    }
    sync_block();
    const PartOutput output{args_, plan_, part};
    for (uint32_t m = warp(); m < part.piece.rows; m += S::kTokenWarps) {
      float row_max = minus_infinity(), row_sum = 0, weight[S::kTokenWarps];
#pragma unroll
      for (uint32_t w = 0; w < S::kTokenWarps; ++w) row_max = greater(row_max, row_maxima[w * 16 + m]);
      const float origin = row_max == minus_infinity() ? 0 : row_max;
#pragma unroll
      for (uint32_t w = 0; w < S::kTokenWarps; ++w) {
        weight[w] = exp2_fast(row_maxima[w * 16 + m] - origin);
        row_sum += row_sums[w * 16 + m] * weight[w];
      }
      const RowEnd end = output.end(m, natural_lse(row_max, row_sum), row_sum);
      const OutputRow row = output.row(m);
      for (uint32_t e = lane(); e < S::kDim; e += 32) {
        float sum = 0;
#pragma unroll
        for (uint32_t w = 0; w < S::kTokenWarps; ++w) sum += sums[(w * 16 + m) * S::kDim + e] * weight[w];
        row.put(e, sum * end.factor);
      }
      if (lane() == 0) output.put_lse(m, end.lse);
    }
  }

  const AttentionArgs& args_;
  const Plan& plan_;
  unsigned char* const shared_;
  uint32_t row_, num_rows_;         // first row of this warp; rows of the part
  typename Products::Sums sums_;    // O, in units of sum_unit()
  float row_max_[S::kRowTiles][2];  // of logits to base 2
  float row_sum_[S::kRowTiles][2];  // of weights: this lane's columns
  float offset_[S::kRowTiles][2];   // of weights times offsets: likewise
  float unit_, inverse_unit_;       // powers of two; 0 = no value with a scale was met
};

}  // namespace kvc::gpu
