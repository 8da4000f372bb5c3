// SPDX-License-Identifier: Apache-2.0
// Rotary embedding of rows. Arguments are valid and complete; rows of different tokens may be turned by
// different threads.
#pragma once
#include <kvcache.h>

namespace kvc {

// How the rows of tokens turn.
struct Rotary {
  const float* table = nullptr;        // [table rows][dim]: cosines, sines; nullptr: nothing turns
  const int64_t* table_row = nullptr;  // of each token; nullptr: row t for token t
  uint32_t dim = 0, first = 0;         // elements of a row that turn
  bool interleaved = false;

  Rotary from(size_t t) const;                          // of the tokens from t on
  void turn(size_t t, int32_t dtype, void* row) const;  // a row of token t, in place
};

Rotary rotary_of(const kvc_rows& rows);
Rotary rotary_of(const kvc_rope_rows& rows);

void rotate_rows(const kvc_rope_rows& rows);

}  // namespace kvc
