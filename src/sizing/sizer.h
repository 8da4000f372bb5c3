// SPDX-License-Identifier: Apache-2.0
// Decides how many blocks to have, from the need of one interval after the other, and remembers the last
// decisions. The rule is in kvcache/sizing.h. create() takes all memory. Not thread-safe.
#pragma once
#include "sizing/workload.h"

namespace kvc {

class Sizer {
 public:
  // `config` is complete.
  [[nodiscard]] bool create(Memory& memory, const kvc_sizer_config& config);
  kvc_status decide(uint64_t now_ns, double needed, kvc_sizing_decision* out);
  kvc_status read_log(uint64_t number, kvc_sizing_decision* out) const;

 private:
  uint32_t choose_basis(const kvc_workload_info& need, double forecast, double variation) const;
  void settle(kvc_sizing_decision* decision) const;

  kvc_sizer_config config_ = {};
  Workload need_;
  uint64_t size_ = 0, count_ = 0, changed_ns_ = 0;
  bool changed_ = false;
  Array<kvc_sizing_decision> log_;  // decision n is at n % size
};

}  // namespace kvc
