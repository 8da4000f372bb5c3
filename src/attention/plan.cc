// SPDX-License-Identifier: Apache-2.0
#include "attention/plan.h"

#include <algorithm>
#include <limits>

#include "attention/isa.h"
#include "base/checked.h"

namespace kvc {
namespace {

constexpr uint32_t kPreferredRows = 512;

// Packed keys and values of one attend_run should stay in the cache beside queries and results. At least two
// tiles are packed, so longer rows do not use it.
constexpr size_t kRunBytes = size_t{256} << 10;
constexpr uint32_t kMaxRunDim = 1024;

Form form_of(int32_t dtype, bool asymmetric) {
  switch (dtype) {
    case KVC_FLOAT16:
      return kF16;
    case KVC_BFLOAT16:
      return kBf16;
    case KVC_INT8:
      return asymmetric ? kU8 : kI8;
    case KVC_INT4:
      return asymmetric ? kU4 : kI4;
    case KVC_FLOAT8_E4M3:
      return kE4M3;
    case KVC_FLOAT8_E5M2:
      return kE5M2;
    default:
      return kF32;
  }
}

Source source_of(const Plane& plane, uint32_t dim, uint32_t block_size, uint32_t scale_group) {
  if (!plane.tiled()) {
    const bool whole_groups = scale_group % 16 == 0 || scale_group >= dim;
    return dim % 16 == 0 && whole_groups ? Source::kRows : Source::kConverted;
  }
  const bool whole = block_size % kTileTokens == 0 && dim % plane.element_tile == 0 &&
                     plane.element_tile * dtype_bits(plane.dtype) == 32;
  return whole ? Source::kTiles : Source::kConverted;
}

uint32_t find_run_tiles(const AttentionShape& shape) {
  if (shape.k_dim > kMaxRunDim || shape.v_dim > kMaxRunDim || chosen_kernels().attend_run == nullptr)
    return 0;
  const size_t key_bytes = size_t{shape.k_dim} * (shape.k_form == kBf16 ? 1 : kMaxTerms) * sizeof(uint16_t);
  const size_t value_bytes =
      size_t{shape.v_dim} * (shape.v_form == kBf16 ? 1 : kValueTerms) * sizeof(uint16_t);
  const size_t tiles = kRunBytes / (kTile * (key_bytes + value_bytes));
  return static_cast<uint32_t>(std::clamp<size_t>(tiles, 2, kRunTiles));
}

uint32_t padded(uint32_t dim) { return (dim + 15) / 16 * 16; }

}  // namespace

AttentionShape find_shape(const Layout& layout, uint32_t num_q_heads) {
  AttentionShape shape;
  shape.group = num_q_heads / layout.num_heads;
  // Whole queries, if a piece has room for one. For larger groups, keys are read several times.
  shape.piece_rows = shape.group <= kPreferredRows ? kPreferredRows / shape.group * shape.group
                                                   : std::min(shape.group, kMaxRows);
  shape.max_rows = std::max(shape.piece_rows, kPreferredRows);
  const auto form = [&](Source source, const Plane& plane) {
    return source == Source::kConverted ? kF32 : form_of(plane.dtype, layout.asymmetric);
  };
  shape.k_source = layout.channel_tokens != 0
                       ? Source::kConverted
                       : source_of(layout.k, layout.k_dim, layout.block_size, layout.scale_group);
  shape.k_form = form(shape.k_source, layout.k);
  shape.k_dim = shape.k_source == Source::kTiles ? layout.k_dim : padded(layout.k_dim);
  shape.v_dim = padded(layout.v_dim);
  const auto group = [&](Form of, uint32_t dim) {
    return of > kBf16 && layout.scale_group != 0 ? layout.scale_group : dim;
  };
  shape.k_group = group(shape.k_form, shape.k_dim);
  if (!layout.latent) {
    shape.v_source = source_of(layout.v, layout.v_dim, layout.block_size, layout.scale_group);
    if (shape.v_source == Source::kTiles) shape.v_source = Source::kConverted;
    shape.v_form = form(shape.v_source, layout.v);
  } else if (shape.k_source == Source::kTiles ||
             (shape.k_source == Source::kRows && layout.v_dim % 16 != 0)) {
    shape.v_source = Source::kConverted;
    shape.v_form = kF32;
  } else {
    shape.v_source = Source::kKeys;
    shape.v_form = shape.k_form;
  }
  shape.v_group = group(shape.v_form, shape.v_dim);
  shape.run_tiles = find_run_tiles(shape);
  return shape;
}

bool PieceWalk::next(Piece* piece) {
  RequestView view{};
  for (;; ++request_) {
    if (request_ == args_.num_requests) return false;
    view = view_request(args_, request_);
    if (view.queries != 0) break;
  }
  const uint32_t num_heads = args_.layout->num_heads;
  const uint64_t all_rows = view.queries * shape_.group;
  // The heads of a block are adjacent, so a piece takes as many as fit: all of them in decode.
  const uint32_t rows_of_head = static_cast<uint32_t>(std::min<uint64_t>(all_rows, shape_.piece_rows));
  // With a block mask, each head reads different blocks.
  const uint32_t heads =
      args_.block_mask != nullptr ? 1 : std::clamp<uint32_t>(shape_.max_rows / rows_of_head, 1, num_heads);

  piece->request = request_;
  piece->view = view;
  piece->first_head = head_;
  piece->heads = std::min(heads, num_heads - head_);
  piece->first_row = row_;
  piece->rows = static_cast<uint32_t>(std::min<uint64_t>(shape_.piece_rows, all_rows - row_));
  piece->span = find_span(args_, view, row_ / shape_.group, (row_ + piece->rows - 1) / shape_.group);
  piece->splits = std::max<uint64_t>(ceil_div(piece->span.segments, split_), 1);
  piece->first_partial = partials_;
  if (piece->splits > 1) partials_ += piece->splits;

  row_ += piece->rows;  // first the rows of a head: consecutive pieces read the same keys
  if (row_ == all_rows) row_ = 0, head_ += piece->heads;
  if (head_ == num_heads) head_ = 0, ++request_;
  return true;
}

uint64_t find_split(const AttentionArgs& args, const AttentionShape& shape, size_t num_workers) {
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  if (num_workers <= 1) return kNever;
  PieceWalk walk(args, shape, kNever);
  uint64_t segments = 0;
  for (Piece piece; walk.next(&piece);) segments += piece.span.segments;
  // Pieces above the limit have fewer than segments / limit + 1 splits each, and there are fewer than
  // segments / limit = 2 * num_workers of them: together at most 4 * num_workers.
  return std::max(ceil_div(segments, 2 * num_workers), kMinSplit);
}

}  // namespace kvc
