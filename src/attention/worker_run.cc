// SPDX-License-Identifier: Apache-2.0
// The path for many rows, as in prefill: Kernels::attend_run handles several tiles at once. Tiles that it
// cannot handle are processed one by one.
#include <algorithm>
#include <iterator>

#include "attention/places.h"
#include "attention/worker.h"

namespace kvc {

bool Worker::choose_runs(const Piece& piece) const {
  if (shape_.run_tiles == 0 || kernels_->attend_run == nullptr || piece.rows < kRunRows) return false;
  if (!(args_.scale > 0) || args_.soft_cap != 0 || args_.alibi_slopes != nullptr) return false;
  if (shape_.k_dim % 32 != 0 || shape_.v_dim % 32 != 0) return false;
  const bool keys = use_pairs_ == Pairs::kBf16 || (use_pairs_ == Pairs::kNone && k_form_ == kF32);
  return keys && (v_form_ == kBf16 || v_form_ == kF32);
}

// The number of steps from `now` on that one run can handle; 0: not even that one.
uint32_t Worker::count_run(size_t now, size_t filled) {
  uint32_t count = 0;
  for (; count < shape_.run_tiles && now + count < filled; ++count) {
    const Tile &tile = *step_at(now + count).tile, &first = *step_at(now).tile;
    if (tile.segments % 2 != 0) break;
    if (count == 0) continue;
    if (step_at(now + count).head != step_at(now).head) break;
    if (tile.segments != kMaxSegments || first.segments != kMaxSegments) break;
  }
  return count;
}

// Packs the factors of a run, for all rows or for those that see the same tokens as *row; other tokens may
// hold anything. Returns whether all factors are finite. Leaves the steps unchanged.
bool Worker::pack_run(const Piece& piece, const Run& steps, const uint32_t* row, RunArgs* run) {
  const bool in_place = k_form_ == kBf16 && shape_.k_source == Source::kTiles;
  const size_t key_words = size_t{kSegment} * shape_.k_dim / 2, value_words = size_t{kTile} / 2 * 16;
  run->k_term_words = size_t{shape_.run_tiles} * kMaxSegments * key_words;
  run->v_column_words = size_t{shape_.run_tiles} * value_words;
  run->v_term_words = run->v_column_words * shape_.v_dim / 16;
  run->p_term_words = size_t{shape_.run_tiles} * kTile / 2 * kRunRows;
  run->segments = 0;
  run->k_terms = run->v_terms = 1;
  bool finite = true;
  for (uint32_t i = 0; i < steps.count; ++i) {
    prepare(piece, steps.first + i, steps.filled);
    Pointers& step = step_at(steps.first + i);
    const Tile& tile = *step.tile;
    const uint64_t seen = row == nullptr || tile.all ? tile.any : tile.visible[*row];
    run->visible[i] = tile.all ? nullptr : tile.visible;
    uint32_t* keys = scratch_.run_keys + i * kMaxSegments * key_words;
    for (uint32_t s = 0; s < tile.segments; ++s) {
      run->k[run->segments + s] =
          in_place ? static_cast<const uint32_t*>(pointer(step.k.base + step.k.at[s])) : keys + s * key_words;
    }
    const auto note = [&](uint32_t terms, uint32_t* most) {
      finite &= terms != 0;
      *most = std::max(*most, terms);
    };
    if (!in_place) {
      note(kernels_->pack_keys({shape_.k_dim, tile.segments, k_form_, shape_.k_source == Source::kTiles,
                                !tile.all, seen, step.k, keys, run->k_term_words, 0}),
           &run->k_terms);
    }
    note(kernels_->pack_values({shape_.v_dim, tile.segments, v_form_, false, !tile.all, seen, step.v,
                                scratch_.run_values + i * value_words, run->v_term_words,
                                run->v_column_words}),
         &run->v_terms);
    run->segments += tile.segments;
    place_keys(&step), place_values(&step);
  }
  return finite;
}

void Worker::attend_rows(const Piece& piece, const Run& steps, uint32_t row, uint32_t rows, RunArgs run) {
  const uint32_t head = step_at(steps.first).head;
  const size_t first = size_t{head} * piece.rows + row;
  Lines ahead[2 * kRunTiles];
  run.ahead = run.ahead_end = ahead;
  for (size_t i = steps.first + steps.count; i < steps.filled && run.ahead_end != std::end(ahead); ++i) {
    point_ahead(step_at(i), row == 0, run.ahead_end);
    run.ahead_end += 2;
  }
  for (uint32_t i = 0; i < steps.count; ++i) {
    if (run.visible[i] != nullptr) run.visible[i] += row;
  }
  run.rows = rows;
  run.k_dim = shape_.k_dim, run.v_dim = shape_.v_dim;
  run.q_terms = terms_;
  // With factors of 16 bits, two orders have an error of 2^-18, as for values.
  run.score_orders = shape_.k_form == kF16 && args_.q_dtype != KVC_FLOAT32 ? kValueTerms : kMaxTerms;
  run.p_terms = v_form_ == kBf16 ? p_terms_ : kValueTerms;
  run.q_term_words = size_t{piece.rows} * shape_.k_dim / 2;
  run.q_pairs = pairs_of(piece, head, row);
  run.v = scratch_.run_values;
  run.scale = args_.scale * kLog2e;
  run.nothing = kNothing;
  run.fresh = fresh_;
  run.row_max = scratch_.row_max + first;
  run.row_sum = scratch_.row_sum + first * 16;
  run.o = scratch_.o + first * shape_.v_dim;
  run.scores = scratch_.scores;
  run.p = scratch_.run_p;
  kernels_->attend_run(run);
}

void Worker::attend_run(const Piece& piece, const Run& steps) {
  RunArgs run{};
  if (pack_run(piece, steps, nullptr, &run)) {
    attend_rows(piece, steps, 0, piece.rows, run);
    fresh_ = false;
    return;
  }
  clear_o(piece);
  // NaN and infinity must not reach rows that do not see them: only rows that see the same tokens are
  // processed together.
  const auto see_the_same = [&](uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < steps.count; ++i) {
      const Tile& tile = *step_at(steps.first + i).tile;
      if (!tile.all && tile.visible[a] != tile.visible[b]) return false;
    }
    return true;
  };
  for (uint32_t from = 0, to = 0; from < piece.rows; from = to) {
    while (to < piece.rows && see_the_same(from, to)) ++to;
    if (pack_run(piece, steps, &from, &run)) {
      attend_rows(piece, steps, from, to - from, run);
      continue;
    }
    for (uint32_t i = 0; i < steps.count; ++i) {
      const Pointers& next = prepare(piece, steps.first + i, steps.filled);
      Pointers& now = step_at(steps.first + i);
      for (uint32_t row = from; row < to; row += kRowsAtOnce)
        step(piece, now, next, row, std::min(to - row, kRowsAtOnce));
      place_keys(&now), place_values(&now);
    }
  }
}

}  // namespace kvc
