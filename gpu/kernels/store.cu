// SPDX-License-Identifier: Apache-2.0
// Rows into a slab: copied, converted or quantized; keys may be rotated by their rotary embedding. One
// launch for keys and values of all layers. Three kernels: for independent pieces of rows; for groups of
// elements with a scale, a few lanes each, in registers; and for whole rows in shared memory, with the
// Hadamard transform, groups of any size, and rows of any length.
#include "kernels/hadamard.cuh"
#include "kernels/quantize.cuh"
#include "kernels/rows_copy.cuh"

namespace kvc::gpu {
namespace {

// Rounded to the caller's type, as kvc_rope_apply leaves it. `second`: of the pair's two elements.
template <int32_t kFrom>
KVC_DEVICE float rotated(float x, float other, float cosine, float sine, bool second) {
  const float sum = second ? add_rn(mul_rn(x, cosine), mul_rn(other, sine))
                           : sub_rn(mul_rn(x, cosine), mul_rn(other, sine));
  return Element<kFrom>::decode(Element<kFrom>::encode(sum));
}

// Cosines of the token, then its sines. A row outside the table, which the host has not seen, is row 0.
KVC_DEVICE const float* angles_of(const kvc_backend_rotary& rotary, const RowPlace& place) {
  const uint64_t t = place.token_of_call;
  const uint64_t row = rotary.table_row != nullptr ? static_cast<uint64_t>(rotary.table_row[t]) : t;
  return rotary.table + (row < rotary.table_rows ? row : 0) * rotary.dim;
}

template <int32_t kFrom>
KVC_DEVICE float rotated_element(const kvc_backend_rotary& rotary, const RowPlace& place, uint32_t element) {
  const float x = Element<kFrom>::decode(load_code<kFrom>(place.row, 0, 0, element));
  const uint32_t i = element - rotary.first;  // wraps around in front of it
  if (i >= rotary.dim) return x;
  const uint32_t pairs = rotary.dim / 2;
  const bool second = rotary.interleaved ? i % 2 != 0 : i >= pairs;
  const uint32_t distance = rotary.interleaved ? 1 : pairs;
  const uint32_t pair = rotary.interleaved ? i / 2 : second ? i - pairs : i;
  const uint32_t partner = second ? element - distance : element + distance;
  const float other = Element<kFrom>::decode(load_code<kFrom>(place.row, 0, 0, partner));
  const float* angles = angles_of(rotary, place);
  return rotated<kFrom>(x, other, angles[pair], angles[pairs + pair], second);
}

// A whole aligned piece of the rotated elements: a piece and its partner are both inside or both outside.
template <int32_t kFrom, uint32_t n>
KVC_DEVICE void rotate_piece(const kvc_backend_rotary& rotary, const RowPlace& place, uint32_t at,
                             float (&values)[n]) {
  const uint32_t pairs = rotary.dim / 2, i = at - rotary.first;
  const bool second = !rotary.interleaved && i >= pairs;
  const uint32_t pair = rotary.interleaved ? i / 2 : second ? i - pairs : i;
  const float* angles = angles_of(rotary, place) + pair;
  if (rotary.interleaved) {
    uint32_t cosines[n / 2], sines[n / 2];
    load_codes<KVC_FLOAT32, true>(reinterpret_cast<const char*>(angles), 0, 0, 0, n, cosines);
    load_codes<KVC_FLOAT32, true>(reinterpret_cast<const char*>(angles + pairs), 0, 0, 0, n, sines);
    for (uint32_t e = 0; e < n; e += 2) {
      const float a = values[e], b = values[e + 1], c = bits_float(cosines[e / 2]),
                  s = bits_float(sines[e / 2]);
      values[e] = rotated<kFrom>(a, b, c, s, false);
      values[e + 1] = rotated<kFrom>(b, a, c, s, true);
    }
  } else {
    uint32_t others[n], cosines[n], sines[n];
    load_codes<kFrom, true>(place.row, 0, 0, second ? at - pairs : at + pairs, at + n, others);
    load_codes<KVC_FLOAT32, true>(reinterpret_cast<const char*>(angles), 0, 0, 0, n, cosines);
    load_codes<KVC_FLOAT32, true>(reinterpret_cast<const char*>(angles + pairs), 0, 0, 0, n, sines);
    for (uint32_t e = 0; e < n; ++e) {
      values[e] = rotated<kFrom>(values[e], Element<kFrom>::decode(others[e]), bits_float(cosines[e]),
                                 bits_float(sines[e]), second);
    }
  }
}

// The caller's elements from `at` on as floats; past `end` 0.
template <int32_t kFrom, bool kVector, uint32_t n>
KVC_DEVICE void load_floats(const RowsArgs& args, const PlaneArgs& plane, const RowPlace& place, uint32_t at,
                            uint32_t end, float (&values)[n]) {
  if (!kVector && plane.rotary) {
    for (uint32_t i = 0; i < n; ++i)
      values[i] = at + i < end ? rotated_element<kFrom>(args.rotary, place, at + i) : 0.0f;
    return;
  }
  uint32_t codes[n];
  load_codes<kFrom, kVector>(place.row, 0, 0, at, end, codes);
  for (uint32_t i = 0; i < n; ++i) values[i] = Element<kFrom>::decode(codes[i]);
  if constexpr (kVector) {
    if (plane.rotary && at - args.rotary.first < args.rotary.dim)
      rotate_piece<kFrom>(args.rotary, place, at, values);
  }
}

template <int32_t kFrom, int32_t kTo, bool kVector>
KVC_KERNEL(kThreads, 4)
store_elements(KVC_ARGUMENT(RowsArgs) args) {
  for_each_piece<kVector>(args, [&](const PlaneArgs& plane, const RowPlace& place, uint32_t at) {
    constexpr uint32_t n = piece_elements(kVector);
    uint32_t codes[n];
    if (kFrom == kTo && !plane.rotary) {
      load_codes<kFrom, kVector>(place.row, 0, 0, at, plane.elements, codes);
    } else {
      float values[n];
      load_floats<kFrom, kVector>(args, plane, place, at, plane.elements, values);
      for (uint32_t e = 0; e < n; ++e) {
        if constexpr (is_quantized(kTo)) {
          codes[e] = at + e < plane.elements ? encode_unit<kTo>(normalized<kTo>(values[e], plane.step)) : 0;
        } else {
          codes[e] = Element<kTo>::encode(values[e]);
        }
      }
    }
    store_codes<kTo, kVector>(place.stored, plane.element_tile, place.token, at, plane.elements, codes);
  });
}

// A group of at most 256 elements is a team of lanes, 8 elements each.
template <int32_t kFrom, int32_t kTo>
KVC_KERNEL(kThreads, 4)
store_groups(KVC_ARGUMENT(RowsArgs) args, const uint32_t team) {
  constexpr uint32_t n = piece_elements(true);
  const PlaneArgs& plane = args.planes[blockIdx.z];
  const uint64_t total = args.num_tokens * plane.heads.value * plane.units.value;
  const uint32_t teams = kThreads / team, own = threadIdx.x / team, part = threadIdx.x % team;
  // All threads stay in the loop: reductions take all lanes of a wave.
  for (uint64_t first = uint64_t{blockIdx.x} * teams; first < total; first += uint64_t{gridDim.x} * teams) {
    const uint64_t i = first + own;
    RowPlace place = {};
    bool active = i < total;
    const uint64_t row = plane.units.divide(active ? i : 0);
    const auto group = static_cast<uint32_t>(i - row * plane.units.value);
    const uint32_t at = group * plane.group.value + part * n;
    active =
        active && part * n < plane.group.value && at < plane.elements && find_row(args, plane, row, &place);
    float values[n] = {};
    if (active) load_floats<kFrom, true>(args, plane, place, at, plane.elements, values);
    const Step step = step_of_team<kTo>(team, args.asymmetric, [&](auto&& add) {
      for (uint32_t e = 0; active && e < n; ++e) add(values[e]);
    });
    if (!active) continue;
    uint32_t codes[n];
    for (uint32_t e = 0; e < n; ++e) {
      codes[e] = encode_unit<kTo>(normalized<kTo>(values[e], step));
    }
    store_codes<kTo, true>(place.stored, 0, 0, at, plane.elements, codes);
    if (part == 0) store_scale(place.scales, group, step, args.asymmetric);
  }
}

template <int32_t kFrom, int32_t kTo>
KVC_KERNEL(kRowThreads, 16)
store_whole_rows(KVC_ARGUMENT(RowsArgs) args) {
  KVC_DYNAMIC_SHARED(float, values);
  KVC_SHARED(uint32_t, not_finite, 1);
  for_each_row(args, [&](const PlaneArgs& plane, const RowPlace& place) {
    const uint32_t n = plane.elements;
    for (uint32_t e = threadIdx.x; e < n; e += kRowThreads) {
      float value[1];
      load_floats<kFrom, false>(args, plane, place, e, n, value);
      values[e] = value[0];
    }
    sync_block();
    if (args.hadamard) hadamard_row(values, n, not_finite);
    // Codes replace the values, since those of int4 may share a byte across groups.
    const uint32_t groups = plane.scales != nullptr ? (n + plane.group.value - 1) / plane.group.value : 1;
    const uint32_t part = threadIdx.x % kRowTeam;
    for (uint32_t first = 0; first < groups; first += kRowThreads / kRowTeam) {
      const uint32_t group = first + threadIdx.x / kRowTeam;
      const uint32_t begin = group < groups ? group * plane.group.value : n;
      const uint32_t end = n - begin < plane.group.value ? n : begin + plane.group.value;
      Step step = step_of_team<kTo>(kRowTeam, args.asymmetric, [&](auto&& add) {
        for (uint32_t e = begin + part; e < end; e += kRowTeam) add(values[e]);
      });
      if (plane.scales == nullptr) step = plane.step;
      for (uint32_t e = begin + part; e < end; e += kRowTeam)
        values[e] = bits_float(encode_unit<kTo>(normalized<kTo>(values[e], step)));
      if (plane.scales != nullptr && part == 0 && group < groups)
        store_scale(place.scales, group, step, args.asymmetric);
    }
    sync_block();
    store_row<kTo>(place.stored, n, [&](uint32_t e) { return float_bits(values[e]); });
  });
}

template <int32_t kFrom, int32_t kTo>
int store_as(RowsPlan plan, Stream stream) {
  if constexpr (is_quantized(kTo)) {
    const uint32_t group = std::max(plan.args.planes[0].group.value, plan.args.planes[1].group.value);
    if (plan.args.hadamard || (plan.scaled && (!plan.vector || group > 256)))
      return launch_rows(plan, store_whole_rows<kFrom, kTo>, stream);
    if (plan.scaled) {
      const uint32_t team = 1u << ceil_log2(group / 8);
      const Grid grid = grid_of(&plan, kThreads / team, [](const PlaneArgs& plane) {
        return ceil_div(plane.elements, plane.group.value);
      });
      return launch(store_groups<kFrom, kTo>, grid, kThreads, 0, stream, plan.args, team);
    }
  }
  return launch_pieces(plan, store_elements<kFrom, kTo, true>, store_elements<kFrom, kTo, false>, stream);
}

}  // namespace

int store_rows(const Layout& layout, void* slab, const kvc_backend_rows& rows, Stream stream) {
  return move_rows<Direction::kStore>(
      layout, slab, rows, stream,
      [&]<int32_t kFrom, int32_t kTo>(const RowsPlan& plan) { return store_as<kFrom, kTo>(plan, stream); });
}

}  // namespace kvc::gpu
