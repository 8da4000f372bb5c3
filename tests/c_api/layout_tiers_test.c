/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs and the values of the constants of pages, tiers and plug-ins. See layout.h. */
#include <kvcache/page.h>
#include <kvcache/plugin.h>
#include <kvcache/tier.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_page_config, 72);
AT(kvc_page_config, struct_size, 0);
AT(kvc_page_config, model, 8);
AT(kvc_page_config, weights, 16);
AT(kvc_page_config, numerics, 24);
AT(kvc_page_config, model_size, 32);
AT(kvc_page_config, weights_size, 40);
AT(kvc_page_config, numerics_size, 48);
AT(kvc_page_config, num_layers, 56);
AT(kvc_page_config, num_heads, 60);
AT(kvc_page_config, first_layer, 64);
AT(kvc_page_config, first_head, 68);

SIZE(kvc_page_info, 56);
AT(kvc_page_info, struct_size, 0);
AT(kvc_page_info, fingerprint, 8);
AT(kvc_page_info, page_bytes, 40);
AT(kvc_page_info, part_bytes, 48);

SIZE(kvc_tier_item, 88);
AT(kvc_tier_item, key, 0);
AT(kvc_tier_item, data, 32);
AT(kvc_tier_item, bytes, 40);
AT(kvc_tier_item, runs, 48);
AT(kvc_tier_item, num_runs, 56);
AT(kvc_tier_item, generation, 64);
AT(kvc_tier_item, lease_until_ns, 72);
AT(kvc_tier_item, result, 80);
AT(kvc_tier_item, reserved, 84);

SIZE(kvc_tier_config, 72);
AT(kvc_tier_config, struct_size, 0);
AT(kvc_tier_config, url, 8);
AT(kvc_tier_config, fingerprint, 16);
AT(kvc_tier_config, page_bytes, 48);
AT(kvc_tier_config, max_store_bytes, 56);
AT(kvc_tier_config, allocator, 64);

SIZE(kvc_tier_job, 64);
AT(kvc_tier_job, struct_size, 0);
AT(kvc_tier_job, items, 8);
AT(kvc_tier_job, num_items, 16);
AT(kvc_tier_job, kind, 24);
AT(kvc_tier_job, priority, 28);
AT(kvc_tier_job, now_ns, 32);
AT(kvc_tier_job, lease_ns, 40);
AT(kvc_tier_job, timeout_ns, 48);
AT(kvc_tier_job, user_data, 56);

SIZE(kvc_tier_completion, 24);
AT(kvc_tier_completion, job, 0);
AT(kvc_tier_completion, user_data, 8);
AT(kvc_tier_completion, num_ok, 16);

SIZE(kvc_tier_counts, 104);
AT(kvc_tier_counts, struct_size, 0);
AT(kvc_tier_counts, jobs, 8);
AT(kvc_tier_counts, items, 16);
AT(kvc_tier_counts, bytes, 24);
AT(kvc_tier_counts, ok, 32);
AT(kvc_tier_counts, misses, 40);
AT(kvc_tier_counts, pending, 48);
AT(kvc_tier_counts, expired, 56);
AT(kvc_tier_counts, no_space, 64);
AT(kvc_tier_counts, failed, 72);
AT(kvc_tier_counts, timeouts, 80);
AT(kvc_tier_counts, cancelled, 88);
AT(kvc_tier_counts, unavailable, 96);

SIZE(kvc_tier_stats, 216);
AT(kvc_tier_stats, struct_size, 0);
AT(kvc_tier_stats, pages, 8);
AT(kvc_tier_stats, capacity_pages, 16);
AT(kvc_tier_stats, bytes, 24);
AT(kvc_tier_stats, capacity_bytes, 32);
AT(kvc_tier_stats, max_jobs, 40);
AT(kvc_tier_stats, waiting_jobs, 48);
AT(kvc_tier_stats, running_jobs, 56);
AT(kvc_tier_stats, done_jobs, 64);
AT(kvc_tier_stats, waiting_store_bytes, 72);
AT(kvc_tier_stats, refused_loads, 80);
AT(kvc_tier_stats, refused_prefetches, 88);
AT(kvc_tier_stats, refused_stores, 96);
AT(kvc_tier_stats, refused_bytes, 104);
AT(kvc_tier_stats, evictions, 112);
AT(kvc_tier_stats, recovered, 120);
AT(kvc_tier_stats, bad_headers, 128);
AT(kvc_tier_stats, bad_payloads, 136);
AT(kvc_tier_stats, failures, 144);
AT(kvc_tier_stats, last_errno, 152);
AT(kvc_tier_stats, fallbacks, 160);
AT(kvc_tier_stats, outages, 168);
AT(kvc_tier_stats, available, 176);
AT(kvc_tier_stats, uses_uring, 180);
AT(kvc_tier_stats, disk_evictions, 184);
AT(kvc_tier_stats, expired, 192);
AT(kvc_tier_stats, removed, 200);
AT(kvc_tier_stats, mismatches, 208);

