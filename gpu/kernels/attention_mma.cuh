// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores (mma.m16n8k16), decode and prefill: S = Q K^T and O += P V in float32, the
// softmax online and to base 2 in between. Rows of a warp are the M rows of its products, so that the query
// heads of a KV head fill them in decode.
//
// Tiles of 64 tokens come through a ring of kStages stages in shared memory, by asynchronous copies of 16
// bytes. A tile is asked for kStages - 1 tiles ahead, its block table entries one tile before that: the size
// of blocks costs no latency. Tokens that no row sees are never read and are zeros in shared memory, so that
// what stands there, NaN included, meets nobody.
//
// Quantized rows stay codes in shared memory and become halves in registers. The scale of a key's row
// multiplies its logit and that of a value's row its weight; weights are kept near 1 for halves by a power of
// two
// (`unit`) that the sums are counted in. Offsets of asymmetric rows are sums of their own. A query row of
// bfloats is likewise scaled into the range of halves.
#pragma once
#include "kernels/attention_codes.cuh"
#include "kernels/attention_mma_shape.cuh"

namespace kvc::gpu {

template <class Shape>
class MmaWorker {
 public:
  KVC_DEVICE MmaWorker(const AttentionArgs& args, const Schedule& schedule, unsigned char* shared)
      : args_(args), schedule_(schedule), shared_(shared) {}

