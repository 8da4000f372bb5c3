// SPDX-License-Identifier: Apache-2.0
// Q K^T and P V of a step of MmaWorker. P is in registers, Q, K and V are in shared memory. Fragments are
// those of mma.m16n8k16; attention_mma_shape.cuh says which elements of quantized rows a lane holds.
#pragma once
#include "kernels/attention_codes.cuh"
#include "kernels/attention_mma_rows.cuh"
#include "kernels/attention_mma_shape.cuh"

namespace kvc::gpu {

template <bool kBfloat>
KVC_DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kBfloat) {
    mma_bf16(d, a, b);
  } else {
    mma_fp16(d, a, b);
  }
}
template <class S>
class MmaProducts {
 public:
  static constexpr uint32_t kDimTiles = S::kDim / 8;
  static constexpr uint32_t kStepTiles = S::kStepTokens / 8;
  using Weights = float[S::kRowTiles][kStepTiles][4];
  using Sums = float[S::kRowTiles][kDimTiles][4];

  // `q`: the block's staged queries. `row`: the first one of this warp.
  KVC_DEVICE MmaProducts(const unsigned char* q, uint32_t row, bool is_signed)
      : q_(q), row_(row), is_signed_(is_signed) {}

  // weights += Q K^T, for tokens first .. first + kStepTokens - 1 of a tile.
  KVC_DEVICE void multiply_keys(const unsigned char* keys, uint32_t first, Weights& weights) const {
    if constexpr (!S::kQuantized) {
      const uint32_t token = first + lane() % 8 + lane() / 16 * 8;
      const uint32_t chunk = token * S::kRowBytes + S::key_chunk(token, lane() / 8 % 2) * 16;
#pragma unroll
      for (uint32_t step = 0; step < S::kDim / 16; ++step) {
        uint32_t a[S::kRowTiles][4];
#pragma unroll
        for (uint32_t i = 0; i < S::kRowTiles; ++i) load_queries(i, step, a[i]);
#pragma unroll
        for (uint32_t n = 0; n < kStepTiles; n += 2) {
          uint32_t b[4];
          load_matrix(b, keys + pair_of_chunks(chunk, step) + 8 * n * S::kRowBytes);
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i) {
            multiply<S::kBfloat>(weights[i][n], a[i], {b[0], b[1]});
            multiply<S::kBfloat>(weights[i][n + 1], a[i], {b[2], b[3]});
          }
        }
      }
    } else {
      multiply_coded_keys(keys, first, weights);
    }
  }

  // sums += weights V
  KVC_DEVICE void multiply_values(const unsigned char* values, uint32_t first, const Weights& weights,
                                  Sums& sums) const {
#pragma unroll
    for (uint32_t n = 0; n < kStepTiles; n += 2) {
      uint32_t a[S::kRowTiles][4];
#pragma unroll
      for (uint32_t i = 0; i < S::kRowTiles; ++i) {
        a[i][0] = pack_pair<S::kBfloat>(weights[i][n][0], weights[i][n][1]);
        a[i][1] = pack_pair<S::kBfloat>(weights[i][n][2], weights[i][n][3]);
        a[i][2] = pack_pair<S::kBfloat>(weights[i][n + 1][0], weights[i][n + 1][1]);
        a[i][3] = pack_pair<S::kBfloat>(weights[i][n + 1][2], weights[i][n + 1][3]);
      }
      if constexpr (!S::kQuantized) {
        const uint32_t token = first + lane() % 16;
        const uint32_t chunk = token * S::kRowBytes + S::value_chunk(token, lane() / 16) * 16;
#pragma unroll
        for (uint32_t d = 0; d < kDimTiles; d += 2) {
          uint32_t b[4];
          load_matrix<true>(b, values + pair_of_chunks(chunk, d / 2) + 8 * n * S::kRowBytes);
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i) {
            multiply<S::kBfloat>(sums[i][d], a[i], {b[0], b[1]});
            multiply<S::kBfloat>(sums[i][d + 1], a[i], {b[2], b[3]});
          }
        }
      } else {
        multiply_coded_values(values, first + 8 * n, a, sums);
      }
    }
  }

 private:
  KVC_DEVICE void load_queries(uint32_t i, uint32_t step, uint32_t (&a)[4]) const {
    const uint32_t chunk = query_offset<S::kDim>(row_ + lane() % 16, lane() / 16);
    load_matrix(a, q_ + pair_of_chunks(chunk, step) + 16 * i * S::kDim * 2);
  }

  // Lane l has a quarter of token l / 4's row.
  KVC_DEVICE void multiply_coded_keys(const unsigned char* keys, uint32_t first, Weights& weights) const {
    constexpr uint32_t kWords = S::kKeyBytes / 4, kSteps = S::kBits == 8 ? 1 : 2;  // of a word
#pragma unroll
    for (uint32_t vector = 0; vector < S::kRowBytes / 4 / S::kKeyBytes; ++vector) {
      uint32_t codes[kStepTiles][kWords];
#pragma unroll
      for (uint32_t n = 0; n < kStepTiles; ++n) {
        const uint32_t token = first + 8 * n + lane() / 4, byte = (vector * 4 + lane() % 4) * S::kKeyBytes;
        load_words(keys + token * S::kRowBytes + S::key_chunk(token, byte / 16) * 16 + byte % 16, codes[n]);
      }
#pragma unroll
      for (uint32_t word = 0; word < kWords; ++word) {
#pragma unroll
        for (uint32_t s = 0; s < kSteps; ++s) {
          uint32_t a[S::kRowTiles][4];
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i)
            load_queries(i, (vector * kWords + word) * kSteps + s, a[i]);
#pragma unroll
          for (uint32_t n = 0; n < kStepTiles; ++n) {
            uint32_t b[2];
            if constexpr (S::kBits == 8) {
              widen_bytes<S::kDtype>(codes[n][word], is_signed_, b);
            } else {
              widen_nibbles(codes[n][word] >> 8 * s, is_signed_, b);
            }
#pragma unroll
            for (uint32_t i = 0; i < S::kRowTiles; ++i) multiply<S::kBfloat>(weights[i][n], a[i], b);
          }
        }
      }
    }
  }

  // 16 tokens. Lane l has an eighth, l / 4, of the rows of tokens 2 (l % 4) + {0, 1, 8, 9}.
  KVC_DEVICE void multiply_coded_values(const unsigned char* values, uint32_t first,
                                        const uint32_t (&a)[S::kRowTiles][4], Sums& sums) const {
    constexpr uint32_t kWords = S::kValueBytes / 4, kCodes = 32 / S::kBits;
#pragma unroll
    for (uint32_t vector = 0; vector < S::kRowBytes / 8 / S::kValueBytes; ++vector) {
      uint32_t codes[4][kWords];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t token = first + lane() % 4 * 2 + i % 2 + i / 2 * 8;
        const uint32_t byte = (vector * 8 + lane() / 4) * S::kValueBytes;
        load_words(values + token * S::kRowBytes + S::value_chunk(token, byte / 16) * 16 + byte % 16,
                   codes[i]);
      }
#pragma unroll
      for (uint32_t word = 0; word < kWords; ++word) {
        uint32_t b[kCodes][2];
#pragma unroll
        for (uint32_t pair = 0; pair < 2; ++pair) {
          const uint32_t even = codes[2 * pair][word], odd = codes[2 * pair + 1][word];
          if constexpr (S::kBits == 8) {
            uint32_t both[2];  // two elements of both tokens
            widen_bytes<S::kDtype>(pick_bytes(even, odd, 0x5140), is_signed_, both);
            b[0][pair] = both[0], b[1][pair] = both[1];
            widen_bytes<S::kDtype>(pick_bytes(even, odd, 0x7362), is_signed_, both);
            b[2][pair] = both[0], b[3][pair] = both[1];
          } else {
            const uint32_t low = pick_bytes(even, odd, 0x5410), high = pick_bytes(even, odd, 0x7632);
#pragma unroll
            for (uint32_t e = 0; e < 4; e += 2) {
              uint32_t both[2];
              widen_nibbles(low >> 4 * e, is_signed_, both);
              b[e][pair] = both[0], b[e + 1][pair] = both[1];
              widen_nibbles(high >> 4 * e, is_signed_, both);
              b[e + 4][pair] = both[0], b[e + 5][pair] = both[1];
            }
          }
        }
#pragma unroll
        for (uint32_t e = 0; e < kCodes; ++e) {
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i) {
            multiply<S::kBfloat>(sums[i][(vector * kWords + word) * kCodes + e], a[i], b[e]);
          }
        }
      }
    }
  }

  const unsigned char* q_;
  uint32_t row_;
  bool is_signed_;
};

}  // namespace kvc::gpu
