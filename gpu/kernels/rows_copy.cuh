// SPDX-License-Identifier: Apache-2.0
// Rows stored in the caller's type: copied in pieces of up to 16 bytes. Each thread has several loads in
// flight.
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
      const int64_t some = found[i] < 0 ? 0 : found[i];  // a skipped token has no address
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

template <Direction kDirection>
int launch_copy(RowsPlan plan, int32_t dtype, Stream stream) {
  const uint64_t element = dtype_bits(dtype) / 8;
  const Grid grid = grid_of(&plan, uint64_t{kThreads} * kCopiesInFlight, [&](const PlaneArgs& plane) {
    return plane.elements * element / plan.copy_bytes;
  });
  const auto kernel = plan.copy_bytes == 16  ? copy_rows<Words<16>, kDirection>
                      : plan.copy_bytes == 8 ? copy_rows<Words<8>, kDirection>
                      : plan.copy_bytes == 4 ? copy_rows<uint32_t, kDirection>
                                             : copy_rows<uint16_t, kDirection>;
  return launch(kernel, grid, kThreads, 0, stream, plan.args);
}

// A call of store_rows() or gather_rows(). Rows that are not just copied are left to
// convert.template operator()<the caller's type, the stored type>(plan).
template <Direction kDirection, typename Convert>
int move_rows(const Layout& layout, void* slab, const kvc_backend_rows& rows, Stream stream,
              Convert&& convert) {
  const RowsPlan plan = plan_rows(layout, slab, rows);
  if (plan.num_planes == 0 || rows.num_tokens == 0) return 0;
  if (plan.copy_bytes != 0) return launch_copy<kDirection>(plan, rows.dtype, stream);
  return with_float_type(rows.dtype, [&]<int32_t kOutside>() {
    return with_stored_type(layout.k.dtype, [&]<int32_t kStored>() {
      return convert.template operator()<kOutside, kStored>(plan);
    });
  });
}

}  // namespace kvc::gpu
