// SPDX-License-Identifier: Apache-2.0
// Rows that are stored in the type they come in: copied in pieces of up to 16 bytes, several of each thread
// on their way at once.
#pragma once
#include "kernels/rows.cuh"

namespace kvc::gpu {

constexpr uint32_t kCopiesInFlight = 4;

template <typename Piece, Direction kDirection>
KVC_KERNEL(kThreads, 3)
copy_rows(KVC_ARGUMENT(RowsArgs) args) {
  const PlaneArgs& plane = args.planes[blockIdx.z];
  const uint64_t total = args.num_tokens * plane.heads.value * plane.units.value;
  constexpr uint64_t kPerBlock = uint64_t{kThreads} * kCopiesInFlight;
  for (uint64_t first = blockIdx.x * kPerBlock + threadIdx.x; first < total; first += gridDim.x * kPerBlock) {
    uint64_t tokens[kCopiesInFlight];
    uint32_t heads[kCopiesInFlight], units[kCopiesInFlight];
    int64_t found[kCopiesInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kCopiesInFlight; ++i) {
      const uint64_t index = first + uint64_t{i} * kThreads, at = index < total ? index : total - 1;
      const uint64_t row = plane.units.divide(at);
      tokens[i] = plane.heads.divide(row);
      heads[i] = static_cast<uint32_t>(row - tokens[i] * plane.heads.value);
      units[i] = static_cast<uint32_t>(at - row * plane.units.value);
    }
    look_up(args, tokens, found);
    Piece data[kCopiesInFlight];
    Piece* to[kCopiesInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kCopiesInFlight; ++i) {
      const int64_t some = found[i] < 0 ? 0 : found[i];  // what is skipped has no place, nor an address
      const RowPlace place = place_row(args, plane, tokens[i], heads[i], some);
      Piece* const outside = reinterpret_cast<Piece*>(place.row) + units[i];
      Piece* const stored = reinterpret_cast<Piece*>(place.stored) + units[i];
      to[i] = kDirection == Direction::kStore ? stored : outside;
      if (first + uint64_t{i} * kThreads >= total) found[i] = -1;
      if (found[i] >= 0) data[i] = load_once(kDirection == Direction::kStore ? outside : stored);
    }
#pragma unroll
    for (uint32_t i = 0; i < kCopiesInFlight; ++i) {
      if (found[i] >= 0) *to[i] = data[i];
    }
  }
}

template <typename Piece, Direction kDirection>
int launch_copy_of(RowsPlan plan, int32_t dtype, uint32_t num_layers, Stream stream) {
  const uint32_t element = bits_of_element(dtype) / 8;
  const Grid grid =
      grid_of(&plan, num_layers, uint64_t{kThreads} * kCopiesInFlight,
              [&](const PlaneArgs& plane) { return uint64_t{plane.elements} * element / sizeof(Piece); });
  return launch(copy_rows<Piece, kDirection>, grid, kThreads, 0, stream, plan.args);
}

template <Direction kDirection>
int launch_copy(const RowsPlan& plan, int32_t dtype, uint32_t num_layers, Stream stream) {
  switch (plan.copy_bytes) {
    case 16:
      return launch_copy_of<Words<16>, kDirection>(plan, dtype, num_layers, stream);
    case 8:
      return launch_copy_of<Words<8>, kDirection>(plan, dtype, num_layers, stream);
    case 4:
      return launch_copy_of<uint32_t, kDirection>(plan, dtype, num_layers, stream);
    default:
      return launch_copy_of<uint16_t, kDirection>(plan, dtype, num_layers, stream);
  }
}

}  // namespace kvc::gpu
