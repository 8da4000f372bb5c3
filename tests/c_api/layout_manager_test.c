/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of managers, requests and steps. See layout.h. */
#include <kvcache/events.h>
#include <kvcache/manager.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/record.h>
#include <kvcache/request.h>
#include <kvcache/step.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_allocator, 32);
AT(kvc_allocator, struct_size, 0);
AT(kvc_allocator, user_data, 8);
AT(kvc_allocator, allocate, 16);
AT(kvc_allocator, release, 24);

SIZE(kvc_pool_config, 24);
AT(kvc_pool_config, struct_size, 0);
AT(kvc_pool_config, num_blocks, 8);
AT(kvc_pool_config, max_blocks, 16);

SIZE(kvc_group_config, 56);
AT(kvc_group_config, struct_size, 0);
AT(kvc_group_config, kind, 8);
AT(kvc_group_config, num_sink_tokens, 12);
AT(kvc_group_config, window_tokens, 16);
AT(kvc_group_config, retention_tokens, 24);
AT(kvc_group_config, pool, 32);
AT(kvc_group_config, reserved, 36);
AT(kvc_group_config, chunk_tokens, 40);
AT(kvc_group_config, max_checkpoints, 48);

SIZE(kvc_manager_config, 184);
AT(kvc_manager_config, struct_size, 0);
AT(kvc_manager_config, num_blocks, 8);
AT(kvc_manager_config, max_nodes, 16);
AT(kvc_manager_config, max_requests, 24);
AT(kvc_manager_config, max_request_tokens, 32);
AT(kvc_manager_config, event_capacity, 40);
AT(kvc_manager_config, seed, 48);
AT(kvc_manager_config, watermark_blocks, 56);
AT(kvc_manager_config, block_size, 64);
AT(kvc_manager_config, vocab_size, 68);
AT(kvc_manager_config, policy, 72);
AT(kvc_manager_config, flags, 76);
AT(kvc_manager_config, groups, 80);
AT(kvc_manager_config, num_groups, 88);
AT(kvc_manager_config, pools, 96);
AT(kvc_manager_config, num_pools, 104);
AT(kvc_manager_config, allocator, 112);
AT(kvc_manager_config, log, 120);
AT(kvc_manager_config, log_user_data, 128);
AT(kvc_manager_config, memory, 136);
AT(kvc_manager_config, policy_weight, 144);
AT(kvc_manager_config, policy_history, 152);
AT(kvc_manager_config, max_quotas, 160);
AT(kvc_manager_config, reserved, 164);
AT(kvc_manager_config, max_blocks, 168);
AT(kvc_manager_config, record_bytes, 176);

SIZE(kvc_properties, 120);
AT(kvc_properties, struct_size, 0);
AT(kvc_properties, num_blocks, 8);
AT(kvc_properties, max_nodes, 16);
AT(kvc_properties, max_requests, 24);
AT(kvc_properties, max_request_tokens, 32);
AT(kvc_properties, event_capacity, 40);
AT(kvc_properties, watermark_blocks, 48);
AT(kvc_properties, block_size, 56);
AT(kvc_properties, vocab_size, 60);
AT(kvc_properties, policy, 64);
AT(kvc_properties, flags, 68);
AT(kvc_properties, num_groups, 72);
AT(kvc_properties, num_pools, 76);
AT(kvc_properties, policy_weight, 80);
AT(kvc_properties, policy_history, 88);
AT(kvc_properties, max_quotas, 96);
AT(kvc_properties, num_cross_groups, 100);
AT(kvc_properties, max_blocks, 104);
AT(kvc_properties, record_bytes, 112);

SIZE(kvc_namespace_config, 56);
AT(kvc_namespace_config, struct_size, 0);
AT(kvc_namespace_config, model, 8);
AT(kvc_namespace_config, adapter, 16);
AT(kvc_namespace_config, tenant, 24);
AT(kvc_namespace_config, model_size, 32);
AT(kvc_namespace_config, adapter_size, 40);
AT(kvc_namespace_config, tenant_size, 48);

