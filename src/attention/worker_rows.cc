// SPDX-License-Identifier: Apache-2.0
// Where kernels find the keys and values of a step: in the slab, or converted to rows of floats.
#include <algorithm>

#include "attention/places.h"
#include "attention/worker.h"

namespace kvc {
namespace {

constexpr uint64_t kHere[kTile] = {};  // offsets that are all 0

}  // namespace

void Worker::place_keys(Pointers* now) {
  const Tile& tile = *now->tile;
  const Layout& layout = *args_.layout;
  const uint64_t slab = address(args_.slab);
  now->k = {
      slab + now->head * layout.k.head, tile.k, address(&layout.k_factor), kHere, false, shape_.k_group};
  if (shape_.k_source == Source::kConverted) {  // convert() fills these rows before each step
    now->k.base = 0, now->k.at = now->k_at;
    for (uint32_t t = 0; t < tile.segments * kSegment; ++t)
      now->k_at[t] = address(scratch_.k_rows + size_t{t} * shape_.k_dim);
  } else if (layout.k_scale.exists()) {
    now->k.scale_base = slab + now->head * layout.k_scale.head;
    now->k.scale_at = tile.k_scales;
    now->k.scales_adjoin = tile.k_scales_adjoin;
  }
}

void Worker::place_values(Pointers* now) {
  const Tile& tile = *now->tile;
  const Layout& layout = *args_.layout;
  const uint64_t slab = address(args_.slab);
  const uint32_t tokens = tile.segments * kSegment;
  if (shape_.v_source == Source::kConverted) {
    for (uint32_t t = 0; t < tokens; ++t) now->v_at[t] = address(scratch_.v_rows + size_t{t} * shape_.v_dim);
    now->v = rows_at(now->v_at, kHere, shape_.v_group);
    return;
  }
  if (shape_.v_source == Source::kKeys) {
    now->v = now->k;
    now->v.group = shape_.v_group;
  } else {
    now->v = {
        slab + now->head * layout.v.head, tile.v, address(&layout.v_factor), kHere, false, shape_.v_group};
    if (layout.v_scale.exists()) {
      now->v.scale_base = slab + now->head * layout.v_scale.head;
      now->v.scale_at = tile.v_scales;
      now->v.scales_adjoin = tile.v_scales_adjoin;
    }
  }
  if (tile.whole) return;
  for (uint32_t t = 0; t < tokens; ++t) {  // values that no row sees are undefined: zeros instead
    const bool seen = (tile.any >> t & 1) != 0;
    now->v_at[t] = seen ? now->v.base + now->v.at[t] : address(scratch_.zeros);
    now->v_scale_at[t] = seen ? now->v.scale_base + now->v.scale_at[t] : address(scratch_.zeros);
  }
  now->v = rows_at(now->v_at, now->v_scale_at, shape_.v_group);
}

void Worker::convert(const Piece& piece, const Tile& tile, uint32_t head, Pointers* pointers) {
  const Layout& layout = *args_.layout;
  const Stored stored{&layout, args_.slab, args_.residual_keys};
  const bool keys = shape_.k_source == Source::kConverted, values = shape_.v_source == Source::kConverted;
  for (uint32_t t = 0; t < tile.segments * kSegment; ++t) {
    if ((tile.any >> t & 1) == 0) {
      pointers->k_at[t] = pointers->v_at[t] = address(scratch_.zeros);
      continue;
    }
    const uint64_t at = static_cast<uint64_t>(tile.position[t / kSegment]) + t % kSegment;
    const uint64_t block = static_cast<uint64_t>(piece.view.table[at / layout.block_size]);
    const uint64_t token = at % layout.block_size;
    if (keys) {
      float* row = scratch_.k_rows + size_t{t} * shape_.k_dim;
      read_row(stored, true, args_.layer, block, piece.first_head + head, token, layout.k_dim, row);
      std::fill(row + layout.k_dim, row + shape_.k_dim, 0.0f);
    }
    if (values) {
      float* row = scratch_.v_rows + size_t{t} * shape_.v_dim;
      read_row(stored, false, args_.layer, block, piece.first_head + head, token, layout.v_dim, row);
      std::fill(row + layout.v_dim, row + shape_.v_dim, 0.0f);
    }
  }
}

void Worker::widen(const Pointers& next, Pointers* pointers) {
  const uint32_t segments = pointers->tile->segments, tokens = segments * kSegment;
  if (v_form_ != shape_.v_form) {  // first: values may be the keys
    kernels_->widen_rows[shape_.v_form]({shape_.v_dim, segments, pointers->v, next.v, scratch_.v_rows});
    for (uint32_t t = 0; t < tokens; ++t)
      pointers->v_at[t] = address(scratch_.v_rows + size_t{t} * shape_.v_dim);
    pointers->v = rows_at(pointers->v_at, kHere, v_group_);
  }
  if (k_form_ != shape_.k_form) {
    const bool tiles = shape_.k_source == Source::kTiles;
    const auto widen_keys = (tiles ? kernels_->widen_tiles : kernels_->widen_rows)[shape_.k_form];
    widen_keys({shape_.k_dim, segments, pointers->k, next.k, scratch_.k_rows});
    const size_t elements = size_t{tiles ? kSegment : 1} * shape_.k_dim;
    for (uint32_t i = 0; i < (tiles ? segments : tokens); ++i)
      pointers->k_at[i] = address(scratch_.k_rows + i * elements);
    pointers->k = rows_at(pointers->k_at, kHere, k_group_);
  }
}

}  // namespace kvc
