// SPDX-License-Identifier: Apache-2.0
// The library against the reference model on random sequences of calls. Without arguments: a short run that
// checks everything after each operation, a longer one, and runs with degenerate hashes. With --operations N:
// one run of that size.
//   --operations N    counted operations: those that changed the state, and refusals that the model predicted
//   --seed S          of the first episode (default 1); a failure prints its own
//   --check-every K   digests and kvc_manager_check every K operations (1 also drives two managers)
//   --compare-every K all blocks, tables, counters and events every K operations (default 16)
//   --hash-mask M     hexadecimal; ANDed to the table hash, where create.cc can do so
//   --episode N       operations per manager (default 1500)    --threads N (default: all cores)
//   --digests N       no counting: N episodes one after the other, then one number made of the digest after
//   each
//                     operation; any build must print the same
//   --shrink N        seconds to spend on making a failing sequence short (default 60)
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "property/create.h"
#include "property/generator.h"
#include "property/shrink.h"
#include "rounds.h"

namespace {

struct Run {
  uint64_t operations = 0, seed = 1, check_every = 64, compare_every = 16, mask = ~uint64_t{0},
           episode = 1500, shrink_seconds = 60, digests = 0;
  unsigned threads = 0;
};

constexpr int kStatuses = KVC_ERROR_NEVER_FITS + 1;

struct Counts {
  uint64_t operations = 0, calls = 0, episodes = 0, rejected = 0;
  uint64_t digest = 0;
  uint64_t kinds[kKinds] = {}, statuses[kStatuses] = {}, items[kStatuses] = {};
  model::Stats stats;

  void add(const Counts& o) {
    operations += o.operations, calls += o.calls, episodes += o.episodes, rejected += o.rejected;
    for (int i = 0; i < kKinds; ++i) kinds[i] += o.kinds[i];
    for (int i = 0; i < kStatuses; ++i) statuses[i] += o.statuses[i], items[i] += o.items[i];
    stats.takes += o.stats.takes, stats.evicting_takes += o.stats.evicting_takes;
    stats.hit_chances += o.stats.hit_chances, stats.hits_taken += o.stats.hits_taken;
    stats.copies += o.stats.copies, stats.duplicates += o.stats.duplicates;
    stats.partial_hits += o.stats.partial_hits;
  }
};

struct Shared {
  std::atomic<uint64_t> next_episode{0}, done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Counts total;
};

void report_failure(const Setup& setup, const Failure& failure, uint64_t seed, const Run& run) {
  std::printf("\nFAILED in the episode with --seed %llu after %zu operations:\n%s\nshrinking ...\n",
              static_cast<unsigned long long>(seed), failure.ops.size(), failure.error.c_str());
  std::fflush(stdout);
  const Failure small = shrink(setup, failure, run.mask, static_cast<double>(run.shrink_seconds));
  std::printf("%s", to_text(setup).c_str());
  for (const Op& op : small.ops) std::printf("%s", to_text(op).c_str());
  std::printf("=> %s\n", small.error.c_str());
  std::fflush(stdout);
}

// One manager from its creation to its end. False: library and model disagree.
bool run_episode(const Run& run, uint64_t seed, Shared& shared, Counts& counts) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  const Setup setup = random_setup(random);
  World world(setup, run.check_every == 1 ? 2 : 1, run.mask);
  Generator generator(random, setup);
  std::vector<Op> ops;
  std::string error;
  for (uint64_t i = 0; i < run.episode && error.empty(); ++i) {
    const Op op = generator.next(world);
    ops.push_back(op);
    const Verdict verdict = world.apply(op, i % run.check_every == 0);
    error = verdict.error;
    if (error.empty() && (i % run.compare_every == 0 || i + 1 == run.episode)) error = world.compare_all();
    if (run.digests != 0) counts.digest = (counts.digest ^ world.digest(0)) * 0x9e3779b97f4a7c15u;
    if (verdict.skipped) continue;
    ++counts.calls;
    if (!verdict.changed && verdict.status == KVC_OK) continue;
    ++counts.operations, ++counts.kinds[static_cast<int>(op.kind)], ++counts.statuses[verdict.status];
    for (kvc_status status : verdict.items) ++counts.items[status];
  }
  ++counts.episodes;
  counts.rejected += world.rejected_candidates();
  Counts of_model;
  of_model.stats = world.model().stats;
  counts.add(of_model);
  if (error.empty()) return true;
  if (!shared.failed.exchange(true)) report_failure(setup, {ops, error}, seed, run);
  return false;
}

// Between the seeds of a run's episodes, so that runs of neighbouring seeds have none in common.
constexpr uint64_t kEpisodeStride = 1000003;

void work(const Run& run, Shared& shared) {
  Counts counts;
  while (!shared.failed && shared.done < run.operations) {
    const uint64_t before = counts.operations;
    if (!run_episode(run, run.seed + kEpisodeStride * shared.next_episode++, shared, counts)) break;
    shared.done += counts.operations - before;
  }
  const std::lock_guard<std::mutex> lock(shared.mutex);
  shared.total.add(counts);
}

