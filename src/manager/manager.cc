// SPDX-License-Identifier: Apache-2.0
#include "manager/manager.h"

#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace kvc {
namespace {

// Of each array: that of the positions of a million blocks, and of the tokens of as many. A pool of 10^8
// blocks begins with its hash table, 1.1 GB, and 0.3 GB.
constexpr size_t kTouchedAtCreation = size_t{64} << 20;

}  // namespace

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
  // Of the room of pools that may grow, the part that they have.
  const double used = static_cast<double>(shape_.num_blocks) / static_cast<double>(shape_.num_ids);
  memory_.touch_first(static_cast<size_t>(used * static_cast<double>(kTouchedAtCreation)));
  if (!events_.create(memory_, env_, shape_.event_capacity) ||
      !blocks_.create(memory_, env_, id_tag_, secret) || !requests_.create(memory_, id_tag_) ||
      !pins_.create(memory_, id_tag_) || !prompts_.create(memory_) || !rows_.create(memory_) ||
      !stepper_.create() || !arena_.reserve(reserve)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY,
                "no memory for %llu blocks, %llu nodes, %llu requests (%llu bytes taken before); use fewer",
                ull(shape_.num_ids), ull(shape_.max_nodes), ull(shape_.max_requests), ull(memory_.bytes()));
  }
  memory_.touch_first(0);
  monitor_.publish();
  return KVC_OK;
}

kvc_status Manager::reset_namespace(uint64_t namespace_id) {
  const Guard lock(monitor_);
  NamespaceId ns{};
  KVC_TRY(blocks_.namespace_blocks.reset_namespace(namespace_id, &ns));
  prompts_.drop_stale();
  requests_.curves.forget(ns);
  return KVC_OK;
}

kvc_status Manager::reset_all() {
  const Guard lock(monitor_);
  KVC_TRY(blocks_.namespace_blocks.reset_all());
  prompts_.drop_stale();
  requests_.curves.forget(Curves::kAll);
  return KVC_OK;
}

kvc_status Manager::set_prefix_caching(bool on) {
  if (on) KVC_TRY(check_caches());
  const Guard lock(monitor_);
  if (!on) requests_.publications.stop_all();
  blocks_.set_caches(on);
  return KVC_OK;
}

const char* Manager::take_warning() {
  const std::lock_guard lock(monitor_.mutex());
  return requests_.publications.take_warning();
}

// The tokens are joined and hashed without the lock.
kvc_status Manager::allocate_from_prompt(const char* name, const int32_t* tokens, size_t num_tokens,
                                         const kvc_request_config& config, uint64_t* id,
                                         uint64_t* num_cached) {
  Prompts::Text text = {};
  {
    const std::lock_guard lock(monitor_.mutex());
    KVC_TRY(prompts_.copy(name, num_tokens, &text));
  }
  if (num_tokens != 0) {
    std::memcpy(text.tokens.data + (text.span.num_tokens - num_tokens), tokens, num_tokens * sizeof(int32_t));
  }
  const kvc_status status = scheduler_view().create(text.span, config, true, id, num_cached);
  const std::lock_guard lock(monitor_.mutex());
  prompts_.give_back(&text);
  if (status != KVC_OK) return status;
  if (const Request* request = requests_.peek(*id); request != nullptr)
    prompts_.bind(requests_.table().index_of(*request), text);
  return KVC_OK;
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
  const kvc_status status = requests_.commit(*request, num_committed, num_committed);
  requests_.open_lane(*request);
  return status;
}

