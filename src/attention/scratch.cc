// SPDX-License-Identifier: Apache-2.0
#include "attention/carver.h"
#include "attention/worker.h"

namespace kvc {

size_t Scratch::carve(char* memory, const Shape& shape) {
  Carver carver(memory);
  const size_t rows = shape.max_rows, k = shape.k_dim, v = shape.v_dim;
  carver.take(&slots, kSlotsPerWorker * rows * (v + 2));
  carver.take(&q, rows * k);
  carver.take(&pairs, rows * k * (has_bytes(shape) ? 4 : 1));
  carver.take(&units, rows);
  carver.take(&sums, rows);
  carver.take(&o, rows * v);
  carver.take(&o_before, kRowsAtOnce * v);
  carver.take(&top, rows);
  carver.take(&total, rows * 16);
  carver.take(&scores, size_t{kRowsAtOnce} * kTile);
  carver.take(&k_rows, shape.k_source == Source::kConverted || shape.k_form != kF32 ? kTile * k : 0);
  carver.take(&v_rows, shape.v_source == Source::kConverted || shape.v_form != kF32 ? kTile * v : 0);
  carver.take(&packed, kTile * ((v + 63) / 64 * 64) * sizeof(uint16_t));
  carver.take(&zeros, k > v ? k : v);
  carver.take(&slopes, rows);
  carver.take(&positions, shape.piece_rows);
  carver.take(&tiles, kAhead + 1);
  carver.take(&pointers, kAhead + 1);
  return carver.used();
}

size_t Scratch::bytes(const Shape& shape) { return Scratch(nullptr, shape).carve(nullptr, shape); }

float* Worker::slot_at(char* scratch, const Shape& shape, size_t bytes_per_worker, size_t slot) {
  Scratch of_worker(scratch + slot / kSlotsPerWorker * bytes_per_worker, shape);
  return of_worker.slots + slot % kSlotsPerWorker * shape.max_rows * (shape.v_dim + 2);
}

}  // namespace kvc
