// SPDX-License-Identifier: Apache-2.0
// The C ABI for other languages: SWIG reads kvcache.h and include/kvcache/*.h themselves, under the names of C, so
// that no signature is written twice. This file says what C leaves open: which pointer and count belong together,
// which pointers are results, and which calls are long. <language>/typemaps.i says what that means there:
//
//   KVC_IN, KVC_OUT(type, element, pointer, count)  an array of the caller that is read or written in place
//   KVC_IN_RECORDS, KVC_OUT_RECORDS(type, pointer, count)  an array of frozen structs, or of a type named elsewhere, as bytes
//   KVC_IN_ARRAY, KVC_OUT_ARRAY(type, element, pointer)  an array whose length follows from other arguments: the
//                                                   hand-written layer checks it; element BYTES = as bytes
//   KVC_RESULT(type, name)                          a scalar result
//   KVC_OBJECT(type, name)                          an object with its destroy function
//   KVC_OBJECTS(type, pointer, count)               an array of objects, such as the storages of all groups; NULL = none
//   KVC_STRUCT(type)                                a struct that the caller fills in or reads
//   kvc_status                                      an error with its text, copied in the same native call
//
// What is generated is internal to each binding; users see the hand-written layer over it.
%module(package="kvcache", threads="1") native

%{
#include <kvcache.h>
#include <kvcache/index.h>
#include <stdlib.h>
#include <string.h>
%}

%include <stdint.i>

#if defined(SWIGPYTHON)
%include "python/typemaps.i"
#elif defined(SWIGGO)
%include "go/typemaps.i"
#elif defined(SWIGJAVA)
%include "java/typemaps.i"
#endif

// ---- arrays and results -------------------------------------------------------------------------

KVC_IN(int32_t, INT32, tokens, num_tokens)
KVC_IN(int32_t, INT32, blocks, num_blocks)
KVC_IN(int32_t, INT32, block_table, block_table_size)
KVC_IN(int32_t, INT32, parents, num_nodes)
KVC_IN(int64_t, INT64, positions, num_positions)
KVC_IN(uint64_t, UINT64, requests, num_requests)
KVC_IN(uint64_t, UINT64, num_blocks, num_sizes)
KVC_IN(uint64_t, UINT64, namespaces, num_namespaces)
KVC_IN(uint64_t, UINT64, key_offsets, num_key_offsets)
KVC_OUT(int32_t, INT32, blocks, num_blocks)
KVC_OUT(int32_t, INT32, blocks, capacity)
KVC_OUT(int32_t, INT32, zero_blocks, zero_capacity)
KVC_OUT(int32_t, INT32, tokens, token_capacity)
KVC_OUT(int32_t, INT32, tables, num_entries)
KVC_OUT(int64_t, INT64, slots, num_slots)
KVC_OUT(uint64_t, UINT64, requests, capacity)
KVC_OUT(uint64_t, UINT64, pins, capacity)
KVC_OUT(uint64_t, UINT64, namespaces, capacity)

KVC_IN_RECORDS(kvc_extra_key, keys, num_keys)
KVC_IN_RECORDS(kvc_block_copy, copies, num_copies)
KVC_OUT_RECORDS(kvc_block_copy, copies, capacity)
KVC_OUT_RECORDS(kvc_block_copy, moves, capacity)
KVC_IN_RECORDS(kvc_token_copy, copies, num_copies)
KVC_OUT_RECORDS(kvc_token_copy, copies, capacity)
KVC_OUT_RECORDS(kvc_namespace_pair, pairs, pair_capacity)
KVC_OUT_RECORDS(kvc_run, runs, capacity)
KVC_OUT_RECORDS(kvc_event, events, capacity)
KVC_IN_RECORDS(char, json, size)
KVC_IN_RECORDS(char, model, model_size)
KVC_IN_RECORDS(char, adapter, adapter_size)
KVC_IN_RECORDS(char, tenant, tenant_size)
KVC_IN_RECORDS(char, weights, weights_size)
KVC_IN_RECORDS(char, numerics, numerics_size)
KVC_IN_RECORDS(char, digests, digests_size)
KVC_OUT_RECORDS(char, digests, digests_size)
KVC_OUT_RECORDS(char, page_keys, page_keys_size)
KVC_OUT_RECORDS(kvc_tier_item, items, num_items)
KVC_OUT_RECORDS(kvc_tier_completion, completions, capacity)
KVC_IN_RECORDS(void, pages, pages_size)
KVC_OUT_RECORDS(void, pages, pages_size)
KVC_OUT_RECORDS(char, memory, memory_bytes)
KVC_OUT_RECORDS(char, names, capacity)
KVC_OUT_RECORDS(char, payload, capacity)
KVC_OUT_RECORDS(char, log, capacity)
KVC_IN_RECORDS(char, log, size)
KVC_OUT_RECORDS(char, plan, plan_bytes)
KVC_OUT_RECORDS(char, workspace, workspace_bytes)
KVC_IN_RECORDS(double, frequencies, num_frequencies)
KVC_OUT_RECORDS(double, frequencies, num_frequencies)
KVC_IN_RECORDS(char, rope_table, rope_table_bytes)

