// SPDX-License-Identifier: Apache-2.0
// Configurations from callers: read by struct_size, checked field by field, defaults filled in.
#include <kvcache/metrics.h>

#include <algorithm>
#include <numeric>

#include "api/create.h"
#include "api/guard.h"
#include "api/recording.h"
#include "manager/cross.h"
#include "models/memory.h"

kvc_manager::kvc_manager(const kvc::Env& from) : account(from), latencies(env, KVC_LATENCY_ADMIT, 2) {
  account.add(sizeof(kvc_manager));
}

namespace kvc {
namespace {

constexpr uint64_t kMaxBlocks = KVC_MAX_BLOCKS;
static_assert(kMaxBlocks == (uint64_t{1} << 31) - 2 * kMaxPools - 2);
constexpr uint64_t kMaxHistory = (uint64_t{1} << 31) - 2;
constexpr uint64_t kHistoryPerBlock = 4;
constexpr uint64_t kNodesPerBlock = 8;  // without full attention
constexpr uint64_t kMaxRequestTokens = uint64_t{1} << 30;
constexpr uint64_t kEndlessTokens = uint64_t{1} << 32;
constexpr uint64_t kMaxEvents = uint64_t{1} << 24;
constexpr uint32_t kManagerFlags = KVC_MANAGER_NULL_BLOCK | KVC_MANAGER_NO_PREFIX_CACHE |
                                   KVC_MANAGER_ZERO_CROSS_NAMESPACE | KVC_MANAGER_ZERO_ALWAYS |
                                   KVC_MANAGER_TOUCH_MEMORY | KVC_MANAGER_HINTS | KVC_MANAGER_FILLS |
                                   KVC_MANAGER_HEADROOM | KVC_MANAGER_PARTIAL_REUSE;
constexpr uint32_t kFillFlags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
constexpr uint32_t kRequestFlags =
    KVC_REQUEST_NO_READ | KVC_REQUEST_NO_WRITE | KVC_REQUEST_FULL_MUST_FIT | KVC_REQUEST_RESUMED | kFillFlags;

template <typename T>
kvc_status read_element(const T* array, size_t i, T* out) {
  const size_t stride = array->struct_size;
  KVC_TRY(check_size<T>(stride));
  const char* element = reinterpret_cast<const char*>(array) + i * stride;
  size_t size;
  std::memcpy(&size, element, sizeof size);
  if (size != stride) {
    return invalid("element %zu of an array of %s has struct_size %zu, the first has %zu", i, kStructName<T>,
                   size, stride);
  }
  return read_struct(element, stride, out);
}

kvc_status read_pools(const kvc_manager_config& config, Shape* shape) {
  shape->num_pools = config.num_pools == 0 ? 1 : static_cast<uint32_t>(config.num_pools);
  shape->pool_blocks[0] = config.num_blocks;
  shape->pool_room[0] = config.max_blocks;
  if (config.num_pools != 0 && config.max_blocks != 0) {
    return invalid("max_blocks is %llu beside %zu pools, each of which has its own; leave it 0",
                   ull(config.max_blocks), config.num_pools);
  }
  if (config.num_pools != 0 && config.num_blocks != 0) {
    return invalid("num_blocks is %llu beside %zu pools; give one of them", ull(config.num_blocks),
                   config.num_pools);
  }
  if (config.num_pools == 0 && config.pools == nullptr && config.num_blocks == 0) {
    return invalid("num_blocks is 0; set num_blocks, pools, or memory with a budget: at most %llu blocks",
                   ull(kMaxBlocks));
  }
  if (config.num_pools > kMaxPools) return invalid("%zu pools; at most %zu", config.num_pools, kMaxPools);
  if (config.num_pools == 0 && config.pools != nullptr)
    return invalid("pools is set and num_pools is 0; set num_pools, or leave pools NULL");
  KVC_REQUIRE_ARRAY(config.pools, config.num_pools);
  for (size_t p = 0; p < config.num_pools; ++p) {
    kvc_pool_config pool;
    KVC_TRY(read_element(config.pools, p, &pool));
    shape->pool_blocks[p] = pool.num_blocks;
    shape->pool_room[p] = pool.max_blocks;
  }
  const bool null_block = (config.flags & KVC_MANAGER_NULL_BLOCK) != 0;
  const uint64_t most = kMaxBlocks - kMaxPools * (shape->lists_per_pool() - 1 + shape->has_fills());
  shape->num_blocks = shape->num_ids = 0;
  for (size_t p = 0; p < shape->num_pools; ++p) {
    const uint64_t blocks = shape->pool_blocks[p];
    uint64_t& room = shape->pool_room[p];
    const uint64_t least = null_block && p == 0 ? 2 : 1;
    if (blocks < least || blocks > most - shape->num_ids) {
      return invalid(
          "pool %zu has %llu blocks (num_blocks); it must have at least %llu, and all pools at most %llu", p,
          ull(blocks), ull(least), ull(most));
    }
    if (room == 0) room = blocks;
    if (room < blocks || room > most - shape->num_ids) {
      return invalid(
          "pool %zu has %llu blocks and max_blocks %llu; max_blocks is 0 or at least as many, and of all "
          "pools at most %llu",
          p, ull(blocks), ull(room), ull(most));
    }
    shape->num_blocks += blocks;
    shape->num_ids += room;
  }
  return KVC_OK;
}

// Whether its numbers are those of its kind.
kvc_status check_group(const kvc_group_config& group, size_t g, const Shape& shape) {
  const bool window = group.kind == KVC_GROUP_SLIDING_WINDOW, chunks = group.kind == KVC_GROUP_CHUNKED_LOCAL,
             state = group.kind == KVC_GROUP_STATE, cross = group.kind == KVC_GROUP_CROSS;
  if (group.kind != KVC_GROUP_FULL && !window && !chunks && !state && !cross) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "group %zu is of kind %u; full attention (0), sliding window (1), chunked local attention "
                "(2), recurrent state (3) and cross-attention (4) are supported",
                g, group.kind);
  }
  if (group.reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "group %zu: reserved is %u and must be 0", g, group.reserved);
  if (group.pool >= shape.num_pools)
    return invalid("group %zu takes from pool %u, there are %u", g, group.pool, shape.num_pools);
  if (window && group.window_tokens == 0)
    return invalid("group %zu: window_tokens is 0; a sliding window reads at least 1 token", g);
  if (chunks && group.chunk_tokens == 0)
    return invalid("group %zu: chunk_tokens is 0; a chunk has at least 1 token", g);
  if (!window && (group.window_tokens | group.num_sink_tokens) != 0) {
    return invalid("group %zu: window_tokens %llu, num_sink_tokens %u; only a sliding window has them: set 0",
                   g, ull(group.window_tokens), group.num_sink_tokens);
  }
  if (!chunks && group.chunk_tokens != 0) {
    return invalid("group %zu: chunk_tokens is %llu; only chunked local attention has chunks: set 0", g,
                   ull(group.chunk_tokens));
  }
  if (!state && group.max_checkpoints != 0) {
    return invalid("group %zu: max_checkpoints is %llu; only recurrent state has checkpoints: set 0", g,
                   ull(group.max_checkpoints));
  }
  if ((group.kind == KVC_GROUP_FULL || cross) && group.retention_tokens != 0) {
    return invalid("group %zu: retention_tokens is %llu; %s keeps all blocks: set 0", g,
                   ull(group.retention_tokens), cross ? "cross-attention" : "full attention");
  }
  if (group.retention_tokens % shape.block_size != 0 && group.retention_tokens != KVC_NO_RETENTION) {
    return invalid("group %zu: retention_tokens is %llu and must be a multiple of block_size, %u", g,
                   ull(group.retention_tokens), shape.block_size);
  }
  return KVC_OK;
}