SIZE(kvc_prompt, 48);
AT(kvc_prompt, struct_size, 0);
AT(kvc_prompt, namespace_id, 8);
AT(kvc_prompt, tokens, 16);
AT(kvc_prompt, num_tokens, 24);
AT(kvc_prompt, keys, 32);
AT(kvc_prompt, num_keys, 40);

SIZE(kvc_pending_work, 56);
AT(kvc_pending_work, struct_size, 0);
AT(kvc_pending_work, copies, 8);
AT(kvc_pending_work, copy_capacity, 16);
AT(kvc_pending_work, num_copies, 24);
AT(kvc_pending_work, zero_blocks, 32);
AT(kvc_pending_work, zero_capacity, 40);
AT(kvc_pending_work, num_zero_blocks, 48);

SIZE(kvc_event_batch, 56);
AT(kvc_event_batch, struct_size, 0);
AT(kvc_event_batch, events, 8);
AT(kvc_event_batch, event_size, 16);
AT(kvc_event_batch, capacity, 24);
AT(kvc_event_batch, count, 32);
AT(kvc_event_batch, tokens, 40);
AT(kvc_event_batch, token_capacity, 48);

SIZE(kvc_request_config, 112);
AT(kvc_request_config, struct_size, 0);
AT(kvc_request_config, user_data, 8);
AT(kvc_request_config, max_cached_tokens, 16);
AT(kvc_request_config, external_tokens, 24);
AT(kvc_request_config, slots, 32);
AT(kvc_request_config, lookahead, 40);
AT(kvc_request_config, flags, 48);
AT(kvc_request_config, drop_tail_blocks, 52);
AT(kvc_request_config, wait_until_ns, 56);
AT(kvc_request_config, reserve, 64);
AT(kvc_request_config, reserved, 68);
AT(kvc_request_config, cross_tokens, 72);
AT(kvc_request_config, cross_digest, 80);

SIZE(kvc_extra_key, 48);
AT(kvc_extra_key, first_token, 0);
AT(kvc_extra_key, num_tokens, 8);
AT(kvc_extra_key, digest, 16);

SIZE(kvc_request_info, 120);
AT(kvc_request_info, struct_size, 0);
AT(kvc_request_info, namespace_id, 8);
AT(kvc_request_info, user_data, 16);
AT(kvc_request_info, num_tokens, 24);
AT(kvc_request_info, num_committed, 32);
AT(kvc_request_info, num_cached, 40);
AT(kvc_request_info, capacity, 48);
AT(kvc_request_info, num_blocks, 56);
AT(kvc_request_info, lost_reuse_tokens, 64);
AT(kvc_request_info, min_truncate_tokens, 72);
AT(kvc_request_info, admitted, 80);
AT(kvc_request_info, flags, 84);
AT(kvc_request_info, next_checkpoint, 88);
AT(kvc_request_info, cross_tokens, 96);
AT(kvc_request_info, num_cross_cached, 104);
AT(kvc_request_info, lost_group, 112);
AT(kvc_request_info, lost_reason, 116);

SIZE(kvc_probe_info, 56);
AT(kvc_probe_info, struct_size, 0);
AT(kvc_probe_info, num_cached, 8);
AT(kvc_probe_info, blocks_needed, 16);
AT(kvc_probe_info, blocks_available, 24);
AT(kvc_probe_info, lost_reuse_tokens, 32);
AT(kvc_probe_info, fits, 40);
AT(kvc_probe_info, reserved, 44);
AT(kvc_probe_info, filling_request, 48);

SIZE(kvc_block_info, 48);
AT(kvc_block_info, struct_size, 0);
AT(kvc_block_info, token_offset, 8);
AT(kvc_block_info, state, 16);
AT(kvc_block_info, pool, 20);
AT(kvc_block_info, requests, 24);
AT(kvc_block_info, external_holds, 28);
AT(kvc_block_info, pins, 32);
AT(kvc_block_info, published, 36);
AT(kvc_block_info, num_copies, 40);
AT(kvc_block_info, group, 44);

