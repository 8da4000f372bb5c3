// SPDX-License-Identifier: Apache-2.0
#include "storage/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/copy.h"
#include "quant/convert.h"
#include "quant/hadamard.h"
#include "quant/quantize.h"
#include "storage/channel_keys.h"
#include "storage/residual_keys.h"

namespace kvc {
namespace {

// What is the same for all rows of a call.
struct Context {
  Context(const Layout& of, bool of_keys, int32_t outside, bool stream_rows)
      : layout(of),
        keys(of_keys || of.latent),
        plane(keys ? of.k : of.v),
        scales(keys ? of.k_scale : of.v_scale),
        factor(keys ? of.k_factor : of.v_factor),
        format{plane.dtype, factor != 0 ? 0 : of.scale_group, of.asymmetric},
        dtype(outside),
        stream(stream_rows) {}
  bool same_type() const { return plane.dtype == dtype; }
  bool quantized() const { return is_quantized(plane.dtype); }
  bool per_channel() const { return keys && layout.channel_tokens != 0; }

  const Layout& layout;
  const bool keys;
  const Plane& plane;
  const Plane& scales;
  const float factor;  // the scale of all rows, or 0
  const QuantFormat format;
  const int32_t dtype;  // of the caller's rows
  const bool stream;
};

// A stored row.
struct SlotPlace {
  uint32_t layer;
  uint64_t block;
  uint32_t head;
  uint64_t token;

