// SPDX-License-Identifier: Apache-2.0
// Rotary embedding of rows. Arguments are valid and complete; different threads may rotate different tokens.
#pragma once
#include "backend/operations.h"

struct kvc_rope_rows;

namespace kvc {

struct Rotary : kvc_backend_rotary {
  Rotary from(size_t t) const;                            // of the tokens from t on
  void rotate(size_t t, int32_t dtype, void* row) const;  // a row of token t, in place
};

Rotary rotary_of(const kvc_rope_rows& rows);

void rotate_rows(const kvc_rope_rows& rows);

}  // namespace kvc
