// SPDX-License-Identifier: Apache-2.0
// Sixteen threads call everything in the public header on shared objects for as long as you like, beside one
// more that checks the manager again and again, while the memory of the process and the times of the calls
// are watched. Exit code 1: memory grows, a call answered what it must not, or the state is broken. Memory is
// judged in runs of at least two minutes: before that, the C library still collects what threads hand back.
//   kvcache_soak [seconds (300)] [threads (16)]
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "hardening/every_call.h"
#include "property/random.h"

namespace {

using kvc::test::Call;
using kvc::test::Scene;
using Clock = std::chrono::steady_clock;

constexpr size_t kPrompt = 400;
constexpr int kIntervals = 10;         // of the run
constexpr size_t kWarm = 4;            // compared with the last one: memory grows to its plateau before
constexpr double kLeastSeconds = 120;  // of a run whose memory is judged

// Times in classes that are 1/8 apart.
class Histogram {
 public:
  void add(uint64_t ns) {
    const int power = 63 - __builtin_clzll(ns | 8);
    ++counts_[static_cast<size_t>(power * 8) + (ns >> (power - 3) & 7)];
  }
  void merge(const Histogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t count : counts_) sum += count;
    return sum;
  }
  double quantile(double share) const {  // lower end of the class
    auto left = static_cast<uint64_t>(share * static_cast<double>(total()));
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (left < counts_[i]) return static_cast<double>((8 + i % 8) << (i / 8)) / 8;
      left -= counts_[i];
    }
    return 0;
  }

 private:
  std::array<uint64_t, 64 * 8> counts_{};
};

uint64_t resident_bytes() {
  unsigned long long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The least memory in an interval: what calls in flight hold comes and goes.
uint64_t least_resident_bytes(Clock::time_point end) {
  uint64_t least = UINT64_MAX;
  do {
    least = std::min(least, resident_bytes());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (Clock::now() < end);
  return least;
}

struct Run {
  std::atomic<int> interval{0};  // kIntervals = over
  std::atomic<uint64_t> wrong{0};
};

void work(Run& run, const Scene& shared, size_t lane, std::array<Histogram, kIntervals>& times) {
  Scene scene(kPrompt, &shared, lane % Scene::kLanes);
  Random random(lane + 1);
  const std::vector<Call>& calls = kvc::test::every_call();
  for (int interval; (interval = run.interval) < kIntervals;) {
    const Call& call = calls[random.below(calls.size())];
    if (!call.prepare || call.prepare(scene)) {
      const Clock::time_point begin = Clock::now();
      const kvc_status status = call.run(scene);
      times[static_cast<size_t>(interval)].add(static_cast<uint64_t>((Clock::now() - begin).count()));
      if (status != call.answer &&
          (status == KVC_ERROR_INVALID_ARGUMENT || status == KVC_ERROR_INTERNAL ||
           status == KVC_ERROR_CORRUPT || status == KVC_ERROR_OUT_OF_MEMORY) &&
          run.wrong++ == 0)
        std::fprintf(stderr, "%s: %s\n", call.name().c_str(), kvc_last_error());
    }
    scene.clean();
  }
}

uint64_t check(Run& run, const Scene& shared) {
  uint64_t checks = 0;
  for (; run.interval < kIntervals; ++checks) {
    if (kvc_manager_check(shared.m) != KVC_OK && run.wrong++ == 0)
      std::fprintf(stderr, "%s\n", kvc_last_error());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a check holds the lock for long
  }
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 300;
  const size_t num_threads = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 16;
  Run run;
  auto shared = std::make_unique<Scene>(kPrompt);
  std::vector<std::array<Histogram, kIntervals>> times(num_threads);
  std::vector<std::thread> threads;
  std::array<uint64_t, kIntervals> memory{};  // the least in each interval
  for (size_t t = 0; t < num_threads; ++t)
    threads.emplace_back(work, std::ref(run), std::cref(*shared), t, std::ref(times[t]));
  uint64_t checks = 0;
  threads.emplace_back([&] { checks = check(run, *shared); });
  const Clock::time_point begin = Clock::now();
  for (size_t i = 0; i < kIntervals; ++i) {
    const std::chrono::duration<double> passed(seconds / kIntervals * static_cast<double>(i + 1));
    memory[i] = least_resident_bytes(begin + std::chrono::duration_cast<Clock::duration>(passed));
    ++run.interval;
  }
  for (std::thread& thread : threads) thread.join();
  const bool sound = shared->sound();

  std::array<Histogram, kIntervals> all;
  std::printf("%zu threads, %zu kinds of calls, %.0f s, %llu checks beside\n%8s %12s %10s %10s %12s\n",
              num_threads, kvc::test::every_call().size(), seconds, static_cast<unsigned long long>(checks),
              "until s", "calls", "p50 us", "p99 us", "memory MiB");
  for (size_t i = 0; i < kIntervals; ++i) {
    for (const auto& of_thread : times) all[i].merge(of_thread[i]);
    std::printf("%8.0f %12llu %10.2f %10.2f %12.2f\n", seconds / kIntervals * static_cast<double>(i + 1),
                static_cast<unsigned long long>(all[i].total()), all[i].quantile(0.5) / 1e3,
                all[i].quantile(0.99) / 1e3, static_cast<double>(memory[i]) / (1 << 20));
  }
  const double drift = all[kIntervals - 1].quantile(0.99) / all[kWarm].quantile(0.99) - 1;
  // What the C library keeps for threads comes and goes by some pages; a leak of one call in a thousand would
  // show.
  const int64_t growth = static_cast<int64_t>(memory[kIntervals - 1]) - static_cast<int64_t>(memory[kWarm]);
  const bool judged = seconds >= kLeastSeconds;
  const bool grows = judged && growth > static_cast<int64_t>(memory[kWarm] / 50) + (1 << 20);
  std::printf(
      "p99 drift %+.1f %%, memory %+.2f MiB after warming up: %s; %llu wrong answers; the state is %s\n",
      100 * drift, static_cast<double>(growth) / (1 << 20),
      !judged ? "too short to judge, give at least 120 s"
      : grows ? "GROWS"
              : "flat",
      static_cast<unsigned long long>(run.wrong), sound ? "sound" : "BROKEN");
  return grows || !sound || run.wrong != 0 ? 1 : 0;
}
