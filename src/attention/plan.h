// SPDX-License-Identifier: Apache-2.0
// How attend() divides a call into pieces: one request, consecutive KV heads, and consecutive rows (query,
// query head) of each. If there are too few pieces for all workers, pieces with many tokens are divided into
// splits. Nothing is stored: every worker walks through the same pieces in the same order.
#pragma once
#include "attention/attention.h"
#include "attention/visibility.h"

namespace kvc {

inline constexpr uint32_t kMaxRows = 512;        // of a piece, all its heads together
inline constexpr size_t kPartialsPerWorker = 4;  // for results of splits; see find_split()
inline constexpr uint64_t kMinSplit = 16;        // segments

// How kernels get stored keys or values. kKeys: the values are the keys.
enum class Source { kRows, kTiles, kConverted, kKeys };

// Derived from the arguments and the kernels of this machine.
struct AttentionShape {
  uint32_t group;         // query heads of a KV head
  uint32_t piece_rows;    // at most, of one KV head
  uint32_t max_rows;      // at most, of all heads of a piece
  uint32_t k_dim, v_dim;  // as the kernels see them: padded to 16, unless keys are tiled
  Source k_source, v_source;
  Form k_form, v_form;
  uint32_t k_group, v_group;  // elements that share a scale; the dim if none do
  uint32_t run_tiles;         // at most, for one call of Kernels::attend_run; 0 = it is not used
};
AttentionShape find_shape(const Layout& layout, uint32_t num_q_heads);

// Whether kernels may read queries as digits for these keys; see ScoreArgs.
inline bool has_bytes(const AttentionShape& shape) {
  return (shape.k_form == kI8 || shape.k_form == kU8) && shape.k_dim % 64 == 0;
}

struct Piece {
  size_t request;
  RequestView view;
  uint32_t first_head, heads;
  uint64_t first_row;  // row = query * group + query head within the group
  uint32_t rows;       // of each head
  Span span;
  uint64_t splits;       // at least 1
  size_t first_partial;  // with several splits: the first of their results
};

class PieceWalk {
 public:
  PieceWalk(const AttentionArgs& args, const AttentionShape& shape, uint64_t split_segments)
      : args_(args), shape_(shape), split_(split_segments) {}
  bool next(Piece* piece);  // false: no more pieces

 private:
  const AttentionArgs& args_;
  const AttentionShape& shape_;
  uint64_t split_;  // a piece with more segments is split
  size_t request_ = 0, partials_ = 0;
  uint32_t head_ = 0;
  uint64_t row_ = 0;
};

// Segments of a split, so that num_workers have enough to do; at most kPartialsPerWorker * num_workers
// splits.
uint64_t find_split(const AttentionArgs& args, const AttentionShape& shape, size_t num_workers);

}  // namespace kvc
