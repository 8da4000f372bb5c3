// SPDX-License-Identifier: Apache-2.0
#include "manager/manager.h"

#include <algorithm>
#include <new>

namespace kvc {

Manager::Manager(const Shape& shape, const Env& env)
    : shape_(shape),
      env_(env),
      memory_(env_),
      arena_(memory_),
      blocks_(shape_, arena_, events_, counters_),
      rows_(shape_),
      matcher_(shape_, blocks_, hash_, arena_, monitor_.mutex()),
      requests_(shape_, blocks_, matcher_, rows_, hash_, arena_, counters_),
      monitor_(counters_, blocks_, requests_, memory_, sizeof(Manager)),
      pins_(shape_, blocks_, matcher_, arena_),
      external_(shape_, blocks_, matcher_, arena_),
      stepper_(shape_, view(), rows_, memory_) {}

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
  const auto each = [&](const auto& table) {
    for (uint32_t i = 0; i < table.size(); ++i) last = std::max(last, table[i].generation);
  };
  each(requests_.table());
  each(pins_.table());
  each(blocks_.namespaces());
  return last;
}

kvc_status Manager::build() {
  id_tag_ = take_id_tag();
  if (id_tag_.tag == 0) {
    return fail(KVC_ERROR_LIMIT, "this process has %u managers, the most that it can have; destroy one",
                kMaxHandleTags);
  }
  uint64_t seed = shape_.seed;
  if (seed == 0 && !env_.random_bytes(&seed, sizeof seed)) {
    return fail(KVC_ERROR_INTERNAL, "the system gave no random bytes; set kvc_manager_config.seed");
  }
  hash_.init(seed);
  // The secret places nodes in the buckets of the tree's table. Results do not depend on it; others may know
  // the seed.
  uint64_t secret = seed;
  if (!env_.random_bytes(&secret, sizeof secret)) secret = seed;
  // Room for the requests' tables and tails, so that ordinary growth takes nothing from the heap later.
  const uint64_t usual = shape_.num_blocks * 8;
  const uint64_t reserve = usual < (64u << 10) ? 64u << 10 : usual;
  if (!events_.create(memory_, env_, shape_.event_capacity, shape_.block_size) ||
      !blocks_.create(memory_, env_, id_tag_, secret) || !requests_.create(memory_, id_tag_) ||
      !pins_.create(memory_, id_tag_) || !rows_.create(memory_) || !stepper_.create() ||
      !arena_.reserve(reserve)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY,
                "no memory for %llu blocks, %llu nodes, %llu requests (%llu bytes taken before); use fewer",
                static_cast<unsigned long long>(shape_.num_blocks),
                static_cast<unsigned long long>(shape_.max_nodes),
                static_cast<unsigned long long>(shape_.max_requests),
                static_cast<unsigned long long>(memory_.bytes()));
  }
  monitor_.publish();
  return KVC_OK;
}

const char* Manager::take_warning() {
  const std::lock_guard lock(monitor_.mutex());
  return requests_.take_warning();
}

kvc_status Manager::open_namespace(const kvc_namespace_config& config, uint64_t* id) {
  const Guard lock(monitor_);
  return blocks_.open_namespace(config, id);
}

kvc_status Manager::close_namespace(uint64_t id) {
  const Guard lock(monitor_);
  return blocks_.close_namespace(id);
}

kvc_status Manager::reset(uint64_t namespace_id) {
  const Guard lock(monitor_);
  return blocks_.reset(namespace_id);
}

kvc_status Manager::reserve_tokens(uint64_t id, uint64_t capacity) {
  const Guard lock(monitor_);
  Request* request = nullptr;
  KVC_TRY(requests_.find(id, true, &request));
  return requests_.extend(*request, capacity, nullptr);
}

kvc_status Manager::append_tokens(uint64_t id, const int32_t* tokens, size_t num_tokens) {
  const Guard lock(monitor_);
  Request* request = requests_.peek(id);
  if (request != nullptr && num_tokens == 1 && requests_.lane_takes(*request, *tokens)) {
    request->lane_append(*tokens);
    return KVC_OK;
  }
  KVC_TRY(requests_.find(id, false, &request));
  const kvc_status status = requests_.append(*request, tokens, num_tokens, nullptr);
  requests_.open_lane(*request);
  return status;
}

