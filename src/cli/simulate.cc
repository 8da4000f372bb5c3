// SPDX-License-Identifier: Apache-2.0
// The engine's loop in virtual time: adds the requests that have arrived, plans, and takes the result of the
// oldest plan when its step has ended. Invariants: steps run on the device one after the other, in the order
// of their plans; a request's token k is the same whatever the schedule.
#include "cli/simulate.h"

#include <kvcache/request.h>
#include <kvcache/scheduler.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "cli/estimate.h"
#include "cli/library.h"
#include "cli/lists.h"
#include "cli/model_groups.h"
#include "cli/progress.h"

namespace kvcli {
namespace {

using Scheduler = kvc::Owner<kvc_scheduler, kvc_scheduler_destroy>;

constexpr double kLeastRate = 1e-6, kMostRate = 1e6;  // Requests a second.
constexpr double kMostBound = 1e9;
constexpr double kMostSimulatedNs = 0x1p62;
constexpr uint64_t kMostWaiting = 65'536;  // More wait outside of the scheduler, in their order.

double quotient(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

uint32_t place_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<uint32_t>(std::ranges::find(names, name) - names.begin());
}

uint64_t longest_request(const Trace& trace) {
  uint64_t longest = 1;
  for (const TraceRequest& request : trace.requests)
    longest = std::max<uint64_t>(longest, uint64_t{request.input_length} + request.num_outputs());
  return longest;
}

/// Requests by arrival, in nanoseconds after the first.
struct Arrivals {
  Arrivals(const Trace& trace, double rate) : order(trace.requests.size()), ns(order.size()) {
    std::iota(order.begin(), order.end(), 0u);
    const auto time = [&](uint32_t i) { return trace.requests[i].timestamp_ms; };
    std::ranges::stable_sort(order, {}, time);
    const uint64_t first = time(order.front()), span = time(order.back()) - first;
    const auto gaps = static_cast<double>(order.size() - 1);
    const double scale = rate == 0 || span == 0 ? 1e6 : gaps / rate * 1e9 / static_cast<double>(span);
    if (static_cast<double>(span) * scale > kMostSimulatedNs)
      throw InputError("the last request comes after 146 years; give a higher rate, or other timestamps");
    for (uint32_t i = 0; i < order.size(); ++i)
      ns[i] = static_cast<uint64_t>(std::llround(static_cast<double>(time(i) - first) * scale));
    mean_rate = quotient(gaps * 1e9, static_cast<double>(ns[order.back()]));
  }
  std::vector<uint32_t> order;
  std::vector<uint64_t> ns;  // By the index in the trace.
  double mean_rate = 0;      // Requests a second.
};

class SimulatedEngine {
 public:
  SimulatedEngine(const Trace& trace, const SimulateOptions& options, const StepTime& step_time, double rate);
  SimulateResult run();

 private:
  /// A plan in flight.
  struct Flight {
    kvc_plan plan;
    std::vector<uint32_t> requests;  // Of its items, in the trace.
    uint64_t end_ns;
    double host_seconds;  // Of planning.
  };
  struct Output {
    uint64_t first_ns = 0, last_ns = 0;  // When it got its first and its latest token.
    uint32_t produced = 0;
  };

  void create_manager(uint64_t longest);
  void create_scheduler();
  void add_arrived();
  bool add(uint32_t index);
  bool plan();
  void finish_oldest();
  void end(uint64_t id);
  void report();

  const Trace& trace_;
  const SimulateOptions& options_;
  const StepTime& step_time_;
  const Arrivals arrivals_;
  const uint64_t host_ns_;
  uint64_t max_requests_ = 0;
  uint64_t room_ = UINT64_MAX;  // Tokens of the longest request that fits.
  uint64_t cross_tokens_ = 0;
  Manager manager_;
  Scheduler scheduler_;

