// SPDX-License-Identifier: Apache-2.0
// A distribution over tokens as a row of floats, and what verification does with it: read a probability,
// subtract another one, draw. A row is normalised by its sum wherever it is used. Pure; any thread may call.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace kvc {

// Probabilities of tokens 0 .. size - 1, or of `ids`, which rise. `total` is their sum; 0 = not read yet, as
// good as 1 (rows that the caller vouches for).
struct Distribution {
  const float* values = nullptr;
  const int32_t* ids = nullptr;
  size_t size = 0;
  double total = 0;

  double of(int32_t token) const;  // normalised; 0 for tokens that it does not have
  int32_t token(size_t i) const { return ids != nullptr ? ids[i] : static_cast<int32_t>(i); }
  double scale() const { return total != 0 ? 1 / total : 1; }
};

// Rows of one array of the caller.
struct ProbabilityRows {
  const char* name;  // for texts: p or q
  const float* values;
  const int32_t* ids;
  size_t width;
  uint32_t vocab;
  bool trusted;

  // Row number `row`. Rows with ids are always checked, dense ones unless they are trusted.
  kvc_status read(size_t row, Distribution* out) const;
  // Reads a row that was trusted so far: before something is drawn.
  kvc_status complete(size_t row, Distribution* read) const;
};

// max(0, from - q) into `values`, which may be those of `from`. Its total is 0 if nothing is left.
Distribution subtract(const Distribution& from, const Distribution& q, float* values);
// The same if q is certain of `token`.
Distribution without(const Distribution& from, int32_t token, float* values);

// The first token whose cumulated probability is above u, in [0, 1). The total is read and above 0.
int32_t draw(const Distribution& from, double u);

double entropy(const Distribution& from);  // natural; the total is read

}  // namespace kvc
