// SPDX-License-Identifier: Apache-2.0
// Rows of keys and values between a caller's arrays and a slab: conversion, quantization, rotary embedding,
// rotation and the tiling of keys happen here. Arguments are valid; nothing is allocated. Different tokens
// may be moved by different threads.
#pragma once
#include "layout/layout.h"
#include "quant/metrics.h"
#include "storage/rotary.h"

namespace kvc {

class OpenKeys;

// What is stored: planes of a slab, and the keys that are not sealed yet (nullptr without channel keys).
struct Stored {
  const Layout* layout;
  const char* slab;
  const OpenKeys* open_keys;
};

// Keys or values in the caller's memory. Strides in elements.
struct RowArray {
  char* data;
  int32_t dtype;  // a float type
  int64_t token, head;
  Rotary rotary = {};  // of keys that a store turns on their way

  char* row(size_t t, uint32_t h) const {
    return data + (static_cast<int64_t>(t) * token + h * head) * static_cast<int64_t>(dtype_bits(dtype) / 8);
  }
  // The row as it is stored, of n elements: the caller's, or turned, in `buffer`.
  const char* row_to_store(size_t t, uint32_t h, size_t n, char* buffer) const {
    return rotary.table == nullptr ? row(t, h) : turned_row(t, h, n, buffer);
  }
  const char* turned_row(size_t t, uint32_t h, size_t n, char* buffer) const;
};

// Slot of the t-th token: the caller's, or by its position in a block table.
inline int64_t slot_of(const kvc_rows& rows, uint32_t block_size, size_t t) {
  if (rows.slots != nullptr) return rows.slots[t];
  const uint64_t position = rows.first_token + t;
  return int64_t{rows.block_table[position / block_size]} * block_size +
         static_cast<int64_t>(position % block_size);
}

// Rotates a row of a layout that stores them so. One that has no finite rotation becomes NaN as a whole.
void rotate_row(const Layout& layout, float* row, size_t n);

// One stored row as floats, as it is: rotated, if the layout rotates. The first `count` elements of the keys
// or (in a latent layout a part of the keys) of the values.
void read_row(const Stored& stored, bool keys, uint32_t layer, uint64_t block, uint32_t head, uint64_t token,
              uint32_t count, float* out);

// Moves the rows of all heads of `count` tokens in one layer. slots[t] is where token t is; -1 is skipped.
// `stream`: past the caches where possible, for calls that move much. Channel keys are stored by OpenKeys.
void store_rows(const Layout& layout, char* slab, bool keys, uint32_t layer, const RowArray& from,
                const int64_t* slots, size_t count, bool stream);
void gather_rows(const Stored& stored, bool keys, uint32_t layer, const RowArray& to, const int64_t* slots,
                 size_t count, bool stream);
// Compares rows with what is stored of them.
void measure_rows(const Stored& stored, bool keys, uint32_t layer, const RowArray& with, const int64_t* slots,
                  size_t count, QuantMeter* meter);

}  // namespace kvc
