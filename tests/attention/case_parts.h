// SPDX-License-Identifier: Apache-2.0
// Parts of a random attention problem: how its storage is laid out, and its bit masks.
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "attention/options.h"
#include "quant/quantize.h"

namespace kvc::test {

inline uint64_t blocks_of(const Options& o, size_t r) {
  return (o.kv_lens[r] + o.block_size - 1) / o.block_size;
}

inline Layout make_layout(const Options& o) {
  Layout layout{};
  uint64_t blocks = 2;
  for (size_t r = 0; r < o.kv_lens.size(); ++r) blocks += blocks_of(o, r);
  layout.num_layers = 2, layout.num_heads = o.heads, layout.block_size = o.block_size;
  layout.num_blocks = blocks, layout.k_dim = o.k_dim, layout.v_dim = o.v_dim, layout.latent = o.latent;
  layout.hadamard = o.hadamard;
  const QuantFormat format{o.dtype, o.scale_group, o.asymmetric};
  if (is_quantized(o.dtype)) {
    layout.scale_group = o.scale_group != 0 ? o.scale_group : std::max(o.k_dim, o.v_dim);
    layout.asymmetric = o.asymmetric;
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
    end += static_cast<uint64_t>(p.layer) * layout.num_layers;
    return p;
  };
  layout.k = plane(o.dtype, o.k_dim, o.tiled);
  if (!o.latent) layout.v = plane(o.dtype, o.v_dim, o.tiled_values);
  layout.k_factor = layout.v_factor = o.factor;
  if (is_quantized(o.dtype) && o.factor == 0) {
    const auto scales = [&](uint32_t dim) {
      return plane(KVC_FLOAT32, static_cast<uint32_t>(scales_of(format, dim)), false);
    };
    layout.k_scale = scales(o.k_dim);
    if (!o.latent) layout.v_scale = scales(o.v_dim);
  }
  layout.slab_bytes = end;
  return layout;
}

struct RowStrides {
  uint64_t token, head;
};

inline RowStrides strides_of(Rows rows, uint64_t tokens, const Options& o, uint32_t dim) {
  const uint64_t q_heads = uint64_t{o.heads} * o.group;
  switch (rows) {
    case Rows::kFused:
      return {(q_heads + 2 * o.heads) * dim, dim};
    case Rows::kPadded:
      return {q_heads * (dim + 3) + 5, dim + 3};
    case Rows::kHeadMajor:
      return {dim + 8, tokens * (dim + 8) + 16};
    case Rows::kOverlapping:
      return {5, 3};
    case Rows::kContiguous:
      break;
  }
  return {q_heads * dim, dim};
}

// From the first element of the first row to the last one of the last row, in elements of q_dtype.
inline uint64_t extent_of(uint64_t tokens, uint64_t token_stride, uint32_t heads, uint64_t head_stride,
                          uint32_t dim) {
  return tokens == 0 ? 0 : (tokens - 1) * token_stride + (heads - 1) * head_stride + dim;
}
inline uint64_t q_extent(const AttentionArgs& a) {
  return extent_of(a.q_offsets[a.num_requests], a.q_token_stride, a.num_q_heads, a.q_head_stride,
                   a.layout->k_dim);
}
inline uint64_t out_extent(const AttentionArgs& a) {
  return extent_of(a.q_offsets[a.num_requests], a.out_token_stride, a.num_q_heads, a.out_head_stride,
                   a.layout->v_dim);
}

// As AttentionArgs has them; no bits: all is seen.
struct Mask {
  std::vector<uint8_t> bits;
  std::vector<uint64_t> starts, offsets;
};

inline Mask make_mask(const Options& o, std::mt19937_64& random) {
  Mask mask;
  uint64_t bits = 5;  // masks need not begin at a byte
  for (size_t r = 0; r < o.kv_lens.size(); ++r) {
    mask.starts.push_back(o.tail ? o.kv_lens[r] - std::min(o.kv_lens[r], o.q_lens[r]) : 0);
    mask.offsets.push_back(bits);
    bits += (o.kv_lens[r] - mask.starts[r]) * o.q_lens[r] + 3;
  }
  if (o.mask_percent == 0 && !o.tree) return mask;
  mask.bits.assign(bits / 8 + 1, 0);
  for (size_t r = 0; r < o.kv_lens.size(); ++r) {
    const uint64_t kv_len = o.kv_lens[r], queries = o.q_lens[r], before = kv_len - std::min(kv_len, queries);
    std::vector<uint64_t> parent(queries);
    for (uint64_t i = 1; i < queries; ++i) parent[i] = random() % i;
    for (uint64_t i = 0; i < queries; ++i) {
      const auto set = [&](uint64_t j) {
        if (j < mask.starts[r]) return;
        const uint64_t bit = mask.offsets[r] + i * (kv_len - mask.starts[r]) + j - mask.starts[r];
        mask.bits[bit / 8] = static_cast<uint8_t>(mask.bits[bit / 8] | 1u << bit % 8);
      };
      for (uint64_t j = 0; j < kv_len; ++j) {
        if (o.tree ? j < before : random() % 100 < static_cast<uint64_t>(o.mask_percent)) set(j);
      }
      for (uint64_t node = i; o.tree && before + node < kv_len; node = parent[node]) {
        set(before + node);
        if (node == 0) break;
      }
    }
  }
  return mask;
}

}  // namespace kvc::test