KVC_IN_ARRAY(void, BYTES, k)
KVC_IN_ARRAY(void, BYTES, v)
KVC_OUT_ARRAY(void, BYTES, k)
KVC_OUT_ARRAY(void, BYTES, v)
KVC_IN_ARRAY(int64_t, INT64, slots)
KVC_IN_ARRAY(int64_t, INT64, rope_rows)
KVC_IN_ARRAY(void, BYTES, q)
KVC_OUT_ARRAY(void, BYTES, out)
KVC_OUT_ARRAY(float, BYTES, lse)
KVC_IN_ARRAY(uint64_t, UINT64, q_offsets)
KVC_IN_ARRAY(uint64_t, UINT64, q_starts)
KVC_IN_ARRAY(uint64_t, UINT64, kv_lens)
KVC_IN_ARRAY(int32_t, INT32, block_tables)
KVC_IN_ARRAY(float, BYTES, alibi_slopes)
KVC_IN_ARRAY(float, BYTES, sink_logits)
KVC_IN_ARRAY(uint8_t, BYTES, mask)
KVC_OUT_ARRAY(uint8_t, BYTES, mask)
KVC_IN_ARRAY(uint64_t, UINT64, mask_offsets)
KVC_IN_ARRAY(uint64_t, UINT64, mask_starts)
KVC_IN_ARRAY(uint8_t, BYTES, block_mask)
KVC_IN_ARRAY(uint16_t, BYTES, bounds)
KVC_OUT_ARRAY(uint16_t, BYTES, bounds)
KVC_OUT_ARRAY(uint8_t, BYTES, picked)
KVC_IN_ARRAY(void, BYTES, outs)
KVC_IN_ARRAY(float, BYTES, lses)
KVC_OUT_ARRAY(int32_t, INT32, depths)
KVC_IN_ARRAY(double, BYTES, factors)
KVC_OUT_ARRAY(double, BYTES, attention_factor)
KVC_OUT_ARRAY(double, BYTES, hit_rates)
KVC_OUT_ARRAY(double, BYTES, value)
KVC_OUT_ARRAY(float, BYTES, table)
KVC_OUT_ARRAY(void, BYTES, x)
KVC_IN_ARRAY(float, BYTES, in)
KVC_OUT_ARRAY(float, BYTES, out)
KVC_IN_ARRAY(void, BYTES, codes)
KVC_OUT_ARRAY(void, BYTES, codes)
KVC_IN_ARRAY(float, BYTES, scales)
KVC_OUT_ARRAY(float, BYTES, scales)
KVC_IN_ARRAY(uint8_t, BYTES, fingerprint)
KVC_OUT_ARRAY(uint8_t, BYTES, fingerprint)

