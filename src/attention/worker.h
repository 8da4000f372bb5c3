// SPDX-License-Identifier: Apache-2.0
// One worker's part of attend(): its memory, and the work on one split of one piece. A worker belongs to one
// thread. It writes the output rows of a piece or, for a split, a partial result.
#pragma once
#include <algorithm>

#include "attention/plan.h"
#include "attention/tile.h"

namespace kvc {

// Steps (a tile of a head) in the ring: the current ones, and as many later ones, which are fetched
// meanwhile.
inline constexpr uint32_t kSteps = 2 * kRunTiles, kFewSteps = 4;  // powers of 2

// Rows that are processed together from scores to values: intermediate results stay in the cache.
inline constexpr uint32_t kRowsAtOnce = 64;

// With at least this many rows of a head, a tile is widened to floats once for all of them.
inline constexpr uint32_t kManyRows = 16;

// Row max of a row that has seen nothing: finite, so that differences are finite.
inline constexpr float kNothing = -1e30f;

inline constexpr float kLog2e = 1.4426950408889634f;

// Up to this many rows of a head use the kernels for few rows.
inline constexpr uint32_t kFewRows = 4;

// How many rows of queries and results are fetched ahead.
inline constexpr uint32_t kRowsAhead = 16;

// With more products of 8 and 16 bits, a total of 8 sums would overflow.
inline constexpr uint32_t kMaxIntegerDim = 2048;

// A row of queries or results.
struct RowPlace {
  uint64_t token;
  uint32_t head;
};

// What some rows see of a tile.
struct Seen {
  uint32_t segments;  // none of them sees a later one
  bool all;           // every one sees every token of these
};

struct Pointers {
  const Tile* tile;
  uint32_t head;  // of the piece
  Rows k, v;      // by the offsets of the tile, or by the addresses below
  uint64_t k_at[kTile], v_at[kTile], v_scale_at[kTile];
};

// Steps that Kernels::attend_run takes together.
struct Run {
  size_t first;
  uint32_t count;
  size_t filled;
};

// All arrays of a worker, in one piece of memory. Rows are numbered through all heads of a piece.
struct Scratch {
  static size_t bytes(const AttentionShape& shape);
  Scratch(char* memory, const AttentionShape& shape) { carve(memory, shape); }

  float* q = nullptr;         // [rows][k_dim]
  uint32_t* pairs = nullptr;  // [heads][terms][rows of the head][k_dim / 2], or [heads][rows / 8] of digits
  float* units = nullptr;     // [rows] of pairs of int16, or digits
  float* sums = nullptr;      // [rows] of queries as such pairs
  float* o = nullptr;         // [rows][v_dim]
  float* o_before = nullptr;  // [kRowsAtOnce][v_dim]
  float* row_max = nullptr;   // [rows]
  float* row_sum = nullptr;   // [rows][16]
  float* scores = nullptr;    // [kRowsAtOnce][kTile], or [kScoreSegments][kRunRows][kSegment]
  float* k_rows = nullptr;    // [kTile][k_dim], if converted or widened
  float* v_rows = nullptr;    // [kTile][v_dim], likewise
  char* packed = nullptr;     // [kTile][v_dim, rounded up to 64] of 2 bytes
  uint32_t* run_keys = nullptr;    // [terms][segments of a run][k_dim / 2][kSegment]
  uint32_t* run_values = nullptr;  // [terms][v_dim / 16][tokens of a run / 2][16]
  uint32_t* run_p = nullptr;       // [kValueTerms][tokens of a run / 32][kRunRows][16]
  float* zeros = nullptr;          // a row
  float* slopes = nullptr;         // [rows]
  int64_t* positions = nullptr;    // [rows of a head]
  Tile* tiles = nullptr;           // [kSteps], or [kFewSteps] without runs
  Pointers* pointers = nullptr;    // likewise
  float* partials = nullptr;       // [kPartialsPerWorker][max_rows][v_dim + 2]: o, row_max, row_sum

 private:
  size_t carve(char* memory, const AttentionShape& shape);
};

class Worker {
 public:
  Worker(const AttentionArgs& args, const AttentionShape& shape, const Kernels& kernels, char* scratch);

  // Split `split` of the piece. Writes its result to `partial`, or to the output if partial is nullptr.
  void work(const Piece& piece, uint64_t split, float* partial);
  // Writes the piece's output from the partial results of its splits: partial_at(i) is partial result i.
  template <class PartialAt>
  void merge(const Piece& piece, PartialAt partial_at) {
    start(piece), clear_o(piece);
    for (uint64_t split = 0; split < piece.splits; ++split)
      add_partial(piece, partial_at(piece.first_partial + split));
    write_output(piece);
  }
  static float* partial_at(char* scratch, const AttentionShape& shape, size_t bytes_per_worker,
                           size_t partial);

