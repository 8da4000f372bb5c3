// SPDX-License-Identifier: Apache-2.0
// Rows between a caller's arrays and a slab, as kernels see them: where they are, and their elements.
#pragma once
#include <algorithm>

#include "base/checked.h"
#include "base/dtype.h"
#include "kernels/convert.cuh"
#include "kernels/divide.h"
#include "kernels/kernels.h"

namespace kvc::gpu {

// How the elements of a group become codes: (clamp(x, lo, hi) - offset) * inverse, rounded.
struct Step {
  float scale, offset, inverse, lo, hi;
};

// Keys or values; all strides in bytes.
struct PlaneArgs {
  char* rows;  // the caller's, of the call's first layer
  int64_t row_layer, row_token, row_head;
  char* slab;  // the plane in that layer
  uint64_t layer, block, head, token;
  char* scales;  // nullptr: rows have none
  uint64_t scale_layer, scale_block, scale_head, scale_token;
  uint32_t elements;      // of a row
  uint32_t element_tile;  // as in Plane
  Divisor heads;
  Divisor units;       // pieces of a row, one for each thread (team of threads)
  SmallDivisor group;  // elements that share a scale
  Step step;           // that of all rows, where they have no scales
  bool rotary;
};

struct RowsArgs {
  PlaneArgs planes[2];
  uint64_t num_tokens;
  const int64_t* slots;  // nullptr: by position
  const int32_t* table;
  uint64_t first_token;
  Divisor block_size;
  bool asymmetric, hadamard;
  kvc_backend_rotary rotary;
};

// A row of the call: the caller's, and the stored one.
struct RowPlace {
  uint64_t token_of_call;
  char* row;
  char* stored;  // of a tiled plane, its tile
  float* scales;
  uint32_t token;  // in its tile
};

// The stored row of a block's token in layer blockIdx.y of the call.
KVC_DEVICE void find_stored(const PlaneArgs& plane, uint64_t block, uint64_t head, uint64_t token,
                            RowPlace* place) {
  const uint64_t layer = blockIdx.y;
  place->stored = plane.slab + layer * plane.layer + block * plane.block + head * plane.head +
                  (plane.element_tile != 0 ? token / kTileTokens : token) * plane.token;
  place->scales =
      reinterpret_cast<float*>(plane.scales + layer * plane.scale_layer + block * plane.scale_block +
                               head * plane.scale_head + token * plane.scale_token);
  place->token = static_cast<uint32_t>(token % kTileTokens);
}

// The slots or blocks of tokens of the call; below 0: the token is skipped. Loads of several tokens do not
// wait for each other.
template <uint32_t n>
KVC_DEVICE void look_up(const RowsArgs& args, const uint64_t (&tokens)[n], int64_t (&found)[n]) {
  if (args.slots != nullptr) {
#pragma unroll
    for (uint32_t i = 0; i < n; ++i) found[i] = args.slots[tokens[i]];
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < n; ++i)
    found[i] = static_cast<int64_t>(args.block_size.divide(args.first_token + tokens[i]));
#pragma unroll
  for (uint32_t i = 0; i < n; ++i) found[i] = args.table[found[i]];
}

// Head `head` of token t, for which look_up() has found this.
KVC_DEVICE RowPlace place_row(const RowsArgs& args, const PlaneArgs& plane, uint64_t t, uint64_t head,
                              int64_t found) {
  const uint64_t at = args.slots != nullptr ? static_cast<uint64_t>(found) : args.first_token + t;
  const uint64_t index = args.block_size.divide(at);
  RowPlace place;
  place.token_of_call = t;
  place.row = plane.rows + static_cast<int64_t>(blockIdx.y) * plane.row_layer +
              static_cast<int64_t>(t) * plane.row_token + static_cast<int64_t>(head) * plane.row_head;
  find_stored(plane, args.slots != nullptr ? index : static_cast<uint64_t>(found), head,
              at - index * args.block_size.value, &place);
  return place;
}

// False: the token is skipped.
KVC_DEVICE bool find_row(const RowsArgs& args, const PlaneArgs& plane, uint64_t index, RowPlace* place) {
  const uint64_t tokens[1] = {plane.heads.divide(index)};
  int64_t found[1];
  look_up(args, tokens, found);
  if (found[0] < 0) return false;
  *place = place_row(args, plane, tokens[0], index - tokens[0] * plane.heads.value, found[0]);
  return true;
}

constexpr uint32_t kThreads = 256;

// Calls function(i) for the indices i < count that are this thread's.
template <typename Function>
KVC_DEVICE void for_each_index(uint64_t count, Function&& function) {
  for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < count;
       i += uint64_t{gridDim.x} * kThreads)
    function(i);
}

