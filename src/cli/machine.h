// SPDX-License-Identifier: Apache-2.0
// The bandwidth and the arithmetic of this machine: the denominators of `kvcache bench`. Each is measured by
// the fastest simple loop known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace kvcli {

/// More than the caches hold.
inline constexpr size_t kColdBytes = size_t{512} << 20;

/// Name of the processor and number of its hardware threads.
std::string processor_name();

/// Median of several runs, after a warm-up run.
double median_seconds(const std::function<void()>& run);

/// Bytes per second that all threads together read from memory.
double read_bandwidth(uint32_t threads);
/// Bytes per second that all threads together copy by memcpy, each byte counted once.
double copy_bandwidth(uint32_t threads);
/// Float32 operations per second of fused multiply-adds (two each) in registers, in the widest vectors.
double peak_flops(uint32_t threads);

}  // namespace kvcli
