// SPDX-License-Identifier: Apache-2.0
// What a manager is made with: a kvc_manager_config after validation, defaults filled in. Immutable.
#pragma once
#include <kvcache/manager.h>

#include <algorithm>

#include "base/checked.h"
#include "base/ids.h"
#include "pool/shelves.h"

namespace kvc {

inline constexpr size_t kMaxGroups = 32;
inline constexpr size_t kMaxPools = 32;

// Exact division of 32-bit numbers by a constant known at creation: one multiplication.
class Divider {
 public:
  Divider() = default;
  explicit Divider(uint32_t divisor)
      : divisor_(divisor), factor_(divisor == 1 ? 0 : UINT64_MAX / divisor + 1) {}
  uint32_t divide(uint32_t n) const {
    return factor_ == 0 ? n : static_cast<uint32_t>(static_cast<unsigned __int128>(n) * factor_ >> 64);
  }
  uint32_t divide_up(uint32_t n) const { return divide(n + divisor_ - 1); }
  uint32_t remainder(uint32_t n) const { return n - divide(n) * divisor_; }

 private:
  uint32_t divisor_ = 1;
  uint64_t factor_ = 0;
};

struct GroupShape {
  uint32_t kind;
  PoolIndex pool;
  uint32_t sinks;      // positions that are never returned
  uint64_t window;     // tokens of a sliding window, 2 .. 2^32, or of a chunk, 1 .. 2^32
  uint64_t retention;  // tokens, at most 2^32; 0 = none
  uint64_t restarts;   // at its multiples a chunk and a block begin; UINT64_MAX without chunks
  // Whether the window behind the last full block stays: if the request ends now, the next one hits up to
  // there. Not a state, which is that of all tokens, nor what stays cached when it leaves the table.
  bool holds_end;

  bool windowed() const { return kind != KVC_GROUP_FULL && kind != KVC_GROUP_CROSS; }
  // Whether it is a window or a chunk, and no state.
  bool slides() const { return windowed() && kind != KVC_GROUP_STATE; }
  // First position that a query at token `tokens` still reads, if it reads any before its own.
  uint64_t window_start(uint64_t tokens, uint32_t block_size) const {
    if (tokens < window) return 0;
    return (kind == KVC_GROUP_CHUNKED_LOCAL ? tokens / window * window : tokens - window + 1) / block_size;
  }
  // Fewest tokens whose window starts at `position` or behind it.
  uint64_t window_passes(uint64_t position, uint32_t block_size) const {
    const uint64_t tokens = position * block_size;
    return kind == KVC_GROUP_CHUNKED_LOCAL ? ceil_div(tokens, window) * window : tokens + window - 1;
  }
};

// In what lists cached blocks wait.
struct ListKinds {
  uint32_t policy = 0, has_levels = 0;
  double policy_weight = 0;
  bool operator==(const ListKinds&) const = default;
};

struct Shape {
  uint32_t block_size;
  Divider by_block;
  uint32_t vocab_size;  // 0 = any non-negative
  uint32_t flags;
  uint32_t num_groups, num_pools;
  uint32_t num_token_groups;  // the first ones, whose tables follow the request's tokens; then cross groups
  uint32_t window_groups;     // bit per group
  uint32_t full_groups;
  uint32_t state_groups;  // windows too, of the last token
  uint32_t cross_groups;
  GroupShape groups[kMaxGroups];
  uint64_t pool_blocks[kMaxPools];  // at first, null block included
  uint64_t pool_room[kMaxPools];    // at most
  uint64_t max_cached[kMaxPools];   // checkpoints; UINT64_MAX = any number
  uint64_t num_blocks, num_ids;     // sums of them
  uint64_t max_nodes, max_requests, max_request_tokens, event_capacity, seed, watermark;
  uint32_t policy_number;  // KVC_POLICY_*
  const Policy* policy;
  double policy_weight;
  uint64_t policy_history;  // 0 if the policy does not count uses
  uint64_t near_tokens;     // that a hit may end before the end of a prompt, and still be likely
  // The division of the cached blocks (BlockPool).
  uint32_t num_classes, num_levels;

