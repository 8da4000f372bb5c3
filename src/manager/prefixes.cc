// SPDX-License-Identifier: Apache-2.0
// Prefixes without a request: what would hit, keeping it from eviction, dropping it, making room, taking back
// what was published by mistake.
#include "manager/guard.h"

namespace kvc {

// Reads in slices, so that a long prompt never keeps others waiting. Between two slices it
// holds nothing: otherwise a reader could decide whether a position stays known.
kvc_status Manager::probe(uint64_t namespace_id, const TokenSpan& tokens, kvc_probe_info* info) {
  LookupScratch scratch(*this, namespace_id, tokens);
  KVC_TRY(scratch.status());
  constexpr size_t kSlice = 256;
  const uint32_t groups = shape_.full_groups | shape_.window_groups;
  const uint32_t needed = shape_.num_groups == 1 ? shape_.full_groups : 0;
  const size_t limit =
      shape_.caches() && tokens.num_tokens != 0 ? (tokens.num_tokens - 1) / shape_.block_size : 0;
  PoolCounts counts[kMaxPools];

  size_t known = 0;
  PrefixTree::Reader reader;
  uint64_t epoch = 0;
  for (bool first = true, more = true; more; first = false) {
    const std::lock_guard lock(mutex_);
    if (!first) tree_.leave(reader);
    Prompt prompt;
    KVC_TRY(scratch.look(&prompt));
    if (prompt.epoch != epoch) reader.at = kNoNode;  // reset in between: what was seen is gone
    epoch = prompt.epoch;
    known = is_node(reader.at) ? tree_[reader.at].depth + 1 : 0;
    const size_t end = known + kSlice < limit ? known + kSlice : limit;
    const NodeId parent = is_node(reader.at) ? reader.at : root_of(prompt.ns);
    const size_t reached = tree_.walk(prompt, parent, known, end, needed, scratch.path());
    for (size_t i = known; i < reached; ++i) {
      const NodeId node = scratch.path()[i];
      scratch.residents()[i] = tree_[node].resident;
      uint32_t idle = 0;
      for (uint32_t g = 0; g < shape_.num_groups; ++g) {
        const BlockId block = tree_.block_of(node, g);
        if (is_block(block) && pool_[block].list == List::kLru) idle |= 1u << g;
      }
      scratch.idle()[i] = idle;
    }
    known = reached;
    more = reached == end && end < limit;
    if (more) {
      reader.at = scratch.path()[reached - 1];
      tree_.join(reader);
    }
    for (size_t p = 0; p < shape_.num_pools; ++p) counts[p] = pool_.counts(p);
  }

  const size_t length = longest_common(known, scratch.residents(), tokens, groups);
  const size_t before_cut = longest_common(known, scratch.residents(), TokenSpan{}, groups);
  uint64_t wanted[kMaxPools] = {};
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    uint64_t& pool = wanted[shape_.groups[g].pool];
    pool += positions_of(tokens.num_tokens) - length;
    for (size_t j = 0; j < length; ++j)
      pool += needs_position(g, j, length) && (scratch.idle()[j] >> g & 1) != 0;
  }
  size_t tightest = 0;
  for (size_t p = 1; p < shape_.num_pools; ++p) {
    const auto slack = [&](size_t q) {
      return static_cast<int64_t>(counts[q].available()) - static_cast<int64_t>(wanted[q]);
    };
    if (slack(p) < slack(tightest)) tightest = p;
  }
  info->num_cached = length * shape_.block_size;
  info->blocks_needed = wanted[tightest];
  info->blocks_available = counts[tightest].available();
  info->lost_reuse_tokens =
      uint64_t{lost_positions(known, before_cut, scratch.residents(), groups)} * shape_.block_size;
  return KVC_OK;
}

