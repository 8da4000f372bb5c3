// SPDX-License-Identifier: Apache-2.0
// Attention without tensor cores: every stored type, dim and option, in float32. A block keeps the queries of
// up to kRows rows and their sums in shared memory and goes through its tiles in three steps: each wave takes
// tokens for the logits, then rows for the softmax, then each thread takes elements of the values.
#pragma once
#include "kernels/attention_part.cuh"

namespace kvc::gpu {

inline constexpr uint32_t kPlainThreads = 256;

// Stored rows of keys or of values.
struct RowReader {
  const AttentionPlane& plane;
  const AttentionPlane& scales;
  uint32_t dim;  // of the plane
  uint32_t group;
  bool asymmetric;
  float factor;  // used if there are no scales; 0 = none

  struct Row {
    const uint8_t* data;
    const float* scales;
    uint32_t token;
  };

  KVC_DEVICE Row row(uint64_t block, uint32_t head, uint32_t token) const {
    constexpr uint32_t kTileTokens = 16;
    Row at{nullptr, nullptr, token % kTileTokens};
    uint64_t offset = offset_in(plane, block, head, token);
    if (plane.element_tile != 0) {
      offset = block * plane.block + head * plane.head +
               uint64_t{token - token % kTileTokens} * dim * (4 / plane.element_tile);
    }
    at.data = reinterpret_cast<const uint8_t*>(plane.data + offset);
    if (group != 0)
      at.scales = reinterpret_cast<const float*>(scales.data + offset_in(scales, block, head, token));
    return at;
  }

  KVC_DEVICE float code(const Row& row, uint32_t e) const {
    uint32_t index = e;
    if (plane.element_tile != 0) {
      const uint32_t tile = plane.element_tile;
      index = (e / tile * 16 + row.token) * tile + e % tile;
    }
    switch (plane.dtype) {
      case KVC_FLOAT8_E4M3:
        return e4m3_to_float(row.data[e]);
      case KVC_FLOAT8_E5M2:
        return e5m2_to_float(row.data[e]);
      case KVC_INT8:
        return asymmetric ? row.data[e] : static_cast<int8_t>(row.data[e]);
      case KVC_INT4: {
        const int nibble = row.data[e / 2] >> e % 2 * 4 & 15;
        return static_cast<float>(asymmetric ? nibble : (nibble ^ 8) - 8);
      }
      default:
        return load_float(plane.dtype, row.data, index);
    }
  }

  KVC_DEVICE float element(const Row& row, uint32_t e) const {
    const float value = code(row, e);
    if (group == 0) return factor == 0 ? value : value * factor;
    if (!asymmetric) return value * row.scales[e / group];
    return value * row.scales[e / group * 2] + row.scales[e / group * 2 + 1];
  }
};

KVC_DEVICE RowReader key_reader(const AttentionArgs& args) {
  return {args.k, args.k_scale, args.k_dim, args.scale_group, args.asymmetric != 0, args.k_factor};
}
KVC_DEVICE RowReader value_reader(const AttentionArgs& args) {
  if (args.latent != 0) return key_reader(args);
  return {args.v, args.v_scale, args.v_dim, args.scale_group, args.asymmetric != 0, args.v_factor};
}

// Shared memory of a block.
template <uint32_t kRows>
struct PlainShared {
  float* q;          // [kRows][k_dim]
  float* sums;       // [kRows][v_dim]
  float* weights;    // [kRows][kAttentionTile]: logits, then exp2(logit - row_max)
  float* row_max;    // [kRows] of logits to base 2
  float* row_sum;    // [kRows]
  float* decay;      // [kRows] factor of sums of earlier tiles
  uint64_t* blocks;  // [kAttentionTile]
  uint32_t* tokens;  // [kAttentionTile] of their blocks

