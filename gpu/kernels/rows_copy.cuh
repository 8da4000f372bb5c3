// SPDX-License-Identifier: Apache-2.0
// Rows that are stored in the type they come in: copied in pieces of up to 16 bytes, several of each thread
// on their way at once.
#pragma once
#include "kernels/rows.cuh"

namespace kvc::gpu {

constexpr uint32_t kCopiesInFlight = 4;

template <typename Piece, Direction kDirection>
KVC_KERNEL(kThreads, 4)
copy_rows(KVC_ARGUMENT(RowsArgs) args) {
  const PlaneArgs& plane = args.planes[blockIdx.z];
  const uint64_t total = args.num_tokens * plane.heads.value * plane.units.value;
  constexpr uint64_t kPerBlock = uint64_t{kThreads} * kCopiesInFlight;
  for (uint64_t first = blockIdx.x * kPerBlock + threadIdx.x; first < total; first += gridDim.x * kPerBlock) {
    Piece data[kCopiesInFlight];
    Piece* to[kCopiesInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kCopiesInFlight; ++i) {
      const uint64_t at = first + uint64_t{i} * kThreads;
      to[i] = nullptr;
      if (at >= total) continue;
      const uint64_t row = plane.units.divide(at), unit = at - row * plane.units.value;
      RowPlace place;
      if (!find_row(args, plane, row, &place)) continue;
      Piece* const outside = reinterpret_cast<Piece*>(place.row) + unit;
      Piece* const stored = reinterpret_cast<Piece*>(place.stored) + unit;
      data[i] = load_once(kDirection == Direction::kStore ? outside : stored);
      to[i] = kDirection == Direction::kStore ? stored : outside;
    }
#pragma unroll
    for (uint32_t i = 0; i < kCopiesInFlight; ++i) {
      if (to[i] != nullptr) *to[i] = data[i];
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
