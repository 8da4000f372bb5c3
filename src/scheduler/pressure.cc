// SPDX-License-Identifier: Apache-2.0
#include "scheduler/pressure.h"

#include <algorithm>

namespace kvc {

bool Peak::fits(const SchedulerCalls& calls, const SchedulerOptions& options, const JobTable& jobs,
                const Waiting& waiting, const JobIndex* running, size_t num_running, const Job& candidate) {
  kvc_pool_info pool = {};
  pool.struct_size = sizeof pool;
  if (calls.pool_info(calls.manager, 0, &pool) != KVC_OK) return true;
  const uint64_t usable = pool.num_blocks - std::min(pool.num_blocks, pool.pinned);
  const bool worst = options.admission == KVC_ADMIT_WORST;
  size_t count = 0;
  const auto add = [&](const Job& job) {
    const uint32_t all = worst ? job.max_new : waiting.expected(job), done = job.generated();
    const uint64_t rest = all > done ? all - done : 1;
    holdings_[count++] = {job.known, std::min<uint64_t>(rest, job.max_new - std::min(done, job.max_new))};
  };
  add(candidate);
  for (size_t i = 0; i < num_running; ++i)
    if (jobs[running[i]].state == JobState::kRunning) add(jobs[running[i]]);
  const uint64_t block_size = options.block_size;
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

bool Pressure::watch(const SchedulerCalls& calls) {
  if (high_watermark_ == 0) return false;
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  if (calls.stats(calls.manager, &stats) != KVC_OK || stats.blocks_total == 0) return false;
  usage_ = 1 - static_cast<double>(stats.blocks_free + stats.blocks_cached) /
                   static_cast<double>(stats.blocks_total);
  if (is_high_ ? usage_ > low_watermark_ : usage_ < high_watermark_) return false;
  is_high_ = !is_high_;
  return is_high_;
}

bool Pressure::take_change(bool* high, double* usage) {
  if (is_high_ == told_) return false;
  *high = told_ = is_high_;
  *usage = usage_;
  return true;
}

}  // namespace kvc