kvc_status read_group(const kvc_group_config& group, size_t g, Shape* shape) {
  KVC_TRY(check_group(group, g, *shape));
  const bool window = group.kind == KVC_GROUP_SLIDING_WINDOW, chunks = group.kind == KVC_GROUP_CHUNKED_LOCAL,
             cross = group.kind == KVC_GROUP_CROSS;
  GroupShape& out = shape->groups[g];
  out.kind = group.kind;
  out.pool = group.pool;
  // A window of 1 counts as 2, so that every hit holds the block at its end. Numbers beyond any request are
  // cut, so that no sum overflows.
  out.window = chunks ? std::min(group.chunk_tokens, kEndlessTokens)
                      : std::clamp<uint64_t>(group.window_tokens, 2, kEndlessTokens);
  out.restarts = chunks ? std::lcm(out.window, uint64_t{shape->block_size}) : UINT64_MAX;
  out.retention = group.retention_tokens > kEndlessTokens ? 0 : group.retention_tokens;
  out.holds_end = (window || chunks) && shape->caches() && out.retention != shape->block_size;
  out.sinks = static_cast<uint32_t>(ceil_div(group.num_sink_tokens, shape->block_size));
  if (!cross && shape->has_cross()) {
    return invalid("group %zu is of kind %u behind a cross group; cross groups (4) are the last ones", g,
                   group.kind);
  }
  if (cross && g == 0)
    return invalid(
        "group 0 is a cross group; give at least one group before it, which holds the decoder's tokens");
  (cross ? shape->cross_groups : out.windowed() ? shape->window_groups : shape->full_groups) |= 1u << g;
  shape->num_token_groups += !cross;
  if (group.kind != KVC_GROUP_STATE) return KVC_OK;
  shape->state_groups |= 1u << g;
  if (group.max_checkpoints != 0) shape->max_cached[group.pool] = group.max_checkpoints;
  const uint32_t conflict =
      shape->flags & (KVC_MANAGER_FILLS | KVC_MANAGER_HEADROOM | KVC_MANAGER_PARTIAL_REUSE);
  if (conflict == 0) return KVC_OK;
  return fail(
      KVC_ERROR_UNSUPPORTED,
      "group %zu is recurrent state, which only commits publish, which has no blocks for later tokens "
      "and no part for the head of a block; clear manager flags %#x (fills %#x, headroom %#x, partial "
      "reuse %#x)",
      g, conflict, KVC_MANAGER_FILLS, KVC_MANAGER_HEADROOM, KVC_MANAGER_PARTIAL_REUSE);
}

