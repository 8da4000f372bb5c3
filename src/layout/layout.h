// SPDX-License-Identifier: Apache-2.0
// Where the bytes of one token's key or value are. A storage is a slab with a few planes (keys, values, their
// scales). A plane has byte strides over [layer, block, head, token]. The row of elements of one (layer,
// block, head, token) is contiguous; in a tiled plane it is spread over a tile of 16 tokens, so that a vector
// register holds one element pair of 16 tokens. All offsets are 64-bit. Immutable after make_layout(); any
// thread may read it.
#pragma once
#include <utility>

#include "base/dtype.h"

namespace kvc {

inline constexpr uint32_t kTileTokens = 16;

struct Plane {
  int32_t dtype;
  uint32_t num_elements;  // of a row; 0 = there is no such plane
  uint32_t row_bytes;
  uint32_t
      element_tile;  // 0 = plain rows; else tiles [num_elements / t][16 tokens][t elements], t * bytes = 4
  uint64_t base;     // byte of (0, 0, 0, 0) in the slab
  uint64_t layer, block, head, token;  // byte strides; `token` is not used in a tiled plane

  bool exists() const { return num_elements != 0; }
  bool tiled() const { return element_tile != 0; }
  // First byte of the row, or, tiled, of the tile that holds the token.
  uint64_t offset(uint64_t l, uint64_t b, uint64_t h, uint64_t t) const {
    const uint64_t at = base + l * layer + b * block + h * head;
    return tiled() ? at + t / kTileTokens * kTileTokens * row_bytes : at + t * token;
  }
  // Byte of one element inside its tile; `size` = bytes of an element.
  size_t tile_offset(uint32_t element, uint64_t t, size_t size) const {
    return ((element / element_tile * kTileTokens + t % kTileTokens) * element_tile +
            element % element_tile) *
           size;
  }
};

// Rows of a tiled plane, into their tile and out of it; `row` holds the first `count` elements.
void write_tiled(const Plane& plane, const char* row, uint32_t count, uint64_t token, char* tile);
void read_tiled(const Plane& plane, const char* tile, uint64_t token, uint32_t count, char* row);

inline constexpr uint32_t kMaxRowElements = 8192;
// The largest block of a manager; on the CPU, a block may also hold a whole request.
inline constexpr uint32_t kMaxPageTokens = 1024, kMaxBlockTokens = 1u << 20;
inline constexpr int kNumPlanes = 4;

struct Layout {
  uint32_t preset;
  uint32_t num_layers, num_heads, block_size;
  uint64_t num_blocks;
  uint32_t k_dim, v_dim;
  bool latent;              // values are the first v_dim elements of the keys: there is no value plane
  uint32_t scale_group;     // elements of a row per scale; 0 = rows have no scales
  bool asymmetric;          // (scale, offset) instead of a scale
  uint32_t channel_tokens;  // tokens that share a scale per channel of the keys; 0 = scales are those of rows
  bool hadamard;            // rows are stored with the Hadamard transform
  float k_factor,
      v_factor;  // the scale of all keys, of all values; 0 = scales are in the planes, if anywhere
  Plane k, v;
  // float32: a row has one scale per group, or a (scale, offset) pair; with channel_tokens, what k_scale
  // calls a token is that many of them.
  Plane k_scale, v_scale;
  uint64_t cell_bytes;   // contiguous bytes: one layer of a block or, in BHLNC, one head of a block
  uint64_t block_bytes;  // of all layers
  uint64_t slab_bytes;

  const Plane& plane(int index) const {  // KVC_PLANE_*, in this order
    return index == 0 ? k : index == 1 ? v : index == 2 ? k_scale : v_scale;
  }
  Plane& plane(int index) { return const_cast<Plane&>(std::as_const(*this).plane(index)); }
  // Tokens of a block that share one row of the plane.
  uint32_t tokens_per_row(int index) const {
    return &plane(index) == &k_scale && channel_tokens != 0 ? channel_tokens : 1;
  }
};

// The complete, valid description of a storage. In the result, slab_bytes is 0 if it would exceed the address
// space.
struct LayoutShape {
  uint32_t preset;  // KVC_LAYOUT_*
  int32_t dtype;
  uint32_t num_layers, num_heads, block_size;
  uint64_t num_blocks;
  uint32_t k_dim, v_dim;
  bool latent, tiled_keys;
  uint32_t scale_group;
  bool asymmetric;
  uint32_t channel_tokens;  // divides block_size
  bool hadamard;
  float k_factor, v_factor;
  uint32_t alignment;  // of each block; a power of two
};
Layout make_layout(const LayoutShape& shape);

}  // namespace kvc
