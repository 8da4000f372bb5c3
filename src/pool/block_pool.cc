// SPDX-License-Identifier: Apache-2.0
#include "pool/block_pool.h"

#include <algorithm>

namespace kvc {
namespace {

Block fresh(uint64_t id, size_t pool) {
  Block block = {};
  block.prev = block.next = kNoBlock;
  block.node = kNoNode;
  block.next_copy = BlockId{static_cast<int32_t>(id)};
  block.list = List::kFree;
  block.group = UINT8_MAX;
  block.pool = static_cast<uint8_t>(pool) & 0x7f;
  return block;
}

}  // namespace

bool BlockPool::create(Memory& memory, const uint64_t* pool_sizes, size_t num_pools, bool null_block,
                       const Policy& policy, double weight, Division division, const uint64_t* rooms) {
  if (rooms == nullptr) rooms = pool_sizes;
  policy_ = &policy;
  weight_ = weight;
  num_pools_ = num_pools;
  num_classes_ = division.classes;
  num_levels_ = division.levels;
  num_shelves_ = policy.num_shelves(weight);
  num_lists_ = num_classes_ * num_levels_ * num_shelves_;
  num_ids_ = 0;
  for (size_t p = 0; p < num_pools; ++p) num_ids_ += rooms[p];
  if (!blocks_.create(memory, num_ids_ + num_pools * (1 + num_lists_ + division.fills)) ||
      (division.fills && !filling_.create(memory, num_ids_))) {
    return false;
  }
  const size_t num_classes = num_pools * num_classes_;
  if (has_shelves() &&
      (!came_.create(memory, num_ids_) || !filled_.create(memory, num_classes * num_levels_) ||
       !levels_.create(memory, num_classes * 2) || !recent_.create(memory, num_pools * num_lists_))) {
    return false;
  }
  for (size_t i = 0; i < filled_.size(); ++i) filled_[i] = 0;
  for (size_t i = 0; i < levels_.size(); ++i) levels_[i] = 0;

  uint64_t first = 0;
  for (size_t p = 0; p < num_pools; ++p) {
    const auto begin_list = [&](size_t index) {
      const BlockId self{static_cast<int32_t>(index)};
      blocks_[index].prev = blocks_[index].next = self;
    };
    for (size_t list = 0; list < num_lists_; ++list) begin_list(list_sentinel(p, list));
    begin_list(sentinel(p, 1));
    if (fills()) begin_list(filling_sentinel(p));
    last_filling_[p] = kNoBlock;
    const uint64_t end = first + pool_sizes[p], end_of_room = first + rooms[p];
    if (p == 0 && null_block) blocks_[first++].node = kNoNode;
    pools_[p].counts = {};
    pools_[p].counts.first = first;
    pools_[p].counts.size = pools_[p].counts.free = end - first;
    pools_[p].counts.room = end_of_room - first;
    pools_[p].clock = 0;
    set_bonuses(pools_[p]);
    const auto begin_recent = [&](Recent& recent) {
      recent.count = 0;
      for (BlockId& block : recent.blocks) block = BlockId{static_cast<int32_t>(first)};
    };
    begin_recent(pools_[p].recent);
    for (size_t list = 0; has_shelves() && list < num_lists_; ++list)
      begin_recent(recent_[p * num_lists_ + list]);
    unopened_[p] = end - first;
    open(p);
    first = end_of_room;
  }
  return true;
}

void BlockPool::begin_filling(BlockId id, uint64_t step) {
  Block& block = (*this)[id];
  if (block.content == Content::kEmpty) --pools_[block.pool].counts.reserved;
  block.content = Content::kFilling;
  filling_[static_cast<size_t>(raw(id))] = static_cast<uint32_t>(step);
  ++num_filling_;
  link_filling(id);
}

// Behind those of earlier steps: nearly always at the end.
void BlockPool::link_filling(BlockId id) {
  Block& block = (*this)[id];
  const uint32_t step = filling_step(id);
  BlockId next{static_cast<int32_t>(filling_sentinel(block.pool))};
  BlockId& last = last_filling_[block.pool];  // many of one step come one after the other
  if (is_block(last) && last != id && is_filling(last) && (*this)[last].list == List::kHeld &&
      filling_step(last) == step)
    next = (*this)[last].next;
  last = id;
  for (;;) {
    const BlockId before = (*this)[next].prev;
    if (at_end(before) || static_cast<int32_t>(step - filling_step(before)) >= 0) break;
    next = before;
  }
  block.next = next;
  block.prev = (*this)[next].prev;
  (*this)[block.prev].next = id;
  (*this)[next].prev = id;
  ++pools_[block.pool].counts.filling;
}

void BlockPool::set_bonuses(Pool& pool) {
  for (uint32_t shelf = 0; shelf < num_shelves_; ++shelf)
    pool.bonus[shelf] = policy_->bonus(shelf, weight_, pool.counts.size);
}

void BlockPool::resize(size_t pool, uint64_t size) {
  PoolCounts& counts = pools_[pool].counts;
  const uint64_t opened = counts.size - unopened_[pool];
  unopened_[pool] = size > opened ? size - opened : 0;
  counts.free += size - counts.size;
  counts.size = size;
  set_bonuses(pools_[pool]);
}

void BlockPool::link_into(BlockId id, Block& block, Place place) {
  link_last(id, block, list_sentinel(block.pool, list_of(place)));
  filled(block.pool, place.cls, place.level) |= static_cast<uint16_t>(1u << place.shelf);
  levels(block.pool, place.cls)[place.level / 64] |= uint64_t{1} << place.level % 64;
}

void BlockPool::push_shelf(BlockId id, Place place) {
  Block& block = (*this)[id];
  Pool& pool = pools_[block.pool];
  link_into(id, block, place);
  block.list = List::kLru;
  note_skip(blocks_.data(), recent_[block.pool * num_lists_ + list_of(place)], id, block);
  came_[static_cast<size_t>(raw(id))] = pool.clock++;
  ++pool.counts.lru;
}

void BlockPool::reshelve(BlockId id, Place place) {
  Block& block = (*this)[id];
  unlink(block);
  link_into(id, block, place);
}

void BlockPool::renew(BlockId id, Place place) {
  reshelve(id, place);
  came_[static_cast<size_t>(raw(id))] = pools_[(*this)[id].pool].clock++;
}

bool BlockPool::put_back(BlockId id, BlockId before, Place place) {
  Block& block = (*this)[id];
  const BlockId end{static_cast<int32_t>(list_sentinel(block.pool, has_shelves() ? list_of(place) : 0))};
  if (!is_block(before)) before = end;
  const BlockId after = (*this)[before].next;
  if (has_shelves()) {
    const auto came = [&](BlockId other) { return came_[static_cast<size_t>(raw(other))]; };
    if (!at_end(before) && came(before) >= came(id)) return false;
    if (!at_end(after) && came(after) <= came(id)) return false;
    filled(block.pool, place.cls, place.level) |= static_cast<uint16_t>(1u << place.shelf);
    levels(block.pool, place.cls)[place.level / 64] |= uint64_t{1} << place.level % 64;
  }
  link_behind(id, block, before);
  block.list = List::kLru;
  block.fence = static_cast<uint32_t>(raw(id));  // nothing is known of what leaves next
  ++pools_[block.pool].counts.lru;
  return true;
}

bool BlockPool::put_back_fenced(BlockId id, BlockId before) {
  Block& block = (*this)[id];
  if (!is_block(before)) before = BlockId{static_cast<int32_t>(sentinel(block.pool, 1))};
  const BlockId after = (*this)[before].next;
  const auto fence = [&](BlockId other) { return uint64_t{(*this)[other].fence}; };
  if ((!at_end(before) && !fence_passed((*this)[before], fence(id))) ||
      (!at_end(after) && !fence_passed(block, fence(after))))
    return false;
  link_behind(id, block, before);
  block.list = List::kFenced;
  ++pools_[block.pool].counts.fenced;
  return true;
}

BlockId BlockPool::first_of_level(size_t pool, uint32_t cls, uint32_t level, uint64_t* score) {
  BlockId best = kNoBlock;
  *score = UINT64_MAX;
  uint16_t& shelves = filled(pool, cls, level);
  for (uint32_t rest = shelves; rest != 0; rest &= rest - 1) {
    const auto shelf = static_cast<uint32_t>(__builtin_ctz(rest));
    const BlockId head = lru_head(pool, list_of({cls, level, shelf}));
    if (at_end(head)) {
      shelves = static_cast<uint16_t>(shelves & ~(1u << shelf));
      continue;
    }
    const uint64_t head_score = came_[static_cast<size_t>(raw(head))] + pools_[pool].bonus[shelf];
    if (head_score < *score) *score = head_score, best = head;
  }
  return best;
}

bool BlockPool::lowest_level(size_t pool, uint32_t cls, uint32_t* level) {
  const uint64_t* words = levels(pool, cls);
  if ((words[0] | words[1]) == 0) return false;
  *level = static_cast<uint32_t>(words[0] != 0 ? __builtin_ctzll(words[0]) : 64 + __builtin_ctzll(words[1]));
  return true;
}

BlockId BlockPool::victim(size_t pool, uint64_t classes) {
  if (!has_shelves()) return lru_head(pool);
  BlockId best = kNoBlock;
  uint32_t best_level = kMaxLevels;
  uint64_t least = UINT64_MAX;
  for (; classes != 0; classes &= classes - 1) {
    const auto cls = static_cast<uint32_t>(__builtin_ctzll(classes));
    if (cls >= num_classes_) break;
    for (uint32_t level; lowest_level(pool, cls, &level) && level <= best_level;) {
      uint64_t score;
      const BlockId head = first_of_level(pool, cls, level, &score);
      if (!is_block(head)) {
        levels(pool, cls)[level / 64] &= ~(uint64_t{1} << level % 64);
        continue;
      }
      if (level < best_level || score < least) best = head, best_level = level, least = score;
      break;
    }
  }
  return best;
}

void BlockPool::take(BlockId id, uint8_t group) {
  Block& block = (*this)[id];
  remove(id);
  become_held(block, group);
  ++pools_[block.pool].counts.reserved;
}

// Writes the records of the next blocks, while FREE has no others.
void BlockPool::open(size_t pool) {
  Pool& p = pools_[pool];
  const uint64_t begin = first_unopened(pool), count = std::min(unopened_[pool], kOpenedAtOnce);
  p.free_top = kNoBlock;
  for (uint64_t i = begin + count; i-- > begin;) {
    blocks_[i] = fresh(i, pool);
    blocks_[i].next = p.free_top;
    p.free_top = BlockId{static_cast<int32_t>(i)};
  }
  unopened_[pool] -= count;
}

Block BlockPool::read(BlockId id) const {
  const auto index = static_cast<uint64_t>(raw(id));
  size_t pool = 0;
  while (index >= pools_[pool].counts.first + pools_[pool].counts.room) ++pool;
  return index < first_unopened(pool) ? (*this)[id] : fresh(index, pool);
}

void BlockPool::sort_free(size_t pool) {
  Pool& p = pools_[pool];
  p.free_top = kNoBlock;
  for (uint64_t i = first_unopened(pool); i-- > p.counts.first;) {
    if (blocks_[i].list != List::kFree) continue;
    blocks_[i].next = p.free_top;
    p.free_top = BlockId{static_cast<int32_t>(i)};
  }
}

}  // namespace kvc