kvc_status Manager::admit_batch(const uint64_t* ids, size_t count, uint64_t* cached, kvc_status* statuses) {
  if (count > shape_.max_requests)
    return invalid("%zu requests are more than max_requests, %llu; name each once", count,
                   ull(shape_.max_requests));
  FirstError failure;
  const Guard lock(monitor_);
  const SchedulerView scheduler = scheduler_view();
  Batch batch(requests_.admissions);
  kvc_status first = KVC_OK;
  uint64_t refused = 0;  // shares that one of them had no space in
  for (size_t i = 0; i < count; ++i) {
    Request* request = nullptr;
    const uint64_t share = scheduler.locked_share_of(ids[i], 0);
    kvc_status status = (refused & share) != 0
                            ? fail(KVC_ERROR_SKIPPED, "not tried: an earlier admission had no space")
                            : requests_.find(ids[i], false, &request);
    if (status == KVC_OK) status = batch.plan(*request, 0, SIZE_MAX, 0);
    if (lacks_space(status)) refused |= share;
    if (status != KVC_OK) failure.note("requests", i);
    if (first == KVC_OK) first = status;
    if (statuses != nullptr) statuses[i] = status;
  }
  if (first != KVC_OK) {
    batch.cancel();
    for (size_t i = 0; i < count && statuses != nullptr; ++i)
      if (statuses[i] == KVC_OK) statuses[i] = KVC_ERROR_SKIPPED;
    return first;
  }
  CopyList none;  // their hits end at full blocks
  batch.admit(none);
  for (size_t i = 0; i < count && cached != nullptr; ++i) cached[i] = requests_.peek(ids[i])->num_cached;
  return KVC_OK;
}

kvc_status Manager::fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count) {
  const Guard lock(monitor_);
  if (step_id <= blocks_.retired() || step_id > stepper_.assigned()) {
    return invalid("step %llu is not in flight; those after %llu up to %llu are", ull(step_id),
                   ull(blocks_.retired()), ull(stepper_.assigned()));
  }
  if (stepper_.executing() != nullptr) return fail(KVC_ERROR_BUSY, "another thread is in kvc_manager_step");
  return requests_.fail_step(step_id, ids, capacity, count);
}

// Not OK while blocks may still be read, written or copied for a call that is over. A step that is in flight
// is answered with `in_flight`, all else with BUSY.
kvc_status Manager::check_quiet(kvc_status in_flight) const {
  if (stepper_.executing() != nullptr) return fail(KVC_ERROR_BUSY, "another thread is in kvc_manager_step");
  if (stepper_.assigned() > blocks_.retired()) {
    return fail(in_flight, "step %llu is in flight; retire it first", ull(stepper_.assigned()));
  }
  if (const size_t waiting = requests_.waiting_copies.list().count; waiting != 0)
    return fail(KVC_ERROR_BUSY, "%zu copies are waiting; take them first", waiting);
  if (const size_t waiting = blocks_.zeroing().count(); waiting != 0)
    return fail(KVC_ERROR_BUSY, "%zu blocks are to be cleared; take them first", waiting);
  return KVC_OK;
}

kvc_status Manager::compact(PoolIndex pool, kvc_block_copy* moves, size_t capacity, size_t* count) {
  const Guard lock(monitor_);
  KVC_TRY(check_quiet());
  *count = blocks_.compactor.compact(pool, moves, capacity);
  if (*count != 0) requests_.follow_moves(pool);
  blocks_.compactor.end_compaction(pool);
  return KVC_OK;
}

kvc_status Manager::check_size(PoolIndex pool, uint64_t size) const {
  const uint64_t null_blocks = shape_.null_blocks(pool);
  const auto refuse = [&](const char* limit, uint64_t least) {
    return invalid("num_blocks is %llu; pool %u %s: give at least %llu", ull(size) + null_blocks, raw(pool),
                   limit, ull(least) + null_blocks);
  };
  if (size > blocks_.pool().counts(pool).room) {
    return invalid(
        "num_blocks is %llu; pool %u has max_blocks %llu: give at most so many, or create it with "
        "more",
        ull(size) + null_blocks, raw(pool), ull(shape_.pool_room[pool]));
  }
  if (size <= shape_.watermark) return refuse("must have more than watermark_blocks", shape_.watermark + 1);
  if (const uint64_t minimums = blocks_.quotas().minimums(pool); size < minimums)
    return refuse("must have the minimums of quotas", minimums);
  return KVC_OK;
}

