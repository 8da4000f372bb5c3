// SPDX-License-Identifier: Apache-2.0
// Sixteen threads call every public function on the same manager, storages, stream and event, each in an
// order of its own, beside one that checks the manager all the time: for the thread sanitizer. And readers
// and writers all get on, whoever else is busy.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "calls.h"
#include "hardening/every_call.h"
#include "hardening/recording.h"
#include "property/random.h"
#include "rounds.h"

namespace kvc::test {
namespace {

constexpr int kThreads = 16;

// What a call on shared objects may answer: others may have taken the space or evicted the prefix.
bool is_expected(kvc_status status) {
  return status == KVC_OK || status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN ||
         status == KVC_ERROR_NOT_FOUND || status == KVC_ERROR_BUSY || status == KVC_ERROR_LIMIT ||
         status == KVC_ERROR_BUFFER_TOO_SMALL;
}

TEST(Threads, EveryFunctionInSixteenThreads) {
  const size_t each = rounds<size_t>(5);
  const std::vector<Call>& calls = every_call();
  std::vector<std::atomic<uint64_t>> done(calls.size());
  std::atomic<uint64_t> wrong{0}, made{0};
  {
    Scene shared(24);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Scene scene(24, &shared, static_cast<size_t>(t));
        Random random(static_cast<uint64_t>(t) + 1);
        for (size_t i = 0; i < calls.size() * each; ++i) {
          const size_t which = random.below(calls.size());
          if (!calls[which].prepare || calls[which].prepare(scene)) {
            const kvc_status status = calls[which].run(scene);
            ++made;
            if (status == calls[which].answer) ++done[which];
            if (status != calls[which].answer && !is_expected(status) && wrong++ == 0)
              ADD_FAILURE() << calls[which].name() << ": " << kvc_status_name(status) << ": "
                            << kvc_last_error();
          }
          scene.clean();
        }
      });
    }
    std::atomic<bool> over{false};
    // Finds the state sound at any moment. Calls that are recorded wait for each other: without a pause, each
    // of them would wait for a check.
    std::thread checker([&] {
      while (!over) {
        if (kvc_manager_check(shared.m) != KVC_OK && wrong++ == 0) ADD_FAILURE() << kvc_last_error();
        if (record_bytes() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    for (std::thread& thread : threads) thread.join();
    over = true;
    checker.join();
    EXPECT_TRUE(shared.sound());
  }
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_GT(done[i], 0u) << calls[i].name() << " never succeeded";
  EXPECT_EQ(wrong, 0u);
  std::printf("%llu calls of %zu kinds\n", static_cast<unsigned long long>(made), calls.size());
}

// A thread starves that has not made 200 rounds while all together made 2000 times as many.
TEST(Threads, ReadersAndWritersAllGetOn) {
  constexpr uint64_t kEach = 200, kMost = kEach * kThreads * 2000;
  Scene shared(400);
  std::vector<std::atomic<uint64_t>> rounds(kThreads);
  std::atomic<bool> stop{false};
  const auto over = [&] {
    uint64_t total = 0, least = UINT64_MAX;
    for (const uint64_t count : rounds) total += count, least = std::min(least, count);
    return least >= kEach || total >= kMost;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Scene scene(400, &shared, static_cast<size_t>(t));
      while (!stop) {
        if (t % 2 == 0) {  // writes: long prompts, each an eviction of others
          if (scene.cache(scene.n / 4)) ++rounds[static_cast<size_t>(t)];
        } else if (kvc_manager_probe(scene.m, PROMPT(0, scene.tokens.data(), scene.n, nullptr, 0),
                                     &scene.probe_info) == KVC_OK &&
                   kvc_manager_read_stats(scene.m, &scene.stats) == KVC_OK) {
          ++rounds[static_cast<size_t>(t)];
        }
      }
    });
  }
  while (!over()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    const uint64_t count = rounds[static_cast<size_t>(t)];
    std::printf("%s %llu\n", t % 2 == 0 ? "writer" : "reader", static_cast<unsigned long long>(count));
    EXPECT_GE(count, kEach) << (t % 2 == 0 ? "a writer" : "a reader") << " starves";
  }
  EXPECT_TRUE(shared.sound());
}

}  // namespace
}  // namespace kvc::test
