// SPDX-License-Identifier: Apache-2.0
// The engine and the library count the same events separately. If the counts differ, the replay fails.
#include "cli/replay_result.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "cli/errors.h"

namespace kvcli {
namespace {

double per(double numerator, uint64_t denominator) {
  return denominator == 0 ? 0 : numerator / static_cast<double>(denominator);
}

void agree(const char* what, uint64_t engine, uint64_t library) {
  if (engine == library) return;
  throw LibraryError("kvc_manager_read_stats: " + std::string(what) + " is " + std::to_string(library) +
                     ", but the engine counted " + std::to_string(engine));
}

}  // namespace

double Latencies::percentile_us(double percent) const {
  if (seconds_.empty()) return 0;
  std::vector<float> sorted = seconds_;
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  const auto nth = sorted.begin() + std::max<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(rank), 1) - 1;
  std::nth_element(sorted.begin(), nth, sorted.end());
  return *nth * 1e6;
}

double ReplayResult::hit_rate() const {
  return per(static_cast<double>(cached_tokens), prompt_tokens + rejected_tokens);
}
double ReplayResult::waste() const { return per(static_cast<double>(sampled_empty_slots), sampled_slots); }
double ReplayResult::ns_per_request() const { return per(manager_seconds() * 1e9, requests - rejected); }
double ReplayResult::ns_per_prompt_block() const { return per(prompt_seconds * 1e9, prompt_blocks); }
double ReplayResult::ns_per_decode_step() const { return per(decode_seconds * 1e9, output_tokens); }
double ReplayResult::ns_per_step_call() const { return per(decode_seconds * 1e9, step_calls); }

void check_against(const kvc_stats& library, const ReplayResult& engine, uint64_t usable_blocks) {
  agree("admissions", engine.requests - engine.rejected, library.admissions);
  agree("readmissions", engine.preemptions, library.readmissions);
  agree("prompt_tokens", engine.prompt_tokens, library.prompt_tokens);
  agree("cached_tokens", engine.cached_tokens, library.cached_tokens);
  agree("block_queries", engine.block_queries, library.block_queries);
  agree("block_hits", engine.block_hits, library.block_hits);
  agree("partial_tokens", engine.partial_tokens, library.partial_tokens);
  agree("refusals", engine.failed_allocations, library.refusals);
  agree("blocks_free + blocks_cached", usable_blocks, library.blocks_free + library.blocks_cached);
}

}  // namespace kvcli
