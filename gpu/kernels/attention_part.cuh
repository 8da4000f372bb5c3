// SPDX-License-Identifier: Apache-2.0
// What all attention kernels do with a part: find its tokens, rows and results, and finish logits.
#pragma once
#include "kernels/attention_plan.cuh"
#include "kernels/packed.cuh"

namespace kvc::gpu {

inline constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
KVC_DEVICE float minus_infinity() { return bits_float(0xFF800000u); }

inline constexpr uint64_t kNoBlock = ~uint64_t{0};

// Whether a row of the part may read position j.
KVC_DEVICE bool may_read(const AttentionArgs& args, const Part& part, int64_t j) {
  const Piece& piece = part.piece;
  return is_seen(args, piece.view, part.head, piece.first_query, piece.last_query, j);
}
// The block of a position that may be read; table entries of others may be anything.
KVC_DEVICE int32_t block_of(const AttentionArgs& args, const Part& part, int64_t j) {
  const uint32_t request = part.piece.view.request;
  const uint64_t row = args.table_rows != nullptr ? args.table_rows[request] : request;
  return args.block_tables[row * args.table_stride + args.block_size.divide(static_cast<uint32_t>(j))];
}

KVC_DEVICE uint64_t offset_in(const AttentionPlane& plane, uint64_t block, uint32_t head, uint64_t token) {
  return block * plane.block + head * plane.head + token * plane.token;
}

// Row m of a part: its query in its request, its query head, and its query in q, out and lse. Divides numbers
// of 32 bits: a device has no instruction for 64.
KVC_DEVICE int64_t query_of(const AttentionArgs& args, const Part& part, uint32_t m) {
  return part.piece.first_query + (part.piece.first_of_group + m) / (args.num_q_heads / args.num_heads);
}
KVC_DEVICE uint32_t q_head_of(const AttentionArgs& args, const Part& part, uint32_t m) {
  const uint32_t group = args.num_q_heads / args.num_heads;
  return part.head * group + (part.piece.first_of_group + m) % group;
}
KVC_DEVICE uint64_t q_query_of(const AttentionArgs& args, const Part& part, uint32_t m) {
  return part.piece.view.first_query + static_cast<uint64_t>(query_of(args, part, m));
}
// Where the elements of row m begin in q.
KVC_DEVICE uint64_t q_offset_of(const AttentionArgs& args, const Part& part, uint32_t m) {
  return q_query_of(args, part, m) * args.q_token_stride + q_head_of(args, part, m) * args.q_head_stride;
}

KVC_DEVICE float capped(const AttentionArgs& args, float logit) {
  if (args.soft_cap == 0) return logit;
  // tanh, good to about 1e-7 of the cap
  const float e = exp2_fast(2 * kLog2e / args.soft_cap * logit);
  return args.soft_cap - 2 * args.soft_cap / (e + 1);
}

// `distance`: position of the key less that of the query.
KVC_DEVICE float with_alibi(const AttentionArgs& args, float logit, uint32_t q_head, int64_t distance) {
  if (args.alibi_slopes == nullptr) return logit;
  return logit + args.alibi_slopes[q_head] * static_cast<float>(distance);
}

KVC_DEVICE float load_float(int32_t dtype, const void* base, uint64_t index) {
  if (dtype == KVC_FLOAT32) return static_cast<const float*>(base)[index];
  const uint16_t bits = static_cast<const uint16_t*>(base)[index];
  return dtype == KVC_BFLOAT16 ? bfloat_to_float(bits) : half_to_float(bits);
}
KVC_DEVICE void store_float(int32_t dtype, void* base, uint64_t index, float value) {
  if (dtype == KVC_FLOAT32) {
    static_cast<float*>(base)[index] = value;
  } else {
    const uint32_t bits = dtype == KVC_BFLOAT16 ? pack_bfloat(value, 0) : pack_half(value, 0);
    static_cast<uint16_t*>(base)[index] = static_cast<uint16_t>(bits);
  }
}

// A row of results, in `out` or in the workspace.
struct OutputRow {
  void* data;
  int32_t dtype;
  KVC_DEVICE void put(uint32_t element, float value) const { store_float(dtype, data, element, value); }
  // Of an even element and the next one.
  KVC_DEVICE void put_pair(uint32_t element, float first, float second) const {
    if (dtype == KVC_FLOAT32) {
      static_cast<float*>(data)[element] = first;
      static_cast<float*>(data)[element + 1] = second;
    } else {
      static_cast<uint32_t*>(data)[element / 2] =
          dtype == KVC_BFLOAT16 ? pack_bfloat(first, second) : pack_half(first, second);
    }
  }
};

// Natural log-sum-exp of a row with maximum `row_max` and sum `row_sum`, both to base 2.
KVC_DEVICE float natural_lse(float row_max, float row_sum) {
  return row_sum > 0 ? (row_max + log2_fast(row_sum)) * kLn2 : row_sum == 0 ? minus_infinity() : row_sum;
}

// What a row's sum of weighted values is multiplied by in the end, and its natural log-sum-exp.
struct RowEnd {
  float factor, lse;
};
// Merges a sink logit into a row, as a part without a value. Neither weight overflows, whichever is larger.
KVC_DEVICE RowEnd with_sink(const RowEnd& row, float sink) {
  if (sink == minus_infinity()) return row;
  const float row_max = row.lse > sink ? row.lse : sink;
  const float weight = exp2_fast((row.lse - row_max) * kLog2e);
  const float row_sum = weight + exp2_fast((sink - row_max) * kLog2e);
  return {row.factor * (weight / row_sum), row_max + log2_fast(row_sum) * kLn2};
}

// Results of a part, wherever they belong.
struct PartOutput {
  const AttentionArgs& args;
  const Plan& plan;
  const Part& part;

  KVC_DEVICE uint64_t part_row(uint32_t m) const {
    return static_cast<uint64_t>(part.index) * plan.tile_rows + m;
  }
  KVC_DEVICE OutputRow row(uint32_t m) const {
    if (part.index >= 0) return {plan.part_out + part_row(m) * args.v_dim, KVC_FLOAT32};
    const uint64_t element =
        q_query_of(args, part, m) * args.out_token_stride + q_head_of(args, part, m) * args.out_head_stride;
    const int32_t dtype = args.out_dtype != 0 ? args.out_dtype : args.q_dtype;
    return {static_cast<char*>(args.out) + element * (dtype == KVC_FLOAT32 ? 4 : 2), dtype};
  }
  KVC_DEVICE void put_lse(uint32_t m, float lse) const {
    if (part.index >= 0) {
      plan.part_lse[part_row(m)] = lse;
    } else if (args.lse != nullptr) {
      args.lse[q_query_of(args, part, m) * args.num_q_heads + q_head_of(args, part, m)] = lse;
    }
  }
  // The sink logit counts once: where the row is complete.
  KVC_DEVICE RowEnd end(uint32_t m, float lse, float row_sum) const {
    const RowEnd row{row_sum == 0 ? 0 : 1 / row_sum, lse};
    if (args.sink_logits == nullptr || part.index >= 0) return row;
    return with_sink(row, args.sink_logits[q_head_of(args, part, m)]);
  }
};

}  // namespace kvc::gpu
