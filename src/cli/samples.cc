// SPDX-License-Identifier: Apache-2.0
// A round is one step: it commits what the last one computed, frees what is finished, decodes a token for
// every live sample and admits whole prompts. Without space for a token the youngest sample is preempted.
#include "cli/samples.h"

#include <kvcache/request.h>
#include <kvcache/step.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/library.h"
#include "cli/table.h"

namespace kvcli {
namespace {

struct Sample {
  uint32_t request;  // In the trace.
  uint32_t number;   // Among the samples of its request.
  uint64_t id;       // In the library.
  uint32_t length;   // Known tokens.
  uint32_t produced = 0;
  bool was_admitted = false;
};

class SamplesReplay {
 public:
  SamplesReplay(const Trace& trace, const ReplayOptions& options, uint32_t samples, bool fills)
      : trace_(trace),
        options_(options),
        samples_(samples),
        fills_(fills),
        has_first_(trace.requests.size()) {
    uint64_t longest = 1;
    for (const TraceRequest& request : trace.requests)
      longest = std::max<uint64_t>(longest, length_of(request));
    auto config = make<kvc_manager_config>();
    config.num_blocks = options.num_blocks;
    config.block_size = options.block_size;
    config.max_requests = uint64_t{options.concurrency} + samples;  // live ones, and some that wait
    config.max_request_tokens = longest;
    config.vocab_size = kVocabSize;
    const auto& policies = policy_names();
    config.policy = static_cast<uint32_t>(std::ranges::find(policies, options.policy) - policies.begin());
    config.policy_weight = options.policy_weight;
    config.flags = fills ? KVC_MANAGER_FILLS : 0;
    manager_.reset(ask<kvc_manager*>(kvc_manager_create, &config));
    result_.requests = trace.requests.size();
  }

  SamplesResult run() {
    while (refill() || !live_.empty()) round();
    const auto stats = ask<kvc_stats>(kvc_manager_read_stats, manager_.get());
    result_.filling_hits = stats.filling_hits;
    result_.filling_waits = stats.filling_waits;
    result_.preemptions = stats.preemptions;
    result_.seconds = watch_.seconds();
    check(kvc_manager_check(manager_.get()));
    return result_;
  }

 private:
  static uint64_t length_of(const TraceRequest& request) {
    return uint64_t{request.input_length} + request.num_outputs();
  }
  // Tells outputs of different samples apart.
  int32_t token_of(const Sample& sample, uint64_t k) const {
    return output_token(sample.request + uint64_t{sample.number} * trace_.requests.size(), k);
  }

  /// Fills the queue as far as there is room for more samples. False: nothing waits.
  bool refill() {
    while (live_.size() + queue_.size() < options_.concurrency && next_ < trace_.requests.size()) {
      const auto index = static_cast<uint32_t>(next_++);
      const uint64_t blocks =
          (length_of(trace_.requests[index]) + options_.block_size - 1) / options_.block_size;
      if (blocks > options_.num_blocks) {
        ++result_.rejected;
        continue;
      }
      for (uint32_t i = 0; i < samples_; ++i) queue_.push_back(create(index, i));
    }
    return !queue_.empty();
  }

  /// A waiting request: its prompt is hashed once, however often its admission is refused.
  Sample create(uint32_t index, uint32_t number) {
    auto config = make<kvc_request_config>();
    if (fills_) {
      config.flags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
      config.wait_until_ns = UINT64_MAX;  // others always go on
    }
    make_tokens(trace_, index, 0, prompt_);
    auto prompt = make<kvc_prompt>();
    prompt.tokens = prompt_.data();
    prompt.num_tokens = prompt_.size();
    Sample sample{.request = index, .number = number, .id = 0, .length = trace_.requests[index].input_length};
    watch_.start();
    const kvc_status status = kvc_manager_create_request(manager_.get(), &prompt, &config, &sample.id);
    watch_.stop();
    check(status);
    return sample;
  }

