// SPDX-License-Identifier: Apache-2.0
// Written by scripts/generate: what the types of C tell. kvcache.i explains it and has the exceptions.
KVC_INSTEAD(kvc_manager_set_prefix_priority, manager_set_prefix_priority)
KVC_INSTEAD(kvc_index_apply, index_apply)
KVC_INSTEAD(kvc_index_match, index_match)
KVC_INSTEAD(kvc_index_match_tokens, index_match_tokens)
KVC_INSTEAD(kvc_index_digests, index_digests)
KVC_INSTEAD(kvc_index_worker_info, index_worker_info)
KVC_INSTEAD(kvc_manager_admit_batch, manager_admit_batch)
KVC_INSTEAD(kvc_manager_export_tables, manager_export_tables)
KVC_INSTEAD(kvc_manager_export_slots, manager_export_slots)
KVC_INSTEAD(kvc_manager_take_pending, manager_take_pending)
KVC_INSTEAD(kvc_manager_rebuild, manager_rebuild)
KVC_INSTEAD(kvc_manager_poll_events, manager_poll_events)
KVC_INSTEAD(kvc_manager_list_prefixes, manager_list_prefixes)
KVC_INSTEAD(kvc_manager_step, manager_step)
KVC_INSTEAD(kvc_storage_store, storage_store)
KVC_INSTEAD(kvc_storage_gather, storage_gather)
KVC_INSTEAD(kvc_storage_measure, storage_measure)
KVC_INSTEAD(kvc_storage_attend, storage_attend)
KVC_INSTEAD(kvc_storage_explain, storage_explain)
KVC_INSTEAD(kvc_storage_select_blocks, storage_select_blocks)
KVC_INSTEAD(kvc_attention_merge, attention_merge)
KVC_INSTEAD(kvc_estimate_memory, estimate_memory)
KVC_INSTEAD(kvc_rope_apply, rope_apply)
KVC_INSTEAD(kvc_storage_page_properties, storage_page_properties)
KVC_INSTEAD(kvc_manager_position_digests, manager_position_digests)
KVC_INSTEAD(kvc_page_key, page_key)
KVC_INSTEAD(kvc_tier_create, tier_create)
KVC_INSTEAD(kvc_tier_submit, tier_submit)
KVC_INSTEAD(kvc_verify_sampling, verify_sampling)
KVC_INSTEAD(kvc_verify_typical, verify_typical)
KVC_INSTEAD(kvc_verdict_moves, verdict_moves)
KVC_INSTEAD(kvc_verdict_states, verdict_states)
KVC_INSTEAD(kvc_draft_append, draft_append)
KVC_INSTEAD(kvc_draft_propose, draft_propose)
KVC_INSTEAD(kvc_acceptance_add, acceptance_add)
KVC_INSTEAD(kvc_acceptance_halve, acceptance_halve)
KVC_INSTEAD(kvc_acceptance_length, acceptance_length)
KVC_INSTEAD(kvc_scheduler_create, scheduler_create)
KVC_INSTEAD(kvc_scheduler_add, scheduler_add)
KVC_INSTEAD(kvc_scheduler_set_drafts, scheduler_set_drafts)
KVC_INSTEAD(kvc_scheduler_finish, scheduler_finish)
KVC_INSTEAD(kvc_checkpoint_save, checkpoint_save)
KVC_INSTEAD(kvc_checkpoint_restore, checkpoint_restore)
KVC_INSTEAD(kvc_checkpoint_measure, checkpoint_measure)
KVC_INSTEAD(kvc_checkpoint_save_stream, checkpoint_save_stream)
KVC_INSTEAD(kvc_checkpoint_restore_stream, checkpoint_restore_stream)
KVC_INSTEAD(kvc_checkpoint_compact, checkpoint_compact)
KVC_INSTEAD(kvc_manager_content_digest, manager_content_digest)
KVC_INSTEAD(kvc_offload_create, offload_create)
KVC_INSTEAD(kvc_offload_store_request, offload_store_request)
KVC_INSTEAD(kvc_publisher_create, publisher_create)
KVC_INSTEAD(kvc_publisher_read, publisher_read)
KVC_INSTEAD(kvc_publisher_name_namespace, publisher_name_namespace)
KVC_INSTEAD(kvc_metrics_render, metrics_render)
KVC_INSTEAD(kvc_metrics_enable_latencies, metrics_enable_latencies)
KVC_INSTEAD(kvc_metrics_read_latency, metrics_read_latency)
KVC_INSTEAD(kvc_metrics_read_memory, metrics_read_memory)
KVC_IN(int32_t, INT32, block_table, block_table_size)
KVC_IN(int32_t, INT32, blocks, num_blocks)
KVC_IN(int32_t, INT32, draft_rows, num_draft_rows)
KVC_IN(int32_t, INT32, parents, num_nodes)
KVC_IN(int32_t, INT32, tokens, num_tokens)
KVC_IN(int64_t, INT64, positions, num_positions)
KVC_IN(uint64_t, UINT64, draft_offsets, num_draft_offsets)
KVC_IN(uint64_t, UINT64, key_offsets, num_key_offsets)
KVC_IN(uint64_t, UINT64, label_counts, num_label_counts)
KVC_IN(uint64_t, UINT64, namespaces, num_namespaces)
KVC_IN(uint64_t, UINT64, num_blocks, num_sizes)
KVC_IN(uint64_t, UINT64, page_sizes, num_page_sizes)
KVC_IN(uint64_t, UINT64, requests, num_requests)
KVC_IN_ARRAY(double, BYTES, factors)
KVC_IN_ARRAY(double, BYTES, uniforms)
KVC_IN_ARRAY(float, BYTES, alibi_slopes)
KVC_IN_ARRAY(float, BYTES, p)
KVC_IN_ARRAY(float, BYTES, q)
KVC_IN_ARRAY(float, BYTES, sink_logits)
KVC_IN_ARRAY(int32_t, INT32, accepted_path)
KVC_IN_ARRAY(int32_t, INT32, draft_counts)
KVC_IN_ARRAY(int32_t, INT32, draft_parents)
KVC_IN_ARRAY(int32_t, INT32, draft_tokens)
KVC_IN_ARRAY(int32_t, INT32, max_lengths)
KVC_IN_ARRAY(int32_t, INT32, sampled)
KVC_IN_ARRAY(int32_t, INT32, states)
KVC_IN_ARRAY(int32_t, INT32, target_tokens)
KVC_IN_ARRAY(int64_t, INT64, q_rows)
KVC_IN_ARRAY(int64_t, INT64, rope_rows)
KVC_IN_ARRAY(int64_t, INT64, slots)
KVC_IN_ARRAY(uint16_t, BYTES, bounds)
KVC_IN_ARRAY(uint64_t, UINT64, acceptance)
KVC_IN_ARRAY(uint64_t, UINT64, accepted_counts)
KVC_IN_ARRAY(uint64_t, UINT64, draft_starts)
KVC_IN_ARRAY(uint64_t, UINT64, kv_lens)
KVC_IN_ARRAY(uint64_t, UINT64, mask_offsets)
KVC_IN_ARRAY(uint64_t, UINT64, mask_starts)
KVC_IN_ARRAY(uint64_t, UINT64, q_offsets)
KVC_IN_ARRAY(uint64_t, UINT64, q_starts)
KVC_IN_ARRAY(uint64_t, UINT64, starts)
KVC_IN_ARRAY(uint64_t, UINT64, token_offsets)
KVC_IN_ARRAY(uint8_t, BYTES, block_mask)
KVC_IN_ARRAY(uint8_t, BYTES, fingerprint)
KVC_IN_ARRAY(uint8_t, BYTES, mask)
KVC_IN_ARRAY(uint8_t, BYTES, root)
KVC_IN_ARRAY(uint8_t, BYTES, stopped)
KVC_IN_ARRAY(void, BYTES, codes)
KVC_IN_ARRAY(void, BYTES, k)
KVC_IN_ARRAY(void, BYTES, outs)
KVC_IN_ARRAY(void, BYTES, q)
KVC_IN_ARRAY(void, BYTES, v)
KVC_IN_RECORDS(char, adapter, adapter_size)
KVC_IN_RECORDS(char, digests, digests_size)
KVC_IN_RECORDS(char, json, size)
KVC_IN_RECORDS(char, label_texts, label_bytes)
KVC_IN_RECORDS(char, model, model_size)
KVC_IN_RECORDS(char, numerics, numerics_size)
KVC_IN_RECORDS(char, rope_table, rope_table_bytes)
KVC_IN_RECORDS(char, tenant, tenant_size)
KVC_IN_RECORDS(char, weights, weights_size)
KVC_IN_RECORDS(double, costs, num_costs)
KVC_IN_RECORDS(double, frequencies, num_frequencies)
KVC_IN_RECORDS(kvc_block_copy, copies, num_copies)
KVC_IN_RECORDS(kvc_encoder_input, inputs, num_inputs)
KVC_IN_RECORDS(kvc_event, events, num_events)
KVC_IN_RECORDS(kvc_extra_key, keys, num_keys)
KVC_IN_RECORDS(kvc_token_copy, copies, num_copies)
KVC_IN_RECORDS(kvc_token_copy, moves, num_moves)
KVC_IN_RECORDS(void, data, size)
KVC_IN_RECORDS(void, log, size)
KVC_IN_RECORDS(void, pages, pages_size)
KVC_OBJECT(kvc_draft, draft)
KVC_OBJECT(kvc_index, index)
KVC_OBJECT(kvc_manager, manager)
KVC_OBJECT(kvc_offload, offload)
KVC_OBJECT(kvc_publisher, publisher)
KVC_OBJECT(kvc_scheduler, scheduler)
KVC_OBJECT(kvc_sizer, sizer)
KVC_OBJECT(kvc_step, step)
KVC_OBJECT(kvc_storage, storage)
KVC_OBJECT(kvc_tier, tier)
KVC_OBJECT(kvc_workload, workload)
KVC_OBJECTS(kvc_manager, managers, num_managers)
KVC_OBJECTS(kvc_offload, offloads, num_offloads)
KVC_OBJECTS(kvc_scheduler, schedulers, num_schedulers)
KVC_OBJECTS(kvc_storage, storages, num_storages)
KVC_OBJECTS(kvc_tier, tiers, num_tiers)
KVC_OUT(int32_t, INT32, blocks, capacity)
KVC_OUT(int32_t, INT32, blocks, num_blocks)
KVC_OUT(int32_t, INT32, draft, max_length)
KVC_OUT(int32_t, INT32, drafted, drafted_capacity)
KVC_OUT(int32_t, INT32, statuses, num_statuses)
KVC_OUT(int32_t, INT32, tables, num_entries)
KVC_OUT(int32_t, INT32, tokens, token_capacity)
KVC_OUT(int32_t, INT32, zero_blocks, zero_capacity)
KVC_OUT(int64_t, INT64, slots, num_slots)
KVC_OUT(uint64_t, UINT64, cached, num_cached)
KVC_OUT(uint64_t, UINT64, ids, capacity)
KVC_OUT(uint64_t, UINT64, namespaces, capacity)
KVC_OUT(uint64_t, UINT64, pins, capacity)
KVC_OUT(uint64_t, UINT64, requests, capacity)
KVC_OUT(uint64_t, UINT64, workers, capacity)
KVC_OUT_ARRAY(double, BYTES, attention_factor)
KVC_OUT_ARRAY(double, BYTES, expected)
KVC_OUT_ARRAY(double, BYTES, hit_rates)
KVC_OUT_ARRAY(double, BYTES, value)
KVC_OUT_ARRAY(float, BYTES, lse)
KVC_OUT_ARRAY(float, BYTES, out)
KVC_OUT_ARRAY(float, BYTES, scales)
KVC_OUT_ARRAY(float, BYTES, table)
KVC_OUT_ARRAY(uint16_t, BYTES, bounds)
KVC_OUT_ARRAY(uint8_t, BYTES, fingerprint)
KVC_OUT_ARRAY(uint8_t, BYTES, mask)
KVC_OUT_ARRAY(uint8_t, BYTES, picked)
KVC_OUT_ARRAY(uint8_t, BYTES, root)
KVC_OUT_ARRAY(void, BYTES, codes)
KVC_OUT_ARRAY(void, BYTES, k)
KVC_OUT_ARRAY(void, BYTES, out)
KVC_OUT_ARRAY(void, BYTES, v)
KVC_OUT_RECORDS(char, digests, digests_size)
KVC_OUT_RECORDS(char, memory, memory_bytes)
KVC_OUT_RECORDS(char, names, capacity)
KVC_OUT_RECORDS(char, page_keys, page_keys_size)
KVC_OUT_RECORDS(char, payload, capacity)
KVC_OUT_RECORDS(char, plan, plan_bytes)
KVC_OUT_RECORDS(char, text, capacity)
KVC_OUT_RECORDS(char, workspace, workspace_bytes)
KVC_OUT_RECORDS(double, frequencies, num_frequencies)
KVC_OUT_RECORDS(kvc_block_copy, copies, capacity)
KVC_OUT_RECORDS(kvc_block_copy, moves, capacity)
KVC_OUT_RECORDS(kvc_ended_request, ended, capacity)
KVC_OUT_RECORDS(kvc_event, events, capacity)
KVC_OUT_RECORDS(kvc_namespace_pair, pairs, pair_capacity)
KVC_OUT_RECORDS(kvc_request_pair, request_pairs, request_capacity)
KVC_OUT_RECORDS(kvc_run, runs, capacity)
KVC_OUT_RECORDS(kvc_tier_completion, completions, capacity)
KVC_OUT_RECORDS(kvc_tier_item, items, num_items)
KVC_OUT_RECORDS(kvc_token_copy, copies, capacity)
KVC_OUT_RECORDS(void, data, capacity)
KVC_OUT_RECORDS(void, log, capacity)
KVC_OUT_RECORDS(void, pages, pages_size)
KVC_RESULT(int32_t, done)
KVC_RESULT(int32_t, fd)
KVC_RESULT(size_t, count)
KVC_RESULT(size_t, num_copies)
KVC_RESULT(size_t, num_pairs)
KVC_RESULT(size_t, num_zero_blocks)
KVC_RESULT(size_t, size)
KVC_RESULT(uint32_t, bits)
KVC_RESULT(uint32_t, num_devices)
KVC_RESULT(uint64_t, block_bytes)
KVC_RESULT(uint64_t, child)
KVC_RESULT(uint64_t, device_bytes)
KVC_RESULT(uint64_t, digest)
KVC_RESULT(uint64_t, event_cursor)
KVC_RESULT(uint64_t, found)
KVC_RESULT(uint64_t, freed_bytes)
KVC_RESULT(uint64_t, host_bytes)
KVC_RESULT(uint64_t, job)
KVC_RESULT(uint64_t, namespace_id)
KVC_RESULT(uint64_t, next)
KVC_RESULT(uint64_t, num_batches)
KVC_RESULT(uint64_t, num_cached)
KVC_RESULT(uint64_t, num_common)
KVC_RESULT(uint64_t, num_dropped)
KVC_RESULT(uint64_t, num_evicted)
KVC_RESULT(uint64_t, num_expected)
KVC_RESULT(uint64_t, num_hinted)
KVC_RESULT(uint64_t, num_left)
KVC_RESULT(uint64_t, num_pinned)
KVC_RESULT(uint64_t, num_removed)
KVC_RESULT(uint64_t, num_stored)
KVC_RESULT(uint64_t, num_unpublished)
KVC_RESULT(uint64_t, page_bytes)
KVC_RESULT(uint64_t, part_bytes)
KVC_RESULT(uint64_t, pin)
KVC_RESULT(uint64_t, removed_bytes)
KVC_RESULT(uint64_t, request)
KVC_RESULT(uint64_t, slab_bytes)
KVC_STRUCT(kvc_attention)
KVC_STRUCT(kvc_attention_info)
KVC_STRUCT(kvc_attention_launch)
KVC_STRUCT(kvc_backend_info)
KVC_STRUCT(kvc_block_choice)
KVC_STRUCT(kvc_block_info)
KVC_STRUCT(kvc_checkpoint_info)
KVC_STRUCT(kvc_checkpoint_needs)
KVC_STRUCT(kvc_curve_config)
KVC_STRUCT(kvc_curve_info)
KVC_STRUCT(kvc_device_info)
KVC_STRUCT(kvc_draft_config)
KVC_STRUCT(kvc_index_applied)
KVC_STRUCT(kvc_index_config)
KVC_STRUCT(kvc_index_stats)
KVC_STRUCT(kvc_latency)
KVC_STRUCT(kvc_log_info)
KVC_STRUCT(kvc_lost_reuse)
KVC_STRUCT(kvc_manager_config)
KVC_STRUCT(kvc_memory_estimate)
KVC_STRUCT(kvc_memory_profile)
KVC_STRUCT(kvc_memory_query)
KVC_STRUCT(kvc_model)
KVC_STRUCT(kvc_offload_info)
KVC_STRUCT(kvc_offload_stats)
KVC_STRUCT(kvc_offload_tier_stats)
KVC_STRUCT(kvc_page_file_info)
KVC_STRUCT(kvc_plan)
KVC_STRUCT(kvc_pool_info)
KVC_STRUCT(kvc_probe_info)
KVC_STRUCT(kvc_properties)
KVC_STRUCT(kvc_publisher_stats)
KVC_STRUCT(kvc_quant_format)
KVC_STRUCT(kvc_quant_metrics)
KVC_STRUCT(kvc_quota_info)
KVC_STRUCT(kvc_replay_info)
KVC_STRUCT(kvc_request_config)
KVC_STRUCT(kvc_request_info)
KVC_STRUCT(kvc_rope_rows)
KVC_STRUCT(kvc_rows)
KVC_STRUCT(kvc_scheduled_info)
KVC_STRUCT(kvc_scheduler_config)
KVC_STRUCT(kvc_scheduler_stats)
KVC_STRUCT(kvc_sizer_config)
KVC_STRUCT(kvc_sizing_decision)
KVC_STRUCT(kvc_stats)
KVC_STRUCT(kvc_step_limits)
KVC_STRUCT(kvc_storage_config)
KVC_STRUCT(kvc_storage_info)
KVC_STRUCT(kvc_tier_counts)
KVC_STRUCT(kvc_tier_stats)
KVC_STRUCT(kvc_workload_config)
KVC_STRUCT(kvc_workload_info)
KVC_LONG_CALL(kvc_manager_digest)
KVC_LONG_CALL(manager_create_request)
KVC_LONG_CALL(kvc_manager_admit_request)
KVC_LONG_CALL(manager_allocate_request)
KVC_LONG_CALL(kvc_manager_compact)
KVC_LONG_CALL(manager_pin_prefix)
KVC_LONG_CALL(manager_drop_prefix)
KVC_LONG_CALL(kvc_manager_evict_blocks)
KVC_LONG_CALL(manager_acquire_prefix)
KVC_LONG_CALL(manager_publish_blocks)
KVC_LONG_CALL(manager_step)
KVC_LONG_CALL(manager_register_prompt)
KVC_LONG_CALL(kvc_manager_allocate_from_prompt)
KVC_LONG_CALL(kvc_manager_resize)
KVC_LONG_CALL(kvc_manager_set_quota)
KVC_LONG_CALL(manager_set_prefix_priority)
KVC_LONG_CALL(kvc_manager_add_keys)
KVC_LONG_CALL(manager_admit_batch)
KVC_LONG_CALL(storage_attend)
KVC_LONG_CALL(kvc_storage_key_bounds)
KVC_LONG_CALL(storage_select_blocks)
KVC_LONG_CALL(attention_merge)
KVC_LONG_CALL(checkpoint_save)
KVC_LONG_CALL(checkpoint_measure)
KVC_LONG_CALL(checkpoint_save_stream)
KVC_LONG_CALL(checkpoint_restore)
KVC_LONG_CALL(checkpoint_restore_stream)
KVC_LONG_CALL(kvc_checkpoint_list)
KVC_LONG_CALL(kvc_checkpoint_read_info)
KVC_LONG_CALL(kvc_checkpoint_validate)
KVC_LONG_CALL(kvc_checkpoint_remove)
KVC_LONG_CALL(kvc_checkpoint_collect)
KVC_LONG_CALL(checkpoint_compact)
KVC_LONG_CALL(manager_content_digest)
KVC_LONG_CALL(kvc_stream_synchronize)
KVC_LONG_CALL(kvc_stream_event_synchronize)
KVC_LONG_CALL(manager_poll_events)
KVC_LONG_CALL(manager_list_prefixes)
KVC_LONG_CALL(kvc_index_create)
KVC_LONG_CALL(kvc_index_add_worker)
KVC_LONG_CALL(kvc_index_remove_worker)
KVC_LONG_CALL(kvc_index_touch_worker)
KVC_LONG_CALL(kvc_index_expire)
KVC_LONG_CALL(index_apply)
KVC_LONG_CALL(kvc_index_begin_resync)
KVC_LONG_CALL(kvc_index_end_resync)
KVC_LONG_CALL(index_match)
KVC_LONG_CALL(index_match_tokens)
KVC_LONG_CALL(index_digests)
KVC_LONG_CALL(kvc_index_list_workers)
KVC_LONG_CALL(index_worker_info)
KVC_LONG_CALL(kvc_index_read_stats)
KVC_LONG_CALL(kvc_index_dump)
KVC_LONG_CALL(kvc_index_load)
KVC_LONG_CALL(kvc_page_file_read_info)
KVC_LONG_CALL(kvc_page_file_read_part)
KVC_LONG_CALL(kvc_page_file_purge)
KVC_LONG_CALL(kvc_manager_create)
KVC_LONG_CALL(kvc_manager_check)
KVC_LONG_CALL(kvc_rope_table)
KVC_LONG_CALL(rope_apply)
KVC_LONG_CALL(offload_create)
KVC_LONG_CALL(kvc_offload_poll)
KVC_LONG_CALL(kvc_offload_flush)
KVC_LONG_CALL(kvc_offload_lookup)
KVC_LONG_CALL(kvc_offload_load)
KVC_LONG_CALL(kvc_offload_query)
KVC_LONG_CALL(kvc_offload_cancel)
KVC_LONG_CALL(offload_store_request)
KVC_LONG_CALL(kvc_offload_read_stats)
KVC_LONG_CALL(kvc_offload_read_tier_stats)
KVC_LONG_CALL(kvc_storage_pack_pages)
KVC_LONG_CALL(kvc_storage_unpack_pages)
KVC_LONG_CALL(manager_position_digests)
KVC_LONG_CALL(page_key)
KVC_LONG_CALL(kvc_plugin_open)
KVC_LONG_CALL(manager_probe)
KVC_LONG_CALL(kvc_manager_probe_request)
KVC_LONG_CALL(manager_rebuild)
KVC_LONG_CALL(kvc_storage_copy_tokens)
KVC_LONG_CALL(kvc_storage_discard_blocks)
KVC_LONG_CALL(scheduler_create)
KVC_LONG_CALL(scheduler_add)
KVC_LONG_CALL(kvc_scheduler_abort)
KVC_LONG_CALL(kvc_scheduler_set_ready)
KVC_LONG_CALL(kvc_scheduler_set_priority)
KVC_LONG_CALL(kvc_scheduler_set_weight)
KVC_LONG_CALL(scheduler_set_drafts)
KVC_LONG_CALL(kvc_scheduler_plan)
KVC_LONG_CALL(scheduler_finish)
KVC_LONG_CALL(kvc_scheduler_request_info)
KVC_LONG_CALL(kvc_scheduler_read_stats)
KVC_LONG_CALL(kvc_scheduler_check)
KVC_LONG_CALL(kvc_storage_create)
KVC_LONG_CALL(storage_store)
KVC_LONG_CALL(storage_gather)
KVC_LONG_CALL(kvc_storage_copy_blocks)
KVC_LONG_CALL(kvc_storage_zero_blocks)
KVC_LONG_CALL(kvc_storage_swap_out)
KVC_LONG_CALL(kvc_storage_swap_in)
KVC_LONG_CALL(kvc_storage_quantize_blocks)
KVC_LONG_CALL(storage_measure)
KVC_LONG_CALL(kvc_quantize)
KVC_LONG_CALL(kvc_dequantize)
KVC_LONG_CALL(tier_create)
KVC_LONG_CALL(tier_submit)
KVC_LONG_CALL(kvc_tier_cancel)
KVC_LONG_CALL(kvc_tier_poll)
KVC_LONG_CALL(kvc_tier_run_one)
KVC_LONG_CALL(kvc_tier_drain)
KVC_LONG_CALL(kvc_tier_read_stats)
%ignore kvc_attention_launch::plan;
%ignore kvc_attention_launch::workspace;
%ignore kvc_attention::q;
%ignore kvc_attention::out;
%ignore kvc_attention::lse;
%ignore kvc_attention::q_offsets;
%ignore kvc_attention::q_starts;
%ignore kvc_attention::kv_lens;
%ignore kvc_attention::block_tables;
%ignore kvc_attention::alibi_slopes;
%ignore kvc_attention::mask;
%ignore kvc_attention::mask_offsets;
%ignore kvc_attention::mask_starts;
%ignore kvc_attention::block_mask;
%ignore kvc_attention::sink_logits;
%ignore kvc_attention::launch;
%ignore kvc_block_choice::bounds;
%ignore kvc_block_choice::block_mask;
%ignore kvc_attention_partials;
%ignore kvc_checkpoint_config;
%ignore kvc_request_pair;
%ignore kvc_memory_handle;
%ignore kvc_upload;
%ignore kvc_table_update;
%ignore kvc_event;
%ignore kvc_event_batch;
%ignore kvc_index_config::allocator;
%ignore kvc_index_worker;
%ignore kvc_manager_config::allocator;
%ignore kvc_manager_config::log;
%ignore kvc_manager_config::log_user_data;
%ignore kvc_manager_config::memory;
%ignore kvc_namespace_config;
%ignore kvc_label;
%ignore kvc_metrics_source;
%ignore kvc_memory_query::model;
%ignore kvc_rope_rows::x;
%ignore kvc_rope_rows::table;
%ignore kvc_rope_rows::table_row;
%ignore kvc_offload_config;
%ignore kvc_page_config;
%ignore kvc_page_info;
%ignore kvc_store_item;
%ignore kvc_store_call;
%ignore kvc_store_config;
%ignore kvc_store_info;
%ignore kvc_store;
%ignore kvc_io;
%ignore kvc_io_engine;
%ignore kvc_codec;
%ignore kvc_frame;
%ignore kvc_transport_config;
%ignore kvc_transport;
%ignore kvc_plugin;
%ignore kvc_plugin_host;
%ignore kvc_publisher_config;
%ignore kvc_publisher_namespace;
%ignore kvc_token_copy;
%ignore kvc_namespace_pair;
%ignore kvc_rebuild;
%ignore kvc_extra_key;
%ignore kvc_prompt;
%ignore kvc_pending_work;
%ignore kvc_scheduler_config::manager;
%ignore kvc_scheduler_config::offload;
%ignore kvc_scheduler_config::on_pressure;
%ignore kvc_scheduler_config::user_data;
%ignore kvc_scheduler_config::allocator;
%ignore kvc_encoder_input;
%ignore kvc_schedule_job;
%ignore kvc_ended_request;
%ignore kvc_encoder_run;
%ignore kvc_plan::requests;
%ignore kvc_plan::rows;
%ignore kvc_plan::first_tokens;
%ignore kvc_plan::token_offsets;
%ignore kvc_plan::num_drafts;
%ignore kvc_plan::samples;
%ignore kvc_plan::is_new;
%ignore kvc_plan::block_tables;
%ignore kvc_plan::slots;
%ignore kvc_plan::copies;
%ignore kvc_plan::changes;
%ignore kvc_plan::preempted;
%ignore kvc_plan::encoder_runs;
%ignore kvc_plan::ended;
%ignore kvc_plan_result;
%ignore kvc_workload_config::allocator;
%ignore kvc_sizer_config::allocator;
%ignore kvc_drafts;
%ignore kvc_verdict;
%ignore kvc_probabilities;
%ignore kvc_draft_tables;
%ignore kvc_draft_config::allocator;
%ignore kvc_acceptance;
%ignore kvc_step::frees;
%ignore kvc_step::preempts;
%ignore kvc_step::truncates;
%ignore kvc_step::truncate_lengths;
%ignore kvc_step::requests;
%ignore kvc_step::committed;
%ignore kvc_step::commit_offsets;
%ignore kvc_step::commit_tokens;
%ignore kvc_step::extend_offsets;
%ignore kvc_step::extend_tokens;
%ignore kvc_step::admit_requests;
%ignore kvc_step::admit_offsets;
%ignore kvc_step::admit_tokens;
%ignore kvc_step::admit_namespaces;
%ignore kvc_step::admit_configs;
%ignore kvc_step::admit_key_offsets;
%ignore kvc_step::admit_keys;
%ignore kvc_step::rows;
%ignore kvc_step::status;
%ignore kvc_step::admitted;
%ignore kvc_step::cached;
%ignore kvc_step::num_blocks;
%ignore kvc_step::block_tables;
%ignore kvc_step::slots;
%ignore kvc_step::copies;
%ignore kvc_step::changes;
%ignore kvc_step::internal;
%ignore kvc_step::admit_slots;
%ignore kvc_storage_config::memory;
%ignore kvc_storage_config::allocator;
%ignore kvc_storage_config::parallel_for;
%ignore kvc_storage_config::parallel_context;
%ignore kvc_storage_info::data;
%ignore kvc_rows::k;
%ignore kvc_rows::v;
%ignore kvc_rows::slots;
%ignore kvc_rows::block_table;
%ignore kvc_rows::rope_table;
%ignore kvc_rows::rope_rows;
%ignore kvc_tier_item;
%ignore kvc_tier_config;
%ignore kvc_tier_job;
%ignore kvc_tier_completion;
%ignore kvc_allocator;
%ignore kvc_view::data;
%ignore kvc_run;
%ignore kvc_block_copy;
%ignore kvc_table_change;
