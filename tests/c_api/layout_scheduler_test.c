/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of the scheduler. See layout.h. */
#include <kvcache/scheduler.h>
#include <stdio.h>

#include "layout.h"

VALUE(KVC_SCHEDULE_FCFS, 0);
VALUE(KVC_SCHEDULE_PRIORITY, 1);
VALUE(KVC_SCHEDULE_SHORTEST, 2);
VALUE(KVC_SCHEDULE_FAIR, 3);
VALUE(KVC_SCHEDULE_ADAPTIVE, 4);
VALUE(KVC_ADMIT_CHUNK, 0);
VALUE(KVC_ADMIT_PROMPT, 1);
VALUE(KVC_ADMIT_PEAK, 2);
VALUE(KVC_ADMIT_WORST, 3);
VALUE(KVC_SCHEDULER_CACHE_AWARE, 1);
VALUE(KVC_SCHEDULER_DEPTH_FIRST, 2);
VALUE(KVC_JOB_NOT_READY, 1);
VALUE(KVC_ENDED_STOPPED, 1);
VALUE(KVC_ENDED_LENGTH, 2);
VALUE(KVC_ENDED_NO_SPACE, 3);
VALUE(KVC_RESULT_FAILED, 1);
VALUE(KVC_SCHEDULED_NOT_READY, 1);
VALUE(KVC_SCHEDULED_WAITING, 2);
VALUE(KVC_SCHEDULED_LOADING, 3);
VALUE(KVC_SCHEDULED_RUNNING, 4);

SIZE(kvc_scheduler_config, 136);
AT(kvc_scheduler_config, struct_size, 0);
AT(kvc_scheduler_config, manager, 8);
AT(kvc_scheduler_config, offload, 16);
AT(kvc_scheduler_config, policy, 24);
AT(kvc_scheduler_config, admission, 28);
AT(kvc_scheduler_config, flags, 32);
AT(kvc_scheduler_config, max_running, 36);
AT(kvc_scheduler_config, max_tokens, 40);
AT(kvc_scheduler_config, max_chunk, 44);
AT(kvc_scheduler_config, max_drafts, 48);
AT(kvc_scheduler_config, max_plans, 52);
AT(kvc_scheduler_config, max_adapters, 56);
AT(kvc_scheduler_config, max_tenants, 60);
AT(kvc_scheduler_config, max_encoder_tokens, 64);
AT(kvc_scheduler_config, max_request_tokens, 72);
AT(kvc_scheduler_config, max_wait_ns, 80);
AT(kvc_scheduler_config, high_watermark, 88);
AT(kvc_scheduler_config, low_watermark, 96);
AT(kvc_scheduler_config, adaptive_plans, 104);
AT(kvc_scheduler_config, reserved, 108);
AT(kvc_scheduler_config, on_pressure, 112);
AT(kvc_scheduler_config, user_data, 120);
AT(kvc_scheduler_config, allocator, 128);

SIZE(kvc_encoder_input, 16);
AT(kvc_encoder_input, first_token, 0);
AT(kvc_encoder_input, num_tokens, 8);

SIZE(kvc_schedule_job, 88);
AT(kvc_schedule_job, struct_size, 0);
AT(kvc_schedule_job, prompt, 8);
AT(kvc_schedule_job, config, 16);
AT(kvc_schedule_job, max_new_tokens, 24);
AT(kvc_schedule_job, expected_new_tokens, 32);
AT(kvc_schedule_job, priority, 40);
AT(kvc_schedule_job, tenant, 44);
AT(kvc_schedule_job, adapter, 48);
AT(kvc_schedule_job, inputs, 56);
AT(kvc_schedule_job, num_inputs, 64);
AT(kvc_schedule_job, flags, 72);
AT(kvc_schedule_job, reserved, 76);
AT(kvc_schedule_job, now_ns, 80);

SIZE(kvc_ended_request, 16);
AT(kvc_ended_request, request, 0);
AT(kvc_ended_request, reason, 8);
AT(kvc_ended_request, num_new_tokens, 12);

SIZE(kvc_encoder_run, 8);
AT(kvc_encoder_run, item, 0);
AT(kvc_encoder_run, input, 4);

