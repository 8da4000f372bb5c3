// SPDX-License-Identifier: Apache-2.0
// C functions about a manager as a whole: namespaces, state, statistics, events.
#include <kvcache/events.h>
#include <kvcache/quota.h>

#include "api/guard.h"
#include "api/recording.h"

using namespace kvc;

namespace {

// kvc_stats is a struct_size and then Counters, field by field.
static_assert(sizeof(kvc_stats) == sizeof(size_t) + sizeof(Counters));
static_assert(offsetof(kvc_stats, blocks_pinned) == sizeof(size_t) + offsetof(Counters, blocks_pinned));
static_assert(offsetof(kvc_stats, admissions) == sizeof(size_t) + offsetof(Counters, admissions));
static_assert(offsetof(kvc_stats, refusals) == sizeof(size_t) + offsetof(Counters, refusals));
static_assert(offsetof(kvc_stats, duplicates) == sizeof(size_t) + offsetof(Counters, duplicates));
static_assert(offsetof(kvc_stats, events_dropped) == sizeof(size_t) + offsetof(Counters, events_dropped));
static_assert(offsetof(kvc_stats, partial_tokens) == sizeof(size_t) + offsetof(Counters, partial_tokens));

// Runs function(manager, batch) with the library's view of a batch, and writes it back.
template <typename Function>
kvc_status with_batch(kvc_manager* m, const uint64_t* cursor, kvc_event_batch* batch,
                      Function&& function) noexcept {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(cursor);
    KVC_REQUIRE_POINTER(batch);
    kvc_event_batch own;
    KVC_TRY(read_struct(batch, &own));
    KVC_REQUIRE_ARRAY(own.events, own.capacity);
    if (own.event_size < sizeof(kvc_event) || own.event_size > kLargestStruct) {
      return invalid("event_size is %zu; set it to sizeof(kvc_event), %zu here", own.event_size,
                     sizeof(kvc_event));
    }
    KVC_TRY(function(manager, &own));
    write_struct(own, batch);
    return kvc_status{KVC_OK};
  });
}

}  // namespace

extern "C" {

kvc_status kvc_manager_properties(kvc_manager* m, kvc_properties* properties) {
  return on_manager(m, [&](Manager& manager) {
    return answer(properties, [&](kvc_properties* out) {
      const Shape& shape = manager.shape();
      out->num_blocks = shape.num_blocks;
      out->max_blocks = shape.num_ids;
      out->max_nodes = shape.max_nodes;
      out->max_requests = shape.max_requests;
      out->max_request_tokens = shape.max_request_tokens;
      out->event_capacity = shape.event_capacity;
      out->watermark_blocks = shape.watermark;
      out->block_size = shape.block_size;
      out->vocab_size = shape.vocab_size;
      out->policy = shape.policy_number;
      out->policy_weight = shape.policy_weight;
      out->policy_history = shape.policy_history;
      out->flags = shape.flags;
      out->num_groups = shape.num_groups;
      out->num_pools = shape.num_pools;
      out->max_quotas = shape.num_classes - 1;
      out->num_cross_groups = shape.num_groups - shape.num_token_groups;
      if (m->recorder != nullptr) out->record_bytes = m->recorder->capacity();
      return kvc_status{KVC_OK};
    });
  });
}

kvc_status kvc_manager_open_namespace(kvc_manager* m, const kvc_namespace_config* config,
                                      uint64_t* namespace_id) {
  KVC_RECORD(kvc_manager_open_namespace, m, config, namespace_id);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(config);
    KVC_REQUIRE_POINTER(namespace_id);
    kvc_namespace_config own;
    KVC_TRY(read_namespace_config(config, &own));
    return manager.change([&](const ManagerParts& parts) {
      return parts.blocks.namespace_blocks.open_namespace(own, namespace_id);
    });
  });
}

kvc_status kvc_manager_close_namespace(kvc_manager* m, uint64_t namespace_id) {
  KVC_RECORD(kvc_manager_close_namespace, m, namespace_id);
  return on_manager(m, [&](Manager& manager) { return manager.close_namespace(namespace_id); });
}

kvc_status kvc_manager_reset_namespace(kvc_manager* m, uint64_t namespace_id) {
  KVC_RECORD(kvc_manager_reset_namespace, m, namespace_id);
  return on_manager(m, [&](Manager& manager) { return manager.reset_namespace(namespace_id); });
}

