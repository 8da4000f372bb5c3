// SPDX-License-Identifier: Apache-2.0
#include "offload/lookups.h"

#include <algorithm>

#include "base/position_digest.h"
#include "base/status.h"

namespace kvc {

kvc_status Lookups::create(Memory& memory, const Shape& shape, size_t lookups, size_t most_blocks) {
  shape_ = &shape;
  const size_t groups = num_groups();
  // No hit is longer than there are nodes.
  max_positions_ = static_cast<size_t>(std::min<uint64_t>(shape.max_request_tokens / shape.block_size,
                                                          uint64_t{shape.max_nodes} + most_blocks));
  pages_per_lookup_ = std::min(most_blocks, std::max<size_t>(max_positions_, 1)) * groups;
  size_t tokens, blocks, pages;
  if (!checked_mul(max_positions_ * shape.block_size, lookups, &tokens) ||
      !checked_mul(max_positions_ * groups, lookups, &blocks) ||
      !checked_mul(pages_per_lookup_, lookups, &pages) || !lookups_.create(memory, lookups) ||
      !pages_.create(memory, pages) || !keys_.create(memory, pages) || !items_.create(memory, pages) ||
      !blocks_.create(memory, blocks) || !tokens_.create(memory, tokens) ||
      !extra_keys_.create(memory, lookups * kMaxKeys) || !plain_keys_.create(memory, kMaxKeys))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu lookups of %zu blocks", lookups, most_blocks);
  return KVC_OK;
}

Lookup* Lookups::find(uint64_t request) {
  for (size_t i = 0; i < lookups_.size(); ++i) {
    Lookup& lookup = lookups_[i];
    if (lookup.request == request && lookup.state != LookupState::kFree &&
        lookup.state != LookupState::kEnding)
      return &lookup;
  }
  return nullptr;
}

Lookup* Lookups::begin(uint64_t request) {
  size_t i = 0;
  while (i < lookups_.size() && lookups_[i].state != LookupState::kFree) ++i;
  if (i == lookups_.size()) return nullptr;
  Lookup& lookup = lookups_[i];
  lookup = {};
  lookup.request = request;
  lookup.prompt.tokens = tokens_.data() + i * max_positions_ * shape_->block_size;
  lookup.prompt.token_capacity = max_positions_ * shape_->block_size;
  lookup.prompt.keys = extra_keys_.data() + i * kMaxKeys;
  lookup.prompt.key_capacity = kMaxKeys;
  return &lookup;
}

size_t Lookups::num_active() const {
  size_t active = 0;
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const LookupState state = lookups_[i].state;
    active +=
        state == LookupState::kAsking || state == LookupState::kFollowing || state == LookupState::kLoading;
  }
  return active;
}

size_t Lookups::num_busy() const {
  size_t busy = 0;
  for (size_t i = 0; i < lookups_.size(); ++i) busy += lookups_[i].state != LookupState::kFree;
  return busy;
}

kvc_prompt Lookups::prompt_of(const Lookup& lookup, size_t positions) const {
  kvc_prompt out = {};
  out.struct_size = sizeof out;
  out.namespace_id = lookup.prompt.namespace_id;
  out.tokens = lookup.prompt.tokens;
  out.num_tokens = positions * shape_->block_size;
  out.keys = plain_keys_.data();
  const ExtraKey* const keys = lookup.prompt.keys;
  for (; out.num_keys < lookup.prompt.num_keys && keys[out.num_keys].first_token < out.num_tokens;
       ++out.num_keys)
    plain_keys_[out.num_keys] = keys[out.num_keys].plain();
  return out;
}

bool Lookups::needed(size_t group, size_t position, size_t end) const {
  const GroupShape& shape = shape_->groups[group];
  const uint32_t block_size = shape_->block_size;
  return !shape.windowed() || position < shape.sinks ||
         position >= shape.window_start(end * block_size, block_size);
}

Digest256 Lookups::hash(const Lookup& lookup, const OffloadGroup* groups, size_t begin, size_t end,
                        Digest256 at) {
  if (begin == end) return at;
  const uint32_t block_size = shape_->block_size;
  const OffloadView::Prompt& prompt = lookup.prompt;
  PositionDigests digests(block_size, prompt.tokens + begin * block_size);
  for (size_t p = begin; p < end; ++p) {
    const ExtraView extra({prompt.keys, prompt.num_keys}, p * block_size, block_size);
    at = digests.next(at, extra.digest(), p + 1 == end ? nullptr : prompt.tokens + (p + 1) * block_size);
    if (p < lookup.first) continue;
    for (uint32_t g = 0; g < num_groups(); ++g) {
      const size_t page = (p - lookup.first) * num_groups() + g;
      keys_of(lookup)[page] = page_key(at, groups[g].salt);
      pages_of(lookup)[page] = {0, -1, LookupPage::kNoTier, PageState::kUnknown, 0};
    }
  }
  return at;
}

size_t Lookups::first_hole(const Lookup& lookup, size_t end, PageState state) {
  const LookupPage* page = pages_of(lookup);
  for (size_t p = lookup.first; p < end; ++p) {
    for (size_t g = 0; g < num_groups(); ++g, ++page)
      if (!shape_->groups[g].windowed() && page->state != state) return p;
  }
  return end;
}

size_t Lookups::longest(const Lookup& lookup, size_t end, PageState state) {
  const uint32_t block_size = shape_->block_size;
  const LookupPage* const pages = pages_of(lookup);
  const auto is_there = [&](size_t p, size_t g) {
    return pages[(p - lookup.first) * num_groups() + g].state == state;
  };
  for (size_t length = first_hole(lookup, end, state); length > lookup.first; --length) {
    const uint64_t tokens = length * block_size;
    if (cut_at_spans({lookup.prompt.keys, lookup.prompt.num_keys}, tokens, block_size) != tokens) continue;
    bool all = true;
    for (size_t g = 0; g < num_groups() && all; ++g) {
      const GroupShape& group = shape_->groups[g];
      if (!group.windowed()) continue;
      const auto are_there = [&](size_t begin, size_t stop) {
        for (size_t p = std::max(begin, lookup.first); p < stop; ++p)
          if (!is_there(p, g)) return false;
        return true;
      };
      all = are_there(0, std::min<size_t>(group.sinks, length)) &&
            are_there(group.window_start(length * block_size, block_size), length);
    }
    if (all) return length;
  }
  return lookup.first;
}

}  // namespace kvc
