/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of metrics. See layout.h. */
#include <kvcache/metrics.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_label, 16);
AT(kvc_label, name, 0);
AT(kvc_label, value, 8);

SIZE(kvc_metrics_source, 64);
AT(kvc_metrics_source, struct_size, 0);
AT(kvc_metrics_source, manager, 8);
AT(kvc_metrics_source, storage, 16);
AT(kvc_metrics_source, tier, 24);
AT(kvc_metrics_source, offload, 32);
AT(kvc_metrics_source, scheduler, 40);
AT(kvc_metrics_source, labels, 48);
AT(kvc_metrics_source, num_labels, 56);

SIZE(kvc_latency, 64);
AT(kvc_latency, struct_size, 0);
AT(kvc_latency, count, 8);
AT(kvc_latency, sum_ns, 16);
AT(kvc_latency, max_ns, 24);
AT(kvc_latency, p50_ns, 32);
AT(kvc_latency, p90_ns, 40);
AT(kvc_latency, p99_ns, 48);
AT(kvc_latency, p999_ns, 56);

SIZE(kvc_memory_profile, 104);
AT(kvc_memory_profile, struct_size, 0);
AT(kvc_memory_profile, metadata_bytes, 8);
AT(kvc_memory_profile, metadata_peak_bytes, 16);
AT(kvc_memory_profile, slab_bytes, 24);
AT(kvc_memory_profile, slab_peak_bytes, 32);
AT(kvc_memory_profile, workspace_bytes, 40);
AT(kvc_memory_profile, workspace_peak_bytes, 48);
AT(kvc_memory_profile, tier_bytes, 56);
AT(kvc_memory_profile, tier_peak_bytes, 64);
AT(kvc_memory_profile, offload_bytes, 72);
AT(kvc_memory_profile, offload_peak_bytes, 80);
AT(kvc_memory_profile, scheduler_bytes, 88);
AT(kvc_memory_profile, scheduler_peak_bytes, 96);

VALUE(KVC_METRICS_VLLM_NAMES, 1);
VALUE(KVC_LATENCY_ADMIT, 1);
VALUE(KVC_LATENCY_STEP, 2);
VALUE(KVC_LATENCY_PLAN, 3);
VALUE(KVC_LATENCY_FINISH, 4);
VALUE(KVC_LATENCY_STORE, 5);
VALUE(KVC_LATENCY_GATHER, 6);
VALUE(KVC_LATENCY_POLL, 7);
VALUE(KVC_LATENCY_LOAD, 8);
VALUE(KVC_LATENCY_TIER_EXISTS, 9);
VALUE(KVC_LATENCY_TIER_GET, 10);
VALUE(KVC_LATENCY_TIER_PUT, 11);
VALUE(KVC_LATENCY_TIER_REMOVE, 12);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
