// SPDX-License-Identifier: Apache-2.0
#include "manager/returns.h"

#include <algorithm>

namespace kvc {

bool Returns::has_windows(const Request& request, uint32_t tokens) const {
  for (const uint32_t g : bits_of(windows_)) {
    const size_t first = std::max(shape_.dropped_below(g, tokens), shape_.groups[g].sinks);
    if (first < request.groups[g].dropped && first < shape_.positions_of(tokens)) return false;
  }
  return true;
}

// How such a block is kept. Of a window or a chunk, what only hits need that end far before the prompt's end,
// and far before the end of this request's hit, or of what one group alone could have hit, leaves first.
Keep Returns::keep_of(const Request& request, GroupIndex group, size_t position) const {
  if (!serves_later(request, group, position)) return Keep::kNot;
  if ((windows_ >> group & 1) == 0 || position < shape_.groups[group].sinks) return Keep::kPublished;
  if (position >= first_near(group, request.prompt_len)) return Keep::kPublished;
  const uint64_t hit = own_hit(request);
  const bool near = position < hit / shape_.block_size && position >= first_near(group, hit);
  return near ? Keep::kPublished : Keep::kFirstOut;
}

void Returns::drop_windows(Request& request, uint32_t computed) {
  const bool of_old_epoch = stale(request);
  for (const uint32_t g : bits_of(shape_.window_groups)) {
    GroupTable& table = request.groups[g];
    const size_t end = shape_.dropped_after(g, computed);
    if (end <= table.dropped) continue;
    for (size_t j = std::max(table.dropped, shape_.groups[g].sinks); j < end; ++j) {
      const BlockId block = table.blocks.data[j];
      if (!is_block(block)) continue;
      table.blocks.data[j] = kNoBlock;
      blocks_.release(block, keep_of(request, g, j), request.ns, of_old_epoch);
    }
    table.dropped = static_cast<uint32_t>(end);
  }
}

// The next boundary below a position: where a later hit may end. 0 is the last.
size_t Returns::boundary_below(const Request& request, size_t position) const {
  const uint32_t block_size = shape_.block_size;
  size_t best = 0;
  const auto consider = [&](size_t boundary) {
    if (boundary < position && boundary > best) best = boundary;
  };
  consider(request.published);
  if (position > request.published) return best;  // what lies behind the published end is one segment
  if (request.prompt_len != 0) consider((request.prompt_len - 1) / block_size);
  for (size_t g = 0; g < shape_.num_token_groups; ++g) {
    const size_t step = shape_.groups[g].retention / block_size;
    if (step != 0 && position != 0) consider((position - 1) / step * step);
  }
  return best;
}

void Returns::release_windows(Request& request, uint32_t groups, const NearEnds* near, size_t begin,
                              size_t end, bool of_old_epoch) {
  const uint64_t published = request.published_tokens();
  for (size_t j = end; j-- > begin;) {
    for (const uint32_t g : bits_of(groups)) {
      const BlockId block = request.groups[g].blocks.data[j];
      if (!is_block(block)) {
        renew_window(request, near[g], g, j);
        continue;
      }
      const bool serves_end =
          j < request.published && j >= shape_.groups[g].window_start(published, shape_.block_size);
      const bool serves = serves_end || serves_later(request, g, j);
      blocks_.release(block, serves ? Keep::kPublished : Keep::kNot, request.ns, of_old_epoch);
    }
  }
}

void Returns::release_full(Request& request, size_t begin, size_t end, bool of_old_epoch) {
  if (!of_old_epoch && (full_ & (full_ - 1)) == 0 && full_ != 0) {
    const uint32_t g = first_bit(full_);
    blocks_.release_run(g, request.groups[g].blocks.data, begin, end, request.ns);
    return;
  }
  for (size_t j = end; j-- > begin;) {
    for (const uint32_t g : bits_of(full_))
      blocks_.release(request.groups[g].blocks.data[j], Keep::kPublished, request.ns, of_old_epoch);
  }
}

// States leave last: the keys and values that a hit of one needs may be held by others, and a state that goes
// before them takes the hit away all the same.
void Returns::release(Request& request) {
  const bool of_old_epoch = stale(request);
  if (shape_.window_groups == 0) return release_full(request, 0, request.positions, of_old_epoch);
  NearEnds near[kMaxGroups];
  for (const uint32_t g : bits_of(of_old_epoch || full_ == 0 ? 0 : windows_)) {
    const uint64_t hit = own_hit(request);
    near[g] = {first_near(g, request.prompt_len), first_near(g, hit), hit / shape_.block_size};
  }
  for (size_t end = request.positions; end != 0;) {
    const size_t begin = windows_ == 0 ? 0 : boundary_below(request, end);
    release_windows(request, windows_, near, begin, end, of_old_epoch);
    release_full(request, begin, end, of_old_epoch);
    end = begin;
  }
  release_windows(request, shape_.window_groups & ~windows_, near, 0, request.positions, of_old_epoch);
}

void Returns::cut(Request& request, uint64_t tokens, size_t kept) {
  const bool of_old_epoch = stale(request);
  for (size_t j = request.positions; j-- > kept;) {
    const bool others = j < request.own_from || !blocks_.positions.is_alone(request.groups, j);
    const Keep keep = others ? Keep::kPublished : Keep::kNot;
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[j];
      if (is_block(block)) blocks_.release(block, keep, request.ns, of_old_epoch);
    }
  }
  copies_.drop_released();
  const auto positions = static_cast<uint32_t>(kept);  // fewer than the tokens have, if a state is not there
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    request.groups[g].cut(positions, std::min(positions, shape_.dropped_below(g, tokens)));
  }
}

// What a group has returned lies between its sinks and its window: a possible length ends in the sinks, its
// window begins behind what is gone, or a chunk begins there. There is always a higher one, the committed
// length. The lower one may be 0.
Restorable Returns::restorable(const Request& request, uint64_t tokens) const {
  Restorable near{tokens, tokens}, before;
  do {
    before = near;
    for (const uint32_t g : bits_of(windows_)) {
      const GroupShape& shape = shape_.groups[g];
      const uint64_t dropped = request.groups[g].dropped;
      if (dropped <= shape.sinks) continue;
      const uint64_t sinks_end = uint64_t{shape.sinks} * shape_.block_size;
      const uint64_t window_begin = shape.window_passes(dropped, shape_.block_size);
      const auto is_gone = [&](uint64_t n) { return n > sinks_end && n < window_begin; };
      if (is_gone(near.lower)) near.lower = std::max(sinks_end, near.lower / shape.restarts * shape.restarts);
      if (is_gone(near.higher))
        near.higher = std::min(window_begin, ceil_div(near.higher, shape.restarts) * shape.restarts);
    }
    features_.each([&](const auto& feature) { feature.restrict(request, &near); });
  } while (near.lower != before.lower || near.higher != before.higher);
  return near;
}

}  // namespace kvc