kvc_status read_groups(const kvc_manager_config& config, Shape* shape) {
  if (config.num_groups > kMaxGroups)
    return invalid("%zu groups; at most %zu", config.num_groups, kMaxGroups);
  KVC_REQUIRE_ARRAY(config.groups, config.num_groups);
  if (config.num_groups == 0 && config.groups != nullptr)
    return invalid("groups is set and num_groups is 0; set num_groups, or leave groups NULL");
  shape->num_groups = config.num_groups == 0 ? 1 : static_cast<uint32_t>(config.num_groups);
  shape->window_groups = shape->full_groups = shape->state_groups = shape->cross_groups = 0;
  shape->num_token_groups = 0;
  std::fill_n(shape->max_cached, kMaxPools, UINT64_MAX);
  uint32_t used_pools = 0, shared_pools = 0, state_pools = 0;
  for (size_t g = 0; g < shape->num_groups; ++g) {
    kvc_group_config group = {};
    if (config.num_groups != 0) {
      KVC_TRY(read_element(config.groups, g, &group));
    }
    KVC_TRY(read_group(group, g, shape));
    shared_pools |= used_pools & 1u << group.pool;
    used_pools |= 1u << group.pool;
    if (group.kind == KVC_GROUP_STATE) state_pools |= 1u << group.pool;
  }
  for (uint32_t p = 0; p < shape->num_pools; ++p) {
    if ((used_pools >> p & 1) == 0) return invalid("no group takes from pool %u", p);
    const uint64_t usable = shape->pool_blocks[p] - shape->null_blocks(p);
    if ((state_pools >> p & 1) != 0 && usable < 2) {
      return invalid(
          "pool %u has %llu block for recurrent states; a request holds 2 while it goes from one to the "
          "next: "
          "give it at least 2",
          p, ull(usable));
    }
    if ((shared_pools >> p & 1) != 0 && shape->max_cached[p] != UINT64_MAX) {
      return invalid(
          "max_checkpoints is %llu for a group that shares pool %u with another one; give it a pool of its "
          "own, or set 0",
          ull(shape->max_cached[p]), p);
    }
  }
  return KVC_OK;
}

