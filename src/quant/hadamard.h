// SPDX-License-Identifier: Apache-2.0
// The orthonormal Walsh-Hadamard transform of a row. It spreads a large element over the whole row, which
// helps 4-bit codes. It keeps the length of a row and, applied to both queries and keys, their products.
// Natural order. Stateless, no allocation; any thread may call.
#pragma once
#include <cstddef>

namespace kvc {

// In place; applied twice it restores the row up to rounding. False if n is not a power of two; the row is
// unchanged.
bool hadamard(float* row, size_t n);

}  // namespace kvc
