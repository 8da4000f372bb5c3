// SPDX-License-Identifier: Apache-2.0
// Many threads on one manager, each with requests of its own over prompts that all share. The oracle is the
// engine's memory: whoever computes a token writes it to its slot, and whoever holds a block must find there,
// at every committed token, the token of its own request. A block given to two writers, or a hit of a wrong
// prefix, shows as a wrong token. Sized for TSan.
#include <gtest/gtest.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "calls.h"
#include "property/create.h"
#include "property/random.h"

namespace {

constexpr uint32_t kBlockSize = 4;
constexpr uint64_t kBlocks = 256;
constexpr int kThreads = 16, kRounds = 400;

struct Engine {
  kvc_manager* manager = nullptr;
  std::vector<std::atomic<uint64_t>> memory = std::vector<std::atomic<uint64_t>>(kBlocks * kBlockSize);
  std::atomic<uint64_t> hits{0}, foreign_hits{0}, refused{0}, wrong{0}, failed{0}, done{0};
  std::vector<std::atomic<int>> writer_of =
      std::vector<std::atomic<int>>(kBlocks);  // thread that last wrote a block, plus one
};

// What a slot must hold: depends on all tokens up to it, so that equal tokens after other beginnings differ.
std::vector<uint64_t> chain(const std::vector<int32_t>& tokens) {
  std::vector<uint64_t> out;
  uint64_t value = 1;
  for (int32_t token : tokens)
    out.push_back(value = (value * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(token) + 1) ^ (value >> 29));
  return out;
}

struct Request {
  uint64_t id = 0;
  std::vector<int32_t> tokens;
  uint64_t committed = 0;
};

class Worker {
 public:
  Worker(Engine& engine, int index)
      : engine_(engine), index_(index), random_(static_cast<uint64_t>(index) + 1) {
    kvc_step_limits limits{};
    limits.struct_size = sizeof limits;
    limits.max_frees = 1, limits.max_requests = 1, limits.max_admissions = 1, limits.max_tokens = 8,
    limits.max_prompt_tokens = 64;
    limits.max_rows = 2, limits.row_stride = 32;
    expect(kvc_step_create(engine_.manager, &limits, &step_) == KVC_OK);
    step_->rows = nullptr;
  }
  ~Worker() { kvc_step_destroy(step_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      Request r;
      if (!admit(r)) continue;
      compute(r, r.tokens.size());
      for (uint64_t decode = random_.below(6); decode > 0; --decode)
        if (!extend(r, random_.chance(30))) break;
      verify(r);
      look_around(r);
      expect(kvc_manager_free_request(engine_.manager, r.id) == KVC_OK);
      ++engine_.done;
    }
  }

