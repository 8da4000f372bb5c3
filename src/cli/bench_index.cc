// SPDX-License-Identifier: Apache-2.0
// Three indexes. Shared: each of the workers stores all blocks, in prompts of 1,000, in an order of its own;
// then prompts are matched in random order. Single: each block is on one worker, which takes the most memory
// for a block. Long: many workers have long prompts, up to depths that differ; single matches are timed.
// Every answer is compared with the depths. Figures are those of the best round, since other work on the
// machine only makes them worse. The JSON keys are an interface: add keys, do not rename them.
#include "cli/bench_index.h"

#include <kvcache/events.h>
#include <kvcache/index.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "cli/errors.h"
#include "cli/library.h"
#include "cli/machine.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Index = kvc::Owner<kvc_index, kvc_index_destroy>;
using Random = std::mt19937_64;

constexpr uint64_t kPromptBlocks = 1000, kTokensOfBlock = 16, kLongPrompts = 10, kMedia = 4;
constexpr size_t kBatch = 512;  // events of a call
constexpr int kLeastIndexRounds = 3;

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

/// By the CPU clock of this thread, and by the wall clock.
struct Seconds {
  double cpu, wall;
  static Seconds now() {
    const auto read = [](clockid_t clock) {
      timespec time = {};
      clock_gettime(clock, &time);
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    return {read(CLOCK_THREAD_CPUTIME_ID), read(CLOCK_MONOTONIC)};
  }
  Seconds operator-(const Seconds& other) const { return {cpu - other.cpu, wall - other.wall}; }
};

class IndexBench {
 public:
  IndexBench(uint64_t blocks, uint32_t workers) {
    auto config = make<kvc_index_config>();
    config.max_blocks = blocks;
    config.max_workers = workers;
    config.num_media = kMedia;
    kvc_index* index = nullptr;
    check(kvc_index_create(&config, &index));
    index_.reset(index);
    for (uint32_t worker = 0; worker < workers; ++worker)
      check(kvc_index_add_worker(index, worker, nullptr, 0));
    next_.resize(workers);
    batch_.reserve(kBatch);
    workers_.resize(workers);
    matched_.resize(workers * (1 + kMedia));
  }

  void store(uint32_t worker, const uint8_t* digests, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      kvc_event event = {};
      event.sequence = next_[worker]++;
      event.time_ns = 1;
      event.kind = KVC_EVENT_STORED;
      std::memcpy(event.digest, digests + 32 * i, 32);
      batch_.push_back(event);
      if (batch_.size() == kBatch) flush(worker);
    }
    flush(worker);
  }
  /// Times one match.
  Seconds match(const uint8_t* digests, uint64_t count) {
    const Seconds begin = Seconds::now();
    check(kvc_index_match(index_.get(), digests, count, workers_.data(), matched_.data(), workers_.size(),
                          &count_));
    return Seconds::now() - begin;
  }
  Seconds match_tokens(const std::vector<int32_t>& tokens) {
    const Seconds begin = Seconds::now();
    check(kvc_index_match_tokens(index_.get(), nullptr, tokens.data(), tokens.size(), kTokensOfBlock,
                                 workers_.data(), matched_.data(), workers_.size(), &count_));
    return Seconds::now() - begin;
  }
  /// Whether the workers whose depth(worker) is not 0 have it.
  template <typename Depth>
  bool is_right(Depth&& depth) const {
    size_t expected = 0;
    for (uint32_t worker = 0; worker < workers_.size(); ++worker) expected += depth(worker) != 0;
    if (count_ != expected) return false;
    for (size_t i = 0; i < count_; ++i)
      if (matched_[i * (1 + kMedia)] != depth(workers_[i])) return false;
    return true;
  }
  double events_per_second() const { return static_cast<double>(events_) / apply_seconds_; }
  kvc_index_stats stats() const { return ask<kvc_index_stats>(kvc_index_read_stats, index_.get()); }

 private:
  void flush(uint32_t worker) {
    if (batch_.empty()) return;
    const Seconds begin = Seconds::now();
    check(kvc_index_apply(index_.get(), worker, 0, batch_.data(), sizeof(kvc_event), batch_.size(), 1,
                          nullptr));
    apply_seconds_ += (Seconds::now() - begin).cpu;
    events_ += batch_.size();
    batch_.clear();
  }

