// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX: tiles 0 to 3 are sums, 4 and 5 left factors, 6 and 7 right factors. For the
// kernels of integers, keys are left factors.
#pragma once
#include "attention/kernel_blocks.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

// One instruction each, which contains the tile's number. The compiler's intrinsics do not declare that they
// read and write memory.
template <int tile>
inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int tile>
inline void load_tile(const void* at, size_t row_bytes) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(tile), "r"(at), "r"(row_bytes) : "memory");
}
// For data that is read once: evicts less from the L1 cache.
template <int tile>
inline void stream_tile(const void* at, size_t row_bytes) {
  asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" : : "i"(tile), "r"(at), "r"(row_bytes) : "memory");
}
template <int tile>
inline void store_tile(void* at, size_t row_bytes) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(tile), "r"(at), "r"(row_bytes) : "memory");
}
template <int sums, int a, int b>
inline void multiply_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
}
// Signed integers times stored bytes; multiply_bytes() has the bytes on the left.
template <Form form, int sums, int a, int bytes>
inline void multiply_by_bytes() {
  if constexpr (form == kU8) {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(bytes));
  } else {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(bytes));
  }
}
template <Form form, int sums, int bytes, int b>
inline void multiply_bytes() {
  if constexpr (form == kU8) {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(bytes), "i"(b));
  } else {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(bytes), "i"(b));
  }
}

constexpr uint32_t kTileRows = 16;
thread_local uint32_t configured_rows = 0;  // of this thread's tiles 0 to 5; 0 = not configured

void set_tile_rows(uint32_t rows) {
  if (rows == configured_rows) return;
  configured_rows = rows;
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config{};
  config.palette = 1;
  for (uint32_t i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = static_cast<uint8_t>(i < 6 ? rows : kTileRows);
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

void release_tiles() {
  if (configured_rows != 0) asm volatile("tilerelease");
  configured_rows = 0;
}

// Calls f<i>() for i < count, at most 4.
template <class F>
inline void for_tiles(uint32_t count, F f) {
  f.template operator()<0>();
  if (count > 1) f.template operator()<1>();
  if (count > 2) f.template operator()<2>();
  if (count > 3) f.template operator()<3>();
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
