/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of publishers. See layout.h. */
#include <kvcache/plugin.h>
#include <kvcache/publisher.h>
#include <stdio.h>

#include "layout.h"

SIZE(kvc_publisher_config, 104);
AT(kvc_publisher_config, struct_size, 0);
AT(kvc_publisher_config, manager, 8);
AT(kvc_publisher_config, url, 16);
AT(kvc_publisher_config, topic, 24);
AT(kvc_publisher_config, medium, 32);
AT(kvc_publisher_config, hash_seed, 40);
AT(kvc_publisher_config, groups, 48);
AT(kvc_publisher_config, interval_ns, 56);
AT(kvc_publisher_config, replay_bytes, 64);
AT(kvc_publisher_config, resync_interval_ns, 72);
AT(kvc_publisher_config, replay_batches, 80);
AT(kvc_publisher_config, max_blocks, 84);
AT(kvc_publisher_config, rank, 88);
AT(kvc_publisher_config, hash, 92);
AT(kvc_publisher_config, flags, 96);
AT(kvc_publisher_config, reserved, 100);

SIZE(kvc_publisher_namespace, 40);
AT(kvc_publisher_namespace, struct_size, 0);
AT(kvc_publisher_namespace, namespace_id, 8);
AT(kvc_publisher_namespace, lora_name, 16);
AT(kvc_publisher_namespace, lora_path, 24);
AT(kvc_publisher_namespace, cache_salt, 32);

SIZE(kvc_publisher_stats, 136);
AT(kvc_publisher_stats, struct_size, 0);
AT(kvc_publisher_stats, next_sequence, 8);
AT(kvc_publisher_stats, stored_blocks, 16);
AT(kvc_publisher_stats, removed_blocks, 24);
AT(kvc_publisher_stats, cancelled_events, 32);
AT(kvc_publisher_stats, bytes, 40);
AT(kvc_publisher_stats, resyncs, 48);
AT(kvc_publisher_stats, lost_events, 56);
AT(kvc_publisher_stats, unresolved_blocks, 64);
AT(kvc_publisher_stats, slow_batches, 72);
AT(kvc_publisher_stats, failed_batches, 80);
AT(kvc_publisher_stats, replay_requests, 88);
AT(kvc_publisher_stats, replayed_batches, 96);
AT(kvc_publisher_stats, replay_misses, 104);
AT(kvc_publisher_stats, bad_requests, 112);
AT(kvc_publisher_stats, kept_batches, 120);
AT(kvc_publisher_stats, kept_bytes, 128);

VALUE(KVC_PUBLISHER_DIGEST, 0);
VALUE(KVC_PUBLISHER_VLLM, 1);
VALUE(KVC_PUBLISHER_SGLANG, 2);
VALUE(KVC_PUBLISHER_THREAD, 1);
VALUE(KVC_PUBLISHER_ARRAYS, 2);
VALUE(KVC_PUBLISHER_BYTES, 4);
VALUE(KVC_PUBLISHER_NO_RANK, 8);
VALUE(KVC_PUBLISHER_NO_GROUPS, 16);
VALUE(KVC_PUBLISHER_ALL_FLAGS, 31);

SIZE(kvc_frame, 16);
AT(kvc_frame, data, 0);
AT(kvc_frame, bytes, 8);

SIZE(kvc_transport_config, 24);
AT(kvc_transport_config, struct_size, 0);
AT(kvc_transport_config, url, 8);
AT(kvc_transport_config, replay_batches, 16);

SIZE(kvc_transport, 48);
AT(kvc_transport, struct_size, 0);
AT(kvc_transport, open, 8);
AT(kvc_transport, close, 16);
AT(kvc_transport, publish, 24);
AT(kvc_transport, receive, 32);
AT(kvc_transport, reply, 40);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