  uint64_t in(const Plane& plane) const { return plane.offset(layer, block, head, token); }
};

void store_row(const Context& c, char* slab, const SlotPlace& place, const char* from, float* values,
               char* stored) {
  char* at = slab + place.in(c.plane);
  if (c.quantized()) {
    to_float(c.dtype, from, values, c.plane.num_elements);
    hadamard_row(c.layout, values, c.plane.num_elements);
    if (c.factor != 0) {
      quantize_with_scale(c.format, c.factor, values, c.plane.num_elements, at);
    } else {
      quantize_row(c.format, values, c.plane.num_elements, at,
                   reinterpret_cast<float*>(slab + place.in(c.scales)));
    }
    return;
  }
  const char* row = from;
  if (!c.same_type()) {
    to_float(c.dtype, from, values, c.plane.num_elements);
    row = stored;
    from_float(c.plane.dtype, values, c.plane.tiled() ? stored : at, c.plane.num_elements);
    if (!c.plane.tiled()) return;
  }
  if (c.plane.tiled()) {
    write_tiled(c.plane, row, c.plane.num_elements, place.token, at);
  } else {
    copy_bytes(at, row, c.plane.row_bytes, c.stream);
  }
}

void read_quantized(const Context& c, const Stored& stored, const SlotPlace& place, uint32_t count,
                    float* out) {
  if (c.per_channel()) {
    const uint16_t* residual = stored.residual_keys->find(place.layer, place.block, place.head, place.token);
    if (residual != nullptr) return to_float(KVC_BFLOAT16, residual, out, count);
    return read_quantized_key(c.layout, stored.slab, place.layer, place.block, place.head, place.token, count,
                              out);
  }
  const float* scales =
      c.factor != 0 ? &c.factor : reinterpret_cast<const float*>(stored.slab + place.in(c.scales));
  dequantize_row(c.format, stored.slab + place.in(c.plane), scales, count, out);
}

void gather_row(const Context& c, const Stored& stored, const SlotPlace& place, char* to, float* values,
                char* untiled) {
  const uint32_t n = c.plane.num_elements;
  if (c.quantized()) {
    read_quantized(c, stored, place, n, values);
    hadamard_row(c.layout, values, n);
    return from_float(c.dtype, values, to, n);
  }
  const char* row = stored.slab + place.in(c.plane);
  if (c.plane.tiled()) {
    char* target = c.same_type() ? to : untiled;
    read_tiled(c.plane, row, place.token, n, target);
    row = target;
  }
  if (!c.same_type()) {
    to_float(c.plane.dtype, row, values, n);
    from_float(c.dtype, values, to, n);
  } else if (row != to) {
    copy_bytes(to, row, c.plane.row_bytes, c.stream);
  }
}

// Calls row(place, t) for each row of each token, in the usual order of the caller's rows, which measures
// faster than the order of the slab.
template <typename Row>
void for_each_row(const Layout& layout, uint32_t layer, const int64_t* slots, size_t count, Row&& row) {
  for (size_t t = 0; t < count; ++t) {
    if (slots[t] < 0) continue;
    const uint64_t slot = static_cast<uint64_t>(slots[t]);
    SlotPlace place{layer, slot / layout.block_size, 0, slot % layout.block_size};
    for (; place.head < layout.num_heads; ++place.head) row(place, t);
  }
}

}  // namespace

const char* RowArray::rotated_row(size_t t, uint32_t h, size_t n, char* buffer) const {
  std::memcpy(buffer, row(t, h), n * (dtype_bits(dtype) / 8));
  rotary.rotate(t, dtype, buffer);
  return buffer;
}

void hadamard_row(const Layout& layout, float* row, size_t n) {
  if (!layout.hadamard) return;
  hadamard(row, n);
  if (std::all_of(row, row + n, [](float x) { return std::isfinite(x); })) return;
  std::fill_n(row, n, std::numeric_limits<float>::quiet_NaN());
}

void read_row(const Stored& stored, bool keys, uint32_t layer, uint64_t block, uint32_t head, uint64_t token,
              uint32_t count, float* out) {
  const Context c(*stored.layout, keys, KVC_FLOAT32, false);
  const SlotPlace place{layer, block, head, token};
  if (c.quantized()) return read_quantized(c, stored, place, count, out);
  alignas(64) char untiled[kMaxRowElements * sizeof(float)];
  const char* at = stored.slab + place.in(c.plane);
  if (c.plane.tiled()) {
    read_tiled(c.plane, at, token, count, untiled);
    at = untiled;
  }
  to_float(c.plane.dtype, at, out, count);
}

void store_rows(const Layout& layout, char* slab, bool keys, uint32_t layer, const RowArray& from,
                const int64_t* slots, size_t count, bool stream) {
  const Context c(layout, keys, from.dtype, stream);
  alignas(64) float values[kMaxRowElements];
  alignas(64) char stored[kMaxRowElements * sizeof(float)], rotated[kMaxRowElements * sizeof(float)];
  for_each_row(layout, layer, slots, count, [&](const SlotPlace& place, size_t t) {
    store_row(c, slab, place, from.row_to_store(t, place.head, c.plane.num_elements, rotated), values,
              stored);
  });
  stream_fence(stream);
}

void gather_rows(const Stored& stored, bool keys, uint32_t layer, const RowArray& to, const int64_t* slots,
                 size_t count, bool stream) {
  const Context c(*stored.layout, keys, to.dtype, stream);
  alignas(64) float values[kMaxRowElements];
  alignas(64) char untiled[kMaxRowElements * sizeof(float)];
  for_each_row(c.layout, layer, slots, count, [&](const SlotPlace& place, size_t t) {
    // The next token's row of this head: the rows of other heads come in between.
    for (uint32_t i = 0; i < c.plane.row_bytes; i += 64)
      __builtin_prefetch(stored.slab + place.in(c.plane) + c.plane.token + i);
    gather_row(c, stored, place, to.row(t, place.head), values, untiled);
  });
  stream_fence(stream);
}

void measure_rows(const Stored& stored, bool keys, uint32_t layer, const RowArray& with, const int64_t* slots,
                  size_t count, QuantMeter* meter) {
  const Context c(*stored.layout, keys, with.dtype, false);
  const uint32_t n = c.plane.num_elements;
  const uint32_t shared_by = c.per_channel() ? c.layout.channel_tokens : 1;
  const uint64_t row_bytes = c.plane.row_bytes + ceil_div(c.scales.row_bytes, shared_by);
  alignas(64) float original[kMaxRowElements], restored[kMaxRowElements];
  for_each_row(c.layout, layer, slots, count, [&](const SlotPlace& place, size_t t) {
    to_float(c.dtype, with.row(t, place.head), original, n);
    read_row(stored, keys, layer, place.block, place.head, place.token, n, restored);
    hadamard_row(c.layout, restored, n);
    const bool residual =
        c.per_channel() && stored.residual_keys->find(layer, place.block, place.head, place.token) != nullptr;
    meter->add(original, restored, n, residual ? n * sizeof(uint16_t) : row_bytes);
  });
}

}  // namespace kvc
