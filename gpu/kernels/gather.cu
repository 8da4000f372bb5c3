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

template <int32_t kStored, int32_t kTo>
KVC_KERNEL(kRowThreads, 16)
gather_hadamard(KVC_ARGUMENT(RowsArgs) args) {
  KVC_DYNAMIC_SHARED(float, values);
  KVC_SHARED(uint32_t, not_finite, 1);
  for_each_row(args, [&](const PlaneArgs& plane, const RowPlace& place) {
    for (uint32_t e = threadIdx.x; e < plane.elements; e += kRowThreads)
      values[e] = stored_value<kStored>(args, plane, place, e, load_code<kStored>(place.stored, 0, 0, e));
    sync_block();
    hadamard_row(values, plane.elements, not_finite);
    store_row<kTo>(place.row, plane.elements, [&](uint32_t e) { return Element<kTo>::encode(values[e]); });
  });
}

}  // namespace

int gather_rows(const Layout& layout, const void* slab, const kvc_backend_rows& rows, Stream stream) {
  return move_rows<Direction::kGather>(layout, const_cast<void*>(slab), rows, stream,
                                       [&]<int32_t kTo, int32_t kStored>(const RowsPlan& plan) {
                                         if constexpr (is_quantized(kStored)) {
                                           if (plan.args.hadamard)
                                             return launch_rows(plan, gather_hadamard<kStored, kTo>, stream);
                                         }
                                         return launch_pieces(plan, gather_elements<kStored, kTo, true>,
                                                              gather_elements<kStored, kTo, false>, stream);
                                       });
}

}  // namespace kvc::gpu