SIZE(kvc_plan, 232);
AT(kvc_plan, struct_size, 0);
AT(kvc_plan, plan_id, 8);
AT(kvc_plan, step_id, 16);
AT(kvc_plan, num_items, 24);
AT(kvc_plan, num_tokens, 32);
AT(kvc_plan, requests, 40);
AT(kvc_plan, rows, 48);
AT(kvc_plan, first_tokens, 56);
AT(kvc_plan, token_offsets, 64);
AT(kvc_plan, num_drafts, 72);
AT(kvc_plan, samples, 80);
AT(kvc_plan, is_new, 88);
AT(kvc_plan, block_tables, 96);
AT(kvc_plan, num_groups, 104);
AT(kvc_plan, num_rows, 112);
AT(kvc_plan, row_stride, 120);
AT(kvc_plan, slots, 128);
AT(kvc_plan, slot_stride, 136);
AT(kvc_plan, copies, 144);
AT(kvc_plan, num_copies, 152);
AT(kvc_plan, changes, 160);
AT(kvc_plan, num_changes, 168);
AT(kvc_plan, whole_tables, 176);
AT(kvc_plan, reserved, 180);
AT(kvc_plan, preempted, 184);
AT(kvc_plan, num_preempted, 192);
AT(kvc_plan, encoder_runs, 200);
AT(kvc_plan, num_encoder_runs, 208);
AT(kvc_plan, ended, 216);
AT(kvc_plan, num_ended, 224);

SIZE(kvc_plan_result, 72);
AT(kvc_plan_result, struct_size, 0);
AT(kvc_plan_result, plan_id, 8);
AT(kvc_plan_result, num_items, 16);
AT(kvc_plan_result, token_offsets, 24);
AT(kvc_plan_result, tokens, 32);
AT(kvc_plan_result, stopped, 40);
AT(kvc_plan_result, flags, 48);
AT(kvc_plan_result, reserved, 52);
AT(kvc_plan_result, ended, 56);
AT(kvc_plan_result, num_ended, 64);

SIZE(kvc_scheduled_info, 80);
AT(kvc_scheduled_info, struct_size, 0);
AT(kvc_scheduled_info, state, 8);
AT(kvc_scheduled_info, row, 12);
AT(kvc_scheduled_info, num_tokens, 16);
AT(kvc_scheduled_info, num_prompt, 24);
AT(kvc_scheduled_info, num_planned, 32);
AT(kvc_scheduled_info, num_cached, 40);
AT(kvc_scheduled_info, num_preemptions, 48);
AT(kvc_scheduled_info, arrival_ns, 56);
AT(kvc_scheduled_info, priority, 64);
AT(kvc_scheduled_info, tenant, 68);
AT(kvc_scheduled_info, wait_reason, 72);
AT(kvc_scheduled_info, reserved, 76);

SIZE(kvc_scheduler_stats, 208);
AT(kvc_scheduler_stats, struct_size, 0);
AT(kvc_scheduler_stats, waiting, 8);
AT(kvc_scheduler_stats, running, 16);
AT(kvc_scheduler_stats, plans_in_flight, 24);
AT(kvc_scheduler_stats, added, 32);
AT(kvc_scheduler_stats, aborted, 40);
AT(kvc_scheduler_stats, ended, 48);
AT(kvc_scheduler_stats, plans, 56);
AT(kvc_scheduler_stats, prompt_tokens, 64);
AT(kvc_scheduler_stats, decode_tokens, 72);
AT(kvc_scheduler_stats, draft_tokens, 80);
AT(kvc_scheduler_stats, accepted_drafts, 88);
AT(kvc_scheduler_stats, admissions, 96);
AT(kvc_scheduler_stats, cached_tokens, 104);
AT(kvc_scheduler_stats, preemptions, 112);
AT(kvc_scheduler_stats, recomputed_tokens, 120);
AT(kvc_scheduler_stats, refused_space, 128);
AT(kvc_scheduler_stats, refused_peak, 136);
AT(kvc_scheduler_stats, refused_adapter, 144);
AT(kvc_scheduler_stats, refused_encoder, 152);
AT(kvc_scheduler_stats, refused_quota, 160);
AT(kvc_scheduler_stats, refused_filling, 168);
AT(kvc_scheduler_stats, aged, 176);
AT(kvc_scheduler_stats, policy_changes, 184);
AT(kvc_scheduler_stats, pressure_changes, 192);
AT(kvc_scheduler_stats, policy, 200);
AT(kvc_scheduler_stats, pressure, 204);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