kvc_status Manager::commit_tokens(uint64_t id, uint64_t num_committed) {
  const Guard lock(monitor_);
  Request* request = requests_.peek(id);
  if (request != nullptr && request->lane_commits(num_committed)) {
    requests_.lane_commit(*request, num_committed);
    return KVC_OK;
  }
  KVC_TRY(requests_.find(id, true, &request));
  const kvc_status status = requests_.commit(*request, num_committed);
  requests_.open_lane(*request);
  return status;
}

kvc_status Manager::truncate_request(uint64_t id, uint64_t num_tokens) {
  const Guard lock(monitor_);
  Request* request = nullptr;
  KVC_TRY(requests_.find(id, false, &request));
  return requests_.truncate(*request, num_tokens);
}

kvc_status Manager::fork_request(uint64_t id, uint64_t* child) {
  const Guard lock(monitor_);
  Request* request = nullptr;
  KVC_TRY(requests_.find(id, true, &request));
  return requests_.fork(*request, child);
}

kvc_status Manager::preempt_request(uint64_t id) {
  const Guard lock(monitor_);
  Request* request = nullptr;
  KVC_TRY(requests_.find(id, true, &request));
  return requests_.preempt(*request);
}

kvc_status Manager::free_request(uint64_t id) {
  const Guard lock(monitor_);
  Request* request = nullptr;
  KVC_TRY(requests_.find(id, false, &request));
  requests_.end(*request);
  return KVC_OK;
}

kvc_status Manager::retire_step(uint64_t step_id) {
  const Guard lock(monitor_);
  return stepper_.retire(step_id);
}

kvc_status Manager::take_copies(kvc_block_copy* copies, size_t capacity, size_t* count) {
  const Guard lock(monitor_);
  return requests_.take_copies(copies, capacity, count);
}

kvc_status Manager::take_zero_blocks(int32_t* blocks, size_t capacity, size_t* count) {
  const std::lock_guard lock(monitor_.mutex());
  *count = blocks_.zeroing().count();
  if (*count > capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu blocks are to be cleared, the array has room for %zu",
                *count, capacity);
  }
  blocks_.take_zero_blocks(blocks);
  return KVC_OK;
}

kvc_status Manager::compact(uint32_t pool, kvc_block_copy* moves, size_t capacity, size_t* count) {
  const Guard lock(monitor_);
  if (stepper_.executing() != nullptr) return fail(KVC_ERROR_BUSY, "another thread is in kvc_manager_step");
  if (stepper_.assigned() > blocks_.retired()) {
    return fail(KVC_ERROR_BUSY, "step %llu is in flight; retire it first",
                static_cast<unsigned long long>(stepper_.assigned()));
  }
  if (const size_t waiting = requests_.waiting_copies().count; waiting != 0)
    return fail(KVC_ERROR_BUSY, "%zu copies are waiting; take them first", waiting);
  if (const size_t waiting = blocks_.zeroing().count(); waiting != 0)
    return fail(KVC_ERROR_BUSY, "%zu blocks are to be cleared; take them first", waiting);
  *count = blocks_.compact(pool, moves, capacity);
  if (*count != 0) requests_.follow_moves(pool);
  blocks_.end_compaction(pool);
  return KVC_OK;
}

