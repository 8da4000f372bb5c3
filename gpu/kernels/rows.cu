// SPDX-License-Identifier: Apache-2.0
// Calls on rows as the kernels take them. Host code.
#include "kernels/quantize.cuh"

namespace kvc::gpu {
namespace {

Step fixed_step(int32_t dtype, float scale) {
  const float most = std::min(scale * largest_code(dtype, false), kFloatMax);
  return {scale, 0, 1 / scale, -most, most};
}

// All of these are multiples of the result, a power of two of at most 16.
class Alignment {
 public:
  void add(uint64_t value) { bits_ |= value; }
  void add(const void* address) { bits_ |= reinterpret_cast<uintptr_t>(address); }
  void add_stride(int64_t value) { bits_ |= static_cast<uint64_t>(value); }
  uint32_t bytes() const { return static_cast<uint32_t>(bits_ & (~bits_ + 1)); }

 private:
  uint64_t bits_ = 16;
};

uint32_t outside_alignment(const PlaneArgs& plane) {
  Alignment all;
  all.add(plane.rows);
  all.add_stride(plane.row_layer);
  all.add_stride(plane.row_token);
  all.add_stride(plane.row_head);
  return all.bytes();
}

uint32_t stored_alignment(const PlaneArgs& plane) {
  Alignment all;
  all.add(plane.slab);
  for (const uint64_t stride : {plane.layer, plane.block, plane.head, plane.token}) all.add(stride);
  return all.bytes();
}

uint32_t vector_alignment(int32_t dtype) {
  const uint32_t bytes = 8 * dtype_bits(dtype) / 8;
  return bytes < 16 ? bytes : 16;
}

void finish(RowsPlan* plan, int32_t outside, int32_t stored) {
  plan->vector = true;
  const kvc_backend_rotary& rotary = plan->args.rotary;
  bool as_is = outside == stored;
  Alignment copy;
  for (uint32_t p = 0; p < plan->num_planes; ++p) {
    PlaneArgs& plane = plan->args.planes[p];
    const uint32_t row_bytes = plane.elements * dtype_bits(outside) / 8;
    as_is = as_is && plane.element_tile == 0 && !plane.rotary;
    // Heads that follow each other on both sides are one long row.
    const bool one_row = plane.row_head == row_bytes && plane.head == row_bytes;
    copy.add(outside_alignment(plane));
    copy.add(stored_alignment(plane));
    copy.add(row_bytes);
    if (plane.element_tile != 0 || plane.elements % 8 != 0 || plane.group.value % 8 != 0 ||
        outside_alignment(plane) < vector_alignment(outside) ||
        stored_alignment(plane) < vector_alignment(stored))
      plan->vector = false;
    if (plane.rotary && (rotary.first % 8 != 0 || rotary.dim % 16 != 0 ||
                         reinterpret_cast<uintptr_t>(rotary.table) % 16 != 0))
      plan->vector = false;
    if (as_is && one_row) {
      plane.elements *= static_cast<uint32_t>(plane.heads.value);
      plane.heads = divisor(1);
    }
  }
  plan->copy_bytes = as_is ? copy.bytes() : 0;
}

PlaneArgs plane_args(const Layout& layout, void* slab, const kvc_backend_rows& rows, bool keys) {
  const bool as_keys = keys || layout.latent;
  const Plane& plane = as_keys ? layout.k : layout.v;
  const Plane& scales = as_keys ? layout.k_scale : layout.v_scale;
  const float factor = as_keys ? layout.k_factor : layout.v_factor;
  const auto bytes = static_cast<int64_t>(dtype_bits(rows.dtype) / 8);
  PlaneArgs args = {};
  args.rows = static_cast<char*>(keys ? rows.k : rows.v);
  args.row_layer = (keys ? rows.k_layer_stride : rows.v_layer_stride) * bytes;
  args.row_token = (keys ? rows.k_token_stride : rows.v_token_stride) * bytes;
  args.row_head = (keys ? rows.k_head_stride : rows.v_head_stride) * bytes;
  args.slab = static_cast<char*>(slab) + plane.base + rows.first_layer * plane.layer;
  args.layer = plane.layer;
  args.block = plane.block;
  args.head = plane.head;
  args.token = plane.tiled() ? uint64_t{kTileTokens} * plane.row_bytes : plane.token;
  if (scales.exists() && factor == 0) {
    args.scales = static_cast<char*>(slab) + scales.base + rows.first_layer * scales.layer;
    args.scale_layer = scales.layer;
    args.scale_block = scales.block;
    args.scale_head = scales.head;
    args.scale_token = scales.token;
  }
  args.elements = plane.num_elements;
  args.element_tile = plane.element_tile;
  args.heads = divisor(layout.num_heads);
  const uint32_t group = layout.scale_group;
  args.group = small_divisor(group != 0 && group < plane.num_elements ? group : plane.num_elements);
  if (factor != 0) args.step = fixed_step(plane.dtype, factor);
  return args;
}

}  // namespace

const char* unsupported(const Layout& layout) {
  if (layout.block_size > kMaxPageTokens) return "blocks of more than 1024 tokens";
  if (layout.num_layers > UINT16_MAX) return "more than 65535 layers";  // the height of a grid
  return layout.channel_tokens != 0 ? "keys with a scale per channel" : nullptr;
}

RowsPlan plan_rows(const Layout& layout, void* slab, const kvc_backend_rows& rows) {
  RowsPlan plan = {};
  RowsArgs& args = plan.args;
  if (rows.k != nullptr) args.planes[plan.num_planes++] = plane_args(layout, slab, rows, true);
  if (rows.rotary.table != nullptr && rows.k != nullptr) {
    args.planes[0].rotary = true;
    args.rotary = rows.rotary;
  }
  if (rows.v != nullptr) args.planes[plan.num_planes++] = plane_args(layout, slab, rows, false);
  args.num_tokens = rows.num_tokens;
  args.slots = rows.slots;
  args.table = rows.slots != nullptr ? nullptr : rows.block_table;
  args.first_token = rows.first_token;
  args.block_size = divisor(layout.block_size);
  args.asymmetric = layout.asymmetric;
  args.hadamard = layout.hadamard;
  plan.num_layers = rows.num_layers;
  plan.scaled = plan.num_planes != 0 && args.planes[0].scales != nullptr;
  finish(&plan, rows.dtype, layout.k.dtype);
  return plan;
}

RowsArgs plan_keys(const Layout& layout, void* slab, uint32_t layer) {
  kvc_backend_rows rows = {};
  rows.first_layer = layer;
  rows.dtype = KVC_FLOAT32;
  RowsArgs args = {};
  args.planes[0] = plane_args(layout, slab, rows, true);
  args.block_size = divisor(layout.block_size);
  args.asymmetric = layout.asymmetric;
  return args;
}

}  // namespace kvc::gpu