  Index index_;
  std::vector<uint64_t> next_;
  std::vector<kvc_event> batch_;
  std::vector<uint64_t> workers_;
  std::vector<uint32_t> matched_;
  size_t count_ = 0;
  uint64_t events_ = 0;
  double apply_seconds_ = 0;
};

std::vector<uint8_t> random_digests(uint64_t count, Random& random) {
  std::vector<uint8_t> digests(32 * count);
  for (size_t i = 0; i < digests.size(); i += 8) {
    const uint64_t word = random();
    std::memcpy(&digests[i], &word, 8);
  }
  return digests;
}

struct Figures {
  double applied_per_s = 0, block_ops_per_s = 0;
  double single_bytes = 0, single_resident = 0, shared_bytes = 0;
  double p50 = 0, p99 = 0, wall_p99 = 0, tokens_p50 = 0, tokens_p99 = 0;  // seconds
  uint64_t rounds = 0, wrong = 0;
};

uint64_t blocks_of(const std::vector<uint8_t>& digests) { return digests.size() / 32; }

void measure_shared(const IndexBenchOptions& options, const std::vector<uint8_t>& digests, double seconds,
                    Random& random, Figures* figures) {
  IndexBench bench(blocks_of(digests), options.workers);
  std::vector<uint64_t> prompts(blocks_of(digests) / kPromptBlocks);
  for (uint64_t i = 0; i < prompts.size(); ++i) prompts[i] = i;
  for (uint32_t worker = 0; worker < options.workers; ++worker) {
    std::shuffle(prompts.begin(), prompts.end(), random);
    for (const uint64_t prompt : prompts)
      bench.store(worker, &digests[prompt * kPromptBlocks * 32], kPromptBlocks);
  }
  figures->applied_per_s = bench.events_per_second();
  const kvc_index_stats stats = bench.stats();
  figures->shared_bytes = static_cast<double>(stats.bytes_used) / static_cast<double>(stats.num_holdings);
  double spent = 0;
  for (int round = 0; round < kLeastIndexRounds || spent < seconds; ++round, ++figures->rounds) {
    double sum = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      sum += bench.match(&digests[random() % prompts.size() * kPromptBlocks * 32], kPromptBlocks).cpu;
      figures->wrong += !bench.is_right([](uint64_t) { return kPromptBlocks; });
    }
    spent += sum;
    figures->block_ops_per_s =
        std::max(figures->block_ops_per_s, static_cast<double>(prompts.size() * kPromptBlocks) / sum);
  }
}

void measure_single(const IndexBenchOptions& options, const std::vector<uint8_t>& digests, Figures* figures) {
  const uint64_t before = resident_bytes();
  IndexBench bench(blocks_of(digests), options.workers);
  for (uint64_t prompt = 0; prompt < blocks_of(digests) / kPromptBlocks; ++prompt)
    bench.store(static_cast<uint32_t>(prompt % options.workers), &digests[prompt * kPromptBlocks * 32],
                kPromptBlocks);
  const kvc_index_stats stats = bench.stats();
  const auto holdings = static_cast<double>(stats.num_holdings);
  figures->single_bytes = static_cast<double>(stats.bytes_used) / holdings;
  figures->single_resident = static_cast<double>(resident_bytes() - before) / holdings;
}