kvc_status Manager::pin_prefix(uint64_t namespace_id, const TokenSpan& tokens, uint64_t* pin,
                               uint64_t* num_pinned) {
  LookupScratch scratch(matcher_, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(monitor_);
  return pins_.pin(scratch, pin, num_pinned);
}

kvc_status Manager::unpin_prefix(uint64_t pin) {
  const Guard lock(monitor_);
  return pins_.unpin(pin);
}

kvc_status Manager::drop_prefix(uint64_t namespace_id, const TokenSpan& tokens, uint64_t* num_dropped) {
  LookupScratch scratch(matcher_, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(monitor_);
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  const size_t known = blocks_.tree().walk(prompt, scratch.num_blocks(), 0, scratch.path());
  *num_dropped = 0;
  // A position that died with the one below it has no blocks left, and no node is made meanwhile.
  for (size_t j = known; j-- > 0;) *num_dropped += blocks_.drop_idle(scratch.path()[j]);
  return KVC_OK;
}

kvc_status Manager::evict_blocks(size_t max_blocks, size_t* num_evicted) {
  const Guard lock(monitor_);
  *num_evicted = blocks_.evict_oldest(max_blocks);
  return KVC_OK;
}

kvc_status Manager::acquire_blocks(uint32_t group, int32_t* blocks, size_t num_blocks) {
  const Guard lock(monitor_);
  return external_.acquire(group, blocks, num_blocks);
}

kvc_status Manager::acquire_prefix(uint64_t namespace_id, uint32_t group, const TokenSpan& tokens,
                                   int32_t* blocks, size_t capacity, size_t* count) {
  LookupScratch scratch(matcher_, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(monitor_);
  return external_.acquire_prefix(scratch, group, blocks, capacity, count);
}

kvc_status Manager::publish_blocks(uint64_t namespace_id, uint32_t group, const TokenSpan& tokens,
                                   const int32_t* blocks, size_t num_blocks) {
  if (num_blocks > tokens.num_tokens / shape_.block_size) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "%zu blocks need %zu tokens, only %zu are given", num_blocks,
                num_blocks * shape_.block_size, tokens.num_tokens);
  }
  LookupScratch scratch(matcher_, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(monitor_);
  return external_.publish(scratch, group, blocks, num_blocks);
}

kvc_status Manager::release_blocks(const int32_t* blocks, size_t num_blocks) {
  const Guard lock(monitor_);
  return external_.release(blocks, num_blocks);
}

kvc_status Manager::unpublish_blocks(const int32_t* blocks, size_t num_blocks, uint64_t* num_unpublished) {
  const Guard lock(monitor_);
  return external_.unpublish(blocks, num_blocks, num_unpublished);
}

kvc_status Manager::poll_events(uint64_t* cursor, void* events, size_t event_size, size_t capacity,
                                size_t* count, int32_t* tokens, size_t token_capacity) {
  const std::lock_guard lock(monitor_.mutex());
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

kvc_status Manager::request_info(uint64_t id, kvc_request_info* info) {
  return read([&](const StateReader& state) { return state.request_info(id, info); });
}

kvc_status Manager::list_requests(uint64_t* ids, size_t capacity, size_t* count) {
  return read([&](const StateReader& state) { return state.list_requests(ids, capacity, count); });
}

kvc_status Manager::export_tables(const uint64_t* ids, size_t num_ids, uint32_t group, int32_t fill_id,
                                  int32_t* tables, size_t row_stride) {
  return read([&](const StateReader& state) {
    return state.export_tables(ids, num_ids, group, fill_id, tables, row_stride);
  });
}

kvc_status Manager::export_slots(uint64_t id, uint32_t group, uint64_t first_token, uint64_t num_tokens,
                                 void* slots, size_t element_size) {
  return read([&](const StateReader& state) {
    return state.export_slots(id, group, first_token, num_tokens, slots, element_size);
  });
}

kvc_status Manager::pool_info(uint32_t pool, kvc_pool_info* info) {
  return read([&](const StateReader& state) { return state.pool_info(pool, info); });
}

kvc_status Manager::block_info(int32_t block, kvc_block_info* info) {
  return read([&](const StateReader& state) { return state.block_info(block, info); });
}

kvc_status Manager::check() {
  return read([&](const StateReader& state) { return state.check(env_); });
}

uint64_t Manager::digest() {
  return read([](const StateReader& state) { return state.digest(); });
}

void* Manager::allocate_for_caller(size_t size) {
  const std::lock_guard lock(monitor_.mutex());
  return memory_.allocate(size, 64);
}

void Manager::release_for_caller(void* memory, size_t size) {
  const std::lock_guard lock(monitor_.mutex());
  memory_.release(memory, size, 64);
}

}  // namespace kvc
