// SPDX-License-Identifier: Apache-2.0
#include "layout/layout.h"

#include <cstring>

#include "base/checked.h"
#include "layout/parts.h"

namespace kvc {

static_assert(KVC_PLANE_K == 0 && KVC_PLANE_V == 1 && KVC_PLANE_K_SCALE == 2 && KVC_PLANE_V_SCALE == 3,
              "Layout::plane()");

namespace {

constexpr uint64_t kAreaAlignment = 16;  // scales within a cell

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

uint32_t bytes_of(int32_t dtype, uint32_t elements) {
  return static_cast<uint32_t>((uint64_t{dtype_bits(dtype)} * elements + 7) / 8);
}

Plane make_plane(int32_t dtype, uint32_t elements) {
  Plane plane = {};
  plane.dtype = dtype;
  plane.num_elements = elements;
  plane.row_bytes = bytes_of(dtype, elements);
  return plane;
}

// Calls move(byte in the row, byte in the tile) for each piece of 4 bytes.
template <typename Move>
void for_each_piece(const Plane& plane, uint32_t count, uint64_t token, Move&& move) {
  const size_t element = dtype_bits(plane.dtype) / 8;
  for (uint32_t e = 0; e < count; e += plane.element_tile)
    move(e * element, plane.tile_offset(e, token, element));
}

}  // namespace

void write_tiled(const Plane& plane, const char* row, uint32_t count, uint64_t token, char* tile) {
  for_each_piece(plane, count, token,
                 [&](size_t from, size_t to) { std::memcpy(tile + to, row + from, sizeof(uint32_t)); });
}

void read_tiled(const Plane& plane, const char* tile, uint64_t token, uint32_t count, char* row) {
  for_each_piece(plane, count, token,
                 [&](size_t to, size_t from) { std::memcpy(row + to, tile + from, sizeof(uint32_t)); });
}

Layout make_layout(const LayoutShape& shape) {
  Layout out = {};
  out.preset = shape.preset;
  out.num_layers = shape.num_layers;
  out.num_heads = shape.num_heads;
  out.block_size = shape.block_size;
  out.num_blocks = shape.num_blocks;
  out.k_dim = shape.k_dim;
  out.v_dim = shape.v_dim;
  out.latent = shape.latent;
  out.scale_group = shape.scale_group;
  out.asymmetric = shape.asymmetric;
  out.channel_tokens = shape.channel_tokens;
  out.hadamard = shape.hadamard;
  out.k_factor = shape.k_factor;
  out.v_factor = shape.v_factor;
  const uint32_t width = shape.asymmetric ? 2 : 1;
  const auto scales = [&](uint32_t dim) {
    return shape.scale_group == 0 ? 0 : (dim + shape.scale_group - 1) / shape.scale_group * width;
  };
  out.k = make_plane(shape.dtype, shape.k_dim);
  if (shape.tiled_keys) out.k.element_tile = 32 / dtype_bits(shape.dtype);
  out.v = make_plane(shape.dtype, shape.latent ? 0 : shape.v_dim);
  out.k_scale =
      make_plane(KVC_FLOAT32, shape.channel_tokens != 0 ? shape.k_dim * width : scales(shape.k_dim));
  out.v_scale = make_plane(KVC_FLOAT32, shape.latent ? 0 : scales(shape.v_dim));

  const bool heads_apart = shape.preset == KVC_LAYOUT_BHLNC;
  const bool by_head = head_major(shape.preset);
  const uint64_t heads = heads_apart ? 1 : shape.num_heads;
  uint64_t& cell = out.cell_bytes;
  for (int p = 0; p < kNumPlanes; ++p) {
    if (&out.plane(p) == &out.v && !shape.latent) cell = align_up(cell, shape.alignment);
    out.plane(p).base = cell;
    const uint64_t rows = shape.block_size / out.tokens_per_row(p) * heads;
    cell = align_up(cell + rows * out.plane(p).row_bytes, kAreaAlignment);
  }
  cell = align_up(cell, shape.alignment);

  uint64_t per_block = cell;
  if (!checked_mul(per_block, uint64_t{shape.num_layers} * (heads_apart ? shape.num_heads : 1), &per_block) ||
      !checked_mul(per_block, shape.num_blocks, &out.slab_bytes) || out.slab_bytes > PTRDIFF_MAX) {
    out.slab_bytes = 0;
    return out;
  }
  out.block_bytes = per_block;
  const bool layer_first = shape.preset == KVC_LAYOUT_LBNHC || shape.preset == KVC_LAYOUT_LBHNC;
  for (int p = 0; p < kNumPlanes; ++p) {
    Plane& plane = out.plane(p);
    plane.layer = layer_first ? cell * shape.num_blocks : cell;
    plane.block = layer_first ? cell : per_block;
    plane.token = by_head ? plane.row_bytes : uint64_t{plane.row_bytes} * shape.num_heads;
    plane.head = heads_apart ? cell * shape.num_layers
                 : by_head   ? uint64_t{plane.row_bytes} * (shape.block_size / out.tokens_per_row(p))
                             : plane.row_bytes;
  }
  return out;
}

namespace {

// Runs, of which those that touch are one. Counts them all, and writes those for which there is room.
class RunList {
 public:
  RunList(kvc_run* runs, size_t capacity) : runs_(runs), capacity_(capacity) {}
  void add(uint64_t offset, uint64_t bytes) {
    if (last_.bytes != 0 && last_.offset + last_.bytes == offset) {
      last_.bytes += bytes;
      return;
    }
    flush();
    last_ = {offset, bytes};
  }
  size_t end() {
    flush();
    return count_;
  }

