// SPDX-License-Identifier: Apache-2.0
// Birth, death, namespaces, and the counters that every call publishes.
#include "manager/manager.h"

#include <algorithm>
#include <new>

#include "manager/guard.h"

namespace kvc {
Manager::Manager(const Shape& shape, const Env& env)
    : shape_(shape),
      env_(env),
      memory_(env_),
      arena_(memory_),
      tree_(pool_, namespaces_, arena_, events_, counters_) {}

kvc_status Manager::create(const Shape& shape, const Env& env, Manager** out) {
  void* place = env.allocate(env.allocator_data, sizeof(Manager), alignof(Manager));
  if (place == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a manager of %zu bytes", sizeof(Manager));
  auto* manager = new (place) Manager(shape, env);
  if (const kvc_status status = manager->build(); status != KVC_OK) {
    destroy(manager);
    return status;
  }
  *out = manager;
  return KVC_OK;
}

void Manager::destroy(Manager* manager) {
  const Env env = manager->env_;
  give_back_id_tag({manager->id_tag_.tag, manager->last_generation()});
  manager->~Manager();
  env.release(env.allocator_data, manager, sizeof(Manager), alignof(Manager));
}

// The highest that an id of this manager has had.
uint32_t Manager::last_generation() {
  uint32_t last = id_tag_.generation;
  for (size_t i = 0; i < requests_.size(); ++i) last = std::max(last, requests_.at(i).generation);
  for (size_t i = 0; i < pins_.size(); ++i) last = std::max(last, pins_.at(i).generation);
  for (uint32_t s = 0; s < namespaces_.size(); ++s) last = std::max(last, namespaces_[s].generation);
  return last;
}

kvc_status Manager::build() {
  id_tag_ = take_id_tag();
  const auto [tag, generation] = id_tag_;
  if (tag == 0)
    return fail(KVC_ERROR_LIMIT, "this process has %u managers, the most that it can have; destroy one",
                kMaxHandleTags);
  uint64_t seed = shape_.seed;
  if (seed == 0 && !env_.random_bytes(&seed, sizeof seed)) {
    return fail(KVC_ERROR_INTERNAL, "the system gave no random bytes; set kvc_manager_config.seed");
  }
  hash_.init(seed);
  uint64_t secret =
      seed;  // of the table's buckets; results depend on neither, and a seed may be known to others
  if (!env_.random_bytes(&secret, sizeof secret)) secret = seed;
  // Room for the requests' tables and tails, so that ordinary growth takes nothing from the heap later.
  const uint64_t usual = shape_.num_blocks * 8;
  const uint64_t reserve = usual < (64u << 10) ? 64u << 10 : usual;
  if (!events_.create(memory_, env_, shape_.event_capacity, shape_.block_size) ||
      !pool_.create(memory_, shape_.pool_blocks, shape_.num_pools,
                    (shape_.flags & KVC_MANAGER_NULL_BLOCK) != 0) ||
      !namespaces_.create(memory_, arena_, shape_.num_pools, tag, generation) ||
      !tree_.create(memory_, shape_.max_nodes, shape_.block_size, shape_.num_groups, env_.table_hash_mask,
                    secret) ||
      !requests_.create(memory_, shape_.max_requests, shape_.num_groups, tag, generation) ||
      !pins_.create(memory_, shape_.max_requests, tag, generation) ||
      !zeroing_.create(memory_, shape_.flags, pool_.num_ids()) ||
      !row_owners_.create(memory_, shape_.max_requests) ||
      !item_marks_.create(memory_, shape_.max_requests) || !row_marks_.create(memory_, shape_.max_requests) ||
      !arena_.reserve(reserve)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY,
                "no memory for %llu blocks, %llu nodes, %llu requests (%llu bytes taken before); use fewer",
                static_cast<unsigned long long>(shape_.num_blocks),
                static_cast<unsigned long long>(shape_.max_nodes),
                static_cast<unsigned long long>(shape_.max_requests),
                static_cast<unsigned long long>(memory_.bytes()));
  }
  publish_stats();
  return KVC_OK;
}

const char* Manager::take_warning() {
  const std::lock_guard lock(mutex_);
  const char* text = warning_;
  warning_ = nullptr;
  return text;
}

void Manager::publish_stats() {
  Counters& c = counters_;
  c.blocks_total = c.blocks_free = c.blocks_cached = c.blocks_live = 0;
  c.blocks_reserved = c.blocks_fenced = c.blocks_pinned = 0;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const PoolCounts& pool = pool_.counts(p);
    c.blocks_total += pool.size;
    c.blocks_free += pool.free + pool.stale;
    c.blocks_cached += pool.lru - pool.stale;
    c.blocks_fenced += pool.fenced;
    c.blocks_reserved += pool.reserved;
    c.blocks_pinned += pool.pinned;
    c.blocks_live += pool.held() - pool.reserved - pool.pinned;
  }
  c.live_requests = live_requests_;
  c.waiting_requests = num_requests_ - live_requests_;
  c.rejected_candidates = tree_.rejected_candidates();
  c.metadata_bytes = memory_.bytes() + sizeof(Manager);
  snapshot_.publish(c);
}

