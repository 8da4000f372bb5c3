// SPDX-License-Identifier: Apache-2.0
// Which way blocks take between the device and pages of the host: by the copy engine, a copy for each
// contiguous run, or by a kernel (swap_blocks()). Copy engines are best at large runs and pay for
// every one of them; where that changes depends on the machine, so both ways are measured once. Immutable
// after that; any thread may read it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvc::gpu {

enum class SwapPath { kCopyEngine, kKernel };

// `num_runs` runs of `run_bytes` bytes: block_parts() gives those of a block.
struct Swap {
  bool out;  // to the host
  uint64_t run_bytes, num_runs;
};

class SwapChoice {
 public:
  // Of machines that were not measured: a kernel for runs below kLargeRun.
  static constexpr uint64_t kLargeRun = uint64_t{64} << 10;
  // No measurement moves more than this.
  static constexpr uint64_t kMostBytes = uint64_t{8} << 20;

  // `measure` carries a swap out this way and gives its nanoseconds from the call until it is done; 0: it
  // cannot be done so, and never will be.
  using Measure = std::function<uint64_t(SwapPath path, const Swap& swap)>;
  void calibrate(const Measure& measure);

  SwapPath choose(const Swap& swap) const;
  bool measured() const { return measured_; }
  // Where the choice changes for many runs: shorter ones use the kernel. UINT64_MAX: all do.
  uint64_t kernel_below(bool out) const;
  double nanoseconds(SwapPath path, const Swap& swap) const;  // expected; of a way that was measured

 private:
  static constexpr size_t kNumSizes = 5;
  static constexpr uint64_t kSizes[kNumSizes] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};

  // A swap takes `fixed` and for each run that of its size.
  struct Cost {
    bool possible;
    double fixed, run[kNumSizes];
  };
  static Cost measure_cost(const Measure& measure, SwapPath path, bool out);
  const Cost& cost(SwapPath path, bool out) const { return costs_[path == SwapPath::kKernel][out]; }

  bool measured_ = false;
  Cost costs_[2][2] = {};
};

}  // namespace kvc::gpu
