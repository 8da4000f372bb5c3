// SPDX-License-Identifier: Apache-2.0
// Errors of rows, summed up in double precision: by threads, by blocks of threads, and over the calls that
// add to the same sums. The order is always the same.
#include "kernels/rows.cuh"

namespace kvc::gpu {
namespace {

struct CompareArgs {
  RowsArgs rows;
  const float* restored[2];  // of the planes, like `sums`
  ErrorSums* sums[2];
};

KVC_DEVICE void add_sums(const ErrorSums& more, ErrorSums* sums) {
  sums->elements += more.elements;
  sums->finite += more.finite;
  sums->signal += more.signal;
  sums->noise += more.noise;
  sums->max_error = sums->max_error < more.max_error ? more.max_error : sums->max_error;
}

KVC_DEVICE void add_element(float original, float restored, ErrorSums* sums) {
  ++sums->elements;
  if (is_nan(original) || is_infinite(original)) return;
  const double value = original, difference = value - double{restored};
  const double error = is_nan(restored) || is_infinite(restored) ? double{bits_float(0x7F800000)}
                       : difference < 0                          ? -difference
                                                                 : difference;
  add_sums({0, 1, value * value, error * error, error}, sums);
}

template <int32_t kFrom>
KVC_KERNEL(kThreads, 4)
compare_elements(KVC_ARGUMENT(CompareArgs) args) {
  KVC_SHARED(ErrorSums, sums, kThreads);
  const PlaneArgs& plane = args.rows.planes[blockIdx.z];
  const uint64_t rows = args.rows.num_tokens * plane.heads.value, total = rows * plane.units.value;
  const float* const restored = args.restored[blockIdx.z] + blockIdx.y * total;
  ErrorSums own = {};
  for_each_index(total, [&](uint64_t i) {
    const uint64_t row = plane.units.divide(i);
    RowPlace place;
    if (!find_row(args.rows, plane, row, &place)) return;
    const auto element = static_cast<uint32_t>(i - row * plane.units.value);
    add_element(Element<kFrom>::decode(load_code<kFrom>(place.row, 0, 0, element)), restored[i], &own);
  });
  sums[threadIdx.x] = own;
  for (uint32_t half = kThreads / 2; half != 0; half /= 2) {
    sync_block();
    if (threadIdx.x < half) add_sums(sums[threadIdx.x + half], &sums[threadIdx.x]);
  }
  if (threadIdx.x == 0) add_sums(sums[0], &args.sums[blockIdx.z][blockIdx.y * kCompareParts + blockIdx.x]);
}

}  // namespace

int compare_rows(const Layout& layout, const kvc_backend_rows& rows, const float* k, const float* v,
                 ErrorSums* sums, Stream stream) {
  RowsPlan plan = plan_rows(layout, nullptr, rows);
  if (plan.num_planes == 0 || rows.num_tokens == 0) return 0;
  CompareArgs args = {};
  ErrorSums* const of_values = sums + uint64_t{rows.num_layers} * kCompareParts;
  const bool keys = rows.k != nullptr;
  args.restored[0] = keys ? k : v;
  args.restored[1] = v;
  args.sums[0] = keys ? sums : of_values;
  args.sums[1] = of_values;
  Grid grid = grid_of(&plan, kThreads, [](const PlaneArgs& plane) { return uint64_t{plane.elements}; });
  grid.x = std::min(grid.x, kCompareParts);
  args.rows = plan.args;
  return with_float_type(rows.dtype, [&]<int32_t kFrom>() {
    return launch(compare_elements<kFrom>, grid, kThreads, 0, stream, args);
  });
}

}  // namespace kvc::gpu