KVC_RESULT(uint64_t, request)
KVC_RESULT(uint64_t, num_cached)
KVC_RESULT(uint64_t, child)
KVC_RESULT(uint64_t, pin)
KVC_RESULT(uint64_t, num_pinned)
KVC_RESULT(uint64_t, num_hinted)
KVC_RESULT(uint64_t, num_demoted)
KVC_RESULT(uint64_t, num_dropped)
KVC_RESULT(uint64_t, num_unpublished)
KVC_RESULT(uint64_t, namespace_id)
KVC_RESULT(uint64_t, digest)
KVC_RESULT(uint64_t, block_bytes)
KVC_RESULT(uint64_t, slab_bytes)
KVC_RESULT(uint64_t, device_bytes)
KVC_RESULT(uint64_t, host_bytes)
KVC_RESULT(uint64_t, num_expected)
KVC_RESULT(uint64_t, freed_bytes)
KVC_RESULT(uint64_t, next)
KVC_RESULT(uint64_t, event_cursor)
KVC_RESULT(uint64_t, page_bytes)
KVC_RESULT(uint64_t, part_bytes)
KVC_RESULT(uint64_t, job)
KVC_RESULT(int32_t, done)
KVC_RESULT(int32_t, fd)
KVC_RESULT(uint32_t, bits)
KVC_RESULT(uint32_t, num_devices)
KVC_RESULT(size_t, num_evicted)
KVC_RESULT(size_t, num_copies)
KVC_RESULT(size_t, num_zero_blocks)
KVC_RESULT(size_t, num_pairs)
KVC_RESULT(size_t, count)

// Speculation.
KVC_IN(uint64_t, UINT64, draft_offsets, num_draft_offsets)
KVC_IN_ARRAY(int32_t, INT32, draft_tokens)
KVC_IN_ARRAY(int32_t, INT32, draft_parents)
KVC_IN_ARRAY(int32_t, INT32, target_tokens)
KVC_OUT_ARRAY(int32_t, INT32, path)
KVC_OUT_ARRAY(uint64_t, UINT64, num_accepted)
KVC_OUT_ARRAY(int32_t, INT32, next_tokens)
KVC_IN_ARRAY(int32_t, INT32, accepted_path)
KVC_IN_ARRAY(uint64_t, UINT64, accepted_counts)
KVC_IN_ARRAY(float, BYTES, p)
KVC_IN_ARRAY(int32_t, INT32, p_ids)
KVC_IN_ARRAY(float, BYTES, q)
KVC_IN_ARRAY(int32_t, INT32, q_ids)
KVC_IN_ARRAY(int64_t, INT64, q_rows)
KVC_IN_ARRAY(double, BYTES, uniforms)
KVC_IN_ARRAY(uint64_t, UINT64, starts)
KVC_IN_ARRAY(int32_t, INT32, states)
KVC_IN_RECORDS(kvc_token_copy, moves, num_moves)
KVC_IN(int32_t, INT32, draft_rows, num_draft_rows)
KVC_IN_ARRAY(uint64_t, UINT64, draft_starts)
KVC_IN_ARRAY(int32_t, INT32, max_lengths)
KVC_OUT_ARRAY(uint64_t, UINT64, ends)
KVC_OUT(int32_t, INT32, drafted, drafted_capacity)
KVC_OUT(int32_t, INT32, draft, max_length)
KVC_OUT_ARRAY(uint64_t, UINT64, acceptance)
KVC_IN_ARRAY(uint64_t, UINT64, acceptance)
KVC_IN_RECORDS(double, costs, num_costs)
KVC_OUT_ARRAY(int32_t, INT32, best_length)
KVC_OUT_ARRAY(double, BYTES, expected)

// Scheduler.
KVC_IN_RECORDS(kvc_encoder_input, inputs, num_inputs)
KVC_IN_ARRAY(int32_t, INT32, draft_counts)
KVC_IN_ARRAY(uint64_t, UINT64, token_offsets)
KVC_IN_ARRAY(int32_t, INT32, sampled)
KVC_IN_ARRAY(uint8_t, BYTES, stopped)
KVC_OUT_RECORDS(kvc_ended_request, ended, capacity)

// The index of a router.
KVC_IN_RECORDS(kvc_event, events, num_events)
KVC_OUT(uint64_t, UINT64, workers, capacity)
KVC_OUT_ARRAY(uint32_t, BYTES, matched)
KVC_OUT_ARRAY(uint64_t, UINT64, worker_numbers)
KVC_IN_ARRAY(uint8_t, BYTES, root)
KVC_OUT_ARRAY(uint8_t, BYTES, root)
KVC_RESULT(uint64_t, num_removed)