  static KVC_HOST_DEVICE uint64_t bytes(uint32_t k_dim, uint32_t v_dim) {
    return kAttentionTile * (sizeof(uint64_t) + sizeof(uint32_t)) +
           uint64_t{kRows} * (k_dim + v_dim + kAttentionTile + 3) * sizeof(float);
  }
  KVC_DEVICE PlainShared(void* memory, uint32_t k_dim, uint32_t v_dim) {
    blocks = static_cast<uint64_t*>(memory);
    tokens = reinterpret_cast<uint32_t*>(blocks + kAttentionTile);
    q = reinterpret_cast<float*>(tokens + kAttentionTile);
    sums = q + kRows * k_dim;
    weights = sums + kRows * v_dim;
    row_max = weights + kRows * kAttentionTile;
    row_sum = row_max + kRows;
    decay = row_sum + kRows;
  }
};

// The orthonormal Walsh-Hadamard transform of rows [count][dim], dim a power of two.
KVC_DEVICE void hadamard_rows(float* rows, uint32_t count, uint32_t dim) {
  for (uint32_t half = 1; half < dim; half *= 2) {
    sync_block();
    for (uint32_t i = threadIdx.x; i < count * dim / 2; i += kPlainThreads) {
      float* first = rows + i / half * 2 * half + i % half;
      const float a = first[0], b = first[half];
      first[0] = a + b;
      first[half] = a - b;
    }
  }
  sync_block();
  const float norm = 1 / sqrtf(static_cast<float>(dim));
  for (uint32_t i = threadIdx.x; i < count * dim; i += kPlainThreads) rows[i] *= norm;
}

// Sums each value over the wave. Leaves one sum in sums[0] and returns its index: at each step a lane gives
// one half of its values to another lane, and receives that lane's part of the other half.
template <uint32_t kCount>
KVC_DEVICE uint32_t sum_rows(float (&sums)[kCount]) {
  uint32_t mine = 0, mask = 1;
#pragma unroll
  for (uint32_t half = kCount / 2; half != 0; half /= 2, mask *= 2) {
    const bool upper = (lane() & mask) != 0;
#pragma unroll
    for (uint32_t i = 0; i < half; ++i) {
      const float kept = upper ? sums[i + half] : sums[i], given = upper ? sums[i] : sums[i + half];
      sums[i] = kept + shuffle_xor(given, mask);
    }
    if (upper) mine += half;
  }
  for (; mask < kWave; mask *= 2) sums[0] += shuffle_xor(sums[0], mask);
  return mine;
}

template <uint32_t kRows>
KVC_DEVICE void plain_logits(const AttentionArgs& args, const Part& part, const PlainShared<kRows>& shared,
                             int64_t position) {
  const RowReader keys = key_reader(args);
  const Piece& piece = part.piece;
  for (uint32_t t = wave(); t < kAttentionTile; t += kPlainThreads / kWave) {
    const uint64_t block = shared.blocks[t];
    float dot[kRows] = {};
    const int64_t j = position + t;
    if (block != kNoBlock) {
      const RowReader::Row row = keys.row(block, part.head, shared.tokens[t]);
      for (uint32_t e = lane(); e < args.k_dim; e += kWave) {
        const float key = keys.element(row, e);
#pragma unroll
        for (uint32_t r = 0; r < kRows; ++r) dot[r] += shared.q[r * args.k_dim + e] * key;
      }
    }
    // Each of the first kRows lanes has a row.
    const uint32_t r = sum_rows(dot);
    if (lane() >= kRows) continue;
    float& out = shared.weights[r * kAttentionTile + t];
    out = minus_infinity();
    if (block == kNoBlock || r >= piece.rows) continue;
    const int64_t query = query_of(args, part, r);
    if (!sees(args, piece.view, query, j)) continue;
    out = kLog2e * with_alibi(args, capped(args, dot[0] * args.scale), q_head_of(args, part, r),
                              j - piece.view.start - query);
  }
}

template <uint32_t kRows>
KVC_DEVICE void plain_softmax(const PlainShared<kRows>& shared) {
  for (uint32_t r = wave(); r < kRows; r += kPlainThreads / kWave) {
    float* row = shared.weights + r * kAttentionTile;
    float most = minus_infinity();
    for (uint32_t t = lane(); t < kAttentionTile; t += kWave) most = row[t] > most ? row[t] : most;
    const float before = shared.row_max[r], row_max = team_max(most > before ? most : before, kWave);
    const float origin = row_max == minus_infinity() ? 0 : row_max;
    float sum = 0;
    for (uint32_t t = lane(); t < kAttentionTile; t += kWave) {
      row[t] = exp2_fast(row[t] - origin);
      sum += row[t];
    }
    sum = team_sum(sum, kWave);
    sync_wave();  // all lanes have read row_max
    if (lane() == 0) {
      shared.decay[r] = exp2_fast(before - origin);
      shared.row_sum[r] = shared.row_sum[r] * shared.decay[r] + sum;
      shared.row_max[r] = row_max;
    }
    sync_wave();
  }
}

template <uint32_t kRows>
KVC_DEVICE void plain_values(const AttentionArgs& args, const Part& part, const PlainShared<kRows>& shared) {
  const RowReader values = value_reader(args);
  for (uint32_t e = threadIdx.x; e < args.v_dim; e += kPlainThreads) {
    float sum[kRows];
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) sum[r] = shared.sums[r * args.v_dim + e] * shared.decay[r];
    for (uint32_t t = 0; t < kAttentionTile; ++t) {
      const uint64_t block = shared.blocks[t];
      if (block == kNoBlock) continue;
      const float value = values.element(values.row(block, part.head, shared.tokens[t]), e);
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) sum[r] += shared.weights[r * kAttentionTile + t] * value;
    }
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) shared.sums[r * args.v_dim + e] = sum[r];
  }
}