  KVC_DEVICE void run(const Part& part) {
    begin(part);
    const int32_t tiles = part.end_tile - part.first_tile;
    for (int32_t t = 0; t < tiles; ++t) {
      wait_async<static_cast<int>(Shape::kStages) - 2>();
      sync_block();
      const int32_t asked = t + static_cast<int32_t>(Shape::kStages) - 1, looked_up = asked + 1;
      if (asked < tiles) copy_tile(part, asked);
      commit_async();
      TokenScales scales;
      TokenPlace place;
      if (asked < tiles) scales = load_scales(part, asked);
      if (looked_up < tiles) place = find_token(part, looked_up);
      attend_tile(part, t);
      if (asked < tiles) keep_scales(asked, scales);
      if (looked_up < tiles) keep_token(looked_up, place);
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
  static constexpr uint32_t kDimTiles = S::kDim / 8;
  static constexpr uint32_t kStepTiles = S::kStepTokens / 8;

  struct TokenPlace {
    uint64_t block = kNoBlock;
    uint32_t token = 0;
    uint32_t seen = 0;  // of the 32 tokens of this warp
    bool full = false;  // every row sees every token, as far as rows are concerned
  };
  struct TokenScales {
    float k = 1, k_offset = 0, v = 1, v_offset = 0;
  };

  // ---- shared memory ----

  KVC_DEVICE static uint32_t slot(int32_t tile) { return static_cast<uint32_t>(tile) % S::kSlots; }
  KVC_DEVICE uint64_t* offsets(int32_t tile) const {
    return reinterpret_cast<uint64_t*>(shared_ + S::kOffsets) + slot(tile) * kAttentionTile;
  }
  KVC_DEVICE float* scales(int32_t tile, uint32_t which) const {
    return reinterpret_cast<float*>(shared_ + S::kScales) + (slot(tile) * 4 + which) * kAttentionTile;
  }
  KVC_DEVICE uint32_t* seen(int32_t tile) const {
    return reinterpret_cast<uint32_t*>(shared_ + S::kSeen) + slot(tile) * 4;
  }
  KVC_DEVICE unsigned char* keys(int32_t tile) const {
    return shared_ + S::kTiles + static_cast<uint32_t>(tile) % S::kStages * S::kTileBytes;
  }
  KVC_DEVICE unsigned char* values(int32_t tile) const { return keys(tile) + S::kTileBytes / 2; }
  KVC_DEVICE MmaRow& row_info(uint32_t m) const {
    return reinterpret_cast<MmaRow*>(shared_ + S::kRowInfo)[m];
  }
  KVC_DEVICE static uint32_t q_offset(uint32_t row, uint32_t chunk) {
    return S::kQ + row * S::kDim * 2 + (chunk ^ (row & 7)) * 16;
  }

  // ---- tokens: one thread each, of the first two warps ----

  KVC_DEVICE bool has_scales() const { return S::kQuantized && args_.scale_group != 0; }

  KVC_DEVICE TokenPlace find_token(const Part& part, int32_t tile) const {
    TokenPlace place;
    if (threadIdx.x >= kAttentionTile) return place;
    const Piece& piece = part.piece;
    const int64_t position = piece.span.position(part.first_tile + tile), j = position + threadIdx.x;
    place.block = block_of(args_, part, j);
    place.token = static_cast<uint32_t>(j) % args_.block_size;
    place.seen = static_cast<uint32_t>(ballot(place.block != kNoBlock));
    place.full = sees_tile(args_, piece.view, piece.first_query, piece.last_query, position);
    return place;
  }
  // What is kept of a token is its block, and where its keys and values are from the plane's first byte on.
  KVC_DEVICE void keep_token(int32_t tile, const TokenPlace& place) const {
    if (threadIdx.x >= kAttentionTile) return;
    offsets(tile)[threadIdx.x] = place.block == kNoBlock
                                     ? kNoBlock
                                     : place.block << 10 | place.token;  // blocks have at most 1024 tokens
    if (threadIdx.x % 32 == 0) seen(tile)[threadIdx.x / 32] = place.seen;
    if (threadIdx.x == 0) seen(tile)[2] = place.full ? 1 : 0;
  }
  KVC_DEVICE TokenScales load_scales(const Part& part, int32_t tile) const {
    TokenScales scales;
    if (!has_scales() || threadIdx.x >= kAttentionTile) return scales;
    const uint64_t at = offsets(tile)[threadIdx.x];
    if (at == kNoBlock) return {0, 0, 0, 0};
    const auto token = static_cast<uint32_t>(at & 1023);
    const auto* k = reinterpret_cast<const float*>(args_.k_scale.data +
                                                   offset_in(args_.k_scale, at >> 10, part.head, token));
    const auto* v = reinterpret_cast<const float*>(args_.v_scale.data +
                                                   offset_in(args_.v_scale, at >> 10, part.head, token));
    scales.k = k[0];
    scales.v = v[0];
    if (args_.asymmetric != 0) scales.k_offset = k[1], scales.v_offset = v[1];
    return scales;
  }
  KVC_DEVICE void keep_scales(int32_t tile, const TokenScales& of_token) const {
    if (!has_scales() || threadIdx.x >= kAttentionTile) return;
    scales(tile, 0)[threadIdx.x] = of_token.k;
    scales(tile, 1)[threadIdx.x] = of_token.v;
    scales(tile, 2)[threadIdx.x] = of_token.k_offset;
    scales(tile, 3)[threadIdx.x] = of_token.v_offset;
  }

  KVC_DEVICE void copy_tile(const Part& part, int32_t tile) const {
    const uint64_t head = part.head * args_.k.head;  // keys and values have the same strides
    unsigned char* const k = keys(tile);
    unsigned char* const v = values(tile);
#pragma unroll
    for (uint32_t i = threadIdx.x; i < kAttentionTile * S::kChunks; i += S::kThreads) {
      const uint32_t token = i / S::kChunks, chunk = i % S::kChunks;
      const uint64_t at = offsets(tile)[token];
      const bool is_seen = at != kNoBlock;
      const uint64_t from =
          is_seen ? (at >> 10) * args_.k.block + head + (at & 1023) * args_.k.token + chunk * 16 : 0;
      copy_async(k + token * S::kRowBytes + S::key_chunk(token, chunk) * 16, args_.k.data + from,
                 is_seen ? 16 : 0);
      copy_async(v + token * S::kRowBytes + S::value_chunk(token, chunk) * 16, args_.v.data + from,
                 is_seen ? 16 : 0);
    }
  }

  // ---- the beginning of a part ----

  KVC_DEVICE void begin(const Part& part) {
    const int32_t tiles = part.end_tile - part.first_tile;
    for (int32_t t = 0; t < static_cast<int32_t>(S::kStages) && t < tiles; ++t)
      keep_token(t, find_token(part, t));
    sync_block();
    for (int32_t t = 0; t + 1 < static_cast<int32_t>(S::kStages); ++t) {
      if (t < tiles) {
        copy_tile(part, t);
        keep_scales(t, load_scales(part, t));
      }
      commit_async();
    }
    stage_queries(part);
    sync_block();
    row_ = warp_rows();
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        top_[i][half] = minus_infinity();
        total_[i][half] = offset_[i][half] = 0;
      }
#pragma unroll
      for (uint32_t n = 0; n < kDimTiles; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) sums_[i][n][c] = 0;
      }
    }
    unit_ = 0;
  }