// Checkpoints and offload.
KVC_OBJECTS(kvc_storage, storages, num_storages)
KVC_OBJECTS(kvc_tier, tiers, num_tiers)
KVC_OUT(uint64_t, UINT64, ids, capacity)
KVC_OUT_RECORDS(kvc_request_pair, request_pairs, request_capacity)
KVC_IN(uint64_t, UINT64, page_sizes, num_page_sizes)
KVC_RESULT(uint64_t, removed_bytes)
KVC_RESULT(uint64_t, num_stored)
KVC_RESULT(uint64_t, num_left)
KVC_RESULT(uint64_t, num_batches)
KVC_RESULT(uint64_t, found)

// Metrics.
KVC_OBJECTS(kvc_manager, managers, num_managers)
KVC_OBJECTS(kvc_offload, offloads, num_offloads)
KVC_OBJECTS(kvc_scheduler, schedulers, num_schedulers)
KVC_IN_RECORDS(char, label_texts, label_bytes)
KVC_IN(uint64_t, UINT64, label_counts, num_label_counts)
KVC_OUT_RECORDS(char, text, capacity)

// ---- objects: made by the create functions, destroyed with their owner in the language ------------

KVC_OBJECT(kvc_manager, manager)
KVC_OBJECT(kvc_step, step)
KVC_OBJECT(kvc_storage, storage)
KVC_OBJECT(kvc_workload, workload)
KVC_OBJECT(kvc_sizer, sizer)
KVC_OBJECT(kvc_tier, tier)
KVC_OBJECT(kvc_draft, draft)
KVC_OBJECT(kvc_scheduler, scheduler)
KVC_OBJECT(kvc_offload, offload)
KVC_OBJECT(kvc_publisher, publisher)
KVC_OBJECT(kvc_index, index)
#ifndef SWIGGO
KVC_OBJECT(kvc_stream, stream)
KVC_OBJECT(kvc_stream_event, event)
#endif

// ---- structs that grow: made with their size, all defaults; what points to arrays is not reachable -----------------

%ignore struct_size;
%ignore reserved;
%rename("%s") kvc_pool_info::reserved; // a count

KVC_STRUCT(kvc_pool_config)
KVC_STRUCT(kvc_group_config)
KVC_STRUCT(kvc_manager_config)
KVC_STRUCT(kvc_properties)
KVC_STRUCT(kvc_request_config)
KVC_STRUCT(kvc_request_info)
KVC_STRUCT(kvc_probe_info)
KVC_STRUCT(kvc_block_info)
KVC_STRUCT(kvc_pool_info)
KVC_STRUCT(kvc_lost_reuse)
KVC_STRUCT(kvc_quota_info)
KVC_STRUCT(kvc_stats)
KVC_STRUCT(kvc_log_info)
KVC_STRUCT(kvc_replay_info)
%immutable kvc_replay_info::text;
KVC_STRUCT(kvc_step_limits)
KVC_STRUCT(kvc_storage_config)
KVC_STRUCT(kvc_storage_info)
KVC_STRUCT(kvc_rows)
KVC_STRUCT(kvc_quant_metrics)
KVC_STRUCT(kvc_attention)
KVC_STRUCT(kvc_attention_launch)
KVC_STRUCT(kvc_attention_info)
KVC_STRUCT(kvc_block_choice)
KVC_STRUCT(kvc_device_info)
KVC_STRUCT(kvc_backend_info)
%immutable kvc_device_info::name; // texts of the library
%immutable kvc_device_info::architecture;
%immutable kvc_backend_info::path;
%immutable kvc_backend_info::architectures;
%immutable kvc_backend_info::remark;
KVC_STRUCT(kvc_model)
KVC_STRUCT(kvc_rope_rows)
KVC_STRUCT(kvc_quant_format)
KVC_STRUCT(kvc_memory_query)
KVC_STRUCT(kvc_memory_estimate)
KVC_STRUCT(kvc_curve_config)
KVC_STRUCT(kvc_curve_info)
KVC_STRUCT(kvc_workload_config)
KVC_STRUCT(kvc_workload_info)
KVC_STRUCT(kvc_sizer_config)
KVC_STRUCT(kvc_sizing_decision)
KVC_STRUCT(kvc_tier_counts)
KVC_STRUCT(kvc_tier_stats)
KVC_STRUCT(kvc_draft_config)
KVC_STRUCT(kvc_scheduler_config)
KVC_STRUCT(kvc_plan)
KVC_STRUCT(kvc_scheduled_info)
KVC_STRUCT(kvc_scheduler_stats)
KVC_STRUCT(kvc_checkpoint_info)
KVC_STRUCT(kvc_checkpoint_needs)
KVC_STRUCT(kvc_page_file_info)
KVC_STRUCT(kvc_offload_info)
KVC_STRUCT(kvc_offload_stats)
KVC_STRUCT(kvc_offload_tier_stats)
KVC_STRUCT(kvc_latency)
KVC_STRUCT(kvc_memory_profile)
KVC_STRUCT(kvc_publisher_stats)
%ignore kvc_publisher_config;
%ignore kvc_present;
%ignore kvc_publisher_namespace;
KVC_STRUCT(kvc_index_config)
KVC_STRUCT(kvc_index_applied)
KVC_STRUCT(kvc_index_stats)
%ignore kvc_index_worker;
%ignore kvc_index_config::allocator;
%ignore kvc_checkpoint_config;
%ignore kvc_offload_config;
%ignore kvc_request_pair;
%immutable kvc_checkpoint_info::content;
%immutable kvc_checkpoint_info::codec;
%immutable kvc_checkpoint_info::model;
%immutable kvc_checkpoint_info::weights;
%immutable kvc_page_file_info::fingerprint;
%immutable kvc_page_file_info::key;
%immutable kvc_page_file_info::description;
%immutable kvc_offload_tier_stats::difference;