kvc_status Manager::open_namespace(const kvc_namespace_config& config, uint64_t* id) {
  const Guard lock(*this);
  uint32_t ns = 0;
  KVC_TRY(namespaces_.open(config, &ns));
  *id = namespaces_.id(ns);
  return KVC_OK;
}

kvc_status Manager::find_namespace(uint64_t id, uint32_t* ns) const {
  if (!namespaces_.is_open(id)) {
    return fail(KVC_ERROR_NOT_FOUND, "no namespace %#llx: closed, or of another manager",
                static_cast<unsigned long long>(id));
  }
  *ns = id == 0 ? 0 : handle_index(id);
  return KVC_OK;
}

kvc_status Manager::close_namespace(uint64_t id) {
  const Guard lock(*this);
  uint32_t ns = 0;
  if (id == 0) return fail(KVC_ERROR_INVALID_ARGUMENT, "namespace 0 is the default one and is never closed");
  KVC_TRY(find_namespace(id, &ns));
  Namespace& entry = namespaces_[ns];
  if (entry.opens > 1) {
    --entry.opens;
    return KVC_OK;
  }
  if (entry.users != 0) {
    return fail(KVC_ERROR_BUSY, "namespace %#llx has %u requests and pins; free them first",
                static_cast<unsigned long long>(id), entry.users);
  }
  forget(ns);
  announce_cleared(id);
  namespaces_.close(ns);
  return KVC_OK;
}

// What the namespace has in LRU is as good as free from now on; blocks are detached when they are taken.
void Manager::forget(uint32_t ns) {
  for (size_t p = 0; p < shape_.num_pools; ++p) pool_.counts(p).stale += namespaces_.cached(ns, p);
  namespaces_.reset_one(ns);
}

kvc_status Manager::reset(uint64_t namespace_id) {
  const Guard lock(*this);
  if (!namespaces_.may_reset()) {
    return fail(KVC_ERROR_LIMIT,
                "the manager has made %llu resets, the most that it can make; create another manager",
                static_cast<unsigned long long>(NamespaceTable::kMaxResets));
  }
  if (namespace_id == 0) {
    for (size_t p = 0; p < shape_.num_pools; ++p) pool_.counts(p).stale = pool_.counts(p).lru;
    namespaces_.reset_all();
  } else {
    uint32_t ns = 0;
    KVC_TRY(find_namespace(namespace_id, &ns));
    forget(ns);
  }
  ++counters_.epoch;
  announce_cleared(namespace_id);
  return KVC_OK;
}

void Manager::announce_cleared(uint64_t namespace_id) {
  if (!events_.enabled()) return;
  kvc_event event = {};
  event.kind = KVC_EVENT_CLEARED;
  event.namespace_id = namespace_id;
  event.epoch = namespaces_.epoch(namespace_id == 0 ? 0 : handle_index(namespace_id));
  event.block = -1;
  events_.push(event, nullptr);
}

kvc_status Manager::poll_events(uint64_t* cursor, void* events, size_t event_size, size_t capacity,
                                size_t* count, int32_t* tokens, size_t token_capacity) {
  const std::lock_guard lock(mutex_);
  if (!events_.enabled()) {
    return fail(KVC_ERROR_UNSUPPORTED, "this manager keeps no events; create it with event_capacity > 0");
  }
  if (*cursor > events_.next_sequence()) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "cursor %llu is in the future; the next event is %llu",
                static_cast<unsigned long long>(*cursor),
                static_cast<unsigned long long>(events_.next_sequence()));
  }
  *count = events_.read(cursor, events, event_size, capacity, tokens, token_capacity);
  return KVC_OK;
}

}  // namespace kvc
