// SPDX-License-Identifier: Apache-2.0
// Readers decide nothing: one log of calls leads through the same states, digest by digest, whether nobody
// else is there or one or three threads probe, check, poll events and read counters beside it. Prompts are
// longer than what a probe reads at once, prefix nodes are scarce, and steps make copies before long
// admissions.
#include <gtest/gtest.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "calls.h"
#include "event_calls.h"
#include "property/create.h"
#include "property/random.h"

namespace {

constexpr uint64_t kLongest = 1500;   // tokens, two a block: a probe reads 256 blocks at once
constexpr uint64_t kTooLong = 40000;  // for the pool, which shows only after the tokens were hashed

std::vector<int32_t> text(uint64_t family, uint64_t length) {
  std::vector<int32_t> tokens(length);
  for (uint64_t i = 0; i < length; ++i) tokens[i] = static_cast<int32_t>(i < 1000 ? i % 7 : i * family % 11);
  return tokens;
}

kvc_manager* make_manager() {
  kvc_manager_config config{};
  config.struct_size = sizeof config;
  config.num_blocks = 3000;
  config.block_size = 2;
  config.max_nodes = 3040;
  config.max_requests = 16;
  config.max_request_tokens = kTooLong;
  config.event_capacity = 4096;
  return create_manager(config, ~uint64_t{0});
}

// Calls of one engine. What they answer is not asked: only the state that they lead to.
class Log {
 public:
  explicit Log(kvc_manager* manager) : m_(manager) {}

  void call() {
    const uint64_t length = random_.between(600, kLongest), family = random_.between(1, 3);
    uint64_t cached = 0, id = 0, number = 0;
    size_t count = 0;
    switch (random_.below(12)) {
      case 0:
      case 1: {
        const std::vector<int32_t> prompt = text(family, length);
        if (kvc_manager_allocate_request(m_, PROMPT(0, prompt.data(), length, nullptr, 0), nullptr, &id,
                                         &cached) == KVC_OK)
          add(id, length);
        break;
      }
      case 2:
        if (pick()) kvc_manager_commit_tokens(m_, ids_[at_], known_[at_]);
        break;
      case 3:
        if (pick()) {
          number = random_.below(known_[at_]) + 1;
          if (kvc_manager_truncate_request(m_, ids_[at_], number) == KVC_OK) known_[at_] = number;
        }
        break;
      case 4:
        if (pick() && known_[at_] < kLongest) {
          const int32_t token = static_cast<int32_t>(random_.below(7));
          known_[at_] += kvc_manager_append_tokens(m_, ids_[at_], &token, 1) == KVC_OK;
          kvc_block_copy copies[16];
          take_copies(m_, copies, 16, &count);
        }
        break;
      case 5:
        if (pick() && kvc_manager_commit_tokens(m_, ids_[at_], known_[at_]) == KVC_OK &&
            kvc_manager_fork_request(m_, ids_[at_], &id) == KVC_OK) {
          add(id, known_[at_]);
          step(text(family, kTooLong));  // copies what both would write
        }
        break;
      case 6:
      case 7:
        if (pick()) kvc_manager_free_request(m_, ids_[at_]), forget();
        break;
      case 8:
        kvc_manager_evict_blocks(m_, -1, random_.below(200), &count);
        break;
      case 9:
        kvc_manager_drop_prefix(m_, PROMPT(0, text(family, length).data(), length, nullptr, 0), &number);
        break;
      case 10:
        if (random_.chance(20)) kvc_manager_reset_all(m_);
        break;
      case 11:
        step(text(family, random_.chance(50) ? length : kTooLong));
        break;
    }
  }