void measure_long(const IndexBenchOptions& options, double seconds, Random& random, Figures* figures) {
  const uint64_t blocks = options.prompt_tokens / kTokensOfBlock;
  std::vector<std::vector<int32_t>> tokens(kLongPrompts, std::vector<int32_t>(options.prompt_tokens));
  std::vector<std::vector<uint8_t>> digests(kLongPrompts, std::vector<uint8_t>(blocks * 32));
  IndexBench bench(blocks * kLongPrompts, options.prompt_workers);
  // Of an odd prompt workers have other parts, so that the holders change many times along it.
  const auto depth = [&](uint64_t prompt, uint64_t worker) {
    return prompt % 2 == 0 || worker == 0 ? blocks : blocks * (1 + (worker * 37 + prompt) % 64) / 64;
  };
  for (uint64_t p = 0; p < kLongPrompts; ++p) {
    for (int32_t& token : tokens[p]) token = static_cast<int32_t>(random() % 128000);
    size_t count = 0;
    check(kvc_index_digests(nullptr, tokens[p].data(), tokens[p].size(), kTokensOfBlock, digests[p].data(),
                            blocks, &count));
    for (uint32_t worker = 0; worker < options.prompt_workers; ++worker)
      bench.store(worker, digests[p].data(), depth(p, worker));
  }
  double spent = 0;
  for (int round = 0; round < kLeastIndexRounds || spent < seconds; ++round) {
    std::vector<double> times, wall_times, token_times;
    for (uint64_t i = 0; i < 30 * kLongPrompts; ++i) {
      const uint64_t p = i % kLongPrompts;
      const auto expected = [&](uint64_t worker) { return depth(p, worker); };
      const Seconds taken = bench.match(digests[p].data(), blocks);
      times.push_back(taken.cpu);
      wall_times.push_back(taken.wall);
      figures->wrong += !bench.is_right(expected);
      token_times.push_back(bench.match_tokens(tokens[p]).cpu);
      figures->wrong += !bench.is_right(expected);
      spent += times.back() + token_times.back();
    }
    const auto keep = [](std::vector<double>& all, double* p50, double* p99) {
      std::sort(all.begin(), all.end());
      const double mine = all[all.size() * 99 / 100];
      if (*p99 != 0 && *p99 <= mine) return;
      *p99 = mine;
      *p50 = all[all.size() / 2];
    };
    double wall_p50 = 0;
    keep(times, &figures->p50, &figures->p99);
    keep(wall_times, &wall_p50, &figures->wall_p99);
    keep(token_times, &figures->tokens_p50, &figures->tokens_p99);
  }
}

}  // namespace

bool print_index_bench(const IndexBenchOptions& options, uint32_t seconds, bool as_json, std::ostream& out) {
  if (options.blocks < kPromptBlocks) throw InputError("--blocks: a prompt has 1,000; give as many or more");
  if (options.prompt_tokens < kTokensOfBlock * 64) throw InputError("--prompt-tokens: give 1,024 or more");
  Random random(1);
  const std::vector<uint8_t> digests = random_digests(options.blocks / kPromptBlocks * kPromptBlocks, random);
  Figures figures;
  measure_single(options, digests, &figures);
  measure_shared(options, digests, seconds / 2.0, random, &figures);
  measure_long(options, seconds / 2.0, random, &figures);
  nlohmann::ordered_json json;
  json["bench"] = "index";
  json["hardware"] = processor_name();
  json["blocks"] = blocks_of(digests);
  json["workers"] = options.workers;
  json["rounds"] = figures.rounds;
  json["block_ops_per_s"] = figures.block_ops_per_s;
  json["applied_per_s"] = figures.applied_per_s;
  json["bytes_per_block_worker"] = figures.single_bytes;
  json["resident_bytes_per_block_worker"] = figures.single_resident;
  json["shared_bytes_per_block_worker"] = figures.shared_bytes;
  json["prompt_blocks"] = options.prompt_tokens / kTokensOfBlock;
  json["prompt_workers"] = options.prompt_workers;
  json["p50_us"] = figures.p50 * 1e6;
  json["p99_us"] = figures.p99 * 1e6;
  json["wall_p99_us"] = figures.wall_p99 * 1e6;
  json["p50_tokens_us"] = figures.tokens_p50 * 1e6;
  json["p99_tokens_us"] = figures.tokens_p99 * 1e6;
  json["wrong_matches"] = figures.wrong;
  if (as_json) {
    out << json.dump(2) << '\n';
    return figures.wrong == 0;
  }
  const auto millions = [](double rate) { return fixed(rate / 1e6, 1) + " million/s"; };
  out << "index, " << counted(json["blocks"], "block") << " on " << counted(json["workers"], "worker")
      << "\n  " << std::string(json["hardware"]) << "\n  events applied " << millions(figures.applied_per_s)
      << "\n  blocks matched " << millions(figures.block_ops_per_s) << "\n  bytes of a block on one worker "
      << fixed(figures.single_bytes, 1) << ", of one on all, for each worker "
      << fixed(figures.shared_bytes, 1) << "\n  a prompt of " << counted(json["prompt_blocks"], "block")
      << " on " << counted(json["prompt_workers"], "worker") << ": p50 " << fixed(figures.p50 * 1e6, 0)
      << " us, p99 " << fixed(figures.p99 * 1e6, 0) << " us; from tokens "
      << fixed(figures.tokens_p50 * 1e6, 0) << " and " << fixed(figures.tokens_p99 * 1e6, 0) << " us\n  "
      << counted(json["wrong_matches"], "wrong answer") << '\n';
  return figures.wrong == 0;
}

}  // namespace kvcli
