/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of sizing. See layout.h. */
#include <kvcache/sizing.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_curve_config, 40);
AT(kvc_curve_config, struct_size, 0);
AT(kvc_curve_config, sample_rate, 8);
AT(kvc_curve_config, max_samples, 16);
AT(kvc_curve_config, max_blocks, 24);
AT(kvc_curve_config, half_life, 32);

SIZE(kvc_curve_info, 72);
AT(kvc_curve_info, struct_size, 0);
AT(kvc_curve_info, sample_rate, 8);
AT(kvc_curve_info, max_samples, 16);
AT(kvc_curve_info, max_blocks, 24);
AT(kvc_curve_info, half_life, 32);
AT(kvc_curve_info, queries, 40);
AT(kvc_curve_info, sampled, 48);
AT(kvc_curve_info, num_samples, 56);
AT(kvc_curve_info, bytes, 64);

SIZE(kvc_workload_config, 32);
AT(kvc_workload_config, struct_size, 0);
AT(kvc_workload_config, half_life_ns, 8);
AT(kvc_workload_config, window, 16);
AT(kvc_workload_config, reserved, 20);
AT(kvc_workload_config, allocator, 24);

SIZE(kvc_workload_info, 104);
AT(kvc_workload_info, struct_size, 0);
AT(kvc_workload_info, num_observations, 8);
AT(kvc_workload_info, last_ns, 16);
AT(kvc_workload_info, last, 24);
AT(kvc_workload_info, average, 32);
AT(kvc_workload_info, level, 40);
AT(kvc_workload_info, trend, 48);
AT(kvc_workload_info, mean, 56);
AT(kvc_workload_info, variance, 64);
AT(kvc_workload_info, peak, 72);
AT(kvc_workload_info, rate, 80);
AT(kvc_workload_info, burstiness, 88);
AT(kvc_workload_info, dispersion, 96);

SIZE(kvc_sizer_config, 104);
AT(kvc_sizer_config, struct_size, 0);
AT(kvc_sizer_config, min_blocks, 8);
AT(kvc_sizer_config, max_blocks, 16);
AT(kvc_sizer_config, num_blocks, 24);
AT(kvc_sizer_config, lead_time_ns, 32);
AT(kvc_sizer_config, cooldown_ns, 40);
AT(kvc_sizer_config, half_life_ns, 48);
AT(kvc_sizer_config, headroom, 56);
AT(kvc_sizer_config, hysteresis, 64);
AT(kvc_sizer_config, burst_threshold, 72);
AT(kvc_sizer_config, mode, 80);
AT(kvc_sizer_config, window, 84);
AT(kvc_sizer_config, log_capacity, 88);
AT(kvc_sizer_config, reserved, 92);
AT(kvc_sizer_config, allocator, 96);

SIZE(kvc_sizing_decision, 104);
AT(kvc_sizing_decision, struct_size, 0);
AT(kvc_sizing_decision, number, 8);
AT(kvc_sizing_decision, now_ns, 16);
AT(kvc_sizing_decision, from_blocks, 24);
AT(kvc_sizing_decision, to_blocks, 32);
AT(kvc_sizing_decision, action, 40);
AT(kvc_sizing_decision, reason, 44);
AT(kvc_sizing_decision, basis, 48);
AT(kvc_sizing_decision, mode, 52);
AT(kvc_sizing_decision, needed, 56);
AT(kvc_sizing_decision, level, 64);
AT(kvc_sizing_decision, trend, 72);
AT(kvc_sizing_decision, forecast, 80);
AT(kvc_sizing_decision, variation, 88);
AT(kvc_sizing_decision, wanted, 96);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
