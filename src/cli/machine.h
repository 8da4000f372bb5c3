// SPDX-License-Identifier: Apache-2.0
// What the machine itself reaches with some threads: the denominators of `kvcache bench`. Each is the best
// simple way found to read, to copy or to multiply, so that a share of it means something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvcli {

/// More than caches hold: what is measured over this many bytes is memory.
inline constexpr size_t kColdBytes = size_t{512} << 20;

/// Median of several runs, after one that is not counted.
double median_seconds(const std::function<void()>& run);

/// Bytes per second that the threads read from memory together.
double read_bandwidth(uint32_t threads);
/// Bytes per second that the threads copy together by memcpy, each byte counted once.
double copy_bandwidth(uint32_t threads);
/// Float32 operations per second of fused multiply-adds (two each) in registers, in the widest vectors.
double peak_flops(uint32_t threads);

}  // namespace kvcli