  KVC_DEVICE static uint32_t warp() { return threadIdx.x / 32; }
  KVC_DEVICE static uint32_t warp_rows() { return S::kDecode ? 0 : warp() * S::kRowTiles * 16; }
  KVC_DEVICE static uint32_t warp_tokens() { return S::kDecode ? warp() * S::kWarpTokens : 0; }
  KVC_DEVICE uint32_t row_at(uint32_t i, uint32_t half) const {
    return row_ + 16 * i + lane() / 4 + 8 * half;
  }

  // `up` is what the staged query was divided by.
  KVC_DEVICE void describe_row(const Part& part, uint32_t m, float up, float sum) const {
    MmaRow row = {};
    row.factor = up * args_.scale * kLog2e;
    if (S::kQuantized && args_.k_factor != 0) row.factor *= args_.k_factor;
    row.sum = sum * args_.scale * kLog2e;
    if (m < part.piece.rows) {
      const RequestView& view = part.piece.view;
      const int64_t query = query_of(args_, part, m);
      const Reach reach = reach_of(args_, view, query, query);
      row.position = view.start + query;
      row.end = static_cast<int32_t>(reach.end);
      row.low = static_cast<int32_t>(at_most(reach.low, reach.end));
      if (args_.alibi_slopes != nullptr) row.slope = args_.alibi_slopes[q_head_of(args_, part, m)];
      if (args_.mask != nullptr) {
        const int64_t begin = mask_begin(args_, view.request);
        row.mask_bit =
            static_cast<int64_t>(args_.mask_offsets[view.request]) + query * (view.kv_len - begin) - begin;
      }
    }
    row_info(m) = row;
  }

  KVC_DEVICE void put_query(uint32_t m, uint32_t x, float value) const {
    const uint32_t pair = S::kBfloat ? pack_bfloat(value, 0) : pack_half(value, 0);
    *reinterpret_cast<uint16_t*>(shared_ + q_offset(m, x / 8) + x % 8 * 2) = static_cast<uint16_t>(pair);
  }

  // A warp per row; lane l has elements l, l + 32, ... of the inner dimension.
  KVC_DEVICE void stage_queries(const Part& part) const {
    constexpr uint32_t kEach = S::kDim / 32;
    for (uint32_t m = warp(); m < S::kRows; m += S::kThreads / 32) {
      float values[kEach], most = 0, sum = 0;
      const bool exists = m < part.piece.rows;
      const uint64_t row = exists ? q_row_of(args_, part, m) * S::kDim : 0;
#pragma unroll
      for (uint32_t e = 0; e < kEach; ++e) {
        values[e] = exists ? load_float(args_.q_dtype, args_.q, row + S::key_element(e * 32 + lane())) : 0;
        const float size = values[e] < 0 ? -values[e] : values[e];
        most = size > most ? size : most;
        sum += values[e];
      }
      float down = 1, up = 1;
      if (!S::kBfloat && args_.q_dtype == KVC_BFLOAT16) {
        // A power of two that brings the largest element to [0.5, 2).
        const uint32_t exponent = float_bits(team_max(most, 32)) >> 23;
        if (exponent >= 2 && exponent <= 252) {
          up = bits_float(exponent << 23);
          down = bits_float((254 - exponent) << 23);
        }
      }
#pragma unroll
      for (uint32_t e = 0; e < kEach; ++e) put_query(m, e * 32 + lane(), values[e] * down);
      sum = team_sum(sum, 32);
      if (lane() == 0) describe_row(part, m, up, sum);
    }
  }

  // ---- a tile ----

  KVC_DEVICE void attend_tile(const Part& part, int32_t tile) {
    if (row_ >= part.piece.rows) return;  // of the whole warp
    const uint32_t* const of_tile = seen(tile);
    if ((of_tile[0] | of_tile[1]) == 0) return;
    const bool full = of_tile[2] != 0 && (of_tile[0] & of_tile[1]) == 0xFFFFFFFFu;
#pragma unroll 1
    for (uint32_t step = 0; step < S::kWarpTokens; step += S::kStepTokens) {
      const uint32_t first = warp_tokens() + step;
      float weights[S::kRowTiles][kStepTiles][4] = {};
      multiply_keys(keys(tile), first, weights);
      finish_logits(part, tile, first, full, weights);
      soften(tile, first, weights);
      multiply_values(values(tile), first, weights);
    }
  }