// Without full attention a request's positions outlive their blocks: a few blocks at its end keep all of
// them. Those of the longest request count, if it is told.
uint64_t default_nodes(const Shape& shape, uint64_t longest) {
  const uint64_t blocks = shape.num_ids;
  if (shape.window_groups == 0) return blocks + blocks / 32 + 64;
  if (shape.full_groups != 0) return 2 * blocks;
  return std::max(kNodesPerBlock * blocks,
                  2 * ceil_div(std::min(longest, shape.max_request_tokens), shape.block_size));
}

// longest: tokens of the longest request, 0 = not told.
kvc_status read_limits(const kvc_manager_config& config, uint64_t longest, Shape* shape) {
  constexpr uint64_t kMaxNodes = (uint64_t{1} << 31) - 2;
  shape->max_request_tokens = config.max_request_tokens != 0 ? config.max_request_tokens : uint64_t{1} << 24;
  shape->max_nodes =
      config.max_nodes != 0 ? config.max_nodes : std::min(default_nodes(*shape, longest), kMaxNodes);
  shape->max_requests = config.max_requests != 0 ? config.max_requests : 1024;
  shape->event_capacity = config.event_capacity;
  shape->watermark = config.watermark_blocks;
  shape->seed = config.seed;
  const struct {
    const char* name;
    uint64_t value, limit;
  } limits[] = {{"max_nodes", shape->max_nodes, kMaxNodes},
                {"max_requests", shape->max_requests, kMaxHandleIndex},
                {"max_request_tokens", shape->max_request_tokens, kMaxRequestTokens},
                {"event_capacity", shape->event_capacity, kMaxEvents},
                {"watermark_blocks", shape->watermark, kMaxBlocks - 1}};
  for (const auto& limit : limits) {
    if (limit.value > limit.limit)
      return invalid("%s is %llu; at most %llu", limit.name, ull(limit.value), ull(limit.limit));
  }
  for (uint32_t p = 0; p < shape->num_pools; ++p) {
    const uint64_t usable = shape->pool_blocks[p] - shape->null_blocks(p);
    if (shape->watermark < usable) continue;
    return invalid(
        "watermark_blocks is %llu; pool %u has %llu blocks: at most %llu, and better a few percent",
        ull(shape->watermark), p, ull(usable), ull(usable - 1));
  }
  return KVC_OK;
}

// The pools and groups of a model within a budget, for sequences of so many tokens.
constexpr size_t kModelGroups = 4;
struct ModelGroups {
  uint64_t tokens;
  kvc_pool_config pools[kModelGroups];
  kvc_group_config groups[kModelGroups];
};

kvc_status check_alone(const kvc_manager_config& config, uint32_t block_size) {
  if (config.num_blocks != 0 || config.num_pools != 0 || config.num_groups != 0) {
    return invalid(
        "memory is set beside num_blocks %llu, %zu pools and %zu groups, which the model gives; leave them 0",
        ull(config.num_blocks), config.num_pools, config.num_groups);
  }
  if (config.max_blocks != 0) {
    return invalid(
        "max_blocks is %llu beside memory, which gives the pools; leave it 0, or give num_blocks or pools "
        "instead "
        "of memory",
        ull(config.max_blocks));
  }
  if (config.groups != nullptr || config.pools != nullptr)
    return invalid("groups or pools is set beside memory, which gives both; leave them NULL");
  if (config.block_size != 0 && block_size != 0 && config.block_size != block_size) {
    return invalid("block_size is %u and that of memory %u; set one of them, or both to the same",
                   config.block_size, block_size);
  }
  return KVC_OK;
}

