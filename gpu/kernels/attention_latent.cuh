// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (MLA) on tensor cores: a row of 576 elements is the key of all query heads, and
// its first 512 elements are the value. A thread block has up to 64 rows (query, query head). cp.async copies
// half tiles of 32 tokens into a pipeline of stages. A warp has 16 rows and 16 tokens of Q K^T, but all rows
// and 64 of the 512 elements of P V; in between, P goes through shared memory.
//
// Rows of 8-bit codes become bfloat16, which holds every code, when their stage has arrived. Their scales
// multiply the logits of their tokens, and the weights. Products without scales must not overflow: queries
// are below 1e33.
#pragma once
#include "kernels/attention_mma_products.cuh"
#include "kernels/attention_scales.cuh"

namespace kvc::gpu {

template <int32_t kDtype_>
struct LatentShape {
  static constexpr int32_t kDtype = kDtype_;
  static constexpr bool kBfloat = kDtype != KVC_FLOAT16;  // operands; else they are fp16
  static constexpr bool kQuantized = kDtype != KVC_BFLOAT16 && kDtype != KVC_FLOAT16;
  static constexpr uint32_t kDim = 576, kValueDim = 512;
  static constexpr uint32_t kRowBytes = kDim * 2;  // of operands
  static constexpr uint32_t kStoredBytes = kDim * dtype_bits(kDtype) / 8, kChunks = kStoredBytes / 16;
  static constexpr uint32_t kThreads = 256, kWarps = kThreads / 32;
  static constexpr uint32_t kRows = 64, kRowTiles = kRows / 16;
  static constexpr uint32_t kStageTokens = 32, kTokenWarps = kStageTokens / 16;
  static constexpr uint32_t kStages = 4;
  static constexpr uint32_t kElements = kValueDim / kWarps;  // of a warp
  static constexpr uint32_t kRingTiles = 3;                  // this tile and those of the next stages
  static_assert(kRowTiles * kTokenWarps == kWarps && kAttentionTile == 2 * kStageTokens);

  static constexpr uint32_t kQ = 0;
  static constexpr uint32_t kStageBytes = kStageTokens * kStoredBytes;
  static constexpr uint32_t kTiles = kQ + kRows * kRowBytes;
  static constexpr uint32_t kOperands = kTiles + kStages * kStageBytes;  // of codes: the stage as bfloat16
  static constexpr uint32_t kWeights =
      kOperands + (kQuantized ? kStageTokens * kRowBytes : 0);  // [kRows][kStageTokens], 16 bits
  static constexpr uint32_t kTokens = kWeights + kRows * kStageTokens * 2;
  static constexpr uint32_t kScales = kTokens + TokenRing<kRingTiles>::kBytes;  // [kRingTiles][tile] float
  static constexpr uint32_t kRowMaxima =
      kScales + (kQuantized ? kRingTiles * kAttentionTile * 4 : 0);          // [kTokenWarps][kRows] float
  static constexpr uint32_t kDecays = kRowMaxima + kTokenWarps * kRows * 4;  // [kRows] float
  static constexpr uint32_t kRowInfo = kDecays + kRows * 4;                  // [kRows] MmaRow
  static constexpr uint32_t kSharedBytes = kRowInfo + kRows * sizeof(MmaRow);
  static constexpr uint32_t kBlocks = 1;

  static_assert(kRowBytes % 128 == 0 && kElements * 2 % 128 == 0);  // for pair_of_chunks()
  static KVC_DEVICE uint32_t chunk(uint32_t token, uint32_t chunk) { return chunk ^ (token & 7); }
  static KVC_DEVICE uint32_t weight_offset(uint32_t row, uint32_t token) {
    return kWeights + row * kStageTokens * 2 + ((token / 8) ^ (row / 2 & 3)) * 16 + token % 8 * 2;
  }
};

template <class S>
class LatentWorker {
 public:
  KVC_DEVICE LatentWorker(const AttentionArgs& args, const Plan& plan, unsigned char* shared)
      : args_(args), plan_(plan), shared_(shared) {}

  KVC_DEVICE void run(const Part& part) {
    constexpr int32_t kAhead = static_cast<int32_t>(S::kStages) - 1;
    const int32_t tiles = part.end_tile - part.first_tile, halves = 2 * tiles;
    begin(part, tiles, halves);
    TokenPlace place;  // of a token of the tile after next, from one half of a tile to the other
    for (int32_t h = 0; h < halves; ++h) {
      wait_async<kAhead - 1>();
      sync_block();
      if (h + kAhead < halves) copy_half(h + kAhead);
      commit_async();
      const int32_t next = h / 2 + 2;
      const bool looks_up = h % 2 == 0 && next < tiles, scales = h % 2 == 1 && next < tiles;
      if (looks_up) place = tokens().find(args_, part, next);
      const float scale = scales ? load_scale(part, place) : 0;
      if constexpr (S::kQuantized) {
        widen_half(h);
        sync_block();
      }
      float weights[2][4] = {};
      if (has_rows()) make_logits(part, h, weights);
      sync_block();
      if (has_rows()) make_weights(h, weights);
      sync_block();
      multiply_values(part, h);
      if (looks_up) tokens().keep(args_, part, next, place);
      if (scales) keep_scale(next, scale);
    }
    wait_async<0>();
    sync_block();
    write(part);
  }