kvc_status Manager::resize(PoolIndex pool, uint64_t size, kvc_block_copy* moves, size_t capacity,
                           size_t* num_moves) {
  const Guard lock(monitor_);
  KVC_TRY(check_size(pool, size));
  if (size >= blocks_.pool().counts(pool).size) {
    blocks_.compactor.grow(pool, size);
    *num_moves = 0;
    return KVC_OK;
  }
  KVC_TRY(check_quiet(KVC_ERROR_AGAIN));
  KVC_TRY(blocks_.compactor.check_shrink(pool, size, capacity, num_moves));
  *num_moves = blocks_.compactor.shrink(pool, size, moves);
  if (*num_moves != 0) {
    requests_.follow_moves(pool);
    pins_.follow_moves(pool);
    prompts_.follow_moves(pool);
  }
  blocks_.compactor.end_shrink(pool, size);
  return KVC_OK;
}

kvc_status Manager::take_pending(kvc_pending_work* work) {
  const Guard lock(monitor_);
  work->num_copies = requests_.waiting_copies.list().count;
  work->num_zero_blocks = blocks_.zeroing().count();
  if (work->num_copies > work->copy_capacity || work->num_zero_blocks > work->zero_capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                "%zu copies and %zu blocks to clear are pending; the arrays have room for %zu and %zu",
                work->num_copies, work->num_zero_blocks, work->copy_capacity, work->zero_capacity);
  }
  requests_.waiting_copies.take(work->copies);
  blocks_.take_zero_blocks(work->zero_blocks);
  return KVC_OK;
}

kvc_status Manager::probe_request(uint64_t id, kvc_probe_info* info) {
  const std::lock_guard lock(monitor_.mutex());
  const Request* request = requests_.peek(id);
  if (request == nullptr) return Requests::not_found(id);
  if (request->admitted) return Requests::already_admitted(id);
  return requests_.admissions.probe(*request, info);
}

kvc_status Manager::drop_prefix(const TokenSpan& tokens, uint64_t* num_dropped) {
  return look_up(tokens, [&](const ManagerParts&, LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(prefix.look(&prompt));
    *num_dropped = 0;
    // A position that died with the one below it has no blocks left, and no node is made meanwhile.
    for (size_t j = blocks_.tree().walk(prompt, prefix.num_blocks(), 0, prefix.path()); j-- > 0;)
      *num_dropped += blocks_.positions.drop_idle(prefix.path()[j]);
    return KVC_OK;
  });
}

kvc_status Manager::set_time(uint64_t now_ns) {
  return change([&](const ManagerParts&) -> kvc_status {
    KVC_TRY(blocks_.cached.check_time(now_ns));
    blocks_.cached.pass_time(now_ns);
    return KVC_OK;
  });
}

kvc_status Manager::set_prefix_priority(const TokenSpan& tokens, const HintRange& range,
                                        uint64_t* num_tokens) {
  return look_up(tokens, [&](const ManagerParts&, LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(requests_.features.get<Hints>().check_range(range.priority, range.until));
    KVC_TRY(prefix.look(&prompt));
    size_t hinted = 0;
    for (size_t j = blocks_.tree().walk(prompt, prefix.num_blocks(), 0, prefix.path()); j-- > range.begin;) {
      const NodeId node = prefix.path()[j];
      hinted += blocks_.tree()[node].resident != 0;
      blocks_.cached.hint(node, range.priority, range.until);
    }
    *num_tokens = hinted * shape_.block_size;
    return KVC_OK;
  });
}

kvc_status Manager::demote_prefix(const TokenSpan& tokens, uint64_t first_token, uint64_t* num_tokens) {
  return look_up(tokens, [&](const ManagerParts&, LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(prefix.look(&prompt));
    const NodeId last = blocks_.tree().last_known(prompt, prefix.num_blocks());
    *num_tokens = blocks_.cached.demote(last, shape_.positions_within(first_token), 0) * shape_.block_size;
    return KVC_OK;
  });
}

}  // namespace kvc