template <uint32_t kRows>
KVC_KERNEL(kPlainThreads, 2)
attend_plain(AttentionArgs args, Plan plan) {
  KVC_DYNAMIC_SHARED(unsigned char, memory);
  const PlainShared<kRows> shared(memory, args.k_dim, args.v_dim);
  for_each_part(args, plan, [&](const Part& part) {
    const Piece& piece = part.piece;
    for (uint32_t i = threadIdx.x; i < kRows * args.k_dim; i += kPlainThreads) {
      const uint32_t r = i / args.k_dim, e = i % args.k_dim;
      shared.q[i] = r < piece.rows ? load_float(args.q_dtype, args.q, q_offset_of(args, part, r) + e) : 0;
    }
    for (uint32_t i = threadIdx.x; i < kRows * args.v_dim; i += kPlainThreads) shared.sums[i] = 0;
    if (threadIdx.x < kRows) {
      shared.row_max[threadIdx.x] = minus_infinity();
      shared.row_sum[threadIdx.x] = 0;
    }
    if (args.hadamard != 0) hadamard_rows(shared.q, kRows, args.k_dim);

    for (int32_t tile = part.first_tile; tile < part.end_tile; ++tile) {
      const int64_t position = piece.span.position(tile);
      if (threadIdx.x < kAttentionTile) {
        const int64_t j = position + threadIdx.x;
        shared.blocks[threadIdx.x] =
            may_read(args, part, j) ? static_cast<uint64_t>(block_of(args, part, j)) : kNoBlock;
        shared.tokens[threadIdx.x] = args.block_size.remainder(static_cast<uint32_t>(j));
      }
      sync_block();
      plain_logits<kRows>(args, part, shared, position);
      sync_block();
      plain_softmax<kRows>(shared);
      sync_block();
      plain_values<kRows>(args, part, shared);
      sync_block();
    }

    sync_block();
    const PartOutput output{args, plan, part};
    if (threadIdx.x < piece.rows) {
      const uint32_t r = threadIdx.x;
      const RowEnd end = output.end(r, natural_lse(shared.row_max[r], shared.row_sum[r]), shared.row_sum[r]);
      output.put_lse(r, end.lse);
      shared.decay[r] = end.factor;
    }
    if (args.hadamard != 0) hadamard_rows(shared.sums, kRows, args.v_dim);
    sync_block();
    for (uint32_t i = threadIdx.x; i < kRows * args.v_dim; i += kPlainThreads) {
      const uint32_t r = i / args.v_dim, e = i % args.v_dim;
      if (r < piece.rows) output.row(r).put(e, shared.row_sum[r] == 0 ? 0 : shared.sums[i] * shared.decay[r]);
    }
  });
}

}  // namespace kvc::gpu