SIZE(kvc_store_item, 40);
AT(kvc_store_item, key, 0);
AT(kvc_store_item, header, 8);
AT(kvc_store_item, data, 16);
AT(kvc_store_item, bytes, 24);
AT(kvc_store_item, result, 32);
AT(kvc_store_item, reserved, 36);

SIZE(kvc_store_call, 24);
AT(kvc_store_call, struct_size, 0);
AT(kvc_store_call, deadline_ns, 8);
AT(kvc_store_call, worker, 16);
AT(kvc_store_call, reserved, 20);

SIZE(kvc_store_config, 64);
AT(kvc_store_config, struct_size, 0);
AT(kvc_store_config, url, 8);
AT(kvc_store_config, fingerprint, 16);
AT(kvc_store_config, page_bytes, 48);
AT(kvc_store_config, num_threads, 56);
AT(kvc_store_config, reserved, 60);

SIZE(kvc_store_info, 48);
AT(kvc_store_info, struct_size, 0);
AT(kvc_store_info, pages, 8);
AT(kvc_store_info, capacity_pages, 16);
AT(kvc_store_info, bytes, 24);
AT(kvc_store_info, capacity_bytes, 32);
AT(kvc_store_info, last_errno, 40);

SIZE(kvc_store, 72);
AT(kvc_store, struct_size, 0);
AT(kvc_store, flags, 8);
AT(kvc_store, reserved, 12);
AT(kvc_store, open, 16);
AT(kvc_store, close, 24);
AT(kvc_store, exists, 32);
AT(kvc_store, get, 40);
AT(kvc_store, put, 48);
AT(kvc_store, remove, 56);
AT(kvc_store, info, 64);

SIZE(kvc_io, 40);
AT(kvc_io, data, 0);
AT(kvc_io, bytes, 8);
AT(kvc_io, offset, 16);
AT(kvc_io, result, 24);
AT(kvc_io, file, 32);
AT(kvc_io, write, 36);

SIZE(kvc_io_engine, 32);
AT(kvc_io_engine, struct_size, 0);
AT(kvc_io_engine, open, 8);
AT(kvc_io_engine, close, 16);
AT(kvc_io_engine, transfer, 24);

SIZE(kvc_codec, 32);
AT(kvc_codec, struct_size, 0);
AT(kvc_codec, bound, 8);
AT(kvc_codec, compress, 16);
AT(kvc_codec, decompress, 24);

SIZE(kvc_plugin, 56);
AT(kvc_plugin, struct_size, 0);
AT(kvc_plugin, abi_version, 8);
AT(kvc_plugin, reserved, 12);
AT(kvc_plugin, name, 16);
AT(kvc_plugin, store, 24);
AT(kvc_plugin, io, 32);
AT(kvc_plugin, codec, 40);
AT(kvc_plugin, transport, 48);

SIZE(kvc_plugin_host, 24);
AT(kvc_plugin_host, struct_size, 0);
AT(kvc_plugin_host, abi_version, 8);
AT(kvc_plugin_host, reserved, 12);
AT(kvc_plugin_host, set_error, 16);

VALUE(KVC_PAGE_WAITING, 0);
VALUE(KVC_PAGE_OK, 1);
VALUE(KVC_PAGE_MISS, 2);
VALUE(KVC_PAGE_PENDING, 3);
VALUE(KVC_PAGE_EXPIRED, 4);
VALUE(KVC_PAGE_NO_SPACE, 5);
VALUE(KVC_PAGE_FAILED, 6);
VALUE(KVC_PAGE_TIMEOUT, 7);
VALUE(KVC_PAGE_CANCELLED, 8);
VALUE(KVC_PAGE_UNAVAILABLE, 9);
VALUE(KVC_TIER_EXISTS, 0);
VALUE(KVC_TIER_GET, 1);
VALUE(KVC_TIER_PUT, 2);
VALUE(KVC_TIER_REMOVE, 3);
VALUE(KVC_TIER_LOAD, 0);
VALUE(KVC_TIER_PREFETCH, 1);
VALUE(KVC_TIER_STORE, 2);
VALUE(KVC_STORE_REMOTE, 1);
VALUE(KVC_PLUGIN_ABI, 1);
VALUE(KVC_PAGE_HEADER_BYTES, 128);

_Static_assert(sizeof(KVC_PLUGIN_ENTRY) == sizeof("kvc_plugin_entry_v1"), "the entry has another name");

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