kvc_status kvc_manager_reset_all(kvc_manager* m) {
  KVC_RECORD(kvc_manager_reset_all, m);
  return on_manager(m, [](Manager& manager) { return manager.reset_all(); });
}

kvc_status kvc_manager_set_prefix_caching(kvc_manager* m, uint32_t on) {
  KVC_RECORD(kvc_manager_set_prefix_caching, m, on);
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    if (on > 1) return invalid("on is %u; 1 switches prefix caching on, 0 off", on);
    return manager.set_prefix_caching(on != 0);
  });
}

kvc_status kvc_manager_list_namespaces(kvc_manager* m, uint64_t* namespaces, size_t capacity, size_t* count) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(namespaces, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.read(&StateReader::list_namespaces, namespaces, capacity, count);
  });
}

kvc_status kvc_manager_check(kvc_manager* m) {
  return on_manager(m, [](Manager& manager) { return manager.check(); });
}

kvc_status kvc_manager_digest(kvc_manager* m, uint64_t* digest) {
  KVC_RECORD(kvc_manager_digest, m, digest);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(digest);
    *digest = manager.digest();
    return kvc_status{KVC_OK};
  });
}

kvc_status kvc_manager_read_stats(kvc_manager* m, kvc_stats* stats) {
  if (m == nullptr) return invalid("the manager is NULL");
  return guarded([&] {
    return answer(stats, [&](kvc_stats* out) {
      const Counters counters = m->impl->stats();
      std::memcpy(&out->epoch, &counters, sizeof counters);
      return kvc_status{KVC_OK};
    });
  });
}

kvc_status kvc_manager_compact(kvc_manager* m, uint32_t pool, kvc_block_copy* moves, size_t capacity,
                               size_t* count) {
  KVC_RECORD(kvc_manager_compact, m, pool, moves, capacity, count);
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_ARRAY(moves, capacity);
    KVC_REQUIRE_POINTER(count);
    KVC_TRY(check_pool(manager.shape(), pool));
    return manager.compact(pool, moves, capacity, count);
  });
}

kvc_status kvc_manager_pool_info(kvc_manager* m, uint32_t pool, kvc_pool_info* info) {
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_pool(manager.shape(), pool));
    return answer(info, [&](kvc_pool_info* out) { return manager.read(&StateReader::pool_info, pool, out); });
  });
}

kvc_status kvc_manager_set_quota(kvc_manager* m, uint64_t namespace_id, uint32_t pool, uint64_t min_blocks,
                                 uint64_t max_blocks) {
  KVC_RECORD(kvc_manager_set_quota, m, namespace_id, pool, min_blocks, max_blocks);
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_pool(manager.shape(), pool));
    return manager.set_quota(namespace_id, pool, min_blocks, max_blocks);
  });
}

kvc_status kvc_manager_quota_info(kvc_manager* m, uint64_t namespace_id, uint32_t pool,
                                  kvc_quota_info* info) {
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_pool(manager.shape(), pool));
    return answer(info, [&](kvc_quota_info* out) {
      return manager.read(&StateReader::quota_info, namespace_id, pool, out);
    });
  });
}

kvc_status kvc_manager_block_info(kvc_manager* m, int32_t block, kvc_block_info* info) {
  return on_manager(m, [&](Manager& manager) {
    return answer(info,
                  [&](kvc_block_info* out) { return manager.read(&StateReader::block_info, block, out); });
  });
}

kvc_status kvc_manager_poll_events(kvc_manager* m, uint64_t* cursor, kvc_event_batch* batch) {
  return with_batch(m, cursor, batch,
                    [&](Manager& manager, kvc_event_batch* own) { return manager.poll_events(cursor, own); });
}

kvc_status kvc_manager_list_prefixes(kvc_manager* m, uint64_t* cursor, uint64_t* event_cursor,
                                     kvc_event_batch* batch) {
  return with_batch(m, cursor, batch, [&](Manager& manager, kvc_event_batch* own) {
    KVC_REQUIRE_POINTER(event_cursor);
    return manager.list_prefixes(cursor, event_cursor, own);
  });
}

}  // extern "C"