%ignore KVC_DEFAULT_NAMESPACE; // each language has its own constant
%ignore KVC_NO_RETENTION;
%ignore KVC_INDEX_ALL_MEDIA;
%ignore kvc_allocator;
%ignore kvc_namespace_config;
%ignore kvc_prompt;
%ignore kvc_pending_work;
%ignore kvc_event;
%ignore kvc_event_batch;
%ignore kvc_attention_partials;
%ignore kvc_extra_key;
%ignore kvc_block_copy;
%ignore kvc_table_change;
%ignore kvc_token_copy;
%ignore kvc_label;
%ignore kvc_metrics_source;
%ignore kvc_namespace_pair;
%ignore kvc_rebuild;
%ignore kvc_drafts;
%ignore kvc_verdict;
%ignore kvc_probabilities;
%ignore kvc_draft_tables;
%ignore kvc_acceptance;
%ignore kvc_draft_config::allocator;
%ignore kvc_run;
%ignore kvc_page_config;
%ignore kvc_page_info;
%ignore kvc_tier_config;
%ignore kvc_tier_item;
%ignore kvc_tier_job;
%ignore kvc_tier_completion;
// A plug-in is written in C. Other languages open it.
%ignore KVC_PLUGIN_ABI;
%ignore KVC_PLUGIN_ENTRY;
%ignore KVC_PAGE_HEADER_BYTES;
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
%ignore kvc_plugin_entry;
%ignore kvc_manager_config::allocator;
%ignore kvc_manager_config::log;
%ignore kvc_manager_config::log_user_data;
%ignore kvc_manager_config::memory;
%ignore kvc_storage_config::memory;
%ignore kvc_storage_config::memory_size;
%ignore kvc_storage_config::allocator;
%ignore kvc_workload_config::allocator;
%ignore kvc_sizer_config::allocator;
%ignore kvc_storage_config::parallel_for;
%ignore kvc_storage_config::parallel_context;
%ignore kvc_storage_info::data;
%ignore kvc_rows::k;
%ignore kvc_rows::v;
%ignore kvc_rows::num_tokens;
%ignore kvc_rows::slots;
%ignore kvc_rows::block_table;
%ignore kvc_rows::block_table_size;
%ignore kvc_rows::rope_table;
%ignore kvc_rows::rope_rows;
%ignore kvc_rows::rope_table_rows;
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
%ignore kvc_attention_launch::plan;
%ignore kvc_attention_launch::plan_bytes;
%ignore kvc_attention_launch::workspace;
%ignore kvc_attention_launch::workspace_bytes;
%ignore kvc_rope_rows::x;
// As eight bytes a word, little-endian: a word is the same in every language.
%ignore kvc_request_config::cross_digest;
%extend kvc_request_config {
  void set_cross_digest(uint64_t first, uint64_t second, uint64_t third, uint64_t fourth) {
    const uint64_t words[4] = {first, second, third, fourth};
    memcpy($self->cross_digest, words, sizeof words);
  }
}
%ignore kvc_rope_rows::num_tokens;
%ignore kvc_rope_rows::table;
%ignore kvc_rope_rows::table_rows;
%ignore kvc_rope_rows::table_row;
%ignore kvc_block_choice::bounds;
%ignore kvc_block_choice::block_mask;
%ignore kvc_memory_query::model;
%ignore kvc_model::window_layers;
%ignore kvc_model::state_layers;
%ignore kvc_view::data;
%ignore kvc_view::shape;
%ignore kvc_view::strides;
// Arrays of a step are reached by kvc_step_view.
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
%ignore kvc_step::admit_slots;
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
// Those of a plan by kvc_plan_view (calls.i).
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
%ignore kvc_scheduler_config::manager;
%ignore kvc_scheduler_config::offload;
%ignore kvc_scheduler_config::on_pressure;
%ignore kvc_scheduler_config::user_data;
%ignore kvc_scheduler_config::allocator;
%ignore kvc_schedule_job;
%ignore kvc_encoder_input;
%ignore kvc_encoder_run;
%ignore kvc_ended_request;
%ignore kvc_plan_result;