kvc_status Manager::pin_prefix(uint64_t namespace_id, const TokenSpan& tokens, uint64_t* id,
                               uint64_t* num_pinned) {
  LookupScratch scratch(*this, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(*this);
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  const size_t limit = shape_.caches() ? scratch.num_blocks() : 0;
  const size_t length = match(prompt, limit, shape_.full_groups | shape_.window_groups, 0, scratch.path(),
                              scratch.residents(), nullptr);
  if (length == 0)
    return fail(KVC_ERROR_NOT_FOUND, "no block of these %zu tokens is cached", tokens.num_tokens);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < length; ++j) {
      if (needs_position(g, j, length) && pool_[tree_.block_of(scratch.path()[j], g)].pins == UINT16_MAX) {
        return fail(KVC_ERROR_LIMIT, "position %zu of this prefix is pinned %d times; unpin some", j,
                    UINT16_MAX);
      }
    }
  }
  Pin* pin = pins_.take();
  if (pin == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %zu pins are in use; unpin some or raise max_requests", pins_.size());
  }
  if (!pin->blocks.reserve(arena_, length * shape_.num_groups, 0)) {
    pins_.give_back(*pin);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a pin of %zu blocks", length);
  }
  pin->ns = prompt.ns;
  pin->length = static_cast<uint32_t>(length);
  ++namespaces_[pin->ns].users;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < length; ++j) {
      BlockId block = kNoBlock;
      if (needs_position(g, j, length)) {
        block = tree_.block_of(scratch.path()[j], g);
        hit(block);
        pool_.add_pin(pool_[block]);
      }
      pin->blocks.data[g * length + j] = block;
    }
  }
  *id = pin->id;
  *num_pinned = length * shape_.block_size;
  return KVC_OK;
}

kvc_status Manager::unpin_prefix(uint64_t id) {
  const Guard lock(*this);
  Pin* pin = pins_.find(id);
  if (pin == nullptr) {
    return fail(KVC_ERROR_NOT_FOUND, "no pin %#llx: ended, or of another manager",
                static_cast<unsigned long long>(id));
  }
  for (const uint32_t kind : {shape_.window_groups, shape_.full_groups}) {
    for (size_t j = pin->length; j-- > 0;) {
      for (uint32_t groups = kind; groups != 0; groups &= groups - 1) {
        const BlockId block = pin->blocks.data[static_cast<size_t>(__builtin_ctz(groups)) * pin->length + j];
        if (is_block(block) && pool_.drop_pin(pool_[block])) place(block);
      }
    }
  }
  pin->blocks.clear(arena_);
  --namespaces_[pin->ns].users;
  pins_.give_back(*pin);
  return KVC_OK;
}

kvc_status Manager::drop_prefix(uint64_t namespace_id, const TokenSpan& tokens, uint64_t* num_dropped) {
  LookupScratch scratch(*this, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(*this);
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  const size_t known = tree_.walk(prompt, scratch.num_blocks(), 0, scratch.path());
  uint64_t dropped = 0;
  for (size_t j = known; j-- > 0;) {
    // A position that died with the one below it has no blocks left, and no node is made meanwhile.
    const NodeId node = scratch.path()[j];
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      BlockId block = tree_.block_of(node, g);
      if (is_block(block) && pool_[block].list != List::kLru) block = tree_.idle_copy(block);
      if (!is_block(block)) continue;
      --namespaces_.cached(tree_[node].ns, pool_[block].pool);
      pool_.remove(block);
      tree_.detach(block);
      pool_.push_free(block);
      ++dropped;
    }
  }
  *num_dropped = dropped;
  return KVC_OK;
}

kvc_status Manager::unpublish_blocks(const int32_t* blocks, size_t num_blocks, uint64_t* num_unpublished) {
  const Guard lock(*this);
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1 || pool_.exists(blocks[i])) continue;
    return fail(KVC_ERROR_INVALID_ARGUMENT, "entry %zu: no block %d; ids end at %llu", i, blocks[i],
                static_cast<unsigned long long>(pool_.num_ids() - 1));
  }
  uint64_t unpublished = 0;
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1) continue;
    const BlockId id{blocks[i]};
    const Block& block = pool_[id];
    if (!is_node(block.node) || tree_.stale(tree_[block.node])) continue;
    const bool idle = block.list == List::kLru;
    if (idle) {
      --namespaces_.cached(tree_[block.node].ns, block.pool);
      pool_.remove(id);
    }
    tree_.detach(id);
    if (idle) pool_.push_free(id);
    ++unpublished;
  }
  *num_unpublished = unpublished;
  return KVC_OK;
}

kvc_status Manager::evict_blocks(size_t max_blocks, size_t* num_evicted) {
  const Guard lock(*this);
  size_t evicted = 0;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    while (evicted < max_blocks && pool_.counts(p).lru != 0) {
      const BlockId victim = pool_.lru_head(p);
      const uint64_t before = counters_.evictions;
      evict(victim);
      pool_.remove(victim);
      pool_.push_free(victim);
      evicted += counters_.evictions - before;  // stale ones do not count
    }
  }
  *num_evicted = evicted;
  return KVC_OK;
}

}  // namespace kvc