 private:
  void expect(bool good) {
    if (!good) ++engine_.failed;
  }
  std::vector<int32_t> prompt() {
    std::vector<int32_t> tokens(4 + random_.below(36));
    const int32_t family = static_cast<int32_t>(random_.below(3));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = i < 16 ? family : family + static_cast<int32_t>(random_.below(2));
    return tokens;
  }
  std::vector<int32_t> table(const Request& r) {
    std::vector<int32_t> row(32, -1);
    expect(kvc_manager_export_tables(engine_.manager, &r.id, 1, 0, -1, row.data(), row.size()) == KVC_OK);
    return row;
  }
  bool admit(Request& r) {
    r.tokens = prompt();
    const kvc_status status =
        kvc_manager_allocate_request(engine_.manager, PROMPT(0, r.tokens.data(), r.tokens.size(), nullptr, 0),
                                     nullptr, &r.id, &r.committed);
    if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN)
      return ++engine_.refused, std::this_thread::yield(), false;
    expect(status == KVC_OK && r.committed < r.tokens.size());
    if (status != KVC_OK) return false;
    const std::vector<int32_t> row = table(r);
    for (uint64_t j = 0; j < r.committed / kBlockSize; ++j) {
      ++engine_.hits;
      if (engine_.writer_of[static_cast<size_t>(row[j])] != index_ + 1) ++engine_.foreign_hits;
    }
    verify(r);  // what was hit must be there already
    return true;
  }
  // Writes the tokens [committed, end) to memory and then commits them.
  void compute(Request& r, uint64_t end) {
    const std::vector<int32_t> row = table(r);
    const std::vector<uint64_t> values = chain(r.tokens);
    for (uint64_t t = r.committed; t < end; ++t) {
      const auto block = static_cast<size_t>(row[t / kBlockSize]);
      engine_.memory[block * kBlockSize + t % kBlockSize].store(values[t], std::memory_order_relaxed);
      engine_.writer_of[block].store(index_ + 1, std::memory_order_relaxed);
    }
    expect(kvc_manager_commit_tokens(engine_.manager, r.id, end) == KVC_OK);
    r.committed = end;
  }
  bool extend(Request& r, bool by_step) {
    const int32_t token = static_cast<int32_t>(random_.below(3));
    kvc_status status;
    if (by_step) {
      kvc_view requests, committed, offsets, tokens, statuses;
      expect(kvc_step_view(step_, KVC_STEP_REQUESTS, &requests) == KVC_OK &&
             kvc_step_view(step_, KVC_STEP_COMMITTED, &committed) == KVC_OK);
      expect(kvc_step_view(step_, KVC_STEP_EXTEND_OFFSETS, &offsets) == KVC_OK &&
             kvc_step_view(step_, KVC_STEP_EXTEND_TOKENS, &tokens) == KVC_OK);
      expect(kvc_step_view(step_, KVC_STEP_STATUS, &statuses) == KVC_OK);
      *static_cast<uint64_t*>(requests.data) = r.id;
      *static_cast<uint64_t*>(committed.data) = r.committed;
      static_cast<uint64_t*>(offsets.data)[0] = 0, static_cast<uint64_t*>(offsets.data)[1] = 1;
      *static_cast<int32_t*>(tokens.data) = token;
      step_->num_requests = 1, step_->flags = KVC_STEP_WHOLE_ROWS;
      expect(kvc_manager_step(engine_.manager, step_) == KVC_OK);
      status = *static_cast<int32_t*>(statuses.data);
      expect(kvc_manager_retire_step(engine_.manager, step_->step_id) == KVC_OK);
    } else {
      status = kvc_manager_append_tokens(engine_.manager, r.id, &token, 1);
    }
    if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN) return ++engine_.refused, false;
    expect(status == KVC_OK);
    if (status != KVC_OK) return false;
    r.tokens.push_back(token);
    compute(r, r.tokens.size());
    return true;
  }
  void verify(const Request& r) {
    const std::vector<int32_t> row = table(r);
    const std::vector<uint64_t> values = chain(r.tokens);
    for (uint64_t t = 0; t < r.committed; ++t) {
      const auto block = static_cast<size_t>(row[t / kBlockSize]);
      if (engine_.memory[block * kBlockSize + t % kBlockSize].load(std::memory_order_relaxed) != values[t])
        ++engine_.wrong;
    }
  }
  void look_around(const Request& r) {
    kvc_probe_info probe{};
    probe.struct_size = sizeof probe;
    expect(kvc_manager_probe(engine_.manager, PROMPT(0, r.tokens.data(), r.tokens.size(), nullptr, 0),
                             &probe) == KVC_OK);
    expect(probe.num_cached ==
           (r.tokens.size() - 1) / kBlockSize * kBlockSize);  // it holds all of this itself
    kvc_stats stats{};
    stats.struct_size = sizeof stats;
    expect(kvc_manager_read_stats(engine_.manager, &stats) == KVC_OK);
    expect(stats.blocks_free + stats.blocks_cached + stats.blocks_live + stats.blocks_reserved +
               stats.blocks_fenced + stats.blocks_pinned + stats.blocks_filling ==
           kBlocks);
    if (random_.chance(3)) {
      size_t evicted = 0;
      expect(kvc_manager_evict_blocks(engine_.manager, -1, 2, &evicted) == KVC_OK);
    }
  }

  Engine& engine_;
  const int index_;
  Random random_;
  kvc_step* step_ = nullptr;
};

TEST(Threads, EveryHeldBlockCarriesItsRequestsTokens) {
  Engine engine;
  kvc_manager_config config{};
  config.struct_size = sizeof config;
  config.num_blocks = kBlocks;
  config.block_size = kBlockSize;
  config.event_capacity = 1024;
  engine.manager = create_manager(config, ~uint64_t{0});
  ASSERT_NE(engine.manager, nullptr) << kvc_last_error();
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  std::string broken;  // what the checker found first
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&engine, i] {
      Worker worker(engine, i);
      worker.run(kRounds);
    });
  std::thread checker([&] {
    while (!stop) {
      if (kvc_manager_check(engine.manager) != KVC_OK && broken.empty()) broken = kvc_last_error();
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  checker.join();
  EXPECT_EQ(broken, "");
  EXPECT_EQ(engine.wrong, 0u);
  EXPECT_EQ(engine.failed, 0u) << kvc_last_error();
  EXPECT_GT(engine.foreign_hits, 0u) << "nothing was shared between threads";
  EXPECT_GT(engine.done, static_cast<uint64_t>(kThreads * kRounds / 2));
  EXPECT_EQ(kvc_manager_check(engine.manager), KVC_OK) << kvc_last_error();
  kvc_stats stats{};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(kvc_manager_read_stats(engine.manager, &stats), KVC_OK);
  EXPECT_EQ(stats.live_requests + stats.waiting_requests, 0u);
  EXPECT_EQ(stats.blocks_free + stats.blocks_cached, kBlocks);
  EXPECT_EQ(stats.block_hits, engine.hits);
  EXPECT_GT(stats.evictions, 0u);
  kvc_manager_destroy(engine.manager);
}

}  // namespace
