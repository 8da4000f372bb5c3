// SPDX-License-Identifier: Apache-2.0
// Tensor cores on the emulator: a wave of 32 has mma.m16n8k16 and ldmatrix of PTX, with the fragments of its
// manual.
#pragma once
#include "emulator/intrinsics.h"

namespace kvc::gpu {

inline constexpr bool kHasMma = kWave == 32;

namespace emulator {

inline float half_value(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float value =
      exponent == 0 ? static_cast<float>(mantissa) * 0x1p-24f
                    : std::bit_cast<float>((exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}
inline float bfloat_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

template <bool kBfloat>
float element(uint32_t pair, uint32_t which) {
  const auto bits = static_cast<uint16_t>(pair >> (16 * which));
  return kBfloat ? bfloat_value(bits) : half_value(bits);
}

struct MmaOperands {
  uint32_t a[4], b[2];
};

// A [16][16]: lane l, register r, half i holds row l/4 + 8 (r%2), column 2 (l%4) + i + 8 (r/2).
// B [16][8]:  row 2 (l%4) + i + 8 r, column l/4.   C, D [16][8]: row l/4 + 8 (r/2), column 2 (l%4) + r%2.
template <bool kBfloat>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Place& place) {
  MmaOperands mine;
  std::memcpy(mine.a, a, sizeof a);
  std::memcpy(mine.b, b, sizeof b);
  const Exchanged<MmaOperands> all(mine, place);
  const uint32_t own = threadIdx.x % 32;
  float rows[2][16], columns[2][16];  // those of this lane's results
  for (uint32_t k = 0; k < 16; ++k) {
    const uint32_t pair = k % 8 / 2;
    const MmaOperands row = all[own / 4 * 4 + pair];
    for (uint32_t i = 0; i < 2; ++i) {
      rows[i][k] = element<kBfloat>(row.a[i + 2 * (k / 8)], k % 2);
      columns[i][k] = element<kBfloat>(all[(2 * (own % 4) + i) * 4 + pair].b[k / 8], k % 2);
    }
  }
  for (uint32_t r = 0; r < 4; ++r) {
    float sum = 0;
    for (uint32_t k = 0; k < 16; ++k) sum += rows[r / 2][k] * columns[r % 2][k];
    d[r] += sum;
  }
}

}  // namespace emulator

// d += a * b in float32.
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     Place place = Place::current()) {
  emulator::mma_m16n8k16<true>(d, a, b, place);
}
inline void mma_fp16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     Place place = Place::current()) {
  emulator::mma_m16n8k16<false>(d, a, b, place);
}

// ldmatrix.x4: four 8x8 matrices of 16-bit elements in shared memory. Lane 8 m + i gives the address of row i
// of matrix m, aligned to 16. Lane l receives of each matrix the pair in row l/4, columns 2 (l%4) and + 1,
// or, transposed, that of the transposed matrix.
template <bool kTransposed = false>
void load_matrix(uint32_t (&fragment)[4], const void* row, Place place = Place::current()) {
  const Exchanged<const unsigned char*> rows(static_cast<const unsigned char*>(row), place);
  const uint32_t own = threadIdx.x % 32;
  for (uint32_t m = 0; m < 4; ++m) {
    uint16_t pair[2];
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t r = kTransposed ? 2 * (own % 4) + i : own / 4,
                     c = kTransposed ? own / 4 : 2 * (own % 4) + i;
      const unsigned char* from = rows[8 * m + r];
      if (reinterpret_cast<uintptr_t>(from) % 16 != 0) emulator::fault("a matrix row is not aligned to 16");
      std::memcpy(&pair[i], from + 2 * c, 2);
    }
    std::memcpy(&fragment[m], pair, 4);
  }
  sync_wave(place);  // nobody overwrites rows that others still read
}

}  // namespace kvc::gpu
