// SPDX-License-Identifier: Apache-2.0
// Rows out of a slab: copied, or converted and dequantized piece by piece; with the Hadamard transform, as a
// whole.
#include "kernels/hadamard.cuh"
#include "kernels/quantize.cuh"
#include "kernels/rows_copy.cuh"

namespace kvc::gpu {
namespace {

template <int32_t kStored, int32_t kTo, bool kVector>
KVC_KERNEL(kThreads, 6)
gather_elements(KVC_ARGUMENT(RowsArgs) args) {
  for_each_piece<kVector>(args, [&](const PlaneArgs& plane, const RowPlace& place, uint32_t at) {
    uint32_t codes[piece_elements(kVector)];
    load_codes<kStored, kVector>(place.stored, plane.element_tile, place.token, at, plane.elements, codes);
    if constexpr (kStored != kTo && kVector) {  // groups are whole pieces
      const Restore of_group = restore_of<kStored>(args, plane, place, at);
      for (uint32_t& code : codes) code = Element<kTo>::encode(restored<kStored>(args, of_group, code));
    } else if constexpr (kStored != kTo) {
      for (uint32_t e = 0; e < piece_elements(kVector); ++e) {
        if (at + e < plane.elements)
          codes[e] = Element<kTo>::encode(stored_value<kStored>(args, plane, place, at + e, codes[e]));
      }
    }
    store_codes<kTo, kVector>(place.row, 0, 0, at, plane.elements, codes);
  });
}

// A block for each row.
template <int32_t kStored, int32_t kTo>
KVC_KERNEL(kRowThreads, 16)
gather_hadamard(KVC_ARGUMENT(RowsArgs) args) {
  KVC_DYNAMIC_SHARED(float, values);
  KVC_SHARED(uint32_t, not_finite, 1);
  const PlaneArgs& plane = args.planes[blockIdx.z];
  const uint32_t n = plane.elements;
  const uint64_t total = args.num_tokens * plane.heads.value;
  for (uint64_t i = blockIdx.x; i < total; i += gridDim.x) {
    RowPlace place;
    if (!find_row(args, plane, i, &place)) continue;  // the same for the whole block
    for (uint32_t e = threadIdx.x; e < n; e += kRowThreads)
      values[e] = stored_value<kStored>(args, plane, place, e, load_code<kStored>(place.stored, 0, 0, e));
    sync_block();
    hadamard_row(values, n, not_finite);
    for (uint32_t e = 2 * threadIdx.x; e < n; e += 2 * kRowThreads) {
      const uint32_t codes[2] = {Element<kTo>::encode(values[e]),
                                 e + 1 < n ? Element<kTo>::encode(values[e + 1]) : 0};
      store_codes<kTo, false>(place.row, 0, 0, e, n, codes);
    }
    sync_block();
  }
}

template <int32_t kStored, int32_t kTo>
int gather_as(RowsPlan plan, uint32_t num_layers, Stream stream) {
  if constexpr (bits_of_element(kStored) < 16) {
    if (plan.args.hadamard) {
      const Grid grid = grid_of(&plan, num_layers, 1, [](const PlaneArgs&) { return uint64_t{1}; });
      return launch(gather_hadamard<kStored, kTo>, grid, kRowThreads, row_bytes_shared(plan), stream,
                    plan.args);
    }
  }
  const uint32_t n = piece_elements(plan.vector);
  const Grid grid = grid_of(&plan, num_layers, kThreads,
                            [n](const PlaneArgs& plane) { return uint64_t{(plane.elements + n - 1) / n}; });
  return plan.vector ? launch(gather_elements<kStored, kTo, true>, grid, kThreads, 0, stream, plan.args)
                     : launch(gather_elements<kStored, kTo, false>, grid, kThreads, 0, stream, plan.args);
}

}  // namespace

int gather_rows(const Layout& layout, const void* slab, const kvc_backend_rows& rows, Stream stream) {
  const RowsPlan plan = plan_rows(layout, const_cast<void*>(slab), rows);
  const int32_t stored = layout.k.dtype;
  if (plan.num_planes == 0 || rows.num_tokens == 0) return 0;
  if (plan.copy_bytes != 0) return launch_copy<Direction::kGather>(plan, stored, rows.num_layers, stream);
  return with_float_type(rows.dtype, [&]<int32_t kTo>() {
    return with_stored_type(
        stored, [&]<int32_t kStored>() { return gather_as<kStored, kTo>(plan, rows.num_layers, stream); });
  });
}

}  // namespace kvc::gpu