// Pieces of rows: 8 elements that are aligned as one vector, or 2 that lie anywhere.
KVC_HOST_DEVICE constexpr uint32_t piece_elements(bool vector) { return vector ? 8 : 2; }

template <uint32_t kBytes>
struct alignas(kBytes < 16 ? kBytes : 16) Words {
  uint32_t words[kBytes / 4];
};

// The code of one element of a row, plain or tiled.
template <int32_t kDtype>
KVC_DEVICE uint32_t load_code(const char* row, uint32_t tile, uint32_t token, uint32_t element) {
  if (tile != 0) element = (element / tile * kTileTokens + token) * tile + element % tile;
  using Bits = typename Element<kDtype>::Bits;
  const auto* bits = reinterpret_cast<const Bits*>(row);
  if constexpr (kDtype == KVC_INT4) return bits[element / 2] >> (element % 2 * 4) & 15u;
  return bits[element];
}

// Codes of the elements from `at` on, as many as a piece has; past `end` they are 0.
template <int32_t kDtype, bool kVector, uint32_t n>
KVC_DEVICE void load_codes(const char* row, uint32_t tile, uint32_t token, uint32_t at, uint32_t end,
                           uint32_t (&codes)[n]) {
  constexpr uint32_t kBits = dtype_bits(kDtype);
  if constexpr (kVector) {
    const auto raw = *reinterpret_cast<const Words<n * kBits / 8>*>(row + uint64_t{at} * kBits / 8);
    for (uint32_t i = 0; i < n; ++i)
      codes[i] = kBits == 32 ? raw.words[i]
                             : raw.words[i * kBits / 32] >> (i * kBits % 32) & ((1u << (kBits % 32)) - 1);
  } else {
    for (uint32_t i = 0; i < n; ++i)
      codes[i] = at + i < end ? load_code<kDtype>(row, tile, token, at + i) : 0;
  }
}

template <int32_t kDtype, bool kVector, uint32_t n>
KVC_DEVICE void store_codes(char* row, uint32_t tile, uint32_t token, uint32_t at, uint32_t end,
                            const uint32_t (&codes)[n]) {
  constexpr uint32_t kBits = dtype_bits(kDtype);
  if constexpr (kVector) {
    Words<n* kBits / 8> raw = {};
    for (uint32_t i = 0; i < n; ++i) raw.words[i * kBits / 32] |= codes[i] << (i * kBits % 32);
    *reinterpret_cast<Words<n * kBits / 8>*>(row + uint64_t{at} * kBits / 8) = raw;
  } else {
    using Bits = typename Element<kDtype>::Bits;
    auto* bits = reinterpret_cast<Bits*>(row);
    if constexpr (kDtype == KVC_INT4) {
      bits[at / 2] = static_cast<uint8_t>(codes[0] | codes[1] << 4);
    } else {
      for (uint32_t i = 0; i < n && at + i < end; ++i) {
        uint32_t element = at + i;
        if (tile != 0) element = (element / tile * kTileTokens + token) * tile + element % tile;
        bits[element] = static_cast<Bits>(codes[i]);
      }
    }
  }
}