  KVC_DEVICE static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    if constexpr (S::kBfloat) {
      mma_bf16(d, a, b);
    } else {
      mma_fp16(d, a, b);
    }
  }
  KVC_DEVICE void load_queries(uint32_t i, uint32_t step, uint32_t (&a)[4]) const {
    const uint32_t m = row_ + 16 * i + lane() % 16;
    load_matrix(a, shared_ + q_offset(m, 2 * step + lane() / 16));
  }

  KVC_DEVICE void multiply_keys(const unsigned char* keys, uint32_t first,
                                float (&weights)[S::kRowTiles][kStepTiles][4]) const {
    if constexpr (!S::kQuantized) {
#pragma unroll
      for (uint32_t step = 0; step < S::kDim / 16; ++step) {
        uint32_t a[S::kRowTiles][4];
#pragma unroll
        for (uint32_t i = 0; i < S::kRowTiles; ++i) load_queries(i, step, a[i]);
#pragma unroll
        for (uint32_t n = 0; n < kStepTiles; n += 2) {
          const uint32_t token = first + 8 * n + lane() % 8 + lane() / 16 * 8;
          uint32_t b[4];
          load_matrix(b, keys + token * S::kRowBytes + S::key_chunk(token, 2 * step + lane() / 8 % 2) * 16);
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i) {
            multiply(weights[i][n], a[i], {b[0], b[1]});
            multiply(weights[i][n + 1], a[i], {b[2], b[3]});
          }
        }
      }
    } else {
      multiply_coded_keys(keys, first, weights);
    }
  }

  // Lane l has a quarter of token l / 4's row.
  KVC_DEVICE void multiply_coded_keys(const unsigned char* keys, uint32_t first,
                                      float (&weights)[S::kRowTiles][kStepTiles][4]) const {
    constexpr uint32_t kWords = S::kKeyBytes / 4, kSteps = S::kBits == 8 ? 1 : 2;  // of a word
    const bool is_signed = args_.asymmetric == 0;
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
              widen_bytes<S::kDtype>(codes[n][word], is_signed, b);
            } else {
              b[0] = widen_nibbles(codes[n][word], 2 * s, is_signed);
              b[1] = widen_nibbles(codes[n][word], 2 * s + 1, is_signed);
            }
