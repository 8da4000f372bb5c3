// SPDX-License-Identifier: Apache-2.0
// Bounds of a block's keys: attention/select.h, a thread for each element.
#include "kernels/quantize.cuh"

namespace kvc::gpu {
namespace {

struct BoundsArgs {
  RowsArgs rows;  // of the keys
  const int32_t* blocks;
  uint64_t count;
  uint16_t* bounds;
  Divisor elements;
};

// The smallest float16 that is not below x.
KVC_DEVICE uint32_t half_above(float x) {
  using Half = Element<KVC_FLOAT16>;
  const uint32_t code = Half::encode(x);
  if (!(Half::decode(code) < x)) return code;
  return (code & 0x8000) == 0 ? code + 1 : code - 1;
}

template <int32_t kStored>
KVC_KERNEL(kThreads, 4)
bound_keys(KVC_ARGUMENT(BoundsArgs) args) {
  const PlaneArgs& plane = args.rows.planes[0];
  for_each_index(args.count * plane.heads.value * args.elements.value, [&](uint64_t i) {
    const uint64_t row = args.elements.divide(i), item = plane.heads.divide(row);
    const auto element = static_cast<uint32_t>(i - row * args.elements.value);
    const uint64_t head = row - item * plane.heads.value, block = static_cast<uint64_t>(args.blocks[item]);
    float largest = bits_float(0xFF800000), negated = largest;  // the smallest, negated
    bool finite = true;
    for (uint64_t token = 0; token < args.rows.block_size.value; ++token) {
      RowPlace place;
      find_stored(plane, block, head, token, &place);
      const uint32_t code = load_code<kStored>(place.stored, plane.element_tile, place.token, element);
      const float x = stored_value<kStored>(args.rows, plane, place, element, code);
      largest = largest < x ? x : largest;
      negated = negated < -x ? -x : negated;
      finite = finite && !is_nan(x) && !is_infinite(x);
    }
    if (!finite) largest = negated = bits_float(0x7FC00000);
    uint16_t* const bounds =
        args.bounds + (block * plane.heads.value + head) * 2 * args.elements.value + element;
    bounds[0] = static_cast<uint16_t>(half_above(largest));
    bounds[args.elements.value] = static_cast<uint16_t>(half_above(negated) ^ 0x8000);
  });
}

}  // namespace

int find_key_bounds(const Layout& layout, const void* slab, uint32_t layer, const int32_t* blocks,
                    size_t num_blocks, uint16_t* bounds, Stream stream) {
  if (num_blocks == 0) return 0;
  const BoundsArgs args{plan_keys(layout, const_cast<void*>(slab), layer), blocks, num_blocks, bounds,
                        divisor(layout.k_dim)};
  const Grid grid{blocks_for(num_blocks * layout.num_heads * layout.k_dim, kThreads)};
  return with_stored_type(layout.k.dtype, [&]<int32_t kStored>() {
    return launch(bound_keys<kStored>, grid, kThreads, 0, stream, args);
  });
}

}  // namespace kvc::gpu
