// SPDX-License-Identifier: Apache-2.0
// Tiers below the pool of a replay: a kvc_offload, without bytes unless they are asked for. What it saves is
// told by a model: tokens that are not computed, less the time in which their pages are read.
#pragma once
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/tier.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/library.h"
#include "cli/replay_result.h"

namespace kvcli {

struct TierOptions {
  std::string urls;                      // Separated by commas, fastest first; "" = no tiers.
  bool bytes = false;                    // The tiers are real, and so is their I/O.
  std::string block_bytes = "2MiB";      // Of a page: a block of a group.
  std::vector<uint64_t> group_bytes;     // Of a page of each group, instead of block_bytes: --model sets it.
  std::string policy = "write-through";  // Or second-use, before-eviction.
  double compute_us_per_token = 100;     // Of a prompt.
  std::string gb_per_s = "20";           // Of each tier; the last one goes for those behind it.
};

/// What computes the pages of a replay.
kvc_page_config replayed_pages();

void add_tier_options(CLI::App& command, TierOptions& options);

class ReplayTiers {
 public:
  /// Events of the manager between two polls, in which a request at most is admitted: its blocks come, others
  /// leave. Not more than needed, because what is written is in the caches then.
  static uint64_t num_events(uint64_t blocks_of_a_request) {
    return std::max<uint64_t>(1 << 14, 4 * blocks_of_a_request);
  }

  ReplayTiers(kvc_manager* manager, size_t num_groups, const TierOptions& options);
  /// Brings back what a waiting request lacks.
  void load(uint64_t request);
  /// The request was admitted, or has to wait for room: nothing is held for it.
  void cancel(uint64_t request);
  void poll();
  void report(ReplayResult& result);

 private:
  using Tier = kvc::Owner<kvc_tier, kvc_tier_destroy>;
  using Offload = kvc::Owner<kvc_offload, kvc_offload_destroy>;

  void wait() const;

  const TierOptions options_;
  std::vector<std::string> urls_;
  std::vector<double> gb_per_s_;
  std::vector<Tier> tiers_;
  Offload offload_;
  uint64_t now_ = 0;
  Stopwatch watch_;
};

}  // namespace kvcli
