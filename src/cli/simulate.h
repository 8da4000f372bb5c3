// SPDX-License-Identifier: Apache-2.0
// `kvcache simulate`: an engine without a model over a scheduler of the library. Requests come at the times
// of a trace, a step takes the time of a model of steps, and the clock is virtual: equal commands give equal
// results, but for the times that the library itself takes (host_*).
#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/replay_result.h"
#include "cli/step_time.h"
#include "cli/trace.h"

namespace kvcli {

struct SimulateOptions {
  std::string scheduler = "fcfs";   // One of scheduler_names().
  std::string admission = "chunk";  // One of admission_names().
  bool cache_aware = false, depth_first = false;
  bool async = false;  // Two plans in flight.
  uint32_t max_running = 256;
  uint32_t max_tokens = 2048;
  uint32_t max_chunk = 0;  // 0 = max_tokens.
  uint64_t num_blocks = 100'000;
  uint32_t block_size = 16;
  std::string model, memory;          // Pools of this model in so much memory, instead of num_blocks.
  std::optional<uint64_t> retention;  // Of the model's windows; none: the block size.
  std::string step_model;             // As StepTime::parse takes it.
  double host_us = 0;                 // Of the engine's own work before each step.
  double ttft_ms = 0;                 // Bounds of goodput; 0 = none.
  double tpot_ms = 0;
  std::string rate;   // Requests a second; empty = as in the trace.
  std::string rates;  // A list of rates, each simulated, instead.
  std::string html;   // File for a page with curves; empty = none.
};

/// Numbers in rising order, by nearest rank.
class Percentiles {
 public:
  Percentiles() = default;
  explicit Percentiles(std::vector<double> values);
  bool empty() const { return sorted_.empty(); }
  double at(double percent) const;  // 0 if empty.
  double mean() const { return mean_; }

 private:
  std::vector<double> sorted_;
  double mean_ = 0;
};

struct SimulateResult {
  double rate = 0;  // Requests a second that arrived; 0 if all came at once.
  uint64_t requests = 0;
  uint64_t finished = 0;
  uint64_t rejected = 0;       // Longer than the pool.
  uint64_t failed = 0;         // Ended without blocks.
  uint64_t good = 0;           // Finished within the bounds.
  uint64_t prompt_tokens = 0;  // Of first admissions,
  uint64_t cached_tokens = 0;  // and those that were hit.
  uint64_t output_tokens = 0;
  uint64_t planned_tokens = 0;
  uint64_t recomputed_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t plans = 0;
  uint64_t items = 0;        // Of all plans.
  uint64_t busy_ns = 0;      // Of the device.
  uint64_t makespan_ns = 0;  // From the first arrival to the last token.
  Percentiles ttft_ms;       // Of finished requests, from the arrival to the first token.
  Percentiles tpot_ms;       // From the first token to the last, for each token after the first.
  double host_seconds = 0;   // Measured, inside the calls that plan and finish.
  Latencies host_steps;      // The same for each plan.

  double seconds() const { return static_cast<double>(makespan_ns) * 1e-9; }
  double per_second(uint64_t count) const;
  double hit_rate() const;
  double goodput() const;     // Share of all requests.
  double mean_batch() const;  // Requests in a plan.
  double host_us_per_step() const;
};

/// In the order of KVC_SCHEDULE_* and KVC_ADMIT_*.
const std::vector<std::string>& scheduler_names();
const std::vector<std::string>& admission_names();

/// The rates to simulate, one or more; 0 = as in the trace. Throws InputError for an option out of range.
std::vector<double> check_simulation(const Trace& trace, const SimulateOptions& options);

/// Simulates one rate. Throws InputError, kvc::Error if a call fails, LibraryError if nothing can go on.
SimulateResult simulate(const Trace& trace, const SimulateOptions& options, const StepTime& step_time,
                        double rate);

/// Checks, simulates, and prints and draws the results.
void run_simulation(const Trace& trace, const SimulateOptions& options, bool as_json, std::ostream& out);

/// One HTML page without references to anything outside of it.
std::string simulation_page(const SimulateOptions& options, const std::vector<SimulateResult>& results);

}  // namespace kvcli