 private:
  static constexpr uint32_t kTilesOfElements = S::kElements / 8;

  KVC_DEVICE TokenRing<S::kRingTiles> tokens() const {
    return TokenRing<S::kRingTiles>(shared_ + S::kTokens);
  }
  KVC_DEVICE unsigned char* stage(int32_t half) const {
    return shared_ + S::kTiles + static_cast<uint32_t>(half) % S::kStages * S::kStageBytes;
  }
  // Where products read a half.
  KVC_DEVICE unsigned char* operands(int32_t half) const {
    return S::kQuantized ? shared_ + S::kOperands : stage(half);
  }
  KVC_DEVICE float& scale_of(int32_t tile, uint32_t token) const {
    float* const scales = reinterpret_cast<float*>(shared_ + S::kScales);
    return scales[static_cast<uint32_t>(tile) % S::kRingTiles * kAttentionTile + token];
  }
  KVC_DEVICE float* row_maxima(uint32_t warp) const {
    return reinterpret_cast<float*>(shared_ + S::kRowMaxima) + warp * S::kRows;
  }
  KVC_DEVICE float* decays() const { return reinterpret_cast<float*>(shared_ + S::kDecays); }
  KVC_DEVICE MmaRow* rows() const { return reinterpret_cast<MmaRow*>(shared_ + S::kRowInfo); }

  // In Q K^T.
  KVC_DEVICE static uint32_t warp() { return threadIdx.x / 32; }
  KVC_DEVICE static uint32_t first_row() { return warp() % S::kRowTiles * 16; }
  KVC_DEVICE static uint32_t token_warp() { return warp() / S::kRowTiles; }
  KVC_DEVICE static uint32_t row_at(uint32_t half) { return first_row() + lane() / 4 + 8 * half; }
  KVC_DEVICE bool has_rows() const { return first_row() < num_rows_; }