 private:
  void flush() {
    if (last_.bytes == 0) return;
    if (count_ < capacity_) runs_[count_] = last_;
    ++count_;
  }

  kvc_run* const runs_;
  const size_t capacity_;
  size_t count_ = 0;
  kvc_run last_ = {0, 0};
};

}  // namespace

size_t layout_runs(const Layout& layout, uint64_t block, const kvc_selection& selection, kvc_run* runs,
                   size_t capacity) {
  RunList list(runs, capacity);
  const auto add_head = [&](const Plane& plane, uint32_t layer, uint32_t head, uint32_t first, uint32_t end) {
    if (plane.tiled()) {
      const uint64_t begin = plane.offset(layer, block, head, first);
      const uint64_t tiles = (end + kTileTokens - 1) / kTileTokens - first / kTileTokens;
      list.add(begin, tiles * kTileTokens * plane.row_bytes);
    } else {
      list.add(plane.offset(layer, block, head, first), uint64_t{end - first} * plane.row_bytes);
    }
  };
  // The planes of a cell are adjacent, and so are heads or tokens inside an area. The loops follow the order
  // in memory.
  const uint32_t layer_end = selection.first_layer + selection.num_layers;
  const uint32_t head_end = selection.first_head + selection.num_heads;
  const bool all_tokens = selection.first_token == 0 && selection.num_tokens == layout.block_size;
  const auto add_cell = [&](uint32_t layer, uint32_t first_head, uint32_t end_head) {
    const bool all_heads = layout.preset == KVC_LAYOUT_BHLNC || end_head - first_head == layout.num_heads;
    if (all_tokens && all_heads) {
      list.add(layout.k.offset(layer, block, first_head, 0), layout.cell_bytes);  // padding too: fewer runs
      return;
    }
    for (int p = 0; p < kNumPlanes; ++p) {
      const Plane& plane = layout.plane(p);
      if (!plane.exists()) continue;
      const uint32_t first = selection.first_token / layout.tokens_per_row(p);
      const uint32_t end = static_cast<uint32_t>(
          ceil_div(selection.first_token + selection.num_tokens, layout.tokens_per_row(p)));
      if (head_major(layout.preset)) {
        for (uint32_t h = first_head; h < end_head; ++h) add_head(plane, layer, h, first, end);
      } else {
        for (uint32_t t = first; t < end; ++t) {
          list.add(plane.offset(layer, block, first_head, t),
                   uint64_t{end_head - first_head} * plane.row_bytes);
        }
      }
    }
  };
  if (selection.num_tokens != 0) {
    if (layout.preset == KVC_LAYOUT_BHLNC) {
      for (uint32_t h = selection.first_head; h < head_end; ++h)
        for (uint32_t l = selection.first_layer; l < layer_end; ++l) add_cell(l, h, h + 1);
    } else {
      for (uint32_t l = selection.first_layer; l < layer_end; ++l)
        add_cell(l, selection.first_head, head_end);
    }
  }
  return list.end();
}

}  // namespace kvc
