// SPDX-License-Identifier: Apache-2.0
// What a benchmark has computed beside what the CPU computes.
#pragma once

#include <kvcache.h>

#include <cstdint>
#include <vector>

#include "cli/library.h"

namespace kvcli {

/// The worst of the rows that were compared: its distance to what it should be, as a part of that (L2 norms).
struct BenchCheck {
  uint64_t rows = 0;
  double max_error = 0;
  double limit = 0;

  bool right() const { return rows != 0 && max_error <= limit; }  // NaN is not
};

/// Adds rows of `width` elements.
void compare_rows(const std::vector<float>& found, const std::vector<float>& expected, size_t width,
                  BenchCheck* check);
/// Adds a row of bytes: the part of them that differ.
void compare_bytes(const char* found, const char* expected, size_t bytes, BenchCheck* check);

/// Some of 0 .. count - 1: the first, one amid, the last.
std::vector<uint64_t> some_of(uint64_t count);

/// An array [rows][heads][dim] in memory of a device, or of the CPU (NULL), which the host may not be able to
/// read: it is taken for the memory of a latent storage, whose blocks are its rows.
class BenchArray {
 public:
  /// Throws InputError for rows that are no multiple of 16 bytes.
  BenchArray(const char* device, void* data, uint64_t rows, uint32_t heads, uint32_t dim, int32_t dtype);

  /// As floats, one row after the other.
  std::vector<float> read(const std::vector<uint64_t>& rows);
  /// What nothing should compute: NaN.
  void spoil(const std::vector<uint64_t>& rows);

 private:
  void move(const std::vector<uint64_t>& rows, bool out, std::vector<float>* values);

  const char* const device_;
  const uint32_t heads_, dim_;
  Storage storage_;
};

/// Keys and values of tokens, as floats. Those of a latent storage are keys alone.
struct BenchRows {
  std::vector<float> keys, values;
};
/// Of the tokens at these slots of a layer.
BenchRows gather_floats(const char* device, kvc_storage* storage, uint32_t layer,
                        const std::vector<int64_t>& slots);

}  // namespace kvcli