#pragma unroll
            for (uint32_t i = 0; i < S::kRowTiles; ++i) multiply(weights[i][n], a[i], b);
          }
        }
      }
    }
  }

  template <uint32_t kWords>
  KVC_DEVICE static void load_words(const unsigned char* at, uint32_t (&words)[kWords]) {
    struct alignas(kWords * 4) Vector {
      uint32_t words[kWords];
    };
    const Vector vector = *reinterpret_cast<const Vector*>(at);
#pragma unroll
    for (uint32_t i = 0; i < kWords; ++i) words[i] = vector.words[i];
  }

  // Products become logits to base 2; what a row does not see becomes -infinity.
  KVC_DEVICE void finish_logits(const Part& part, int32_t tile, uint32_t first, bool full,
                                float (&weights)[S::kRowTiles][kStepTiles][4]) const {
    const int64_t position = part.piece.span.position(part.first_tile + tile) + first + lane() % 4 * 2;
    const float* const of_tile = scales(tile, 0) + first + lane() % 4 * 2;
    for_each_row([&](uint32_t i, uint32_t half) {
      const MmaRow& row = row_info(row_at(i, half));
      const float factor = row.factor, sum = row.sum;
      for_each_pair(weights[i], half, [&](uint32_t n, float& x, float& y) {
        x *= factor, y *= factor;
        if (!has_scales()) return;
        float scale[2], offset[2] = {0, 0};
        load_pair(of_tile + 8 * n, scale);
        if (args_.asymmetric != 0) load_pair(of_tile + 8 * n + 2 * kAttentionTile, offset);
        x = x * scale[0] + sum * offset[0], y = y * scale[1] + sum * offset[1];
      });
      if (args_.soft_cap != 0) {
        for_each_pair(weights[i], half, [&](uint32_t, float& x, float& y) {
          x = kLog2e * capped(args_, x * kLn2), y = kLog2e * capped(args_, y * kLn2);
        });
      }
      if (args_.alibi_slopes != nullptr) {
        const float slope = row.slope * kLog2e;
        const int64_t distance = position - row.position;
        for_each_pair(weights[i], half, [&](uint32_t n, float& x, float& y) {
          x += slope * static_cast<float>(distance + 8 * n),
              y += slope * static_cast<float>(distance + 8 * n + 1);
        });
      }
      if (!full)
        hide(part, tile, first + lane() % 4 * 2, static_cast<int32_t>(position), half, row, weights[i]);
    });
  }

  // `token` and `position` are those of this lane's first column.
  KVC_DEVICE void hide(const Part& part, int32_t tile, uint32_t token, int32_t position, uint32_t half,
                       const MmaRow& row, float (&weights)[kStepTiles][4]) const {
    const auto sinks = static_cast<int32_t>(part.piece.sinks);
    const int32_t end = row.end, low = row.low;
    const auto is_hidden = [&](uint32_t n) {
      const int32_t j = position + static_cast<int32_t>(n);
      return j >= end || (j < low && j >= sinks) ||
             (seen(tile)[(token + n) / 32] >> (token + n) % 32 & 1) == 0;
    };
    for_each_pair(weights, half, [&](uint32_t n, float& x, float& y) {
      if (is_hidden(8 * n)) x = minus_infinity();
      if (is_hidden(8 * n + 1)) y = minus_infinity();
    });
    if (args_.mask == nullptr) return;
    const int64_t begin = mask_begin(args_, part.piece.view.request);
    const auto is_masked = [&](float x, uint32_t n) {
      if (x == minus_infinity() || position + n < begin)
        return false;  // what a row cannot see may have no bit
      const auto bit = static_cast<uint64_t>(row.mask_bit + position + n);
      return (args_.mask[bit / 8] >> bit % 8 & 1) == 0;
    };
    for_each_pair(weights, half, [&](uint32_t n, float& x, float& y) {
      if (is_masked(x, 8 * n)) x = minus_infinity();
      if (is_masked(y, 8 * n + 1)) y = minus_infinity();
    });
  }

  // The rows of this lane.
  template <typename Row>
  KVC_DEVICE static void for_each_row(Row&& row) {
    static_assert(S::kRowTiles <= 2);  // a loop of so much would not be unrolled
    row(0, 0);
    row(0, 1);
    if constexpr (S::kRowTiles == 2) {
      row(1, 0);
      row(1, 1);
    }
  }
  // The columns of this lane, two that are side by side in each of the tiles of 8.
  template <typename Pair>
  KVC_DEVICE static void for_each_pair(float (&weights)[kStepTiles][4], uint32_t half, Pair&& pair) {
#pragma unroll
    for (uint32_t n = 0; n < kStepTiles; ++n) pair(n, weights[n][2 * half], weights[n][2 * half + 1]);
  }
  KVC_DEVICE static void load_pair(const float* at, float (&pair)[2]) {
    uint32_t words[2];
    load_words(reinterpret_cast<const unsigned char*>(at), words);
    pair[0] = bits_float(words[0]), pair[1] = bits_float(words[1]);
  }

  // Logits become weights; what was summed before is brought to the new maximum.
  KVC_DEVICE void soften(int32_t tile, uint32_t first, float (&weights)[S::kRowTiles][kStepTiles][4]) {
    float unit_change = 1, inverse_unit = 1;
    if (has_scales()) {
      float most = 0;
#pragma unroll
      for (uint32_t n = 0; n < kStepTiles; ++n) {
        float scale[2];
        load_pair(scales(tile, 1) + first + 8 * n + lane() % 4 * 2, scale);
        most = scale[0] > most ? scale[0] : most;
        most = scale[1] > most ? scale[1] : most;
      }
      most = team_max(most, 4);
      const uint32_t exponent = float_bits(most) >> 23;
      if (most > unit_ && exponent < 253) {
        const float unit = bits_float((exponent + 1) << 23);
        unit_change = unit_ / unit;
        unit_ = unit;
      }
      inverse_unit = unit_ > 0 ? 1 / unit_ : 0;
    }
    bool changes = unit_change != 1;
    float decay[S::kRowTiles][2];
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        float top = top_[i][half];
#pragma unroll
        for (uint32_t n = 0; n < kStepTiles; ++n) {
          top = weights[i][n][2 * half] > top ? weights[i][n][2 * half] : top;
          top = weights[i][n][2 * half + 1] > top ? weights[i][n][2 * half + 1] : top;
        }
        top = team_max(top, 4);
        const float origin = top == minus_infinity() ? 0 : top;
        decay[i][half] = exp2_fast(top_[i][half] - origin);
        changes |= top != top_[i][half];
        top_[i][half] = top;
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
        total_[i][half] = total_[i][half] * decay[i][half] + sum;
      }
    }
    if (has_scales()) weigh_values(tile, first, inverse_unit, decay, weights);
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
  KVC_DEVICE void weigh_values(int32_t tile, uint32_t first, float inverse_unit,
                               const float (&decay)[S::kRowTiles][2],
                               float (&weights)[S::kRowTiles][kStepTiles][4]) {
#pragma unroll
    for (uint32_t i = 0; i < S::kRowTiles; ++i) {
      offset_[i][0] *= decay[i][0];
      offset_[i][1] *= decay[i][1];
    }
#pragma unroll
    for (uint32_t n = 0; n < kStepTiles; ++n) {
      const uint32_t token = first + 8 * n + lane() % 4 * 2;
      float scale[2], offset[2] = {0, 0};
      load_pair(scales(tile, 1) + token, scale);
      if (args_.asymmetric != 0) load_pair(scales(tile, 3) + token, offset);
#pragma unroll
      for (uint32_t i = 0; i < S::kRowTiles; ++i) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) {
          offset_[i][c / 2] += weights[i][n][c] * offset[c % 2];
          weights[i][n][c] *= scale[c % 2] * inverse_unit;
        }
      }
    }
  }

  KVC_DEVICE static uint32_t pack(float low, float high) {
    return S::kBfloat ? pack_bfloat(low, high) : pack_half(low, high);
  }

  KVC_DEVICE void multiply_values(const unsigned char* values, uint32_t first,
                                  const float (&weights)[S::kRowTiles][kStepTiles][4]) {
#pragma unroll
    for (uint32_t n = 0; n < kStepTiles; n += 2) {
      uint32_t a[S::kRowTiles][4];
#pragma unroll
      for (uint32_t i = 0; i < S::kRowTiles; ++i) {
        a[i][0] = pack(weights[i][n][0], weights[i][n][1]);
        a[i][1] = pack(weights[i][n][2], weights[i][n][3]);
        a[i][2] = pack(weights[i][n + 1][0], weights[i][n + 1][1]);
        a[i][3] = pack(weights[i][n + 1][2], weights[i][n + 1][3]);
      }
      if constexpr (!S::kQuantized) {
        const uint32_t token = first + 8 * n + lane() % 16;
#pragma unroll
        for (uint32_t d = 0; d < kDimTiles; d += 2) {
          uint32_t b[4];
          load_matrix<4, true>(b,
                               values + token * S::kRowBytes + S::value_chunk(token, d + lane() / 16) * 16);
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i) {
            multiply(sums_[i][d], a[i], {b[0], b[1]});
            multiply(sums_[i][d + 1], a[i], {b[2], b[3]});
          }
        }
      } else {
        multiply_coded_values(values, first + 8 * n, a);
      }
    }
  }

  // 16 tokens. Lane l has an eighth, l / 4, of the rows of tokens 2 (l % 4) + {0, 1, 8, 9}.
  KVC_DEVICE void multiply_coded_values(const unsigned char* values, uint32_t first,
                                        const uint32_t (&a)[S::kRowTiles][4]) {
    constexpr uint32_t kWords = S::kValueBytes / 4, kCodes = 32 / S::kBits;
    const bool is_signed = args_.asymmetric == 0;
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
            uint32_t both[2];  // of two elements each, tokens side by side
            widen_bytes<S::kDtype>(pick_bytes(even, odd, 0x5140), is_signed, both);
            b[0][pair] = both[0], b[1][pair] = both[1];
            widen_bytes<S::kDtype>(pick_bytes(even, odd, 0x7362), is_signed, both);
            b[2][pair] = both[0], b[3][pair] = both[1];
          } else {
            const uint32_t low = pick_bytes(even, odd, 0x5410), high = pick_bytes(even, odd, 0x7632);
#pragma unroll
            for (uint32_t e = 0; e < 4; ++e) {
              b[e][pair] = widen_nibbles(low, e, is_signed);
              b[e + 4][pair] = widen_nibbles(high, e, is_signed);
            }
          }
        }
