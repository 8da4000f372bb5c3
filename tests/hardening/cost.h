// SPDX-License-Identifier: Apache-2.0
// What an input costs, and that it costs no more than in proportion to its size: the processor time of the
// thread and the most bytes allocated at once, for inputs of 64 KiB to 1 MiB. Quadratic work would take 16
// times as long per byte.
#pragma once
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "hardening/heap.h"

namespace kvc::test {

struct Cost {
  double ns = 0;
  int64_t peak_bytes = 0, calls = 0;
};

inline double thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline Cost cost_of(const std::function<void()>& work) {
  Cost best;
  for (int time = 0; time < 3; ++time) {
    const int64_t bytes = heap::bytes(), calls = heap::calls();
    heap::forget_peak();
    const double begin = thread_ns();
    work();
    const double ns = thread_ns() - begin;
    best.ns = time == 0 ? ns : std::min(best.ns, ns);
    best.peak_bytes = std::max(best.peak_bytes, heap::peak_bytes() - bytes);
    best.calls = std::max(best.calls, heap::calls() - calls);
  }
  return best;
}

// prepare(size) gives what is to be measured: an input of about so many bytes, read. No input may cost more
// than `bytes_per_byte` bytes of memory for each of its own, beside a megabyte.
inline void expect_in_proportion(const char* name, double bytes_per_byte,
                                 const std::function<std::function<void()>(size_t size)>& prepare) {
  constexpr size_t kSmall = size_t{64} << 10, kLarge = size_t{1} << 20;
  double per_byte = 0;
  for (size_t size = kSmall; size <= kLarge; size *= 4) {
    const Cost cost = cost_of(prepare(size));
    const double now = cost.ns / static_cast<double>(size);
    if (size == kSmall) per_byte = now;
    std::printf("%-28s %7zu bytes: %8.2f ns/byte, %6.2f bytes/byte at most, %lld allocations\n", name, size,
                now, static_cast<double>(cost.peak_bytes) / static_cast<double>(size),
                static_cast<long long>(cost.calls));
    EXPECT_LE(now, 10 * per_byte + 1) << name << " of " << size << " bytes";
    EXPECT_LE(static_cast<double>(cost.peak_bytes), bytes_per_byte * static_cast<double>(size) + (1 << 20))
        << name << " of " << size << " bytes";
  }
}

}  // namespace kvc::test
