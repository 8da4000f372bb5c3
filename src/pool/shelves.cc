// SPDX-License-Identifier: Apache-2.0
#include "pool/shelves.h"

namespace kvc {

void Shelves::set_policy(const Policy& policy, double weight, Division division) {
  policy_ = &policy;
  weight_ = weight;
  num_classes_ = division.classes;
  num_levels_ = division.levels;
  num_shelves_ = policy.num_shelves(weight);
  num_lists_ = num_classes_ * num_levels_ * num_shelves_;
}

bool Shelves::create(Memory& memory, Block* blocks, PoolState* pools, size_t num_pools, uint64_t num_ids) {
  blocks_ = blocks;
  pools_ = pools;
  num_ids_ = num_ids;
  num_pools_ = num_pools;
  const size_t num_classes = num_pools * num_classes_;
  if (!came_.create(memory, num_ids) || !filled_.create(memory, num_classes * num_levels_) ||
      !levels_.create(memory, num_classes * 2) || !recent_.create(memory, num_pools * num_lists_))
    return false;
  for (size_t i = 0; i < filled_.size(); ++i) filled_[i] = 0;
  for (size_t i = 0; i < levels_.size(); ++i) levels_[i] = 0;
  return true;
}

void Shelves::begin(size_t pool, BlockId first) {
  for (size_t list = 0; list < num_lists_; ++list) {
    const size_t index = sentinel(pool, list);
    blocks_[index].prev = blocks_[index].next = BlockId{static_cast<int32_t>(index)};
    RecentBlocks& recent = recent_[pool * num_lists_ + list];
    recent.count = 0;
    for (BlockId& block : recent.blocks) block = first;
  }
  clocks_[pool].now = 0;
}

void Shelves::resize(size_t pool, uint64_t size) {
  for (uint32_t shelf = 0; shelf < num_shelves_; ++shelf)
    clocks_[pool].bonus[shelf] = policy_->bonus(shelf, weight_, size);
}

void Shelves::link_into(BlockId id, Block& block, Place place) {
  link_last(blocks_, id, block, sentinel(block.pool, list_of(place)));
  mark(block.pool, place);
}

void Shelves::push(BlockId id, Place place) {
  Block& block = blocks_[raw(id)];
  link_into(id, block, place);
  block.list = List::kLru;
  note_skip(blocks_, recent_[block.pool * num_lists_ + list_of(place)], id, block);
  came_[static_cast<size_t>(raw(id))] = clocks_[block.pool].now++;
  ++pools_[block.pool].counts.lru;
}

void Shelves::reshelve(BlockId id, Place place) {
  Block& block = blocks_[raw(id)];
  unlink(blocks_, block);
  link_into(id, block, place);
}

void Shelves::renew(BlockId id, Place place) {
  reshelve(id, place);
  came_[static_cast<size_t>(raw(id))] = clocks_[blocks_[raw(id)].pool].now++;
}

BlockId Shelves::first_of_level(size_t pool, ClassIndex cls, uint32_t level, uint64_t* score) {
  BlockId best = kNoBlock;
  *score = UINT64_MAX;
  uint16_t& shelves = filled(pool, cls, level);
  for (uint32_t rest = shelves; rest != 0; rest &= rest - 1) {
    const auto shelf = static_cast<uint32_t>(__builtin_ctz(rest));
    const BlockId head = this->head(pool, list_of({cls, level, shelf}));
    if (at_end(head)) {
      shelves = static_cast<uint16_t>(shelves & ~(1u << shelf));
      continue;
    }
    const uint64_t head_score = came_[static_cast<size_t>(raw(head))] + clocks_[pool].bonus[shelf];
    if (head_score < *score) *score = head_score, best = head;
  }
  return best;
}

bool Shelves::lowest_level(size_t pool, ClassIndex cls, uint32_t* level) {
  const uint64_t* words = levels(pool, cls);
  if ((words[0] | words[1]) == 0) return false;
  *level = static_cast<uint32_t>(words[0] != 0 ? __builtin_ctzll(words[0]) : 64 + __builtin_ctzll(words[1]));
  return true;
}

BlockId Shelves::victim(size_t pool, uint64_t classes) {
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

}  // namespace kvc