 private:
  void add(uint64_t id, uint64_t known) { ids_.push_back(id), known_.push_back(known); }
  bool pick() {
    at_ = random_.below(ids_.size());
    return !ids_.empty();
  }
  void forget() {
    ids_.erase(ids_.begin() + static_cast<ptrdiff_t>(at_));
    known_.erase(known_.begin() + static_cast<ptrdiff_t>(at_));
  }
  // Commits and extends all, which makes copies, and admits one more.
  void step(const std::vector<int32_t>& prompt) {
    const size_t n = ids_.size();
    std::vector<uint64_t> offsets(n + 1);
    for (size_t i = 0; i <= n; ++i) offsets[i] = i;
    const std::vector<int32_t> tokens(n + 1, 3);
    const uint64_t admit_offsets[] = {0, prompt.size()};
    std::vector<kvc_status> status(n + 1);
    std::vector<kvc_block_copy> copies(n + 1);
    uint64_t admitted = 0, cached = 0;
    kvc_step s{};
    s.struct_size = sizeof s;
    s.retired_step = last_step_;
    s.num_requests = n, s.requests = ids_.data();
    s.committed = known_.data();
    s.extend_offsets = offsets.data(), s.extend_tokens = tokens.data();
    s.num_admissions = 1, s.admit_offsets = admit_offsets, s.admit_tokens = prompt.data();
    s.admitted = &admitted, s.cached = &cached, s.status = status.data();
    s.copies = copies.data(), s.copy_capacity = copies.size();
    ASSERT_EQ(kvc_manager_step(m_, &s), KVC_OK) << kvc_last_error();
    last_step_ = s.step_id;
    for (size_t i = 0; i < n; ++i) known_[i] += status[i] == KVC_OK;
    if (admitted != 0) add(admitted, prompt.size());
  }

  kvc_manager* m_;
  Random random_{7};
  std::vector<uint64_t> ids_, known_;
  size_t at_ = 0;
  uint64_t last_step_ = 0;
};

struct Seen {
  std::atomic<uint64_t> probes{0}, checks{0}, events{0};
};

void read(kvc_manager* m, const std::atomic<bool>& stop, uint64_t family, Seen& seen, std::string& error) {
  const std::vector<int32_t> prompt = text(family, kLongest);
  uint64_t cursor = 0;
  std::vector<kvc_event> events(64);
  for (uint64_t round = 0; !stop; ++round) {
    kvc_probe_info info{};
    info.struct_size = sizeof info;
    kvc_stats stats{};
    stats.struct_size = sizeof stats;
    if (kvc_manager_probe(m, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), &info) != KVC_OK ||
        info.num_cached >= prompt.size() || kvc_manager_read_stats(m, &stats) != KVC_OK) {
      error = std::string("a probe: ") + kvc_last_error();
    }
    ++seen.probes;
    if (round % (family == 1 ? 2 : 8) != 0) continue;
    size_t count = 0;
    poll_events(m, &cursor, events.data(), sizeof(kvc_event), events.size(), &count, nullptr, 0);
    seen.events += count;
    if (kvc_manager_check(m) != KVC_OK) error = std::string("kvc_manager_check: ") + kvc_last_error();
    ++seen.checks;
  }
}

std::vector<uint64_t> run(int calls, size_t readers) {
  kvc_manager* m = make_manager();
  std::atomic<bool> stop{false};
  Seen seen;
  std::vector<std::string> errors(readers);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < readers; ++i)
    threads.emplace_back([&, i] { read(m, stop, i + 1, seen, errors[i]); });
  std::vector<uint64_t> digests;
  Log log(m);
  for (int i = 0; i < calls && !testing::Test::HasFatalFailure(); ++i) {
    log.call();
    uint64_t digest = 0;
    EXPECT_EQ(kvc_manager_digest(m, &digest), KVC_OK);
    digests.push_back(digest);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  std::printf("%zu readers: %llu probes, %llu checks, %llu events\n", readers,
              static_cast<unsigned long long>(seen.probes), static_cast<unsigned long long>(seen.checks),
              static_cast<unsigned long long>(seen.events));
  kvc_manager_destroy(m);
  return digests;
}

TEST(Readers, NothingDependsOnThem) {
#ifdef __SANITIZE_THREAD__
  constexpr int kCalls = 400;
#else
  constexpr int kCalls = 2000;
#endif
  const std::vector<uint64_t> alone = run(kCalls, 0);
  for (const size_t readers : {1, 3}) {
    const std::vector<uint64_t> beside = run(kCalls, readers);
    for (size_t i = 0; i < alone.size(); ++i)
      ASSERT_EQ(beside[i], alone[i]) << "call " << i << " led elsewhere beside " << readers << " readers";
  }
}

}  // namespace