kvc_status size_by_memory(kvc_manager_config* config, ModelGroups* out) {
  kvc_memory_query query;
  kvc_model model;
  KVC_TRY(read_memory_query(config->memory, &query, &model));
  KVC_TRY(check_alone(*config, query.block_size));
  if (query.budget_bytes == 0)
    return invalid("budget_bytes and memory_fraction of memory are both 0; set one of them");
  if (query.block_size == 0) query.block_size = config->block_size;
  kvc_memory_estimate estimate;
  KVC_TRY(estimate_memory(query, model, &estimate));
  const bool chunks = model.window_kind == KVC_GROUP_CHUNKED_LOCAL;
  const struct {
    uint32_t kind, pool;
    uint64_t block_bytes, own_blocks;  // of no group: 0
  } parts[kModelGroups] = {
      {KVC_GROUP_FULL, 0, estimate.full_block_bytes, 0},
      {chunks ? KVC_GROUP_CHUNKED_LOCAL : KVC_GROUP_SLIDING_WINDOW, estimate.window_pool,
       estimate.window_block_bytes, estimate.window_pool_blocks},
      {KVC_GROUP_STATE, estimate.state_pool, estimate.state_block_bytes, estimate.state_pool_blocks},
      {KVC_GROUP_CROSS, estimate.cross_pool, estimate.cross_block_bytes, estimate.cross_pool_blocks}};
  if (estimate.pool_blocks == 0) {
    uint64_t group_bytes = 0;
    for (const auto& part : parts) group_bytes += part.block_bytes;
    const uint64_t sequences = std::max<uint64_t>(query.num_sequences, 1);
    const uint64_t residual_bytes = sequences * estimate.residual_bytes;
    return invalid(
        "the budget is %llu bytes; a block of each group takes %llu, and residual blocks of %llu sequences "
        "%llu: raise the budget, or lower block_size",
        ull(query.budget_bytes), ull(group_bytes), ull(sequences), ull(residual_bytes));
  }
  *out = {};
  out->tokens = query.tokens != 0 ? query.tokens : model.max_context;
  config->block_size = query.block_size;
  config->pools = out->pools;
  config->groups = out->groups;
  config->num_pools = estimate.num_pools;
  out->pools[0] = {sizeof(kvc_pool_config), estimate.pool_blocks, 0};
  for (const auto& part : parts) {
    if (part.block_bytes == 0) continue;
    if (part.own_blocks != 0) out->pools[part.pool] = {sizeof(kvc_pool_config), part.own_blocks, 0};
    kvc_group_config& group = out->groups[config->num_groups++];
    group.struct_size = sizeof group;
    group.kind = part.kind;
    group.pool = part.pool;
    if (part.kind == KVC_GROUP_SLIDING_WINDOW) group.window_tokens = model.window_tokens;
    if (part.kind == KVC_GROUP_CHUNKED_LOCAL) group.chunk_tokens = model.window_tokens;
    if (group.window_tokens + group.chunk_tokens != 0)
      group.retention_tokens = window_retention(query, query.block_size == 0 ? 16 : query.block_size);
    if (part.kind == KVC_GROUP_STATE) group.retention_tokens = query.checkpoint_tokens;
  }
  return KVC_OK;
}

kvc_status read_policy(const kvc_manager_config& config, Shape* shape) {
  const Policy* policy = find_policy(config.policy);
  if (policy == nullptr) {
    return fail(KVC_ERROR_UNSUPPORTED, "policy is %u; policies go from 0 (KVC_POLICY_LRU) to %u",
                config.policy, num_policies() - 1);
  }
  const double weight = config.policy_weight;
  if (!(weight >= 0 && weight <= policy->most_weight)) {  // NaN as well
    return invalid("policy_weight is %g; with policy %s it is 0 to %g%s", weight, policy->name,
                   policy->most_weight,
                   policy->most_weight == 0 ? "; leave it 0, or choose another policy" : "");
  }
  if (config.policy_history != 0 && !policy->counts_uses) {
    return invalid(
        "policy_history is %llu; policy %s remembers no uses: leave it 0, or choose another policy",
        ull(config.policy_history), policy->name);
  }
  shape->policy_number = config.policy;
  shape->policy = policy;
  shape->num_levels = (config.flags & KVC_MANAGER_HINTS) != 0 ? kNumLevels : 1;
  shape->policy_weight = weight != 0 ? weight : policy->default_weight;
  shape->policy_history = config.policy_history;
  return KVC_OK;
}

// After the pools are known.
kvc_status read_history(Shape* shape) {
  if (!shape->policy->counts_uses) return KVC_OK;
  uint64_t& history = shape->policy_history;
  if (history == 0) history = std::min(kHistoryPerBlock * shape->num_ids, kMaxHistory);
  if (history > kMaxHistory)
    return invalid("policy_history is %llu; at most %llu positions", ull(history), ull(kMaxHistory));
  return KVC_OK;
}

