// SPDX-License-Identifier: Apache-2.0
// How long a step of a simulated engine takes: a formula, or a measured table.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace kvcli {

class StepTime {
 public:
  /// Microseconds of a step; of each token that it computes; of each token of context that it reads. The
  /// defaults are what the data sheet of one H100 (3.35 TB/s, 989 TFLOP/s) allows for Llama 3.1 8B in bf16:
  /// to read 16 GB of weights, to compute 16 GFLOP, to read 128 KiB of keys and values.
  double fixed_us = 4800, token_us = 16, context_us = 0.04;

  /// "fixed_us=..,token_us=..,context_us=..", each of them optional, or a file of measured times (.json: an
  /// array of objects; else CSV) with tokens, context and us. Throws InputError.
  static StepTime parse(const std::string& spec);

  /// Nanoseconds on the device, at least 1.
  uint64_t device_ns(uint64_t tokens, uint64_t context) const;
  bool is_measured() const { return !table_.empty(); }

 private:
  void add(double tokens, double context, double us, const std::string& where);
  void read(const std::string& path);
  void read_json(std::istream& in, const std::string& path);
  void read_csv(std::istream& in, const std::string& path);
  void make_grid(const std::string& path);

  struct Entry {
    double tokens, context, us;
  };
  std::vector<Entry> entries_;                     // as read
  std::vector<double> tokens_, contexts_, table_;  // [tokens][contexts]
};

}  // namespace kvcli
