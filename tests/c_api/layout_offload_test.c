/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of offload. See layout.h. */
#include <kvcache/offload.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_offload_config, 128);
AT(kvc_offload_config, struct_size, 0);
AT(kvc_offload_config, manager, 8);
AT(kvc_offload_config, storages, 16);
AT(kvc_offload_config, page_bytes, 24);
AT(kvc_offload_config, tiers, 32);
AT(kvc_offload_config, num_tiers, 40);
AT(kvc_offload_config, pages, 48);
AT(kvc_offload_config, policy, 56);
AT(kvc_offload_config, flags, 60);
AT(kvc_offload_config, num_pages, 64);
AT(kvc_offload_config, max_lookups, 68);
AT(kvc_offload_config, max_lookup_blocks, 72);
AT(kvc_offload_config, clean_blocks, 76);
AT(kvc_offload_config, timeout_ns, 80);
AT(kvc_offload_config, hold_ns, 88);
AT(kvc_offload_config, compute_ns_per_token, 96);
AT(kvc_offload_config, allocator, 104);
AT(kvc_offload_config, min_load_tokens, 112);
AT(kvc_offload_config, retry_ns, 120);

SIZE(kvc_offload_info, 40);
AT(kvc_offload_info, struct_size, 0);
AT(kvc_offload_info, state, 8);
AT(kvc_offload_info, reason, 12);
AT(kvc_offload_info, num_cached, 16);
AT(kvc_offload_info, num_found, 24);
AT(kvc_offload_info, num_loaded, 32);

SIZE(kvc_offload_stats, 120);
AT(kvc_offload_stats, struct_size, 0);
AT(kvc_offload_stats, waiting_blocks, 8);
AT(kvc_offload_stats, busy_pages, 16);
AT(kvc_offload_stats, busy_lookups, 24);
AT(kvc_offload_stats, published_blocks, 32);
AT(kvc_offload_stats, dropped_events, 40);
AT(kvc_offload_stats, dropped_blocks, 48);
AT(kvc_offload_stats, gone_blocks, 56);
AT(kvc_offload_stats, lookups, 64);
AT(kvc_offload_stats, slower_loads, 72);
AT(kvc_offload_stats, refused_loads, 80);
AT(kvc_offload_stats, loads, 88);
AT(kvc_offload_stats, short_loads, 96);
AT(kvc_offload_stats, loaded_tokens, 104);
AT(kvc_offload_stats, failed_publications, 112);

SIZE(kvc_offload_tier_stats, 368);
AT(kvc_offload_tier_stats, struct_size, 0);
AT(kvc_offload_tier_stats, hits, 8);
AT(kvc_offload_tier_stats, misses, 16);
AT(kvc_offload_tier_stats, loaded_pages, 24);
AT(kvc_offload_tier_stats, loaded_bytes, 32);
AT(kvc_offload_tier_stats, failed_loads, 40);
AT(kvc_offload_tier_stats, stored_pages, 48);
AT(kvc_offload_tier_stats, stored_bytes, 56);
AT(kvc_offload_tier_stats, refused_stores, 64);
AT(kvc_offload_tier_stats, failed_stores, 72);
AT(kvc_offload_tier_stats, waits, 80);
AT(kvc_offload_tier_stats, load_ns_per_byte, 88);
AT(kvc_offload_tier_stats, outages, 96);
AT(kvc_offload_tier_stats, available, 104);
AT(kvc_offload_tier_stats, difference, 112);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
