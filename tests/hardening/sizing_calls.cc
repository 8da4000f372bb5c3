// SPDX-License-Identifier: Apache-2.0
// Rows of curves, workloads and sizers.
#include "hardening/every_call.h"

namespace kvc::test {
void add_sizing_calls(std::vector<Call>& calls) {
  // Other scenes may have opened and may close it.
  const auto open = [](Scene& s) {
    s.curve = true;
    const kvc_status status = kvc_manager_open_curve(s.m, KVC_ALL_NAMESPACES, &s.curve_config);
    return (status == KVC_OK || status == KVC_ERROR_BUSY) && s.cache(20);
  };
  calls.push_back(KVC_CALL(kvc_manager_open_curve, s.m, KVC_ALL_NAMESPACES, &s.curve_config)
                      .allocating()
                      .after([](Scene& s) { return s.curve = true; }));
  calls.push_back(KVC_CALL(kvc_manager_close_curve, s.m, KVC_ALL_NAMESPACES).after(open));
  calls.push_back(
      KVC_CALL(kvc_manager_read_curve, s.m, KVC_ALL_NAMESPACES, s.sizes, std::size(s.sizes), s.rates)
          .after(open));
  calls.push_back(KVC_CALL(kvc_manager_curve_info, s.m, KVC_ALL_NAMESPACES, &s.curve_info).after(open));
  calls.push_back(KVC_CALL(kvc_workload_create, &s.workload_config, &s.made_workload).allocating());
  calls.push_back(KVC_CALL(kvc_workload_destroy, std::exchange(s.made_workload, nullptr)).after([](Scene& s) {
    return kvc_workload_create(&s.workload_config, &s.made_workload) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_workload_record, s.workload, ++s.now, 1.5));
  calls.push_back(KVC_CALL(kvc_workload_read_info, s.workload, &s.workload_info));
  calls.push_back(KVC_CALL(kvc_workload_predict, s.workload, uint64_t{1000}, &s.forecast));
  calls.push_back(KVC_CALL(kvc_sizer_create, &s.sizer_config, &s.made_sizer).allocating());
  calls.push_back(KVC_CALL(kvc_sizer_destroy, std::exchange(s.made_sizer, nullptr)).after([](Scene& s) {
    return kvc_sizer_create(&s.sizer_config, &s.made_sizer) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_sizer_decide, s.sizer, ++s.now, 20.0, &s.decision).may_be_null({3}));
  calls.push_back(KVC_CALL(kvc_sizer_read_log, s.sizer, s.decision.number, &s.decision));
}

}  // namespace kvc::test
