// SPDX-License-Identifier: Apache-2.0
// The tiers of an offload: which of them may be asked now, by the caller's clock, and what they have done.
//
// A tier whose gets fail three times in a row is left alone for a while: nothing is asked of it or stored
// there. Then one get tries it again. Puts that fail end puts alone: what can only be read is read.
#pragma once
#include "offload/stages.h"
#include "tier/breaker.h"
#include "tier/tier.h"

namespace kvc {

struct TierCounters {
  uint64_t hits, misses, loaded_pages, loaded_bytes, stored_pages, stored_bytes;
  uint64_t failed_loads;   // a page that was found was not got
  uint64_t refused_loads;  // by the tier's queue; tried again
  uint64_t refused_stores, failed_stores;
  double ns_per_byte;  // of loads, moving average; 0 = not measured
};

class OffloadTiers {
 public:
  // A tag: the kind of job, whether it is a probe, a number of items, and an index.
  static constexpr uint64_t kOfExists = uint64_t{1} << 63, kIsProbe = uint64_t{1} << 62;
  static constexpr int kNumberAt = 32;

  ~OffloadTiers();
  kvc_status create(Tier* const* tiers, size_t num_tiers, uint64_t retry_ns, uint64_t timeout_ns);

  size_t size() const { return count_; }
  Tier& operator[](size_t tier) { return *tiers_[tier]; }
  TierCounters& counters(size_t tier) { return counters_[tier]; }
  const TierCounters& counters(size_t tier) const { return counters_[tier]; }
  int event_fd() const { return epoll_fd_; }
  // Whether the caller runs the jobs of one of them.
  bool any_without_threads() const { return runs_tiers_; }

  uint64_t now() const { return now_ns_; }
  void advance(uint64_t now_ns) { now_ns_ = std::max(now_ns_, now_ns); }
  uint64_t outages(size_t tier) const { return health_[tier].gets.outages() + health_[tier].puts.outages(); }
  bool available(size_t tier) const {
    return health_[tier].gets.available() && health_[tier].puts.available();
  }
  // Whether gets, or puts, would be sent to a tier now.
  bool gives(size_t tier) const { return takes(health_[tier].gets); }
  bool stores(size_t tier) const { return gives(tier) && takes(health_[tier].puts); }
  // Jobs that have not ended; whether one of them is a get that tries the tier again.
  uint32_t num_jobs(size_t tier) const { return health_[tier].jobs; }
  bool is_probing(size_t tier) const { return health_[tier].probing; }

  // A job begins; it has ended, with these results, or as one that was given up.
  kvc_status submit(size_t tier, TierJobKind kind, TierPriority priority, kvc_tier_item* items, size_t count,
                    uint64_t tag, uint64_t* id);
  void judge(size_t tier, TierJobKind kind, bool is_probe, const kvc_tier_item* items, size_t count);
  void end_given_up(size_t tier) { --health_[tier].jobs; }
  // Its gets have not ended in time: nobody waits for them any more.
  void give_up(size_t tier, bool was_probe);

 private:
  struct Health {
    Breaker gets{0}, puts{0};
    uint32_t jobs;
    bool probing;
    Breaker& of(TierJobKind kind) { return kind == TierJobKind::kPut ? puts : gets; }
  };
  bool takes(Breaker copy) const { return copy.begin(now_ns_) != Breaker::Turn::kNot; }

  Tier* tiers_[kMaxOffloadTiers] = {};
  Health health_[kMaxOffloadTiers] = {};
  TierCounters counters_[kMaxOffloadTiers] = {};
  size_t count_ = 0;
  uint64_t now_ns_ = 0, timeout_ns_ = 0;
  int epoll_fd_ = -1;
  bool runs_tiers_ = false;
};

}  // namespace kvc