  uint32_t sliding_groups() const { return window_groups & ~state_groups; }
  uint32_t token_groups() const { return full_groups | window_groups; }
  // The groups that must all have a block of a position for it to be whole: those of encoders if one of them
  // is among `resident`, which have one; else those of tokens with full attention.
  uint32_t whole_groups(uint32_t resident) const {
    return (resident & cross_groups) != 0 ? cross_groups : full_groups;
  }
  bool has_cross() const { return cross_groups != 0; }
  Division division() const { return {num_classes, num_levels, has_fills()}; }
  uint64_t lists_per_pool() const {
    return uint64_t{num_classes} * num_levels * policy->num_shelves(policy_weight);
  }
  ListKinds list_kinds() const { return {policy_number, has_hints(), policy_weight}; }
  size_t positions_of(uint64_t tokens) const { return by_block.divide_up(static_cast<uint32_t>(tokens)); }
  // Positions that end within so many tokens; those within all tokens are without end.
  uint32_t positions_within(uint64_t tokens) const {
    return tokens >= UINT32_MAX ? UINT32_MAX : by_block.divide(static_cast<uint32_t>(tokens));
  }
  // Whether a block of a window or a chunk that leaves a table can serve a later hit at a boundary: the end
  // of the prompt's full blocks, or a multiple of the group's retention.
  bool serves_boundary(GroupIndex group, uint32_t prompt_len, size_t position) const {
    const GroupShape& shape = groups[group];
    const auto serves = [&](uint64_t boundary) {
      return position < boundary / block_size && position >= shape.window_start(boundary, block_size);
    };
    if (position < shape.sinks) return true;
    if (prompt_len != 0 && serves((prompt_len - 1) / block_size * block_size)) return true;
    return shape.retention != 0 &&
           serves(ceil_div((position + 1) * block_size, shape.retention) * shape.retention);
  }
  // The positions of [begin, end) that get a block of a group when a step that ends at `step_end` tokens gets
  // slots, perhaps behind a transfer: all, or a few and those from `first` on. Of states there are those at
  // the ends of the step and of the transfer; of windows the one that the transfer's end has, and the sinks.
  struct Taken {
    size_t few_begin, few_end;
    size_t first, end;
    size_t count() const { return few_end - few_begin + (end - first); }
  };
  Taken taken(GroupIndex group, size_t begin, size_t end, uint64_t step_end, uint64_t transfer_end) const {
    Taken out{begin, begin, begin, end};
    if (begin == end || !groups[group].windowed()) return out;
    if (groups[group].slides()) {
      if (transfer_end == 0) return out;
      out.first = std::clamp<size_t>(dropped_after(group, static_cast<uint32_t>(transfer_end)), begin, end);
      out.few_end = std::clamp<size_t>(groups[group].sinks, begin, out.first);
      return out;
    }
    const auto position_of = [&](uint64_t tokens) {
      return by_block.divide(static_cast<uint32_t>(tokens - 1));
    };
    if (step_end != 0) out.first = std::max<size_t>(begin, position_of(step_end));
    if (transfer_end == 0) return out;
    const size_t transferred = position_of(transfer_end);
    if (transferred >= begin && transferred < out.first)
      out.few_begin = transferred, out.few_end = transferred + 1;
    return out;
  }
  // First position that an admission takes over from a hit of so many tokens, sinks excepted: behind a
  // transfer no window that the transfer's end has left.
  uint32_t first_held(GroupIndex group, uint64_t cached, uint64_t transfer_end) const {
    const bool passed = transfer_end != 0 && groups[group].slides();
    return passed ? dropped_after(group, static_cast<uint32_t>(transfer_end)) : dropped_below(group, cached);
  }
  // Most blocks of a window group that a request holds at once while it grows by so many tokens a step.
  uint64_t most_held(GroupIndex group, uint64_t step) const {
    const GroupShape& shape = groups[group];
    return shape.sinks + ceil_div(shape.window - 1, block_size) + ceil_div(step - 1, block_size) + 1;
  }
  // The same of any token group when the request grows from `begin` positions, for which it holds `hits`, to
  // `end`.
  uint64_t most_held(GroupIndex group, uint64_t hits, size_t begin, size_t end, uint64_t step_end,
                     uint64_t transfer_end, uint64_t step) const {
    if (groups[group].kind == KVC_GROUP_STATE)  // the last step has the one before it
      return 1 + taken(group, begin, end, step_end, 0).count();
    const uint64_t all = hits + taken(group, begin, end, step_end, transfer_end).count();
    return groups[group].slides() ? std::min(all, most_held(group, step)) : all;
  }
  // Fewest blocks of a token group that a request holds once when it has slots for `tokens` tokens, however
  // small its steps are and whatever it hits: those that its last token reads; or, if it is transferred, what
  // the token after it reads.
  uint64_t fewest_held(GroupIndex group, uint64_t tokens, bool transferred) const {
    const size_t end = positions_of(tokens);
    if (!groups[group].windowed() || end == 0) return end;
    if (!groups[group].slides()) return 1;
    const size_t first = std::min<size_t>(dropped_below(group, transferred ? tokens : tokens - 1), end);
    return end - first + std::min<size_t>(groups[group].sinks, first);
  }
  // At least so many in a window group if a hit may move the end of the slots to any number of tokens of
  // [first, last], behind a transfer or not.
  uint64_t fewest_held_within(GroupIndex group, uint64_t first, uint64_t last, bool transferred) const {
    const GroupShape& shape = groups[group];
    const bool chunks = shape.kind == KVC_GROUP_CHUNKED_LOCAL;
    const uint64_t any = chunks ? (last > shape.window ? !transferred : UINT64_MAX)
                                : ceil_div(shape.window - transferred, block_size);
    return std::min<uint64_t>(positions_of(first), any);
  }
  // First position that a group still needs once there are `tokens` tokens, its sinks excepted.
  uint32_t dropped_below(GroupIndex group, uint64_t tokens) const {
    return groups[group].windowed() ? static_cast<uint32_t>(groups[group].window_start(tokens, block_size))
                                    : 0;
  }
  // The same for a request that has committed so many tokens.
  uint32_t dropped_after(GroupIndex group, uint32_t committed) const {
    return dropped_below(group,
                         groups[group].holds_end ? committed - by_block.remainder(committed) : committed);
  }
  // The fewest committed tokens after which a window group holds nothing before `position`.
  uint64_t commit_that_drops(GroupIndex group, uint64_t position) const {
    const uint64_t tokens = groups[group].window_passes(position, block_size);
    return groups[group].holds_end ? ceil_div(tokens, block_size) * block_size : tokens;
  }
  // Whether positions may be published without a block: only checkpoints of states have one, and a transfer
  // brings no window that its end has left.
  bool has_gaps() const { return full_groups == 0; }
  // One group, of full attention, and no feature that takes part when requests grow: for these usual.cc has a
  // shorter path.
  bool is_plain() const {
    return num_groups == 1 && full_groups == 1 && num_classes == 1 && !has_hints() && !has_fills();
  }
  bool has_hints() const { return num_levels != 1; }
  bool has_fills() const { return (flags & KVC_MANAGER_FILLS) != 0; }
  bool has_headroom() const { return (flags & KVC_MANAGER_HEADROOM) != 0; }
  bool reuses_heads() const { return (flags & KVC_MANAGER_PARTIAL_REUSE) != 0; }
  // The null block that a pool has.
  uint64_t null_blocks(size_t pool) const { return pool == 0 && (flags & KVC_MANAGER_NULL_BLOCK) != 0; }
  bool caches() const { return (flags & KVC_MANAGER_NO_PREFIX_CACHE) == 0; }
};

}  // namespace kvc
