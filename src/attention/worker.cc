// SPDX-License-Identifier: Apache-2.0
#include "attention/worker.h"

#include <algorithm>
#include <bit>

#include "attention/places.h"
#include "quant/convert.h"

namespace kvc {
namespace {

// Whether keys are integers with one scale per row, so that sums of products can be scaled.
bool has_integer_products(const AttentionShape& shape) {
  const bool integers = shape.k_form >= kI8 && shape.k_form <= kU4;
  return integers && shape.k_group >= shape.k_dim && shape.k_dim % 32 == 0 && shape.k_dim <= kMaxIntegerDim;
}

// A causal piece has many queries, and most of them do not see the end of its last tiles.
Seen seen_by(const Tile& tile, uint32_t row, uint32_t rows) {
  if (tile.all) return {tile.segments, true};
  uint64_t some = 0, every = ~0ull;
  for (uint32_t r = row; r < row + rows; ++r) some |= tile.visible[r], every &= tile.visible[r];
  const auto segments = static_cast<uint32_t>(std::bit_width(some) + kSegment - 1) / kSegment;
  return {segments, std::countr_one(every) >= static_cast<int>(segments * kSegment)};
}

bool all_finite(const float* x, size_t count) {
  float zeros[16] = {};                     // or NaN; one sum would wait for every addition
  for (size_t i = 0; i < count; i += 16) {  // rows are whole vectors
    for (size_t j = 0; j < 16; ++j) zeros[j] += x[i + j] * 0.0f;
  }
  return std::all_of(zeros, zeros + 16, [](float zero) { return zero == 0; });
}

}  // namespace

Worker::Worker(const AttentionArgs& args, const AttentionShape& shape, const Kernels& kernels, char* scratch)
    : args_(args),
      shape_(shape),
      all_kernels_(kernels),
      q_token_bytes_(args.q_token_stride * dtype_bits(args.q_dtype) / 8),
      q_head_bytes_(args.q_head_stride * dtype_bits(args.q_dtype) / 8),
      out_token_bytes_(args.out_token_stride * dtype_bits(args.q_dtype) / 8),
      out_head_bytes_(args.out_head_stride * dtype_bits(args.q_dtype) / 8),
      scratch_(scratch, shape),
      p_terms_(args.q_dtype == KVC_BFLOAT16 || args.allow_bf16 != 0 ? 1 : kValueTerms) {
  std::fill_n(scratch_.zeros, std::max(shape.k_dim, shape.v_dim), 0.0f);
}

void Worker::start(const Piece& piece) {
  const size_t rows = size_t{piece.heads} * piece.rows;
  fresh_ = true;
  std::fill_n(scratch_.row_max, rows, kNothing);
  std::fill_n(scratch_.row_sum, rows * 16, 0.0f);
}

void Worker::clear_o(const Piece& piece) {
  if (fresh_) std::fill_n(scratch_.o, size_t{piece.heads} * piece.rows * shape_.v_dim, 0.0f);
  fresh_ = false;
}

void Worker::choose_kernels(const Piece& piece) {
  const bool many = piece.rows >= kManyRows;
  const bool few_of_bf16 = piece.rows <= kFewRows && (shape_.k_form == kBf16 || shape_.v_form == kBf16);
  kernels_ = few_of_bf16 && all_kernels_.few_of_bf16 != nullptr ? all_kernels_.few_of_bf16 : &all_kernels_;
  use_pairs_ = kernels_->bf16_pairs && shape_.k_form == kBf16            ? Pairs::kBf16
               : !kernels_->int16_pairs || !has_integer_products(shape_) ? Pairs::kNone
               : kernels_->digits && has_bytes(shape_)                   ? Pairs::kDigits
                                                                         : Pairs::kInt16;
  k_form_ = shape_.k_form, k_group_ = shape_.k_group;
  v_form_ = shape_.v_form, v_group_ = shape_.v_group;
  runs_ = false;
  if (!many) return;
  if (use_pairs_ == Pairs::kNone) k_form_ = kF32, k_group_ = shape_.k_dim;
  if (!kernels_->in_pairs(v_form_, shape_.v_dim, v_group_)) v_form_ = kF32, v_group_ = shape_.v_dim;
  runs_ = choose_runs(piece);
}

// The tile and head after those of `before` (nullptr: the first ones); false if there are none.
bool Worker::fill(TileWalk& walk, const Piece& piece, Pointers* now, const Pointers* before) {
  if (before != nullptr && before->head + 1 < piece.heads) {
    now->tile = before->tile;
    now->head = before->head + 1;
  } else {
    Tile* tile = scratch_.tiles + (tiles_++ & (steps_ - 1));
    if (!walk.next(tile)) return false;
    now->tile = tile;
    now->head = 0;
  }
  place_keys(now);
  place_values(now);
  return true;
}

// Prepares a step for the kernels. Returns the step to fetch meanwhile: the next one, or the last one again.
const Pointers& Worker::prepare(const Piece& piece, size_t now, size_t filled) {
  Pointers& step = step_at(now);
  packed_ = 0;
  if (shape_.k_source == Source::kConverted || shape_.v_source == Source::kConverted)
    convert(piece, *step.tile, step.head, &step);
  const Pointers& next = step_at(std::min(now + 1, filled - 1));
  const Pointers& ahead = next.tile->segments >= step.tile->segments ? next : step;
  widen(ahead, &step);
  return ahead;
}

// Rows [row, row + rows) of a head, at most kRowsAtOnce. The first of them fetch the next step.
void Worker::step(const Piece& piece, const Pointers& now, const Pointers& next, uint32_t row,
                  uint32_t rows) {
  const Tile& tile = *now.tile;
  const Seen seen = seen_by(tile, row, rows);
  if (seen.segments == 0) return;
  const size_t head = size_t{now.head} * piece.rows, first = head + row;  // rows of the piece
  const uint32_t* pairs = pairs_of(piece, now.head, row);
  const bool digits = use_pairs_ == Pairs::kDigits;
  ScoreArgs scores{rows,
                   shape_.k_dim,
                   seen.segments,
                   terms_,
                   piece.rows,
                   scratch_.q + first * shape_.k_dim,
                   pairs,
                   use_pairs_ == Pairs::kInt16 || digits ? scratch_.units + first : nullptr,
                   scratch_.sums + first,
                   digits ? reinterpret_cast<const int8_t*>(pairs) : nullptr,
                   now.k,
                   row == 0 && k_form_ == shape_.k_form ? next.k : Rows{},
                   scratch_.scores,
                   ahead_};
  point_ahead(next, row == 0, ahead_);
  (shape_.k_source == Source::kTiles ? kernels_->tile_scores : kernels_->row_scores)[k_form_](scores);

  float scale = args_.scale * kLog2e;
  if (!seen.all || args_.soft_cap != 0 || args_.alibi_slopes != nullptr) {
    kernels_->adjust({rows, seen.segments, scratch_.scores, args_.scale, args_.soft_cap,
                      args_.alibi_slopes != nullptr ? scratch_.slopes + first : nullptr,
                      scratch_.positions + row, tile.position, seen.all ? nullptr : tile.visible + row});
    scale = 1;
  }
  kernels_->softmax({rows, seen.segments, shape_.v_dim, scratch_.scores, scale, scratch_.row_max + first,
                     scratch_.row_sum + first * 16, scratch_.o + first * shape_.v_dim});
  add_values(piece, now, next, row, rows, seen);
}

// Nothing is left to fetch of rows that widen() has read ahead.
void Worker::point_ahead(const Pointers& next, bool fetches, Lines* ahead) {
  const bool keys = fetches && k_form_ == shape_.k_form, values = fetches && v_form_ == shape_.v_form;
  const uint32_t segments = next.tile->segments;
  const uint32_t k_tokens = shape_.k_source == Source::kTiles ? kSegment : 1;  // of a place
  const size_t k_bytes = size_t{k_tokens} * shape_.k_dim * kBits[shape_.k_form] / 8;
  const size_t v_bytes = size_t{shape_.v_dim} * kBits[shape_.v_form] / 8;
  const auto lines = [&](const Rows& rows, bool any, uint32_t places, size_t bytes) {
    return Lines{rows.base, rows.at, rows.at + (any ? places : 0), 0, bytes, segments, places, 0};
  };
  ahead[0] = lines(next.k, keys, kSegment / k_tokens, k_bytes);
  ahead[1] = lines(next.v, values, kSegment, v_bytes);
}

// A row must not multiply the values of tokens that it does not see, since 0 * NaN is NaN. Rows that see the
// same tokens are processed together, with zeros for other values.
void Worker::add_values(const Piece& piece, const Pointers& now, const Pointers& next, uint32_t row,
                        uint32_t rows, const Seen& seen) {
  const Tile& tile = *now.tile;
  float* o = scratch_.o + (size_t{now.head} * piece.rows + row) * shape_.v_dim;
  ValueArgs all{rows,
                shape_.v_dim,
                seen.segments,
                p_terms_,
                scratch_.scores,
                now.v,
                row == 0 && v_form_ == shape_.v_form ? next.v : Rows{},
                o,
                scratch_.packed,
                ahead_,
                packed_ == seen.segments};
  const auto add = kernels_->add_values[v_form_];
  packed_ = seen.segments;
  if (seen.all) return add(all);
  // Nearly always all values are finite; then all rows can be processed together.
  const size_t count = size_t{rows} * shape_.v_dim;
  std::copy_n(o, count, scratch_.o_before);
  add(all);
  if (all_finite(o, count)) return;
  std::copy_n(scratch_.o_before, count, o);
  packed_ = 0;
  for (uint32_t from = 0, to = 0; from < rows; from = to) {
    const uint64_t visible = tile.visible[row + from];
    while (to < rows && tile.visible[row + to] == visible) ++to;
    if (visible == 0) continue;
    uint64_t at[kTile], scale_at[kTile];
    for (uint32_t t = 0; t < seen.segments * kSegment; ++t) {
      const bool sees = (visible >> t & 1) != 0;
      at[t] = sees ? now.v.base + now.v.at[t] : address(scratch_.zeros);
      scale_at[t] = sees ? now.v.scale_base + now.v.scale_at[t] : address(scratch_.zeros);
    }
    add({to - from,
         shape_.v_dim,
         seen.segments,
         p_terms_,
         scratch_.scores + from * kTile,
         rows_at(at, scale_at, v_group_),
         {},
         o + size_t{from} * shape_.v_dim,
         scratch_.packed,
         ahead_,
         false});
  }
}

void Worker::work(const Piece& piece, uint64_t split, float* partial) {
  start(piece);
  choose_kernels(piece);
  load_queries(piece);
  steps_ = runs_ ? kSteps : kFewSteps;
  if (!runs_ || piece.heads != 1) clear_o(piece);
  const uint64_t segments = piece.span.segments;
  TileWalk walk(args_, shape_, piece, segments * split / piece.splits, segments * (split + 1) / piece.splits);

  // A ring of steps: current ones and later ones.
  size_t filled = 0;
  bool more = true;
  for (size_t now = 0;;) {
    while (more && filled < now + steps_) {
      more = fill(walk, piece, &step_at(filled), filled == 0 ? nullptr : &step_at(filled - 1));
      filled += more;
    }
    if (now == filled) break;
    if (const uint32_t tiles = runs_ ? count_run(now, filled) : 0; tiles != 0) {
      attend_run(piece, {now, tiles, filled});
      now += tiles;
      continue;
    }
    clear_o(piece);
    const Pointers& next = prepare(piece, now, filled);
    for (uint32_t row = 0; row < piece.rows; row += kRowsAtOnce)
      step(piece, step_at(now), next, row, std::min(piece.rows - row, kRowsAtOnce));
    ++now;
  }
  clear_o(piece);
  kernels_->finish(v_form_, v_group_, piece.heads * piece.rows, shape_.v_dim, scratch_.o);
  partial != nullptr ? store_partial(piece, partial) : write_output(piece);
}

}  // namespace kvc
