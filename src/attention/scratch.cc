// SPDX-License-Identifier: Apache-2.0
// The arrays of one worker, carved from a call's memory.
#include <algorithm>

#include "attention/worker.h"
#include "base/carver.h"

namespace kvc {

size_t Scratch::carve(char* memory, const AttentionShape& shape) {
  Carver<64> carver(memory);
  const size_t rows = shape.max_rows, k = shape.k_dim, v = shape.v_dim;
  carver.take(&partials, kPartialsPerWorker * rows * (v + 2));
  carver.take(&q, rows * k);
  carver.take(&pairs, rows * k * (has_bytes(shape) ? 4 : 2));
  carver.take(&units, rows);
  carver.take(&sums, rows);
  carver.take(&o, rows * v);
  carver.take(&o_before, kRowsAtOnce * v);
  carver.take(&row_max, rows);
  carver.take(&row_sum, rows * 16);
  const size_t run_tokens = size_t{shape.run_tiles} * kTile;
  carver.take(&scores, std::max(kRowsAtOnce * kTile, kRunRows * kScoreSegments * kSegment));
  carver.take(&run_p, run_tokens / 2 * kRunRows * kValueTerms);
  carver.take(&k_rows, shape.k_source == Source::kConverted || shape.k_form != kF32 ? kTile * k : 0);
  carver.take(&v_rows, shape.v_source == Source::kConverted || shape.v_form != kF32 ? kTile * v : 0);
  carver.take(&packed, kTile * ((v + 63) / 64 * 64) * sizeof(uint16_t));
  carver.take(&run_keys, run_tokens * k / 2 * (shape.k_form == kBf16 ? 1 : kMaxTerms));
  carver.take(&run_values, run_tokens * v / 2 * (shape.v_form == kBf16 ? 1 : kValueTerms));
  carver.take(&zeros, k > v ? k : v);
  carver.take(&slopes, rows);
  carver.take(&positions, shape.piece_rows);
  const size_t steps = shape.run_tiles != 0 ? kSteps : kFewSteps;
  carver.take(&tiles, steps);
  carver.take(&pointers, steps);
  return carver.used();
}

size_t Scratch::bytes(const AttentionShape& shape) { return Scratch(nullptr, shape).carve(nullptr, shape); }

float* Worker::partial_at(char* scratch, const AttentionShape& shape, size_t bytes_per_worker,
                          size_t partial) {
  Scratch of_worker(scratch + partial / kPartialsPerWorker * bytes_per_worker, shape);
  return of_worker.partials + partial % kPartialsPerWorker * shape.max_rows * (shape.v_dim + 2);
}

}  // namespace kvc