double share(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

void print_statuses(const char* title, const uint64_t (&counts)[kStatuses]) {
  std::printf("%s:", title);
  for (int i = 0; i < kStatuses; ++i)
    if (counts[i]) std::printf(" %s %llu", kvc_status_name(i), static_cast<unsigned long long>(counts[i]));
  std::printf("\n");
}

// A shorter run is a few dozen managers: which shapes these have decides what share of its operations each
// kind has. The long run of the test shows what the generator draws.
constexpr uint64_t kOperationsThatShowShares = 200000;

// Prints what the run did; false if it did too little of something to mean much.
bool report(const Run& run, const Counts& c, double seconds) {
  std::printf(
      "%llu operations (%llu calls, %llu managers) in %.1f s, hash mask %llx, checked every %llu, compared "
      "every %llu\n",
      static_cast<unsigned long long>(c.operations), static_cast<unsigned long long>(c.calls),
      static_cast<unsigned long long>(c.episodes), seconds, static_cast<unsigned long long>(run.mask),
      static_cast<unsigned long long>(run.check_every), static_cast<unsigned long long>(run.compare_every));
  bool enough = true;
  for (int i = 0; i < kKinds; ++i) {
    if (static_cast<Kind>(i) == Kind::kProbe) continue;
    const double percent = share(c.kinds[i], c.operations);
    std::printf("  %-20s %5.1f %%\n", kind_name(static_cast<Kind>(i)), percent);
    if (percent < 1.0) enough = false, std::printf("  ^ below 1 %% of the operations\n");
  }
  print_statuses("calls", c.statuses);
  print_statuses("items of steps", c.items);
  const double evicting = share(c.stats.evicting_takes, c.stats.takes),
               hits = share(c.stats.hits_taken, c.stats.hit_chances);
  std::printf(
      "taken blocks that evicted: %.1f %%; admissions that hit where they could: %.1f %%; partial hits %llu; "
      "copies %llu, duplicates %llu, "
      "rejected candidates %llu\n",
      evicting, hits, static_cast<unsigned long long>(c.stats.partial_hits),
      static_cast<unsigned long long>(c.stats.copies), static_cast<unsigned long long>(c.stats.duplicates),
      static_cast<unsigned long long>(c.rejected));
  if (evicting < 20.0 || hits < 20.0)
    enough = false, std::printf("too few evictions or hits: both must be 20 %% or more\n");
  return enough || c.operations < kOperationsThatShowShares;
}

bool run_all(const Run& run, uint64_t demanded_rejections) {
  const auto start = std::chrono::steady_clock::now();
  Shared shared;
  std::vector<std::thread> threads;
  const unsigned count = run.threads ? run.threads : std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&] { work(run, shared); });
  for (std::thread& thread : threads) thread.join();
  if (shared.failed) return false;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bool good = report(run, shared.total, seconds);
  if (hash_mask_works() && shared.total.rejected < demanded_rejections)
    good = false, std::printf("the masked hash led to too few rejected candidates\n");
  std::printf("%s\n\n", good ? "agreed" : "FAILED");
  std::fflush(stdout);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  Run run;
  bool single = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.rfind("--gtest", 0) == 0) continue;
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    uint64_t* target = name == "--operations"      ? &run.operations
                       : name == "--seed"          ? &run.seed
                       : name == "--check-every"   ? &run.check_every
                       : name == "--compare-every" ? &run.compare_every
                       : name == "--hash-mask"     ? &run.mask
                       : name == "--episode"       ? &run.episode
                       : name == "--digests"       ? &run.digests
                       : name == "--shrink"        ? &run.shrink_seconds
                                                   : nullptr;
    if (!value || (!target && name != "--threads")) {
      std::fprintf(stderr, "unknown option or no value: %s\n", name.c_str());
      return 2;
    }
    const uint64_t number = std::strtoull(value, nullptr, name == "--hash-mask" ? 16 : 10);
    if (target)
      *target = number;
    else
      run.threads = static_cast<unsigned>(number);
    single |= name == "--operations";
  }
  if (run.check_every == 0 || run.compare_every == 0 || run.episode == 0) return 2;
  if (run.digests != 0) {
    Shared shared;
    Counts counts;
    for (uint64_t i = 0; i < run.digests; ++i)
      if (!run_episode(run, run.seed + i, shared, counts)) return 1;
    std::printf("digest of %llu calls: %016llx\n", static_cast<unsigned long long>(counts.calls),
                static_cast<unsigned long long>(counts.digest));
    return 0;
  }
  if (single) return run_all(run, run.mask == ~uint64_t{0} ? 0 : 100000) ? 0 : 1;

  Run exact = run, longer = run;
  exact.operations = kvc::test::rounds<uint64_t>(15000), exact.check_every = 1, exact.compare_every = 1,
  exact.episode = 1500;
  longer.operations = kvc::test::rounds(kOperationsThatShowShares);
  bool good = run_all(exact, 0) && run_all(longer, 0);
  for (uint64_t mask : {uint64_t{0}, uint64_t{1}, uint64_t{0xff}}) {
    Run masked = run;
    masked.mask = mask, masked.seed += 1000, masked.operations = kvc::test::rounds<uint64_t>(30000);
    if (good && hash_mask_works()) good = run_all(masked, mask < 2 ? masked.operations : 1);
  }
  if (!hash_mask_works())
    std::printf("the table hash cannot be masked in this build: no runs with degenerate hashes\n");
  return good ? 0 : 1;
}