// Calls function(plane, place, first element) for all pieces of rows that are this thread's. Not by
// for_each_index(), with which nvcc takes more registers.
template <bool kVector, typename Function>
KVC_DEVICE void for_each_piece(const RowsArgs& args, Function&& function) {
  const PlaneArgs& plane = args.planes[blockIdx.z];
  const uint64_t total = args.num_tokens * plane.heads.value * plane.units.value;
  for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < total;
       i += uint64_t{gridDim.x} * kThreads) {
    const uint64_t row = plane.units.divide(i);
    const uint32_t at = static_cast<uint32_t>(i - row * plane.units.value) * piece_elements(kVector);
    RowPlace place;
    if (find_row(args, plane, row, &place)) function(plane, place, at);
  }
}

// ---- on the host: rows.cu ----

enum class Direction { kStore, kGather };

struct RowsPlan {
  RowsArgs args;
  uint32_t num_planes, num_layers;
  uint32_t copy_bytes;  // rows are copied as they are, in pieces of so many bytes; 0: they are converted
  bool vector;          // all pieces of 8 elements are aligned
  bool scaled;          // rows have scales of their own
};

// What a call moves; the launch sets `units` of the planes.
RowsPlan plan_rows(const Layout& layout, void* slab, const kvc_backend_rows& rows);
// The stored keys alone.
RowsArgs plan_keys(const Layout& layout, void* slab, uint32_t layer);

// Blocks of threads for `count` items, `per_block` each; kernels loop if the grid is too small.
inline uint32_t blocks_for(uint64_t count, uint64_t per_block) {
  return static_cast<uint32_t>(std::min(ceil_div(count, per_block), uint64_t{1} << 30));
}
// Divides each row into units_of(plane) pieces, and returns the grid for all of them, `per_block` in each
// block.
template <typename UnitsOf>
Grid grid_of(RowsPlan* plan, uint64_t per_block, UnitsOf&& units_of) {
  Grid grid{1, plan->num_layers, plan->num_planes};
  for (uint32_t p = 0; p < plan->num_planes; ++p) {
    PlaneArgs& plane = plan->args.planes[p];
    plane.units = divisor(units_of(plane));
    const uint64_t pieces = plan->args.num_tokens * plane.heads.value * plane.units.value;
    grid.x = std::max(grid.x, blocks_for(pieces, per_block));
  }
  return grid;
}
// Launches the kernel of for_each_piece() that suits the plan.
inline int launch_pieces(RowsPlan plan, void (*vector)(RowsArgs), void (*scalar)(RowsArgs), Stream stream) {
  const uint64_t n = piece_elements(plan.vector);
  const Grid grid =
      grid_of(&plan, kThreads, [n](const PlaneArgs& plane) { return ceil_div(plane.elements, n); });
  return launch(plan.vector ? vector : scalar, grid, kThreads, 0, stream, plan.args);
}

// Calls function.template operator()<the type>() for a float type of the caller's.
template <typename Function>
int with_float_type(int32_t dtype, Function&& function) {
  switch (dtype) {
    case KVC_FLOAT16:
      return function.template operator()<KVC_FLOAT16>();
    case KVC_BFLOAT16:
      return function.template operator()<KVC_BFLOAT16>();
    default:
      return function.template operator()<KVC_FLOAT32>();
  }
}
template <typename Function>
int with_quantized_type(int32_t dtype, Function&& function) {
  switch (dtype) {
    case KVC_FLOAT8_E4M3:
      return function.template operator()<KVC_FLOAT8_E4M3>();
    case KVC_FLOAT8_E5M2:
      return function.template operator()<KVC_FLOAT8_E5M2>();
    case KVC_INT8:
      return function.template operator()<KVC_INT8>();
    default:
      return function.template operator()<KVC_INT4>();
  }
}
template <typename Function>
int with_stored_type(int32_t dtype, Function&& function) {
  return is_float(dtype) ? with_float_type(dtype, function) : with_quantized_type(dtype, function);
}

}  // namespace kvc::gpu
