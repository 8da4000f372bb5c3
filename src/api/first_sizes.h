// SPDX-License-Identifier: Apache-2.0
// The name of each of a caller's structs, and its size in the version that brought it: what every caller has
// at least. The structs stay incomplete here, so that a file of src/api knows only the headers that it
// serves.
#pragma once
#include <cstddef>

namespace kvc {
template <typename T>
inline constexpr const char* kStructName = nullptr;
template <typename T>
inline constexpr size_t kFirstSize = 0;
}  // namespace kvc

#define KVC_FIRST_SIZE(type, size)                        \
  struct type;                                            \
  namespace kvc {                                         \
  template <>                                             \
  inline constexpr const char* kStructName<type> = #type; \
  template <>                                             \
  inline constexpr size_t kFirstSize<type> = size;        \
  }
KVC_FIRST_SIZE(kvc_allocator, 32)
KVC_FIRST_SIZE(kvc_pool_config, 24)
KVC_FIRST_SIZE(kvc_group_config, 56)
KVC_FIRST_SIZE(kvc_manager_config, 184)
KVC_FIRST_SIZE(kvc_properties, 120)
KVC_FIRST_SIZE(kvc_namespace_config, 56)
KVC_FIRST_SIZE(kvc_prompt, 48)
KVC_FIRST_SIZE(kvc_request_config, 112)
KVC_FIRST_SIZE(kvc_request_info, 120)
KVC_FIRST_SIZE(kvc_pending_work, 56)
KVC_FIRST_SIZE(kvc_probe_info, 56)
KVC_FIRST_SIZE(kvc_lost_reuse, 56)
KVC_FIRST_SIZE(kvc_block_info, 48)
KVC_FIRST_SIZE(kvc_pool_info, 88)
KVC_FIRST_SIZE(kvc_quota_info, 80)
KVC_FIRST_SIZE(kvc_event_batch, 56)
KVC_FIRST_SIZE(kvc_stats, 272)
KVC_FIRST_SIZE(kvc_step_limits, 72)
KVC_FIRST_SIZE(kvc_step, 384)
KVC_FIRST_SIZE(kvc_device_info, 72)
KVC_FIRST_SIZE(kvc_backend_info, 40)
KVC_FIRST_SIZE(kvc_table_update, 136)
KVC_FIRST_SIZE(kvc_storage_config, 136)
KVC_FIRST_SIZE(kvc_storage_info, 120)
KVC_FIRST_SIZE(kvc_quant_metrics, 64)
KVC_FIRST_SIZE(kvc_quant_format, 24)
KVC_FIRST_SIZE(kvc_rows, 160)
KVC_FIRST_SIZE(kvc_attention, 224)
KVC_FIRST_SIZE(kvc_attention_launch, 72)
KVC_FIRST_SIZE(kvc_attention_info, 120)
KVC_FIRST_SIZE(kvc_attention_partials, 48)
KVC_FIRST_SIZE(kvc_block_choice, 56)
KVC_FIRST_SIZE(kvc_model, 352)
KVC_FIRST_SIZE(kvc_rope_rows, 88)
KVC_FIRST_SIZE(kvc_memory_query, 112)
KVC_FIRST_SIZE(kvc_memory_estimate, 192)
KVC_FIRST_SIZE(kvc_curve_config, 40)
KVC_FIRST_SIZE(kvc_curve_info, 72)
KVC_FIRST_SIZE(kvc_workload_config, 32)
KVC_FIRST_SIZE(kvc_workload_info, 104)
KVC_FIRST_SIZE(kvc_sizer_config, 104)
KVC_FIRST_SIZE(kvc_sizing_decision, 104)
KVC_FIRST_SIZE(kvc_rebuild, 64)
KVC_FIRST_SIZE(kvc_log_info, 40)
KVC_FIRST_SIZE(kvc_replay_info, 312)
KVC_FIRST_SIZE(kvc_page_config, 72)
KVC_FIRST_SIZE(kvc_page_info, 56)
KVC_FIRST_SIZE(kvc_tier_config, 72)
KVC_FIRST_SIZE(kvc_tier_job, 64)
KVC_FIRST_SIZE(kvc_tier_counts, 104)
KVC_FIRST_SIZE(kvc_tier_stats, 216)
KVC_FIRST_SIZE(kvc_drafts, 40)
KVC_FIRST_SIZE(kvc_verdict, 32)
KVC_FIRST_SIZE(kvc_probabilities, 104)
KVC_FIRST_SIZE(kvc_draft_tables, 40)
KVC_FIRST_SIZE(kvc_draft_config, 32)
KVC_FIRST_SIZE(kvc_acceptance, 544)
KVC_FIRST_SIZE(kvc_checkpoint_config, 80)
KVC_FIRST_SIZE(kvc_checkpoint_info, 320)
KVC_FIRST_SIZE(kvc_checkpoint_needs, 48)
KVC_FIRST_SIZE(kvc_page_file_info, 136)
KVC_FIRST_SIZE(kvc_scheduler_config, 136)
KVC_FIRST_SIZE(kvc_schedule_job, 88)
KVC_FIRST_SIZE(kvc_plan, 232)
KVC_FIRST_SIZE(kvc_plan_result, 72)
KVC_FIRST_SIZE(kvc_scheduled_info, 80)
KVC_FIRST_SIZE(kvc_scheduler_stats, 208)
KVC_FIRST_SIZE(kvc_offload_config, 112)
KVC_FIRST_SIZE(kvc_offload_info, 40)
KVC_FIRST_SIZE(kvc_offload_stats, 120)
KVC_FIRST_SIZE(kvc_offload_tier_stats, 96)
KVC_FIRST_SIZE(kvc_metrics_source, 64)
KVC_FIRST_SIZE(kvc_latency, 64)
KVC_FIRST_SIZE(kvc_memory_profile, 104)
KVC_FIRST_SIZE(kvc_publisher_config, 104)
KVC_FIRST_SIZE(kvc_publisher_namespace, 40)
KVC_FIRST_SIZE(kvc_publisher_stats, 136)
KVC_FIRST_SIZE(kvc_index_config, 56)
KVC_FIRST_SIZE(kvc_index_applied, 40)
KVC_FIRST_SIZE(kvc_index_worker, 240)
KVC_FIRST_SIZE(kvc_index_stats, 112)
#undef KVC_FIRST_SIZE
