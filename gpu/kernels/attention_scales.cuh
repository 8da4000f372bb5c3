// SPDX-License-Identifier: Apache-2.0
// Scales and offsets of the tokens of tiles, in a ring buffer like that of attention_tokens.cuh.
#pragma once
#include "kernels/attention_mma_rows.cuh"
#include "kernels/attention_tokens.cuh"

namespace kvc::gpu {

struct TokenScales {
  float k = 1, v = 1, k_offset = 0, v_offset = 0;

  static KVC_DEVICE TokenScales load(const AttentionArgs& args, const Part& part, const TokenPlace& place) {
    if (threadIdx.x >= kAttentionTile) return {};
    if (!place.is_read) return {0, 0, 0, 0};
    const auto of_plane = [&](const AttentionPlane& plane) {
      return reinterpret_cast<const float*>(plane.data +
                                            offset_in(plane, place.block_index(), part.head, place.token));
    };
    const float *const k = of_plane(args.k_scale), *const v = of_plane(args.v_scale);
    if (args.asymmetric == 0) return {k[0], v[0], 0, 0};
    return {k[0], v[0], k[1], v[1]};
  }
};

template <uint32_t kRingTiles>
class ScaleRing {
 public:
  static constexpr uint32_t kBytes = kRingTiles * kAttentionTile * sizeof(TokenScales);

  // `memory`: kBytes of the block's.
  KVC_DEVICE explicit ScaleRing(unsigned char* memory) : memory_(reinterpret_cast<float*>(memory)) {}

  KVC_DEVICE void keep(int32_t tile, const TokenScales& scales) const {
    if (threadIdx.x >= kAttentionTile) return;
    of_keys(tile)[threadIdx.x] = scales.k;
    of_values(tile)[threadIdx.x] = scales.v;
    key_offsets(tile)[threadIdx.x] = scales.k_offset;
    value_offsets(tile)[threadIdx.x] = scales.v_offset;
  }

  // Of all tokens of a tile.
  KVC_DEVICE float* of_keys(int32_t tile) const { return array(tile, 0); }
  KVC_DEVICE float* of_values(int32_t tile) const { return array(tile, 1); }
  KVC_DEVICE float* key_offsets(int32_t tile) const { return array(tile, 2); }
  KVC_DEVICE float* value_offsets(int32_t tile) const { return array(tile, 3); }

 private:
  KVC_DEVICE float* array(int32_t tile, uint32_t which) const {
    return memory_ + (static_cast<uint32_t>(tile) % kRingTiles * 4 + which) * kAttentionTile;
  }

  float* memory_;
};

// Multiplies columns by `factor` and their scales; `of_columns` has those of this lane's first column on.
template <uint32_t kRowTiles, uint32_t kTiles>
KVC_DEVICE void scale_columns(const float* of_columns, float factor, float (&weights)[kRowTiles][kTiles][4]) {
#pragma unroll
  for (uint32_t n = 0; n < kTiles; ++n) {
    float scale[2];
    load_pair(of_columns + 8 * n, scale);
    scale[0] *= factor, scale[1] *= factor;
#pragma unroll
    for (uint32_t i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (uint32_t c = 0; c < 4; ++c) weights[i][n][c] *= scale[c % 2];
    }
  }
}

}  // namespace kvc::gpu