  KVC_DEVICE void begin(const Part& part, int32_t tiles, int32_t halves) {
    num_rows_ = part.piece.rows;
    for (int32_t t = 0; t < 2 && t < tiles; ++t) {
      const TokenPlace place = tokens().find(args_, part, t);
      tokens().keep(args_, part, t, place);
      keep_scale(t, load_scale(part, place));
    }
    sync_block();
    for (int32_t h = 0; h + 1 < static_cast<int32_t>(S::kStages); ++h) {
      if (h < halves) copy_half(h);
      commit_async();
    }
    stage_queries<S::kBfloat, S::kDim, S::kRows, S::kWarps>(args_, part, shared_ + S::kQ, rows(), 1,
                                                            [](uint32_t x) { return x; });
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (uint32_t n = 0; n < kTilesOfElements; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) sums_[i][n][c] = 0;
      }
    }
    row_max_[0] = row_max_[1] = minus_infinity();
    row_sum_[0] = row_sum_[1] = 0;
    sync_block();
  }

  // Calls function(token, chunk) for the chunks of a stage that are this thread's.
  template <typename Function>
  KVC_DEVICE static void for_each_chunk(Function&& function) {
    constexpr uint32_t kAll = S::kStageTokens * S::kChunks;
#pragma unroll
    for (uint32_t n = 0; n < (kAll + S::kThreads - 1) / S::kThreads; ++n) {
      const uint32_t i = threadIdx.x + n * S::kThreads;
      if (kAll % S::kThreads == 0 || i < kAll) function(i / S::kChunks, i % S::kChunks);
    }
  }

  KVC_DEVICE void copy_half(int32_t half) const {
    unsigned char* const to = stage(half);
    const uint32_t first = static_cast<uint32_t>(half % 2) * S::kStageTokens;
    for_each_chunk([&](uint32_t token, uint32_t chunk) {
      const RowOffset row = tokens().row(half / 2, first + token);
      const uint32_t at = S::kQuantized ? chunk : S::chunk(token, chunk);
      copy_async(to + token * S::kStoredBytes + at * 16, args_.k.data + row.bytes() + chunk * 16,
                 row.is_read() ? 16 : 0);
    });
  }

  // ---- codes ----

  KVC_DEVICE float load_scale(const Part& part, const TokenPlace& place) const {
    if (!S::kQuantized || threadIdx.x >= kAttentionTile || !place.is_read) return 0;
    if (args_.scale_group == 0) return args_.k_factor != 0 ? args_.k_factor : 1;
    const AttentionPlane& plane = args_.k_scale;
    const uint64_t at = offset_in(plane, place.block_index(), part.head, place.token);
    return *reinterpret_cast<const float*>(plane.data + at);
  }
  KVC_DEVICE void keep_scale(int32_t tile, float scale) const {
    if (S::kQuantized && threadIdx.x < kAttentionTile) scale_of(tile, threadIdx.x) = scale;
  }

  KVC_DEVICE void widen_half(int32_t half) const {
    const unsigned char* const from = stage(half);
    unsigned char* const to = operands(half);
    for_each_chunk([&](uint32_t token, uint32_t chunk) {
      uint32_t codes[4];
      load_words(from + token * S::kStoredBytes + chunk * 16, codes);
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {  // eight codes become a chunk of operands
        uint32_t words[4];
#pragma unroll
        for (uint32_t w = 0; w < 2; ++w) {
          uint32_t pairs[2];
          widen_bytes<S::kDtype>(codes[2 * i + w], true, pairs);
#pragma unroll
          for (uint32_t p = 0; p < 2; ++p) {
            using Half = Element<KVC_FLOAT16>;
            words[2 * w + p] = pack_bfloat(Half::decode(pairs[p] & 0xFFFF), Half::decode(pairs[p] >> 16));
          }
        }
        store_words(to + token * S::kRowBytes + S::chunk(token, 2 * chunk + i) * 16, words);
      }
    });
  }

  // Of the tokens of this lane in a half: the first of its columns, and the next tile of eight tokens.
  KVC_DEVICE const float* scales_of(int32_t half) const {
    return &scale_of(half / 2,
                     static_cast<uint32_t>(half % 2) * S::kStageTokens + token_warp() * 16 + lane() % 4 * 2);
  }

  // ---- products ----

  KVC_DEVICE void make_logits(const Part& part, int32_t half, float (&weights)[2][4]) const {
    const unsigned char* const keys = operands(half);
    const uint32_t token = token_warp() * 16 + lane() % 8 + lane() / 16 * 8;
    const uint32_t chunk = token * S::kRowBytes + S::chunk(token, lane() / 8 % 2) * 16;
    const uint32_t of_queries = query_offset<S::kDim>(first_row() + lane() % 16, lane() / 16);
    // Even and odd steps have their own accumulators, so that a product does not wait for the last one.
    float odd[2][4] = {};
#pragma unroll 4
    for (uint32_t step = 0; step < S::kDim / 16; ++step) {
      uint32_t a[4], b[4];
      load_matrix(a, shared_ + S::kQ + pair_of_chunks(of_queries, step));
      load_matrix(b, keys + pair_of_chunks(chunk, step));
      float(&sums)[2][4] = step % 2 == 0 ? weights : odd;
      multiply<S::kBfloat>(sums[0], a, {b[0], b[1]});
      multiply<S::kBfloat>(sums[1], a, {b[2], b[3]});
    }
#pragma unroll
    for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
      for (uint32_t c = 0; c < 4; ++c) weights[n][c] += odd[n][c];
    }
    const int32_t tile = half / 2;
    const uint32_t column =
        static_cast<uint32_t>(half % 2) * S::kStageTokens + token_warp() * 16 + lane() % 4 * 2;
    const int64_t position = part.piece.span.position(part.first_tile + tile) + column;
    const uint32_t seen = tokens().seen(tile, column);
    const bool full = tokens().is_full(tile);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const MmaRow& row = rows()[row_at(i)];
      const float factor = row.factor;
      float row_max = minus_infinity();
      for_each_pair(weights, i, [&](uint32_t n, float& x, float& y) {
        float scale[2] = {factor, factor};
        if constexpr (S::kQuantized) {
          load_pair(scales_of(half) + n, scale);
          scale[0] *= factor, scale[1] *= factor;
        }
        x *= scale[0], y *= scale[1];
      });
      finish_logits(args_, part, row, position, seen, full, i, weights);
      for_each_pair(weights, i,
                    [&](uint32_t, float& x, float& y) { row_max = greater(row_max, greater(x, y)); });
      row_max = team_greatest(row_max, 4);
      if (lane() % 4 == 0) row_maxima(token_warp())[row_at(i)] = row_max;
    }
  }

  // Both warps of a row find the same row max, from the maxima of both.
  KVC_DEVICE void make_weights(int32_t half, float (&weights)[2][4]) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t m = row_at(i);
      float row_max = row_max_[i];
