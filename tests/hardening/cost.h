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
#include <iterator>
#include <vector>

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

// A busy machine fails no test: times are the least of as many tries as it takes to keep a limit, and these
// are the most. What is too slow by itself is so in all of them.
constexpr int kMostTries = 50;

// Measures once more.
inline void measure(const std::function<void()>& work, Cost* cost) {
  const int64_t bytes = heap::bytes(), calls = heap::calls();
  heap::forget_peak();
  const double begin = thread_ns();
  work();
  const double ns = thread_ns() - begin;
  cost->ns = cost->ns == 0 ? ns : std::min(cost->ns, ns);
  cost->peak_bytes = std::max(cost->peak_bytes, heap::peak_bytes() - bytes);
  cost->calls = std::max(cost->calls, heap::calls() - calls);
}

inline Cost cost_of(const std::function<void()>& work) {
  Cost cost;
  for (int i = 0; i < 3; ++i) measure(work, &cost);
  return cost;
}

// How many times as long one piece of work takes as another: ns(true) / ns(false).
inline double least_ratio(double limit, const std::function<double(bool)>& ns) {
  double first = ns(true), second = ns(false);
  for (int i = 1; i < kMostTries && first > limit * second; ++i)
    first = std::min(first, ns(true)), second = std::min(second, ns(false));
  return first / second;
}

// prepare(size) gives what is to be measured: an input of about so many bytes, read. No input may cost more
// than `bytes_per_byte` bytes of memory for each of its own, beside a megabyte.
inline void expect_in_proportion(const char* name, double bytes_per_byte,
                                 const std::function<std::function<void()>(size_t size)>& prepare) {
  constexpr size_t kSizes[] = {size_t{64} << 10, size_t{256} << 10, size_t{1} << 20};
  std::vector<std::function<void()>> works;
  for (const size_t size : kSizes) works.push_back(prepare(size));
  Cost costs[std::size(kSizes)];
  const auto ns_per_byte = [&](size_t i) { return costs[i].ns / static_cast<double>(kSizes[i]); };
  const auto in_proportion = [&](size_t i) { return ns_per_byte(i) <= 10 * ns_per_byte(0) + 1; };
  for (int i = 0; i < kMostTries && (i < 2 || !in_proportion(1) || !in_proportion(2)); ++i)
    for (size_t j = 0; j < works.size(); ++j) measure(works[j], &costs[j]);
  for (size_t i = 0; i < works.size(); ++i) {
    const auto size = static_cast<double>(kSizes[i]);
    std::printf("%-28s %7zu bytes: %8.2f ns/byte, %6.2f bytes/byte at most, %lld allocations\n", name,
                kSizes[i], ns_per_byte(i), static_cast<double>(costs[i].peak_bytes) / size,
                static_cast<long long>(costs[i].calls));
    EXPECT_TRUE(in_proportion(i)) << name << " of " << kSizes[i] << " bytes";
    EXPECT_LE(static_cast<double>(costs[i].peak_bytes), bytes_per_byte * size + (1 << 20))
        << name << " of " << kSizes[i] << " bytes";
  }
}

}  // namespace kvc::test