  void round() {
    std::vector<uint64_t> ids, committed, extend_offsets{0}, frees, admit;
    std::vector<int32_t> tokens;
    for (const Sample& sample : live_) {
      const bool done = sample.produced == trace_.requests[sample.request].num_outputs();
      ids.push_back(sample.id);
      committed.push_back(sample.length);
      if (done) frees.push_back(sample.id);
      if (!done) tokens.push_back(token_of(sample, sample.produced));
      extend_offsets.push_back(tokens.size());
    }
    const size_t arriving =
        std::min<size_t>(queue_.size(), options_.concurrency - live_.size() + frees.size());
    for (size_t i = 0; i < arriving; ++i) admit.push_back(queue_[i].id);
    std::vector<kvc_status> status(frees.size() + ids.size() + arriving);
    std::vector<uint64_t> admitted(arriving), cached(arriving);
    auto step = make<kvc_step>();
    step.retired_step = step_id_;
    step.now_ns = ++result_.steps;
    step.num_frees = frees.size(), step.frees = frees.data();
    step.num_requests = ids.size(), step.requests = ids.data(), step.committed = committed.data();
    step.extend_offsets = extend_offsets.data(), step.extend_tokens = tokens.data();
    step.num_admissions = arriving, step.admit_requests = admit.data();
    step.status = status.data(), step.admitted = admitted.data(), step.cached = cached.data();
    watch_.start();
    const kvc_status result = kvc_manager_step(manager_.get(), &step);
    watch_.stop();
    check(result);
    step_id_ = step.step_id;

    const kvc_status* const of_live = status.data() + frees.size();
    const bool all_have_space = decode(of_live);
    std::deque<Sample> waiting;
    for (size_t i = 0; i < arriving; ++i, queue_.pop_front()) {
      Sample& sample = queue_.front();
      const kvc_status answer = of_live[ids.size() + i];
      if (answer == KVC_OK) {
        admit_sample(sample, cached[i]);
      } else if (answer == KVC_ERROR_FILLING || answer == KVC_ERROR_NO_SPACE || answer == KVC_ERROR_AGAIN ||
                 answer == KVC_ERROR_SKIPPED) {
        waiting.push_back(sample);
      } else {
        check(answer);
      }
    }
    queue_.insert(queue_.begin(), waiting.begin(), waiting.end());
    if (!all_have_space && live_.size() > 1) preempt_youngest();
  }

  /// What the step did to the live samples. False if one had no space for its token.
  bool decode(const kvc_status* status) {
    bool all_have_space = true;
    size_t kept = 0;
    for (size_t i = 0; i < live_.size(); ++i) {
      Sample& sample = live_[i];
      if (sample.produced == trace_.requests[sample.request].num_outputs()) continue;  // freed
      if (status[i] == KVC_OK) {
        ++sample.length, ++sample.produced;
      } else if (status[i] == KVC_ERROR_NO_SPACE || status[i] == KVC_ERROR_AGAIN) {
        all_have_space = false;
      } else {
        check(status[i]);
      }
      live_[kept++] = sample;
    }
    live_.resize(kept);
    return all_have_space;
  }

  void admit_sample(Sample& sample, uint64_t cached) {
    if (!sample.was_admitted) {
      const uint64_t shareable = (sample.length - 1) / options_.block_size * options_.block_size;
      result_.prefills += !has_first_[sample.request] || cached < shareable;
      result_.prompt_tokens += sample.length;
      result_.computed_tokens += sample.length - cached;
      has_first_[sample.request] = true;
    }
    sample.was_admitted = true;
    live_.push_back(sample);
  }

  void preempt_youngest() {
    check(kvc_manager_preempt_request(manager_.get(), live_.back().id));
    queue_.push_front(live_.back());
    live_.pop_back();
  }

  const Trace& trace_;
  const ReplayOptions& options_;
  const uint32_t samples_;
  const bool fills_;
  Manager manager_;
  std::vector<bool> has_first_;  // By request: whether a sample was admitted.
  std::vector<Sample> live_;
  std::deque<Sample> queue_;
  std::vector<int32_t> prompt_;
  size_t next_ = 0;
  uint64_t step_id_ = 0;
  Stopwatch watch_;
  SamplesResult result_;
};

}  // namespace

SamplesResult replay_samples(const Trace& trace, const ReplayOptions& options, uint32_t samples, bool fills) {
  return SamplesReplay(trace, options, samples, fills).run();
}

void run_samples(const Trace& trace, const ReplayOptions& options, uint32_t samples, bool as_json,
                 std::ostream& out) {
  const SamplesResult with = replay_samples(trace, options, samples, true);
  const SamplesResult without = replay_samples(trace, options, samples, false);
  if (as_json) {
    const nlohmann::ordered_json json = {{"requests", with.requests},
                                         {"samples", samples},
                                         {"rejected", with.rejected},
                                         {"prefills", with.prefills},
                                         {"prefills_without_fills", without.prefills},
                                         {"prompt_tokens", with.prompt_tokens},
                                         {"computed_tokens", with.computed_tokens},
                                         {"computed_tokens_without_fills", without.computed_tokens},
                                         {"filling_hits", with.filling_hits},
                                         {"filling_waits", with.filling_waits},
                                         {"preemptions", with.preemptions},
                                         {"steps", with.steps},
                                         {"library_seconds", with.seconds}};
    out << json.dump(2) << '\n';
    return;
  }
  out << with.requests << " requests, " << samples << " samples each, " << with.rejected << " rejected\n"
      << "prefills                " << with.prefills << ", without fills " << without.prefills << '\n'
      << "prompt tokens computed  " << with.computed_tokens << " of " << with.prompt_tokens
      << ", without fills " << without.computed_tokens << '\n'
      << "shared while computed   " << with.filling_hits << " blocks, " << with.filling_waits
      << " admissions waited\n"
      << "preemptions             " << with.preemptions << '\n';
}

}  // namespace kvcli