kvc_status read_shape(const kvc_manager_config& config, uint64_t longest, Shape* shape) {
  *shape = Shape{};
  shape->block_size = config.block_size != 0 ? config.block_size : 16;
  if (shape->block_size > 1024) return invalid("block_size is %u; 1 to 1024 tokens", config.block_size);
  shape->by_block = Divider(shape->block_size);
  shape->vocab_size = config.vocab_size;
  if (config.vocab_size > uint32_t{1} << 31)
    return invalid("vocab_size is %u; at most 2^31", config.vocab_size);
  KVC_TRY(read_policy(config, shape));
  if ((config.flags & ~kManagerFlags) != 0) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "manager flags %#x are not supported; clear them, or update the library",
                config.flags & ~kManagerFlags);
  }
  shape->flags = config.flags;
  if (config.max_quotas > Quotas::kMaxQuotas) {
    return invalid("max_quotas is %u; at most %u namespaces can have a quota", config.max_quotas,
                   Quotas::kMaxQuotas);
  }
  if (config.record_bytes != 0 && config.record_bytes < KVC_MIN_RECORD_BYTES) {
    return invalid("record_bytes is %llu; give at least %d, or 0 to record nothing", ull(config.record_bytes),
                   KVC_MIN_RECORD_BYTES);
  }
  if (config.reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_manager_config.reserved is %u and must be 0", config.reserved);
  shape->num_classes = config.max_quotas + 1;
  KVC_TRY(read_pools(config, shape));
  KVC_TRY(read_history(shape));
  KVC_TRY(read_groups(config, shape));
  return read_limits(config, longest, shape);
}

void release_manager(kvc_manager* m) {
  const Env env = m->account.inner();
  m->~kvc_manager();
  env.release(env.allocator_data, m, sizeof(kvc_manager), alignof(kvc_manager));
}

}  // namespace

kvc_status create_manager(const kvc_manager_config* config, Env env, kvc_manager** manager) {
  KVC_REQUIRE_POINTER(config);
  KVC_REQUIRE_POINTER(manager);
  kvc_manager_config own;
  Shape shape;
  KVC_TRY(read_struct(config, &own));
  KVC_TRY(read_allocator(own.allocator, &env));
  ModelGroups by_model;
  if (own.memory != nullptr) KVC_TRY(size_by_memory(&own, &by_model));
  KVC_TRY(read_shape(own, own.memory != nullptr ? by_model.tokens : own.max_request_tokens, &shape));
  shape.near_tokens = env.near_tokens;
  env.touches = (shape.flags & KVC_MANAGER_TOUCH_MEMORY) != 0;
  void* const place = env.allocate(env.allocator_data, sizeof(kvc_manager), alignof(kvc_manager));
  if (place == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a manager");
  auto* handle = new (place) kvc_manager(env);
  if (const kvc_status status = Manager::create(shape, handle->env, &handle->impl); status != KVC_OK) {
    release_manager(handle);
    return status;
  }
  handle->log = own.log, handle->log_user_data = own.log_user_data;
  if (own.record_bytes != 0) {
    if (const kvc_status status = start_recording(handle, own); status != KVC_OK) {
      kvc_manager_destroy(handle);
      return status;
    }
  }
  *manager = handle;
  return KVC_OK;
}

kvc_status check_group(const Shape& shape, GroupIndex group) {
  if (group < shape.num_groups) return KVC_OK;
  return invalid("group %u does not exist; the manager has %u groups, from 0 on", raw(group),
                 shape.num_groups);
}

kvc_status check_pool(const Shape& shape, PoolIndex pool) {
  if (pool < shape.num_pools) return KVC_OK;
  return invalid("pool %d does not exist; the manager has %u pools, from 0 on", static_cast<int32_t>(pool),
                 shape.num_pools);
}

kvc_status check_layer(uint32_t layer, uint32_t num_layers) {
  if (layer < num_layers) return KVC_OK;
  return invalid("layer is %u; the storage has %u layers, from 0 on", layer, num_layers);
}

kvc_status check_headroom(const Shape& shape, uint32_t headroom) {
  if (headroom > KVC_HEADROOM_AGGRESSIVE)
    return invalid("headroom is %u; KVC_HEADROOM_NONE (0) to KVC_HEADROOM_AGGRESSIVE (3)", headroom);
  if (headroom == KVC_HEADROOM_NONE || shape.has_headroom()) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED,
              "headroom is %u; create the manager with KVC_MANAGER_HEADROOM, so that it remembers lengths",
              headroom);
}

