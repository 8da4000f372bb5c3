// SPDX-License-Identifier: Apache-2.0
#include "cli/advise.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

namespace kvcli {
namespace {

/// Hands out trials to threads, keeps the first error, and shows on a terminal how many are done.
class TrialQueue {
 public:
  explicit TrialQueue(std::vector<Trial>& trials) : trials_(trials), visible_(isatty(STDERR_FILENO) != 0) {}
  ~TrialQueue() {
    if (visible_) std::fputs("\r\033[K", stderr);
  }
  TrialQueue(const TrialQueue&) = delete;
  TrialQueue& operator=(const TrialQueue&) = delete;

  void work(const Trace& trace) {
    while (Trial* const trial = take()) {
      try {
        trial->result = replay(trace, trial->replay);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Trial* take() {
    const std::lock_guard lock(mutex_);
    if (error_ || next_ == trials_.size()) return nullptr;
    if (visible_) std::fprintf(stderr, "\r\033[Kadvise: trial %zu of %zu", next_ + 1, trials_.size());
    return &trials_[next_++];
  }

  std::mutex mutex_;
  std::vector<Trial>& trials_;
  size_t next_ = 0;
  std::exception_ptr error_;
  const bool visible_;
};

}  // namespace

double cost_of(const ReplayResult& result, const AdviseOptions& options) {
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  const double tokens = number(result.computed_tokens) + kRejectedFactor * number(result.rejected_tokens);
  const double ns = options.ns_per_token * tokens + options.ns_per_block * number(result.table_blocks) +
                    options.ns_per_chunk * number(result.prompt_steps);
  return ns / number(result.prompt_tokens + result.rejected_tokens);
}

Advice advise(const Trace& trace, const AdviseOptions& options) {
  Advice advice = plan_trials(trace, options);
  {
    TrialQueue queue(advice.trials);
    std::vector<std::jthread> threads;
    for (uint32_t i = 1; i < std::min<size_t>(options.jobs, advice.trials.size()); ++i)
      threads.emplace_back([&] { queue.work(trace); });
    queue.work(trace);
    threads.clear();  // joins
    queue.rethrow();
  }
  for (Trial& trial : advice.trials) trial.cost = cost_of(trial.result, options);
  const auto best = std::ranges::min_element(advice.trials, {}, &Trial::cost);
  advice.best = static_cast<size_t>(best - advice.trials.begin());
  return advice;
}

}  // namespace kvcli