 private:
  void start(const Piece& piece);
  void choose_kernels(const Piece& piece);
  void load_queries(const Piece& piece);
  // Calls each(row, place, ahead) for the rows of a head; `ahead` is the place to fetch.
  template <class Each>
  void for_each_row(const Piece& piece, uint32_t head, Each each) const {
    const uint32_t group = shape_.group, first_head = (piece.first_head + head) * group;
    const uint32_t tokens_ahead = kRowsAhead / group, heads_ahead = kRowsAhead % group;
    RowPlace at{piece.view.first_token + piece.first_row / group,
                first_head + static_cast<uint32_t>(piece.first_row % group)};
    for (uint32_t row = 0; row < piece.rows; ++row) {
      RowPlace ahead = at;
      if (row + kRowsAhead < piece.rows) {
        ahead = {at.token + tokens_ahead, at.head + heads_ahead};
        if (ahead.head >= first_head + group) ahead = {ahead.token + 1, ahead.head - group};
      }
      each(row, at, ahead);
      if (++at.head == first_head + group) at = {at.token + 1, first_head};
    }
  }
  const char* query_at(RowPlace at) const {
    return static_cast<const char*>(args_.q) + at.token * q_token_bytes_ + at.head * q_head_bytes_;
  }
  char* out_at(RowPlace at) const {
    return static_cast<char*>(args_.out) + at.token * out_token_bytes_ + at.head * out_head_bytes_;
  }
  void load_integers(const float* q, size_t first, uint32_t rows, uint32_t* to);
  uint32_t* pairs_of(const Piece& piece, size_t head, uint32_t row) const;
  bool split_pairs(const float* q, uint32_t rows, uint32_t* pairs);
  bool fill(TileWalk& walk, const Piece& piece, Pointers* now, const Pointers* before);
  void place_keys(Pointers* now);
  void place_values(Pointers* now);
  void step(const Piece& piece, const Pointers& now, const Pointers& next, uint32_t row, uint32_t rows);
  void convert(const Piece& piece, const Tile& tile, uint32_t head, Pointers* pointers);
  void widen(const Pointers& next, Pointers* pointers);
  const Pointers& prepare(const Piece& piece, size_t now, size_t filled);
  void point_ahead(const Pointers& next, bool fetches, Lines* ahead);
  bool choose_runs(const Piece& piece) const;
  uint32_t count_run(size_t now, size_t filled);
  bool pack_run(const Piece& piece, const Run& steps, const uint32_t* row, RunArgs* run);
  void attend_rows(const Piece& piece, const Run& steps, uint32_t row, uint32_t rows, RunArgs run);
  void attend_run(const Piece& piece, const Run& steps);
  void clear_o(const Piece& piece);
  Pointers& step_at(size_t i) { return scratch_.pointers[i & (steps_ - 1)]; }
  void add_values(const Piece& piece, const Pointers& now, const Pointers& next, uint32_t row, uint32_t rows,
                  const Seen& seen);
  void store_partial(const Piece& piece, float* partial);
  void add_partial(const Piece& piece, const float* partial);
  void write_output(const Piece& piece);
  float finish_row(size_t row, uint32_t q_head, float* lse) const;

  const AttentionArgs& args_;
  const AttentionShape& shape_;
  const Kernels& all_kernels_;
  const uint64_t q_token_bytes_, q_head_bytes_, out_token_bytes_, out_head_bytes_;
  Scratch scratch_;
  // For the piece. The kernels read the stored form, or floats if there are many rows.
  const Kernels* kernels_ = nullptr;
  enum class Pairs { kNone, kBf16, kInt16, kDigits };
  Pairs use_pairs_ = Pairs::kNone;
  Form k_form_ = kF32, v_form_ = kF32;
  uint32_t k_group_ = 0, v_group_ = 0;
  uint32_t terms_ = 1;          // of the piece's pairs
  const uint32_t p_terms_;      // of probabilities that multiply bf16 values
  Lines ahead_[2] = {};         // of the current step
  uint32_t steps_ = kFewSteps;  // of the ring: without runs, few enough for the L1 cache
  size_t tiles_ = 0;            // found so far
  bool runs_ = false;           // the piece uses attend_run
  bool fresh_ = false;          // `o` is not initialized
  uint32_t packed_ = 0;  // segments of the step that was prepared last whose values are in scratch_.packed
};

}  // namespace kvc
