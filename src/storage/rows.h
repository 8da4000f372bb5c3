// SPDX-License-Identifier: Apache-2.0
// Rows of keys and values between a caller's arrays and a slab. Here they are converted, quantized, rotated,
// put through the Hadamard transform, and keys are tiled. Arguments are valid; nothing is allocated.
// Different threads may move different tokens.
#pragma once
#include "layout/layout.h"
#include "quant/metrics.h"
#include "storage/rotary.h"

namespace kvc {

class ResidualKeys;

// What is stored: the planes of a slab, and the keys that are not quantized yet (nullptr without channel
// keys).
struct Stored {
  const Layout* layout;
  const char* slab;
  const ResidualKeys* residual_keys;
};

// Keys or values in the caller's memory. Strides in elements.
struct RowArray {
  char* data;
  int32_t dtype;  // a float type
  int64_t token, head;
  Rotary rotary = {};  // of keys, before they are stored

  char* row(size_t t, uint32_t h) const {
    return data + (static_cast<int64_t>(t) * token + h * head) * static_cast<int64_t>(dtype_bits(dtype) / 8);
  }
  // The caller's row of n elements, or the rotated one in `buffer`.
  const char* row_to_store(size_t t, uint32_t h, size_t n, char* buffer) const {
    return rotary.table == nullptr ? row(t, h) : rotated_row(t, h, n, buffer);
  }
  const char* rotated_row(size_t t, uint32_t h, size_t n, char* buffer) const;
};

// Slot of the t-th token: the caller's, or by its position in a block table.
inline int64_t slot_of(const kvc_backend_rows& rows, uint32_t block_size, size_t t) {
  if (rows.slots != nullptr) return rows.slots[t];
  const uint64_t position = rows.first_token + t;
  return int64_t{rows.block_table[position / block_size]} * block_size +
         static_cast<int64_t>(position % block_size);
}

// The Hadamard transform of a row, if the layout stores rows so. A row whose transform is not finite becomes
// NaN as a whole.
void hadamard_row(const Layout& layout, float* row, size_t n);

// The first `count` elements of a stored row as floats; with the Hadamard transform, if the layout has it. In
// a latent layout, the values are a part of the keys.
void read_row(const Stored& stored, bool keys, uint32_t layer, uint64_t block, uint32_t head, uint64_t token,
              uint32_t count, float* out);

// Moves the rows of all heads of `count` tokens in one layer. slots[t] is the slot of token t; -1 is skipped.
// `stream`: writes past the caches where possible, for calls that move much. ResidualKeys stores channel
// keys.
void store_rows(const Layout& layout, char* slab, bool keys, uint32_t layer, const RowArray& from,
                const int64_t* slots, size_t count, bool stream);
void gather_rows(const Stored& stored, bool keys, uint32_t layer, const RowArray& to, const int64_t* slots,
                 size_t count, bool stream);
// Compares rows with what is stored of them.
void measure_rows(const Stored& stored, bool keys, uint32_t layer, const RowArray& with, const int64_t* slots,
                  size_t count, QuantMeter* meter);

}  // namespace kvc