SIZE(kvc_log_info, 40);
AT(kvc_log_info, struct_size, 0);
AT(kvc_log_info, capacity, 8);
AT(kvc_log_info, bytes, 16);
AT(kvc_log_info, calls, 24);
AT(kvc_log_info, lost_calls, 32);

SIZE(kvc_replay_info, 312);
AT(kvc_replay_info, struct_size, 0);
AT(kvc_replay_info, calls, 8);
AT(kvc_replay_info, mismatches, 16);
AT(kvc_replay_info, first_mismatch, 24);
AT(kvc_replay_info, digest, 32);
AT(kvc_replay_info, lost_calls, 40);
AT(kvc_replay_info, library_version, 48);
AT(kvc_replay_info, reserved, 52);
AT(kvc_replay_info, text, 56);

SIZE(kvc_quota_info, 80);
AT(kvc_quota_info, struct_size, 0);
AT(kvc_quota_info, min_blocks, 8);
AT(kvc_quota_info, max_blocks, 16);
AT(kvc_quota_info, held, 24);
AT(kvc_quota_info, cached, 32);
AT(kvc_quota_info, fenced, 40);
AT(kvc_quota_info, available, 48);
AT(kvc_quota_info, refusals, 56);
AT(kvc_quota_info, block_queries, 64);
AT(kvc_quota_info, block_hits, 72);

SIZE(kvc_lost_reuse, 56);
AT(kvc_lost_reuse, struct_size, 0);
AT(kvc_lost_reuse, admissions, 8);
AT(kvc_lost_reuse, block_tokens, 16);
AT(kvc_lost_reuse, window_tokens, 24);
AT(kvc_lost_reuse, state_tokens, 32);
AT(kvc_lost_reuse, agreement_tokens, 40);
AT(kvc_lost_reuse, node_tokens, 48);

SIZE(kvc_pool_info, 88);
AT(kvc_pool_info, struct_size, 0);
AT(kvc_pool_info, first_block, 8);
AT(kvc_pool_info, num_blocks, 16);
AT(kvc_pool_info, free, 24);
AT(kvc_pool_info, cached, 32);
AT(kvc_pool_info, live, 40);
AT(kvc_pool_info, reserved, 48);
AT(kvc_pool_info, filling, 56);
AT(kvc_pool_info, fenced, 64);
AT(kvc_pool_info, pinned, 72);
AT(kvc_pool_info, max_blocks, 80);

SIZE(kvc_block_copy, 8);
AT(kvc_block_copy, source, 0);
AT(kvc_block_copy, destination, 4);

SIZE(kvc_table_change, 16);
AT(kvc_table_change, group, 0);
AT(kvc_table_change, row, 4);
AT(kvc_table_change, column, 8);
AT(kvc_table_change, block, 12);

SIZE(kvc_event, 168);
AT(kvc_event, sequence, 0);
AT(kvc_event, time_ns, 8);
AT(kvc_event, epoch, 16);
AT(kvc_event, namespace_id, 24);
AT(kvc_event, node, 32);
AT(kvc_event, parent_node, 40);
AT(kvc_event, token_offset, 48);
AT(kvc_event, kind, 56);
AT(kvc_event, group, 60);
AT(kvc_event, num_tokens, 64);
AT(kvc_event, block, 68);
AT(kvc_event, digest, 72);
AT(kvc_event, parent_digest, 104);
AT(kvc_event, extra_digest, 136);

SIZE(kvc_view, 80);
AT(kvc_view, data, 0);
AT(kvc_view, dtype, 8);
AT(kvc_view, ndim, 12);
AT(kvc_view, shape, 16);
AT(kvc_view, strides, 48);

