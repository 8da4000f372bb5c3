// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_SIZING_HPP
#define KVCACHE_SIZING_HPP

/// @file kvcache/sizing.hpp
/// Workloads and sizers. See kvcache/sizing.h; curves are functions of kvc::Manager.

#include <kvcache/sizing.h>

#include <kvcache/types.hpp>

namespace kvc {
inline namespace cpp {

/// One number over time. Any thread may call any function.
class Workload {
 public:
  /// With all defaults, or a configuration.
  explicit Workload(const kvc_workload_config& config = make<kvc_workload_config>())
      : w_(ask<kvc_workload*>(kvc_workload_create, &config)) {}
  kvc_workload* get() const noexcept { return w_.get(); }  ///< For C functions.

  /// As kvc_workload_record, and so on.
  ///@{
  void record(uint64_t now_ns, double value) { check(kvc_workload_record(get(), now_ns, value)); }
  kvc_workload_info read() const { return ask<kvc_workload_info>(kvc_workload_read_info, get()); }
  double predict(uint64_t horizon_ns) const { return ask<double>(kvc_workload_predict, get(), horizon_ns); }
  ///@}

 private:
  Owner<kvc_workload, kvc_workload_destroy> w_;
};

/// Decides on a number of blocks. Any thread may call any function.
class Sizer {
 public:
  /// From a configuration.
  explicit Sizer(const kvc_sizer_config& config) : s_(ask<kvc_sizer*>(kvc_sizer_create, &config)) {}
  kvc_sizer* get() const noexcept { return s_.get(); }  ///< For C functions.

  /// As kvc_sizer_decide, and so on.
  ///@{
  kvc_sizing_decision decide(uint64_t now_ns, double needed_blocks) {
    return ask<kvc_sizing_decision>(kvc_sizer_decide, get(), now_ns, needed_blocks);
  }
  kvc_sizing_decision read_log(uint64_t number) const {
    return ask<kvc_sizing_decision>(kvc_sizer_read_log, get(), number);
  }
  ///@}

 private:
  Owner<kvc_sizer, kvc_sizer_destroy> s_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_SIZING_HPP