// ---- not offered to every language -----------------------------------------------------------------------------
// A stream uses the caller's arrays after the call, which Go does not allow. A goroutine does the same there.

#ifdef SWIGGO
%rename("$ignore", regextarget=1) "^kvc_stream_";
%ignore kvc_stream;
// Nor do jobs: Go waits for them in the same call (go/tiers.i).
%ignore kvc_tier_cancel;
%ignore kvc_tier_poll;
%ignore kvc_tier_event_fd;
%ignore kvc_tier_run_one;
%include "go/tiers.i"
#endif
// Addresses on devices, of streams and of functions: only C can use them. Arrays on a device are passed by DLPack.
%ignore kvc_device_allocate;
%ignore kvc_device_release;
%ignore kvc_device_reserve;
%ignore kvc_device_map;
%ignore kvc_device_register;
%ignore kvc_device_unregister;
%ignore kvc_device_export_memory;
%ignore kvc_device_import_memory;
%ignore kvc_memory_handle;
%ignore kvc_stream_update_tables;
%ignore kvc_upload;
%ignore kvc_table_update;
%ignore kvc_storage_set_attention;
%ignore kvc_attention_kernel;
%ignore kvc_storage_export_dlpack; // Python has a call of its own

#ifndef SWIGPYTHON
%ignore kvc_stream_adopt;
%ignore kvc_stream_handle;
%include "waits.i"
#endif

#ifdef SWIGJAVA
%include "java/tiers.i"
#endif

%include "calls.i"
%include <kvcache/types.h>
%include <kvcache/checkpoint.h>
%include <kvcache/device.h>
%include <kvcache/storage.h>
%include <kvcache/attention.h>
%include <kvcache/model.h>
%include <kvcache/sizing.h>
%include <kvcache/quota.h>
%include <kvcache.h>
%include <kvcache/manager.h>
%include <kvcache/shortfin.h>
%include <kvcache/request.h>
%include <kvcache/step.h>
%include <kvcache/prefix.h>
%include <kvcache/external.h>
%include <kvcache/events.h>
%include <kvcache/fills.h>
%include <kvcache/index.h>
%include <kvcache/inspect.h>
%include <kvcache/offload.h>
%include <kvcache/metrics.h>
%include <kvcache/publisher.h>
%include <kvcache/rebuild.h>
%include <kvcache/record.h>
%include <kvcache/resize.h>
%include <kvcache/page.h>
%include <kvcache/page_result.h>
%include <kvcache/tier.h>
%include <kvcache/plugin.h>
%include <kvcache/retention.h>
%include <kvcache/scheduler.h>
%include <kvcache/speculation.h>
