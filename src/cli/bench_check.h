// SPDX-License-Identifier: Apache-2.0
// Compares the results of a benchmark with those of the CPU.
#pragma once
#include <cstdint>
#include <vector>

#include "cli/library.h"

namespace kvcli {

/// The largest relative error (L2 norm) of the compared rows.
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

/// A sample of 0 .. count - 1: the first, one in the middle, the last.
std::vector<uint64_t> some_of(uint64_t count);

/// An array [rows][heads][dim] in memory of a device or the CPU (NULL). The host may be unable to read it, so
/// a latent storage adopts it, with the rows as blocks.
class BenchArray {
 public:
  /// Throws InputError for rows that are no multiple of 16 bytes.
  BenchArray(const char* device, void* data, uint64_t rows, uint32_t heads, uint32_t dim, int32_t dtype);

  /// Reads rows as floats.
  std::vector<float> read(const std::vector<uint64_t>& rows);
  /// Fills rows with NaN, which no right result has.
  void spoil(const std::vector<uint64_t>& rows);

 private:
  void move(const std::vector<uint64_t>& rows, bool out, std::vector<float>* values);

  const char* const device_;
  const uint32_t heads_, dim_;
  Storage storage_;
};

/// Keys and values of tokens as floats. A latent storage has keys only.
struct BenchRows {
  std::vector<float> keys, values;
};
/// Gathers the tokens at these slots of a layer.
BenchRows gather_floats(const char* device, kvc_storage* storage, uint32_t layer,
                        const std::vector<int64_t>& slots);

}  // namespace kvcli
