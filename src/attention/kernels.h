// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set. They work on one tile: up to 64 tokens of one KV head, and the rows
// (query, query head) that read it. This header is compiled with the options of every instruction set, so it
// must not define functions. Kernels are stateless; any thread may call them.
#pragma once
#include <stdint.h>

namespace kvc {

inline constexpr uint32_t kSegment = 16;  // tokens of a segment; a tile is 1 to 4 segments from anywhere
inline constexpr uint32_t kMaxSegments = 4;
inline constexpr uint32_t kTile = kSegment * kMaxSegments;

// Of stored elements. Quantized ones represent code * scale, unsigned integers code * scale + offset.
enum Form : uint32_t { kF32, kF16, kBf16, kI8, kU8, kI4, kU4, kE4M3, kE5M2, kNumForms };
inline constexpr uint8_t kBits[kNumForms] = {32, 16, 16, 8, 8, 4, 4, 8, 8};
inline constexpr uint32_t kNumTiledForms = 3;  // the floats

// Where the keys or values of a tile are: offsets from an address. All heads of a tile share the offsets.
struct Rows {
  uint64_t base;             // address
  const uint64_t* at;        // plain: of each token; tiled: of each segment
  uint64_t scale_base;       // address
  const uint64_t* scale_at;  // quantized: of each token, one float or (scale, offset) per group
  bool scales_adjoin;        // one float per token, those of a segment one after the other
  uint32_t group;            // elements that share a scale: the dim if not quantized
};

// The cache lines of a tile that are still to be fetched: one of each segment, then the next one of each.
// Memory is faster with several sequences of lines at once.
struct Lines {
  uint64_t base;
  const uint64_t *row, *end;      // offsets of the rows of the first segment that are left
  size_t at, row_bytes;           // bytes of *row that are fetched, and all of them
  uint32_t segments, to_segment;  // to_segment: offsets from one segment to the next
  uint32_t due;                   // lines to be fetched now
};

// A kernel also fetches the rows `next`, of the same shape, into the L2 cache: kernels of scores that read
// line by line fetch the same line of `next`; others use Lines. Without offsets in `next` nothing is fetched.
struct ScoreArgs {
  uint32_t rows, dim, segments;
  uint32_t q_terms;    // parts of q_pairs: 1 if bf16 holds the queries exactly, else 2
  uint32_t term_rows;  // rows from one part of q_pairs to the next
  const float* q;      // [rows][dim]
  // [q_terms][term_rows][dim / 2] pairs whose terms add up to q. They are bf16, or, for integer keys with one
  // scale per row, int16 in units of q_units [rows]; q_sums [rows] is the sum of a row.
  const uint32_t* q_pairs;
  const float *q_units, *q_sums;  // nullptr = no integers
  // In place of pairs of int16: [rows / 8][dim / 4][16][4] digits, x = 256 * high + low. For each four
  // elements the high digits of rows 0 to 3, their low digits, then rows 4 to 7. nullptr = none.
  const int8_t* q_digits;
  Rows k, next;
  float* scores;  // [rows][kTile], written: q . k
  Lines* ahead;   // [2] the next keys, the next values
};

struct WidenArgs {
  uint32_t dim, segments;
  Rows from, next;
  float* to;  // [tokens][dim] of plain rows, [segments][dim][kSegment] of tiles
};

struct AdjustArgs {
  uint32_t rows, segments;
  float* scores;            // [rows][kTile], changed to logits in units of log 2
  float scale, soft_cap;    // soft_cap 0 = none
  const float* slopes;      // [rows], or nullptr
  const int64_t* query_at;  // [rows] positions
  const int64_t* key_at;    // [segments] position of the first token
  const uint64_t* visible;  // [rows] one bit per token, or nullptr = all
};

struct SoftmaxArgs {
  uint32_t rows, segments, o_dim;
  float* scores;  // [rows][kTile]; changed to exp2(scale * score - row_max)
  float scale;
  float* row_max;  // [rows] highest logit so far
  float* row_sum;  // [rows][16] sums of the results, one per lane
  float* o;        // [rows][o_dim], scaled to the new `row_max`
};

struct ValueArgs {
  uint32_t rows, dim, segments;
  uint32_t p_terms;  // 1 = kernels of bf16 pairs may round probabilities, 2 = they keep them to 2^-17
  const float* p;    // [rows][kTile]
  Rows v, next;      // plain
  float* o;          // [rows][dim], added to
  void* packed;      // [kTile][dim, rounded up to 64] of 2 bytes, for the kernel; aligned to 64
  Lines* ahead;      // those of ScoreArgs, after the scores
  bool is_packed;    // `packed` holds v already, from the previous call
};

// Many rows against several tiles, where attend_run exists: all factors are first split into bf16 terms that
// add up to them, and packed into words of two elements.
inline constexpr uint32_t kRunTiles = 8;  // at most
inline constexpr uint32_t kRunSegments = kRunTiles * kMaxSegments;
inline constexpr uint32_t kScoreSegments = 2 * kMaxSegments;  // whose scores are in memory at once
inline constexpr uint32_t kRunRows = 32;                      // processed together; fewer use other kernels
inline constexpr uint32_t kMaxTerms = 3;                      // of queries and keys: every bit of a float
inline constexpr uint32_t kValueTerms = 2;  // of probabilities and values: 2^-18 of it is left out

// Keys or values of a tile with an even number of segments; dim % 32 == 0.
struct PackArgs {
  uint32_t dim, segments;
  Form form;            // kF32, or kBf16, which is its only term
  bool tiled;           // keys, floats
  bool must_be_finite;  // bf16 too
  uint64_t seen;        // one bit per token; other tokens are not used, and not read but for keys in bf16
  Rows from;
  uint32_t* to;         // aligned to 64
  size_t term_words;    // from one term to the next
  size_t column_words;  // of values, from 16 columns to the next
};

struct RunArgs {
  uint32_t rows, k_dim, v_dim, segments;
  uint32_t q_terms, k_terms, p_terms, v_terms;
  uint32_t score_orders;  // of terms i of queries and j of keys, those with i + j below this are multiplied
  size_t q_term_words, k_term_words, v_term_words, v_column_words, p_term_words;
  const uint32_t* q_pairs;             // [q_terms][rows][k_dim / 2]
  const uint32_t* k[kRunSegments];     // of each segment [k_terms][k_dim / 2][kSegment]
  const uint32_t* v;                   // as packed
  const uint64_t* visible[kRunTiles];  // [rows] one bit per token, or nullptr = all, of each tile
  float scale;                         // above 0
  float nothing;                       // `row_max` of a row that has seen nothing
  bool fresh;                          // no row has seen anything: o is written, not added to
  float *row_max, *row_sum, *o;        // as SoftmaxArgs
  float* scores;                       // [kScoreSegments][kRunRows][kSegment], for the kernel
  uint32_t* p;                         // [kValueTerms][segments / 2][kRunRows][16], likewise
  Lines *ahead, *ahead_end;            // to be fetched
};

// Plain rows need dim % 16 == 0, and group % 16 == 0 or group >= dim; tiles need dim to be a multiple of the
// elements in 4 bytes.
struct Kernels {
  const char* name;
  const Kernels* few_of_bf16;    // for few rows of keys or values of this form; nullptr = these
  bool bf16_pairs, int16_pairs;  // scores of such keys read q_pairs
  bool digits;                   // scores of keys of 8 bits with dim % 64 == 0 read q_digits
  void (*row_scores[kNumForms])(const ScoreArgs&);
  void (*tile_scores[kNumTiledForms])(const ScoreArgs&);
  void (*widen_rows[kNumForms])(const WidenArgs&);  // kF32: nullptr
  void (*widen_tiles[kNumTiledForms])(const WidenArgs&);
  void (*adjust)(const AdjustArgs&);
  void (*softmax)(const SoftmaxArgs&);
  void (*add_values[kNumForms])(const ValueArgs&);
  bool (*in_pairs)(Form form, uint32_t dim,
                   uint32_t per_scale);  // whether add_values multiplies tokens together
  // Each thread calls it after its last tile: restores the order of the columns of o, and releases the tile
  // registers.
  void (*finish)(Form form, uint32_t per_scale, uint32_t rows, uint32_t dim, float* o);
  void (*scale)(float* row, uint32_t dim, float factor);  // dim % 16 == 0
  // Return the number of terms, or 0 if something is not finite.
  uint32_t (*pack_queries)(const float* q, uint32_t rows, uint32_t dim, uint32_t* to, size_t term_words);
  uint32_t (*pack_keys)(const PackArgs&);
  uint32_t (*pack_values)(const PackArgs&);
  void (*attend_run)(const RunArgs&);  // nullptr: there is none
};

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;
extern const Kernels kAmxKernels;

}  // namespace kvc
