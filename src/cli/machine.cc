// SPDX-License-Identifier: Apache-2.0
#include "cli/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include "cli/errors.h"
#include "cli/library.h"
#include "cli/table.h"

namespace kvcli {
namespace {

constexpr int kRepetitions = 7;

void on_threads(uint32_t threads, const std::function<void(uint32_t)>& work) {
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
}

/// In huge pages if possible, as the library allocates, with all pages touched.
class ColdMemory {
 public:
  explicit ColdMemory(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, bytes);
  }
  ~ColdMemory() { munmap(data_, bytes_); }
  ColdMemory(const ColdMemory&) = delete;
  char* data() { return static_cast<char*>(data_); }

 private:
  void* data_;
  size_t bytes_;
};

// One function per instruction set: elsewhere the compiler splits vectors of that width.

// Sums the bytes in four streams, one line of each in turn. One stream or narrow loads leave up to a fifth of
// the bandwidth unused.
#define KVC_SUM(name, bytes, ...)                                \
  __VA_ARGS__ uint64_t name(const char* from, size_t size) {     \
    typedef uint64_t Vector __attribute__((vector_size(bytes))); \
    constexpr size_t kStreams = 4, kLoads = 256 / bytes;         \
    const size_t share = size / kStreams / 256 * 256;            \
    Vector sums[kLoads] = {};                                    \
    for (size_t at = 0; at < share; at += 256) {                 \
      for (size_t stream = 0; stream < kStreams; ++stream) {     \
        const char* line = from + stream * share + at;           \
        for (size_t i = 0; i < kLoads; ++i) {                    \
          Vector words;                                          \
          std::memcpy(&words, line + i * bytes, bytes);          \
          sums[i] += words;                                      \
        }                                                        \
      }                                                          \
    }                                                            \
    for (size_t i = 1; i < kLoads; ++i) sums[0] += sums[i];      \
    return sums[0][0] + sums[0][1];                              \
  }

// Multiply-adds on kSums independent vectors, enough to hide the latency. They converge to 1 from different
// values, so no two are equal and no number is special. One function per instruction set, as above.
constexpr int kSums = 12;
constexpr uint64_t kSteps = 20000000;
#define KVC_MULTIPLY_ADD(name, bytes, ...)                                                      \
  __VA_ARGS__ float name() {                                                                    \
    typedef float Vector __attribute__((vector_size(bytes)));                                   \
    Vector sums[kSums], half = Vector{} + 0.5f;                                                 \
    for (int i = 0; i < kSums; ++i) sums[i] = Vector{} + static_cast<float>(i);                 \
    for (uint64_t step = 0; step < kSteps; ++step) {                                            \
      _Pragma("GCC unroll 12") for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * half + half; \
    }                                                                                           \
    Vector all = {};                                                                            \
    for (int i = 0; i < kSums; ++i) all += sums[i];                                             \
    return all[0];                                                                              \
  }

#define KVC_BOTH(suffix, bytes, ...)       \
  KVC_SUM(sum##suffix, bytes, __VA_ARGS__) \
  KVC_MULTIPLY_ADD(multiply_add##suffix, bytes, __VA_ARGS__)
KVC_BOTH(, 16, )
#ifdef __x86_64__
KVC_BOTH(_avx2, 32, __attribute__((target("avx2,fma"))))
KVC_BOTH(_avx512, 64, __attribute__((target("avx512f,prefer-vector-width=512"))))
#endif
#undef KVC_BOTH
#undef KVC_MULTIPLY_ADD
#undef KVC_SUM

struct Functions {
  uint64_t (*sum)(const char*, size_t);
  float (*multiply_add)();
  int lanes;
};
Functions widest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return {sum_avx512, multiply_add_avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {sum_avx2, multiply_add_avx2, 8};
#endif
  return {sum, multiply_add, 4};
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string name = "unknown processor";
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos || line.rfind("model name", 0) != 0) continue;
    name = line.substr(colon + 2);
    break;
  }
  return name + ", " + counted(std::thread::hardware_concurrency(), "hardware thread");
}

double median_seconds(const std::function<void()>& run) {
  run();
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    Stopwatch watch;
    watch.start();
    run();
    watch.stop();
    times.push_back(watch.seconds());
  }
  std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
  return times[kRepetitions / 2];
}

double read_bandwidth(uint32_t threads) {
  ColdMemory memory(kColdBytes);
  const Functions functions = widest();
  std::vector<uint64_t> sums(threads);
  const size_t share = kColdBytes / threads / 4096 * 4096;
  const double seconds = median_seconds([&] {
    on_threads(threads, [&](uint32_t thread) {
      sums[thread] += functions.sum(memory.data() + thread * share, share);
    });
  });
  if (sums[0] == 0) throw LibraryError("the compiler has removed the benchmark");
  return static_cast<double>(share * threads) / seconds;
}

double copy_bandwidth(uint32_t threads) {
  ColdMemory from(kColdBytes / 2), to(kColdBytes / 2);
  const size_t share = kColdBytes / 2 / threads;
  const double seconds = median_seconds([&] {
    on_threads(threads, [&](uint32_t thread) {
      std::memcpy(to.data() + thread * share, from.data() + thread * share, share);
    });
  });
  return static_cast<double>(share * threads) / seconds;
}

double peak_flops(uint32_t threads) {
  const Functions functions = widest();
  std::vector<float> sums(threads);
  const double seconds = median_seconds(
      [&] { on_threads(threads, [&](uint32_t thread) { sums[thread] += functions.multiply_add(); }); });
  if (sums[0] == 0) throw LibraryError("the compiler has removed the benchmark");
  return 2.0 * functions.lanes * kSums * static_cast<double>(kSteps) * threads / seconds;
}

}  // namespace kvcli
