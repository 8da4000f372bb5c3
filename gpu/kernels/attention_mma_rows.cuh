// SPDX-License-Identifier: Apache-2.0
// Rows of a piece in the accumulators of mma.m16n8k16: lane l has rows l / 4 and l / 4 + 8 (halves 0 and 1),
// and columns 2 (l % 4) and + 1 of each tile of 8 tokens. Products become logits of kvc_backend_attention.
#pragma once
#include "kernels/attention_part.cuh"

namespace kvc::gpu {

// A row of a part.
struct MmaRow {
  int64_t mask_bit;  // of position 0; may be negative
  int64_t position;  // of the query
  int32_t end, low;  // of the positions that it sees
  float factor;      // of its products, to base 2
  float sum;         // of its query, times scale, to base 2; asymmetric rows alone need it
  float slope;
  uint32_t padding;
};

// `factor`: what the staged query was divided by, and other factors. Rows past the part's last see nothing.
KVC_DEVICE MmaRow make_row(const AttentionArgs& args, const Part& part, uint32_t m, float factor, float sum) {
  MmaRow row = {};
  row.factor = factor * args.scale * kLog2e;
  row.sum = sum * args.scale * kLog2e;
  if (m >= part.piece.rows) return row;
  const RequestView& view = part.piece.view;
  const int64_t query = query_of(args, part, m);
  const Reach reach = reach_of(args, view, query, query);
  row.position = view.start + query;
  row.end = static_cast<int32_t>(reach.end);
  row.low = static_cast<int32_t>(at_most(reach.low, reach.end));
  if (args.alibi_slopes != nullptr) row.slope = args.alibi_slopes[q_head_of(args, part, m)];
  if (args.mask != nullptr) {
    const int64_t begin = mask_begin(args, view.request);
    row.mask_bit =
        static_cast<int64_t>(args.mask_offsets[view.request]) + query * (view.kv_len - begin) - begin;
  }
  return row;
}

// Byte of chunk `chunk` of a staged row of queries, swizzled so that 8 rows lie in different banks.
template <uint32_t kDim>
KVC_DEVICE uint32_t query_offset(uint32_t row, uint32_t chunk) {
  return row * kDim * 2 + (chunk ^ (row & 7)) * 16;
}

// The offset of chunk 2 step (+ 1) from that of chunk 0 (+ 1), in swizzled rows of a multiple of 128 bytes.
// Every fourth step has the same address but for a constant.
KVC_DEVICE uint32_t pair_of_chunks(uint32_t first, uint32_t step) {
  return (first ^ step % 4 * 32) + step / 4 * 128;
}

template <bool kBfloat>
KVC_DEVICE uint32_t pack_pair(float low, float high) {
  return kBfloat ? pack_bfloat(low, high) : pack_half(low, high);
}

// Copies the part's queries to shared memory `q` and describes its rows. Position x of the K dimension holds
// element(x). A bfloat16 row that becomes fp16 is scaled by a power of two, so that its largest magnitude is
// in [0.5, 2). A warp has every kWarps-th row. It loads several rows before it looks at one, without a branch
// in between, since each load takes about a microsecond; then each of its lanes describes a row.
template <bool kBfloat, uint32_t kDim, uint32_t kRows, uint32_t kWarps, typename Element>
KVC_DEVICE void stage_queries(const AttentionArgs& args, const Part& part, unsigned char* q, MmaRow* rows,
                              float key_factor, Element&& element) {
  constexpr uint32_t kEach = kDim / 32, kOfWarp = kRows / kWarps,
                     kAtOnce = kEach > 8     ? 2
                               : kOfWarp < 8 ? 4
                                             : 8;
  static_assert(kRows % kWarps == 0 && kOfWarp <= 32 && kOfWarp % kAtOnce == 0);
  const auto row_at = [](uint32_t i) { return i * kWarps + threadIdx.x / 32; };
  const auto* const queries = static_cast<const uint16_t*>(args.q);
  const bool is_bfloat = args.q_dtype == KVC_BFLOAT16;
  float scale = 1, sum = 0;  // of row_at(lane())
#pragma unroll 1
  for (uint32_t i = 0; i < kOfWarp; i += kAtOnce) {
    uint16_t raw[kAtOnce][kEach];
#pragma unroll
    for (uint32_t r = 0; r < kAtOnce; ++r) {
      const uint32_t m = row_at(i + r), some = m < part.piece.rows ? m : part.piece.rows - 1;
      const uint16_t* const row = queries + q_offset_of(args, part, some);
#pragma unroll
      for (uint32_t e = 0; e < kEach; ++e) raw[r][e] = row[element(e * 32 + lane())];
    }
#pragma unroll
    for (uint32_t r = 0; r < kAtOnce; ++r) {
      const bool exists = row_at(i + r) < part.piece.rows;
      float values[kEach];
#pragma unroll
      for (uint32_t e = 0; e < kEach; ++e) {
        const float value = is_bfloat ? bfloat_to_float(raw[r][e]) : half_to_float(raw[r][e]);
        values[e] = exists ? value : 0;
      }
      float inverse = 1;
      if (!kBfloat && is_bfloat) {
        float most = 0;
#pragma unroll
        for (uint32_t e = 0; e < kEach; ++e) {
          const float size = values[e] < 0 ? -values[e] : values[e];
          most = size > most ? size : most;
        }
        const uint32_t exponent = float_bits(team_max(most, 32)) >> 23;
        if (exponent >= 2 && exponent <= 252) {
          inverse = bits_float((254 - exponent) << 23);
          if (lane() == i + r) scale = bits_float(exponent << 23);
        }
      }
      if (args.asymmetric != 0) {
        float of_lane = 0;
#pragma unroll
        for (uint32_t e = 0; e < kEach; ++e) of_lane += values[e];
        const float of_row = team_sum(of_lane, 32);
        if (lane() == i + r) sum = of_row;
      }
#pragma unroll
      for (uint32_t e = 0; e < kEach; ++e) {
        const uint32_t x = e * 32 + lane(), pair = pack_pair<kBfloat>(values[e] * inverse, 0);
        *reinterpret_cast<uint16_t*>(q + query_offset<kDim>(row_at(i + r), x / 8) + x % 8 * 2) =
            static_cast<uint16_t>(pair);
      }
    }
  }
  if (lane() < kOfWarp) rows[row_at(lane())] = make_row(args, part, row_at(lane()), scale * key_factor, sum);
}

template <uint32_t kWords>
KVC_DEVICE void load_words(const unsigned char* at, uint32_t (&words)[kWords]) {
  struct alignas(kWords * 4) Vector {
    uint32_t words[kWords];
  };
  const Vector vector = *reinterpret_cast<const Vector*>(at);
#pragma unroll
  for (uint32_t i = 0; i < kWords; ++i) words[i] = vector.words[i];
}
template <uint32_t kWords>
KVC_DEVICE void store_words(unsigned char* at, const uint32_t (&words)[kWords]) {
  struct alignas(kWords * 4) Vector {
    uint32_t words[kWords];
  };
  Vector vector;
#pragma unroll
  for (uint32_t i = 0; i < kWords; ++i) vector.words[i] = words[i];
  *reinterpret_cast<Vector*>(at) = vector;
}
KVC_DEVICE void load_pair(const float* at, float (&pair)[2]) {
  uint32_t words[2];
  load_words(reinterpret_cast<const unsigned char*>(at), words);
  pair[0] = bits_float(words[0]), pair[1] = bits_float(words[1]);
}

// This lane's columns of a row, two adjacent ones in each tile: pair(8 * tile, x, y).
template <uint32_t kTiles, typename Pair>
KVC_DEVICE void for_each_pair(float (&weights)[kTiles][4], uint32_t half, Pair&& pair) {
#pragma unroll
  for (uint32_t n = 0; n < kTiles; ++n) pair(8 * n, weights[n][2 * half], weights[n][2 * half + 1]);
}

// What a row does not see becomes -infinity. `position` is that of this lane's first column, bit n of `seen`
// says whether any row may read the token n columns further.
template <uint32_t kTiles>
KVC_DEVICE void hide_columns(const AttentionArgs& args, const Part& part, const MmaRow& row, int64_t position,
                             uint32_t seen, uint32_t half, float (&weights)[kTiles][4]) {
  const auto sinks = static_cast<int32_t>(part.piece.sinks), first = static_cast<int32_t>(position);
  const int32_t end = row.end, low = row.low;
  const auto is_hidden = [&](uint32_t n) {
    const int32_t j = first + static_cast<int32_t>(n);
    return j >= end || (j < low && j >= sinks) || (seen >> n & 1) == 0;
  };
  for_each_pair(weights, half, [&](uint32_t n, float& x, float& y) {
    if (is_hidden(n)) x = minus_infinity();
    if (is_hidden(n + 1)) y = minus_infinity();
  });
  if (args.mask == nullptr) return;
  const int64_t begin = mask_begin(args, part.piece.view.request);
  const auto is_masked = [&](float x, uint32_t n) {
    if (x == minus_infinity() || position + n < begin) return false;  // it may have no bit
    const auto bit = static_cast<uint64_t>(row.mask_bit + position + n);
    return (args.mask[bit / 8] >> bit % 8 & 1) == 0;
  };
  for_each_pair(weights, half, [&](uint32_t n, float& x, float& y) {
    if (is_masked(x, n)) x = minus_infinity();
    if (is_masked(y, n + 1)) y = minus_infinity();
  });
}

// Products times their factors become logits to base 2. `full`: every row sees every token.
template <uint32_t kTiles>
KVC_DEVICE void finish_logits(const AttentionArgs& args, const Part& part, const MmaRow& row,
                              int64_t position, uint32_t seen, bool full, uint32_t half,
                              float (&weights)[kTiles][4]) {
  if (args.soft_cap != 0) {
    for_each_pair(weights, half, [&](uint32_t, float& x, float& y) {
      x = kLog2e * capped(args, x * kLn2), y = kLog2e * capped(args, y * kLn2);
    });
  }
  if (args.alibi_slopes != nullptr) {
    const float slope = row.slope * kLog2e;
    const int64_t distance = position - row.position;
    for_each_pair(weights, half, [&](uint32_t n, float& x, float& y) {
      x += slope * static_cast<float>(distance + n), y += slope * static_cast<float>(distance + n + 1);
    });
  }
  if (!full) hide_columns(args, part, row, position, seen, half, weights);
}

}  // namespace kvc::gpu