#pragma unroll
      for (uint32_t w = 0; w < S::kTokenWarps; ++w) row_max = greater(row_max, row_maxima(w)[m]);
      const float origin = row_max == minus_infinity() ? 0 : row_max, decay = exp2_fast(row_max_[i] - origin);
      row_max_[i] = row_max;
      float sum = 0;
      for_each_pair(weights, i, [&](uint32_t n, float& x, float& y) {
        x = exp2_fast(x - origin), y = exp2_fast(y - origin);
        sum += x + y;
        if constexpr (S::kQuantized) {
          float scale[2];
          load_pair(scales_of(half) + n, scale);
          x *= scale[0], y *= scale[1];
        }
        const uint32_t token = token_warp() * 16 + n + lane() % 4 * 2;
        *reinterpret_cast<uint32_t*>(shared_ + S::weight_offset(m, token)) = pack_pair<S::kBfloat>(x, y);
      });
      row_sum_[i] = row_sum_[i] * decay + sum;
      if (token_warp() == 0 && lane() % 4 == 0) decays()[m] = decay;
    }
  }

  KVC_DEVICE void multiply_values(const Part& part, int32_t half) {
    const unsigned char* const values = operands(half);
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
      if (16 * i >= part.piece.rows) continue;
      const float decay[2] = {decays()[16 * i + lane() / 4], decays()[16 * i + lane() / 4 + 8]};
      if (ballot(decay[0] != 1 || decay[1] != 1) == 0) continue;
#pragma unroll
      for (uint32_t n = 0; n < kTilesOfElements; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) sums_[i][n][c] *= decay[c / 2];
      }
    }
#pragma unroll
    for (uint32_t step = 0; step < S::kStageTokens / 16; ++step) {
      uint32_t a[S::kRowTiles][4];
#pragma unroll
      for (uint32_t i = 0; i < S::kRowTiles; ++i) {
        if (16 * i >= part.piece.rows) continue;
        load_matrix(a[i], shared_ + S::weight_offset(16 * i + lane() % 16, 16 * step + lane() / 16 * 8));
      }
      const uint32_t token = 16 * step + lane() % 16;
      const uint32_t first =
          token * S::kRowBytes + S::chunk(token, lane() / 16) * 16 + warp() * S::kElements * 2;
#pragma unroll
      for (uint32_t n = 0; n < kTilesOfElements; n += 2) {
        uint32_t b[4];
        load_matrix<true>(b, values + pair_of_chunks(first, n / 2));
#pragma unroll
        for (uint32_t i = 0; i < S::kRowTiles; ++i) {
          if (16 * i >= part.piece.rows) continue;
          multiply<S::kBfloat>(sums_[i][n], a[i], {b[0], b[1]});
          multiply<S::kBfloat>(sums_[i][n + 1], a[i], {b[2], b[3]});
        }
      }
    }
  }

  // Row sums of both warps replace the maxima of tiles in shared memory, final factors of rows the decays.
  KVC_DEVICE void write(const Part& part) {
    const PartOutput output{args_, plan_, part};
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const float row_sum = team_sum(row_sum_[i], 4);
      if (lane() % 4 == 0) row_maxima(token_warp())[row_at(i)] = row_sum;
    }
    sync_block();
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t m = row_at(i);
      if (m < part.piece.rows && token_warp() == 0 && lane() % 4 == 0) {
        const float row_sum = row_maxima(0)[m] + row_maxima(1)[m];
        const RowEnd end = output.end(m, natural_lse(row_max_[i], row_sum), row_sum);
        output.put_lse(m, end.lse);
        decays()[m] = end.factor;
      }
    }
    sync_block();
#pragma unroll
    for (uint32_t i = 0; i < 2 * S::kRowTiles; ++i) {
      const uint32_t m = 8 * i + lane() / 4;
      if (m < part.piece.rows) {
        const float factor = decays()[m];
        const OutputRow row = output.row(m);
#pragma unroll
        for (uint32_t n = 0; n < kTilesOfElements; ++n) {
          row.put_pair(warp() * S::kElements + 8 * n + lane() % 4 * 2, sums_[i / 2][n][i % 2 * 2] * factor,
                       sums_[i / 2][n][i % 2 * 2 + 1] * factor);
        }
      }
    }
  }

  const AttentionArgs& args_;
  const Plan& plan_;
  unsigned char* const shared_;
  uint32_t num_rows_;
  float sums_[S::kRowTiles][kTilesOfElements][4];  // all rows, this warp's elements
  float row_max_[2];                               // of logits to base 2: this lane's rows
  float row_sum_[2];                               // of weights: this lane's columns
};

}  // namespace kvc::gpu
