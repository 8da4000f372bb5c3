// SPDX-License-Identifier: Apache-2.0
// How many blocks jobs hold now and will hold.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace kvc {

// Whether the pool of the first group has room for all running jobs and this one until they end.
// WORST: for all that they may ever get, at one time. PEAK: each gets a token a step until it has as many as
// expected, and then gives back its blocks; the most is held when one of them ends.
bool Scheduler::fits_peak(const Job& candidate) {
  kvc_pool_info pool = {};
  pool.struct_size = sizeof pool;
  if (calls_.pool_info(calls_.manager, 0, &pool) != KVC_OK) return true;
  const uint64_t usable = pool.num_blocks - std::min(pool.num_blocks, pool.pinned);
  const bool worst = options_.admission == KVC_ADMIT_WORST;
  size_t count = 0;
  const auto add = [&](const Job& job) {
    const uint32_t all = worst ? job.max_new : waiting_.expected(job), done = job.generated();
    const uint64_t rest = all > done ? all - done : 1;
    holdings_[count++] = {job.known, std::min<uint64_t>(rest, job.max_new - std::min(done, job.max_new))};
  };
  add(candidate);
  for (size_t i = 0; i < num_running_; ++i)
    if (jobs_[running_[i]].state == JobState::kRunning) add(jobs_[running_[i]]);
  const uint64_t block_size = options_.block_size;
  uint64_t blocks = 0;
  if (worst) {
    for (size_t i = 0; i < count; ++i)
      blocks += (holdings_[i].now + holdings_[i].rest + block_size - 1) / block_size;
    return blocks <= usable;
  }
  std::sort(holdings_.data(), holdings_.data() + count,
            [](const Holding& a, const Holding& b) { return a.rest > b.rest; });
  uint64_t held = 0;  // tokens of those that end later, now
  for (size_t i = 0; i < count; ++i) {
    held += holdings_[i].now;
    const uint64_t tokens = held + (i + 1) * (holdings_[i].rest + block_size - 1);
    blocks = std::max(blocks, tokens / block_size);
  }
  return blocks <= usable;
}

void Scheduler::adapt_policy() {
  if (options_.policy != KVC_SCHEDULE_ADAPTIVE) return;
  const uint64_t high = uint64_t{options_.adaptive_plans} * options_.max_tokens;
  const bool shortest = waiting_.policy() == KVC_SCHEDULE_SHORTEST;
  const bool changes = shortest ? waiting_.num_tokens() < high / 4 : waiting_.num_tokens() > high;
  if (!changes) return;
  waiting_.set_policy(shortest ? KVC_SCHEDULE_FCFS : KVC_SCHEDULE_SHORTEST);
  ++stats_.policy_changes;
}

void Scheduler::watch_pressure() {
  if (options_.high_watermark == 0) return;
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  if (calls_.stats(calls_.manager, &stats) != KVC_OK || stats.blocks_total == 0) return;
  usage_ = 1 - static_cast<double>(stats.blocks_free + stats.blocks_cached) /
                   static_cast<double>(stats.blocks_total);
  if (pressure_ ? usage_ > options_.low_watermark : usage_ < options_.high_watermark) return;
  pressure_ = !pressure_;
  stats_.pressure_changes += pressure_;
}

bool Scheduler::take_pressure_change(bool* high, double* usage) {
  if (pressure_ == told_pressure_) return false;
  *high = told_pressure_ = pressure_;
  *usage = usage_;
  return true;
}

}  // namespace kvc