SIZE(kvc_stats, 272);
AT(kvc_stats, struct_size, 0);
AT(kvc_stats, epoch, 8);
AT(kvc_stats, blocks_total, 16);
AT(kvc_stats, blocks_free, 24);
AT(kvc_stats, blocks_cached, 32);
AT(kvc_stats, blocks_live, 40);
AT(kvc_stats, blocks_reserved, 48);
AT(kvc_stats, blocks_filling, 56);
AT(kvc_stats, blocks_fenced, 64);
AT(kvc_stats, blocks_pinned, 72);
AT(kvc_stats, live_requests, 80);
AT(kvc_stats, waiting_requests, 88);
AT(kvc_stats, admissions, 96);
AT(kvc_stats, prompt_tokens, 104);
AT(kvc_stats, cached_tokens, 112);
AT(kvc_stats, block_queries, 120);
AT(kvc_stats, block_hits, 128);
AT(kvc_stats, lost_reuse_tokens, 136);
AT(kvc_stats, readmissions, 144);
AT(kvc_stats, refusals, 152);
AT(kvc_stats, preemptions, 160);
AT(kvc_stats, evictions, 168);
AT(kvc_stats, copies, 176);
AT(kvc_stats, duplicates, 184);
AT(kvc_stats, published_blocks, 192);
AT(kvc_stats, unpublished_blocks, 200);
AT(kvc_stats, rejected_candidates, 208);
AT(kvc_stats, nodes_used, 216);
AT(kvc_stats, metadata_bytes, 224);
AT(kvc_stats, events_dropped, 232);
AT(kvc_stats, filling_hits, 240);
AT(kvc_stats, filling_waits, 248);
AT(kvc_stats, partial_hits, 256);
AT(kvc_stats, partial_tokens, 264);

SIZE(kvc_step_limits, 72);
AT(kvc_step_limits, struct_size, 0);
AT(kvc_step_limits, max_frees, 8);
AT(kvc_step_limits, max_requests, 16);
AT(kvc_step_limits, max_admissions, 24);
AT(kvc_step_limits, max_tokens, 32);
AT(kvc_step_limits, max_prompt_tokens, 40);
AT(kvc_step_limits, max_rows, 48);
AT(kvc_step_limits, row_stride, 56);
AT(kvc_step_limits, max_changes, 64);

SIZE(kvc_step, 384);
AT(kvc_step, struct_size, 0);
AT(kvc_step, flags, 8);
AT(kvc_step, fill_id, 12);
AT(kvc_step, retired_step, 16);
AT(kvc_step, step_id, 24);
AT(kvc_step, num_frees, 32);
AT(kvc_step, num_preempts, 40);
AT(kvc_step, num_truncates, 48);
AT(kvc_step, num_requests, 56);
AT(kvc_step, num_admissions, 64);
AT(kvc_step, num_rows, 72);
AT(kvc_step, row_stride, 80);
AT(kvc_step, slot_capacity, 88);
AT(kvc_step, copy_capacity, 96);
AT(kvc_step, change_capacity, 104);
AT(kvc_step, frees, 112);
AT(kvc_step, preempts, 120);
AT(kvc_step, truncates, 128);
AT(kvc_step, truncate_lengths, 136);
AT(kvc_step, requests, 144);
AT(kvc_step, committed, 152);
AT(kvc_step, commit_offsets, 160);
AT(kvc_step, commit_tokens, 168);
AT(kvc_step, extend_offsets, 176);
AT(kvc_step, extend_tokens, 184);
AT(kvc_step, admit_requests, 192);
AT(kvc_step, admit_offsets, 200);
AT(kvc_step, admit_tokens, 208);
AT(kvc_step, admit_namespaces, 216);
AT(kvc_step, admit_configs, 224);
AT(kvc_step, admit_key_offsets, 232);
AT(kvc_step, admit_keys, 240);
AT(kvc_step, rows, 248);
AT(kvc_step, status, 256);
AT(kvc_step, admitted, 264);
AT(kvc_step, cached, 272);
AT(kvc_step, num_blocks, 280);
AT(kvc_step, block_tables, 288);
AT(kvc_step, slots, 296);
AT(kvc_step, copies, 304);
AT(kvc_step, changes, 312);
AT(kvc_step, num_slots, 320);
AT(kvc_step, num_copies, 328);
AT(kvc_step, num_changes, 336);
AT(kvc_step, num_refused, 344);
AT(kvc_step, shortage_blocks, 352);
AT(kvc_step, internal, 360);
AT(kvc_step, now_ns, 368);
AT(kvc_step, admit_slots, 376);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
