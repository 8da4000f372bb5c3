// SPDX-License-Identifier: Apache-2.0
// Quotas in the reference model: docs/SEMANTICS.md, "Quotas". What each share has is counted anew whenever it
// is asked for.
#ifndef KVCACHE_TESTS_PROPERTY_MODEL_QUOTA_H_
#define KVCACHE_TESTS_PROPERTY_MODEL_QUOTA_H_

#include "property/model_policy.h"

namespace model {

struct Quota {
  int cls = 0;                               // the common share is 0
  std::vector<uint64_t> min, max, refusals;  // per pool; max 0: none
  uint64_t queries = 0, hits = 0;
  uint64_t most(size_t p) const { return max[p] ? max[p] : UINT64_MAX; }
};
struct ShareCounts {
  uint64_t held = 0, fenced = 0, cached = 0;  // fenced ones are held
  uint64_t used() const { return held + cached; }
};

class Shares {
 public:
  explicit Shares(const Config& config) : max_quotas_(config.max_quotas) {
    common_.min.resize(config.pools.size()), common_.max = common_.refusals = common_.min;
  }
  bool on() const { return max_quotas_ != 0; }
  // Of a namespace, or of a share.
  bool has(int64_t ns) const { return quotas_.count(ns) > 0; }
  const Quota& of(int64_t ns) const { return has(ns) ? quotas_.at(ns) : common_; }
  Quota& of(int64_t ns) { return has(ns) ? quotas_.at(ns) : common_; }
  int cls(int64_t ns) const { return of(ns).cls; }
  const Quota& of_class(int cls) const {
    for (auto& [ns, quota] : quotas_)
      if (quota.cls == cls) return quota;
    return common_;
  }
  std::vector<int> classes() const {
    std::vector<int> all{0};
    for (auto& [ns, quota] : quotas_) all.push_back(quota.cls);
    return all;
  }
  uint64_t minimums_but(int64_t ns, size_t p) const {
    uint64_t sum = 0;
    for (auto& [other, quota] : quotas_) sum += other == ns ? 0 : quota.min[p];
    return sum;
  }
  bool all_taken() const { return quotas_.size() >= max_quotas_; }
  void begin(int64_t ns) {
    Quota quota = Quota{1, common_.min, common_.min, common_.min};
    const std::vector<int> taken = classes();
    while (std::count(taken.begin(), taken.end(), quota.cls)) ++quota.cls;
    quotas_[ns] = quota;
  }
  void end(int64_t ns) { quotas_.erase(ns); }

 private:
  const uint32_t max_quotas_;
  Quota common_;
  std::map<int64_t, Quota> quotas_;
};

}  // namespace model

#endif  // KVCACHE_TESTS_PROPERTY_MODEL_QUOTA_H_