kvc_status read_prompt(const kvc_prompt* prompt, TokenSpan* out) {
  KVC_REQUIRE_POINTER(prompt);
  kvc_prompt own;
  KVC_TRY(read_struct(prompt, &own));
  KVC_REQUIRE_ARRAY(own.tokens, own.num_tokens);
  KVC_REQUIRE_ARRAY(own.keys, own.num_keys);
  *out = {own.tokens, own.num_tokens, own.keys, own.num_keys, own.namespace_id};
  return KVC_OK;
}

kvc_status read_namespace_config(const kvc_namespace_config* config, kvc_namespace_config* out) {
  constexpr size_t kMaxPart = 65536;
  KVC_TRY(read_struct(config, out));
  const struct {
    const char* name;
    const void* data;
    size_t size;
  } parts[] = {{"model", out->model, out->model_size},
               {"adapter", out->adapter, out->adapter_size},
               {"tenant", out->tenant, out->tenant_size}};
  for (const auto& part : parts) {
    if (part.size > kMaxPart || (part.data == nullptr && part.size != 0)) {
      return invalid("%s_size is %zu%s; at most %zu bytes", part.name, part.size,
                     part.data == nullptr ? " of NULL" : "", kMaxPart);
    }
  }
  return KVC_OK;
}

kvc_status read_allocator(const kvc_allocator* allocator, Env* env) {
  if (allocator == nullptr) return KVC_OK;
  kvc_allocator own;
  KVC_TRY(read_struct(allocator, &own));
  KVC_REQUIRE_POINTER(own.allocate);
  KVC_REQUIRE_POINTER(own.release);
  env->allocator_data = own.user_data;
  env->allocate = own.allocate;
  env->release = own.release;
  return KVC_OK;
}

kvc_status read_request_config(const Shape& shape, const kvc_request_config* config, size_t struct_size,
                               kvc_request_config* out) {
  *out = kvc_request_config{};
  out->struct_size = sizeof *out;
  if (config == nullptr) return KVC_OK;
  KVC_TRY(read_struct(config, struct_size, out));
  if ((out->flags & ~kRequestFlags) != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "request flags %#x are not supported; clear them, or update the library",
                out->flags & ~kRequestFlags);
  if (!shape.has_fills() && ((out->flags & kFillFlags) != 0 || out->wait_until_ns != 0)) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "request flags %#x, wait_until_ns %llu: the manager follows no fills; create it with "
                "KVC_MANAGER_FILLS, or leave them 0",
                out->flags & kFillFlags, ull(out->wait_until_ns));
  }
  if (out->reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_request_config.reserved is %u and must be 0", out->reserved);
  KVC_TRY(check_headroom(shape, out->headroom));
  if (out->cross_tokens != 0 && !shape.has_cross()) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "cross_tokens is %llu; the manager has no cross group: create it with one, or leave it 0",
                ull(out->cross_tokens));
  }
  if (kvc_extra_key key; out->cross_tokens == 0 && cross_key(*out, &key))
    return invalid("cross_digest is set and cross_tokens is 0; set the number of the encoder's tokens");
  const struct {
    const char* name;
    uint64_t value;
  } counts[] = {{"external_tokens", out->external_tokens},
                {"slots", out->slots},
                {"lookahead", out->lookahead},
                {"cross_tokens", out->cross_tokens}};
  for (const auto& count : counts) {
    if (count.value > shape.max_request_tokens) {
      return invalid("%s is %llu; at most max_request_tokens, %llu", count.name, ull(count.value),
                     ull(shape.max_request_tokens));
    }
  }
  return KVC_OK;
}

}  // namespace kvc

using namespace kvc;

extern "C" {

kvc_status kvc_manager_create(const kvc_manager_config* config, kvc_manager** manager) {
  return guarded([&] { return create_manager(config, default_env(), manager); });
}

void kvc_manager_destroy(kvc_manager* m) {
  if (m == nullptr) return;
  stop_recording(m);
  Manager::destroy(m->impl);
  release_manager(m);
}

}  // extern "C"