  size_t next_ = 0;  // Arrival.
  std::unordered_map<uint64_t, uint32_t> by_id_;
  std::vector<uint32_t> by_row_;
  std::vector<Output> outputs_;
  std::vector<bool> admitted_;
  std::vector<Flight> flights_;
  uint64_t num_planned_ = 0, num_finished_ = 0;  // Plans.
  uint64_t now_ns_ = 0, device_ns_ = 0;          // device_ns_: when all its steps have ended.
  bool moved_ = false;                           // The latest plan ended or preempted a request.

  std::vector<int32_t> tokens_, prompt_;
  std::vector<uint64_t> offsets_;
  std::vector<kvc_ended_request> ended_;
  std::vector<double> ttft_ms_, tpot_ms_;
  SimulateResult result_;
};

SimulatedEngine::SimulatedEngine(const Trace& trace, const SimulateOptions& options,
                                 const StepTime& step_time, double rate)
    : trace_(trace),
      options_(options),
      step_time_(step_time),
      arrivals_(trace, rate),
      host_ns_(static_cast<uint64_t>(std::llround(options.host_us * 1000))),
      by_row_(options.max_running),
      outputs_(trace.requests.size()),
      admitted_(trace.requests.size()),
      flights_(options.async ? 2 : 1),
      tokens_(options.max_running),
      offsets_(options.max_running + size_t{1}),
      ended_(options.max_running) {
  max_requests_ = std::min<uint64_t>(trace.requests.size(), kMostWaiting) + options.max_running;
  create_manager(longest_request(trace));
  create_scheduler();
  result_.requests = trace.requests.size();
  result_.rate = arrivals_.mean_rate;
}

void SimulatedEngine::create_manager(uint64_t longest) {
  auto config = make<kvc_manager_config>();
  config.block_size = options_.block_size;
  config.max_requests = max_requests_;
  config.max_request_tokens = longest;
  config.vocab_size = kVocabSize;
  ModelGroups model;
  if (options_.model.empty()) {
    config.num_blocks = options_.num_blocks;
  } else {
    const kvc_model found = find_model(options_.model);
    auto query = make<kvc_memory_query>();
    query.model = &found;
    query.dtype = KVC_BFLOAT16;
    query.block_size = options_.block_size;
    query.chunk_tokens = options_.max_chunk != 0 ? options_.max_chunk : options_.max_tokens;
    query.checkpoint_tokens = checkpoint_tokens(found, options_.block_size);
    query.retention_tokens = retention_tokens(options_.retention, options_.block_size);
    query.tokens = longest;
    query.budget_bytes = parse_bytes(options_.memory);
    const kvc_memory_estimate estimate = estimate_of(query);
    if (estimate.pool_blocks == 0)
      throw InputError("--memory is " + options_.memory + ", less than one block of each group of " +
                       options_.model + "; give more, or lower --block-size");
    model = groups_of(found, query, estimate);
    cross_tokens_ = found.num_cross_layers != 0 ? found.cross_tokens : 0;
    config.groups = model.groups.data(), config.num_groups = model.groups.size();
    config.pools = model.pools.data(), config.num_pools = model.pools.size();
  }
  manager_.reset(ask<kvc_manager*>(kvc_manager_create, &config));
  const auto room_of = [&](uint32_t index) {
    return ask<kvc_pool_info>(kvc_manager_pool_info, manager_.get(), index).num_blocks * options_.block_size;
  };
  if (model.groups.empty()) room_ = room_of(0);
  for (const kvc_group_config& group : model.groups)
    if (group.kind == KVC_GROUP_FULL) room_ = std::min(room_, room_of(group.pool));
}

void SimulatedEngine::create_scheduler() {
  auto config = make<kvc_scheduler_config>();
  config.manager = manager_.get();
  config.policy = place_of(scheduler_names(), options_.scheduler);
  config.admission = place_of(admission_names(), options_.admission);
  config.flags = (options_.cache_aware ? uint32_t{KVC_SCHEDULER_CACHE_AWARE} : 0) |
                 (options_.depth_first ? uint32_t{KVC_SCHEDULER_DEPTH_FIRST} : 0);
  config.max_running = options_.max_running;
  config.max_tokens = options_.max_tokens;
  config.max_chunk = options_.max_chunk;
  config.max_plans = static_cast<uint32_t>(flights_.size());
  for (const TraceRequest& request : trace_.requests)
    config.max_tenants = std::max(config.max_tenants, request.tenant + 1);
  scheduler_.reset(ask<kvc_scheduler*>(kvc_scheduler_create, &config));
}

SimulateResult SimulatedEngine::run() {
  Progress shown(trace_.requests.size(), true, "simulate");
  for (;;) {
    add_arrived();
    const uint64_t in_flight = num_planned_ - num_finished_;
    if (in_flight < flights_.size() && plan()) continue;
    if (num_planned_ != num_finished_) {
      finish_oldest();
      shown.update(result_.finished, by_id_.size());
    } else if (next_ < arrivals_.order.size() && by_id_.empty()) {
      now_ns_ = std::max(now_ns_, arrivals_.ns[arrivals_.order[next_]]);
    } else if (by_id_.empty()) {
      break;
    } else if (!moved_) {
      throw LibraryError("the scheduler plans nothing for " + counted(by_id_.size(), "request") +
                         " although none is in flight");
    }
  }
  report();
  return result_;
}

void SimulatedEngine::add_arrived() {
  for (; next_ < arrivals_.order.size() && by_id_.size() < max_requests_; ++next_) {
    const uint32_t index = arrivals_.order[next_];
    if (arrivals_.ns[index] > now_ns_) return;
    if (!add(index)) ++result_.rejected;
  }
}

/// false: no pool takes it.
bool SimulatedEngine::add(uint32_t index) {
  const TraceRequest& request = trace_.requests[index];
  if (uint64_t{request.input_length} + request.num_outputs() > room_) return false;
  make_tokens(trace_, index, 0, prompt_);
  auto prompt = make<kvc_prompt>();
  prompt.tokens = prompt_.data();
  prompt.num_tokens = prompt_.size();
  auto config = make<kvc_request_config>();
  config.cross_tokens = cross_tokens_;
  if (cross_tokens_ != 0) {  // an encoder's input for each first block of a prompt
    config.cross_digest[0] = 1;
    std::memcpy(config.cross_digest + 1, prompt_.data(), sizeof prompt_[0]);
  }
  auto job = make<kvc_schedule_job>();
  job.prompt = &prompt;
  job.config = &config;
  job.max_new_tokens = request.num_outputs();
  job.priority = request.priority;
  job.tenant = request.tenant;
  job.now_ns = now_ns_;
  uint64_t id = 0;
  const kvc_status status = kvc_scheduler_add(scheduler_.get(), &job, &id);
  if (status == KVC_ERROR_INVALID_ARGUMENT) return false;
  check(status);
  by_id_.emplace(id, index);
  return true;
}

/// Makes the next plan and starts its step. false: there is nothing to compute.
bool SimulatedEngine::plan() {
  Flight& flight = flights_[num_planned_ % flights_.size()];
  kvc_plan& plan = flight.plan;
  plan = make<kvc_plan>();
  Stopwatch watch;
  watch.start();
  const kvc_status status = kvc_scheduler_plan(scheduler_.get(), now_ns_, &plan);
  flight.host_seconds = watch.stop();
  result_.host_seconds += flight.host_seconds;
  check(status);
  moved_ = plan.num_ended + plan.num_preempted != 0;
  result_.failed += plan.num_ended;
  for (size_t i = 0; i < plan.num_ended; ++i) by_id_.erase(plan.ended[i].request);
  if (plan.num_items == 0) return false;

  uint64_t context = 0;
  flight.requests.resize(plan.num_items);
  for (size_t i = 0; i < plan.num_items; ++i) {
    uint32_t& index = by_row_[static_cast<size_t>(plan.rows[i])];
    if (plan.is_new[i] != 0) {
      index = by_id_.at(plan.requests[i]);
      if (!admitted_[index]) result_.prompt_tokens += trace_.requests[index].input_length;
      admitted_[index] = true;
    }
    flight.requests[i] = index;
    context += plan.first_tokens[i] + (plan.token_offsets[i + 1] - plan.token_offsets[i]);
  }
  const uint64_t step_ns = step_time_.device_ns(plan.num_tokens, context);
  now_ns_ += host_ns_;
  flight.end_ns = device_ns_ = std::max(now_ns_, device_ns_) + step_ns;
  if (static_cast<double>(device_ns_) > kMostSimulatedNs)
    throw InputError("the simulation takes more than 146 years; give a faster --step-model");
  result_.busy_ns += step_ns;
  result_.planned_tokens += plan.num_tokens;
  result_.items += plan.num_items;
  ++result_.plans;
  ++num_planned_;
  return true;
}

void SimulatedEngine::finish_oldest() {
  const Flight& flight = flights_[num_finished_ % flights_.size()];
  const kvc_plan& plan = flight.plan;
  now_ns_ = std::max(now_ns_, flight.end_ns);
  uint64_t count = 0;
  for (size_t i = 0; i < plan.num_items; ++i) {
    if (plan.samples[i] != 0) {
      Output& output = outputs_[flight.requests[i]];
      tokens_[count++] = output_token(flight.requests[i], output.produced);
      if (output.produced != trace_.requests[flight.requests[i]].num_outputs()) {  // else it has ended
        if (output.produced++ == 0) output.first_ns = now_ns_;
        output.last_ns = now_ns_;
      }
    }
    offsets_[i + 1] = count;
  }
  auto result = make<kvc_plan_result>();
  result.plan_id = plan.plan_id;
  result.num_items = plan.num_items;
  result.token_offsets = offsets_.data();
  result.tokens = tokens_.data();
  result.ended = ended_.data();
  Stopwatch watch;
  watch.start();
  const kvc_status status = kvc_scheduler_finish(scheduler_.get(), &result);
  const double seconds = watch.stop();
  check(status);
  result_.host_seconds += seconds;
  result_.host_steps.add(flight.host_seconds + seconds);
  ++num_finished_;
  for (size_t i = 0; i < result.num_ended; ++i) end(ended_[i].request);
}

/// Judges a request that has all its tokens.
void SimulatedEngine::end(uint64_t id) {
  const auto at = by_id_.find(id);
  const uint32_t index = at->second;
  by_id_.erase(at);
  const Output& output = outputs_[index];
  if (output.produced != trace_.requests[index].num_outputs())
    throw LibraryError("a request ended with " + std::to_string(output.produced) + " tokens of " +
                       std::to_string(trace_.requests[index].num_outputs()));
  const auto ms = [](uint64_t ns) { return static_cast<double>(ns) * 1e-6; };
  const double ttft = ms(output.first_ns - arrivals_.ns[index]);
  const double tpot = quotient(ms(output.last_ns - output.first_ns), output.produced - 1.0);
  ttft_ms_.push_back(ttft);
  if (output.produced > 1) tpot_ms_.push_back(tpot);
  ++result_.finished;
  result_.output_tokens += output.produced;
  result_.good += (options_.ttft_ms == 0 || ttft <= options_.ttft_ms) &&
                  (options_.tpot_ms == 0 || tpot <= options_.tpot_ms);
  result_.makespan_ns = std::max(result_.makespan_ns, output.last_ns);
}

void SimulatedEngine::report() {
  const auto stats = ask<kvc_scheduler_stats>(kvc_scheduler_read_stats, scheduler_.get());
  if (stats.plans != result_.plans || stats.ended != result_.finished + result_.failed)
    throw LibraryError("kvc_scheduler_read_stats: plans is " + std::to_string(stats.plans) + " and ended " +
                       std::to_string(stats.ended) + ", but the engine counted " +
                       std::to_string(result_.plans) + " and " +
                       std::to_string(result_.finished + result_.failed));
  result_.cached_tokens = stats.cached_tokens;
  result_.recomputed_tokens = stats.recomputed_tokens;
  result_.preemptions = stats.preemptions;
  result_.ttft_ms = Percentiles(std::move(ttft_ms_));
  result_.tpot_ms = Percentiles(std::move(tpot_ms_));
}

void check_bound(const char* name, double value, double most, const char* unit) {
  if (value >= 0 && value <= most) return;  // NaN is not.
  throw InputError(std::string(name) + " is " + number_text(value) + "; give " + unit + ", 0 to " +
                   number_text(most));
}

}  // namespace

Percentiles::Percentiles(std::vector<double> values) : sorted_(std::move(values)) {
  std::ranges::sort(sorted_);
  mean_ = quotient(std::accumulate(sorted_.begin(), sorted_.end(), 0.0), static_cast<double>(sorted_.size()));
}

double Percentiles::at(double percent) const {
  if (sorted_.empty()) return 0;
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted_.size()));
  return sorted_[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

double SimulateResult::per_second(uint64_t count) const {
  return quotient(static_cast<double>(count), seconds());
}
double SimulateResult::hit_rate() const {
  return quotient(static_cast<double>(cached_tokens), static_cast<double>(prompt_tokens));
}
double SimulateResult::goodput() const {
  return quotient(static_cast<double>(good), static_cast<double>(requests));
}
double SimulateResult::mean_batch() const {
  return quotient(static_cast<double>(items), static_cast<double>(plans));
}
double SimulateResult::host_us_per_step() const {
  return quotient(host_seconds * 1e6, static_cast<double>(plans));
}

const std::vector<std::string>& scheduler_names() {
  static const std::vector<std::string> names{"fcfs", "priority", "shortest", "fair", "adaptive"};
  return names;
}

const std::vector<std::string>& admission_names() {
  static const std::vector<std::string> names{"chunk", "prompt", "peak", "worst"};
  return names;
}

std::vector<double> check_simulation(const Trace& trace, const SimulateOptions& options) {
  if (options.max_tokens < options.max_running)
    throw InputError("--max-tokens is " + grouped(options.max_tokens) + " and --max-running " +
                     grouped(options.max_running) +
                     "; each running request needs a token: raise --max-tokens, or lower --max-running");
  if (options.model.empty() != options.memory.empty())
    throw InputError(options.model.empty()
                         ? "--memory is given without --model; give both, or --num-blocks"
                         : "--model is given without --memory; give its memory, such as 24GiB");
  check_bound("--ttft-ms", options.ttft_ms, kMostBound, "milliseconds");
  check_bound("--tpot-ms", options.tpot_ms, kMostBound, "milliseconds");
  check_bound("--host-us", options.host_us, kMostBound, "microseconds");
  if (trace.untimed_line != 0)
    throw InputError(
        "the request in line " + std::to_string(trace.untimed_line) +
        " of the trace has no timestamp; give the arrival of each request, in whole milliseconds "
        "(Mooncake) or in seconds (Qwen-Bailian)");
  const std::string& given = options.rates.empty() ? options.rate : options.rates;
  const char* const option = options.rates.empty() ? "--rate" : "--rates";
  std::vector<double> rates{0};
  if (!given.empty()) rates = number_list<double>(option, given, kLeastRate, kMostRate);
  if (options.rates.empty() && rates.size() > 1)
    throw InputError("--rate is " + given + "; give one rate, or several with --rates");
  const auto [first, last] = std::ranges::minmax(trace.requests, {}, &TraceRequest::timestamp_ms);
  if (!given.empty() && first.timestamp_ms == last.timestamp_ms && trace.requests.size() > 1)
    throw InputError(
        "all requests of the trace come at the same time, which no rate changes; give timestamps "
        "that differ, or leave " +
        std::string(option) + " out");
  return rates;
}

SimulateResult simulate(const Trace& trace, const SimulateOptions& options, const StepTime& step_time,
                        double rate) {
  return SimulatedEngine(trace, options, step_time, rate).run();
}

}  // namespace kvcli
