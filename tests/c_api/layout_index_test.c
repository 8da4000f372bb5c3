/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of the index. See layout.h. */
#include <kvcache/index.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_index_config, 56);
AT(kvc_index_config, struct_size, 0);
AT(kvc_index_config, max_blocks, 8);
AT(kvc_index_config, ttl_ns, 16);
AT(kvc_index_config, max_workers, 24);
AT(kvc_index_config, num_media, 28);
AT(kvc_index_config, max_namespaces, 32);
AT(kvc_index_config, group, 36);
AT(kvc_index_config, flags, 40);
AT(kvc_index_config, reserved, 44);
AT(kvc_index_config, allocator, 48);

SIZE(kvc_index_applied, 40);
AT(kvc_index_applied, struct_size, 0);
AT(kvc_index_applied, applied, 8);
AT(kvc_index_applied, ignored, 16);
AT(kvc_index_applied, next_sequence, 24);
AT(kvc_index_applied, is_stale, 32);
AT(kvc_index_applied, restarts, 36);

SIZE(kvc_index_worker, 240);
AT(kvc_index_worker, struct_size, 0);
AT(kvc_index_worker, name, 8);
AT(kvc_index_worker, last_heard_ns, 72);
AT(kvc_index_worker, num_blocks, 80);
AT(kvc_index_worker, next_sequence, 144);
AT(kvc_index_worker, is_stale, 208);

SIZE(kvc_index_stats, 112);
AT(kvc_index_stats, struct_size, 0);
AT(kvc_index_stats, num_workers, 8);
AT(kvc_index_stats, num_blocks, 16);
AT(kvc_index_stats, num_holdings, 24);
AT(kvc_index_stats, num_sets, 32);
AT(kvc_index_stats, bytes_allocated, 40);
AT(kvc_index_stats, bytes_used, 48);
AT(kvc_index_stats, applied_events, 56);
AT(kvc_index_stats, ignored_events, 64);
AT(kvc_index_stats, gaps, 72);
AT(kvc_index_stats, dropped_events, 80);
AT(kvc_index_stats, evicted_blocks, 88);
AT(kvc_index_stats, restarts, 96);
AT(kvc_index_stats, expired_workers, 104);

VALUE(KVC_INDEX_MAX_MEDIA, 8);
VALUE(KVC_INDEX_MAX_WORKERS, 1024);
VALUE(KVC_INDEX_ALL_MEDIA, UINT32_MAX);
VALUE(KVC_INDEX_HIDE_STALE, 1);

int main(void) {
  puts("layout of the index: as recorded");
  return 0;
}