#pragma unroll
        for (uint32_t e = 0; e < kCodes; ++e) {
#pragma unroll
          for (uint32_t i = 0; i < S::kRowTiles; ++i) {
            multiply(sums_[i][(vector * kWords + word) * kCodes + e], a[i], b[e]);
          }
        }
      }
    }
  }

  // ---- the end of a part ----

  // What the sums are counted in.
  KVC_DEVICE float sum_unit() const {
    if constexpr (!S::kQuantized) return 1;
    return has_scales() ? unit_ : args_.v_factor != 0 ? args_.v_factor : 1;
  }

  // Two neighbouring elements of a row at a time: columns of a product, or, of coded values, products.
  KVC_DEVICE void write_rows(const Part& part) {
    const PartOutput output{args_, schedule_, part};
    for_each_row([&](uint32_t i, uint32_t half) {
      const uint32_t m = row_at(i, half);
      const float total = team_sum(total_[i][half], 4), offset = team_sum(offset_[i][half], 4);
      const float inverse = total == 0 ? 0 : 1 / total, unit = sum_unit() * inverse, more = offset * inverse;
      if (m < part.piece.rows) {
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
        if (lane() % 4 == 0) output.put_lse(m, natural_lse(top_[i][half], total));
      }
    });
  }

  // The warps' sums over their tokens, through the memory of the tiles.
  KVC_DEVICE void write_merged(const Part& part) {
    static_assert(S::kTokenWarps * 16 * (S::kDim + 2) * 4 <= S::kStages * S::kTileBytes);
    float* const sums = reinterpret_cast<float*>(shared_ + S::kTiles);  // [warps][16][dim]
    float* const tops = sums + S::kTokenWarps * 16 * S::kDim;           // [warps][16]
    float* const totals = tops + S::kTokenWarps * 16;                   // [warps][16]
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = warp() * 16 + row_at(0, half);
      const float total = team_sum(total_[0][half], 4), offset = team_sum(offset_[0][half], 4);
#pragma unroll
      for (uint32_t n = 0; n < kDimTiles; ++n) {
#pragma unroll
        for (uint32_t c = 0; c < 2; ++c) {
          sums[row * S::kDim + S::value_element(n, lane() % 4 * 2 + c)] =
              sums_[0][n][2 * half + c] * sum_unit() + offset;
        }
      }
      if (lane() % 4 == 0) tops[row] = top_[0][half], totals[row] = total;
    }
    sync_block();
    const PartOutput output{args_, schedule_, part};
    for (uint32_t m = warp(); m < part.piece.rows; m += S::kTokenWarps) {
      float top = minus_infinity(), total = 0, weight[S::kTokenWarps];
#pragma unroll
      for (uint32_t w = 0; w < S::kTokenWarps; ++w) top = tops[w * 16 + m] > top ? tops[w * 16 + m] : top;
      const float origin = top == minus_infinity() ? 0 : top;
#pragma unroll
      for (uint32_t w = 0; w < S::kTokenWarps; ++w) {
        weight[w] = exp2_fast(tops[w * 16 + m] - origin);
        total += totals[w * 16 + m] * weight[w];
      }
      const float inverse = total == 0 ? 0 : 1 / total;
      const OutputRow row = output.row(m);
      for (uint32_t e = lane(); e < S::kDim; e += 32) {
        float sum = 0;
#pragma unroll
        for (uint32_t w = 0; w < S::kTokenWarps; ++w) sum += sums[(w * 16 + m) * S::kDim + e] * weight[w];
        row.put(e, sum * inverse);
      }
      if (lane() == 0) output.put_lse(m, natural_lse(top, total));
    }
  }

  const AttentionArgs& args_;
  const Schedule& schedule_;
  unsigned char* const shared_;
  uint32_t row_;                            // first row of this warp
  float sums_[S::kRowTiles][kDimTiles][4];  // O, in units of sum_unit()
  float top_[S::kRowTiles][2];              // of logits to base 2
  float total_[S::kRowTiles][2];            // of weights: this lane's columns
  float offset_[S::kRowTiles][2];           // of weights times offsets: likewise
  float unit_;
};

template <class Shape>
KVC_KERNEL(Shape::kThreads, Shape::kBlocks)
attend_mma(AttentionArgs args, Schedule schedule) {
  if constexpr (kHasMma) {
    KVC_DYNAMIC_SHARED(unsigned char, shared);
    MmaWorker<Shape> worker(args, schedule, shared);
    for_each_part(args, schedule, [&](const Part& part) { worker.run(part); });
  }
}

}  // namespace kvc::gpu
