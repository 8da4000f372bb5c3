// SPDX-License-Identifier: Apache-2.0
// The configuration of a manager: read by struct_size, checked field by field, defaults filled in.
#include "api/shape.h"

#include <kvcache/record.h>

#include <algorithm>
#include <numeric>

#include "api/guard.h"

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

}  // namespace

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

}  // namespace kvc
