// SPDX-License-Identifier: Apache-2.0
// Compaction: contents of a pool's highest blocks go to its lowest free ones, and whatever names the blocks
// follows: lists, prefix positions, tables. Takes no memory, so that it cannot fail half way.
#include "manager/guard.h"

namespace kvc {

kvc_status Manager::compact(uint32_t pool, kvc_block_copy* moves, size_t capacity, size_t* count) {
  const Guard lock(*this);
  if (executing_ != nullptr) return fail(KVC_ERROR_BUSY, "another thread is in kvc_manager_step");
  if (assigned_ > retired_) {
    return fail(KVC_ERROR_BUSY, "step %llu is in flight; retire it first",
                static_cast<unsigned long long>(assigned_));
  }
  if (num_copies_ != 0) return fail(KVC_ERROR_BUSY, "%zu copies are waiting; take them first", num_copies_);
  if (zeroing_.count() != 0)
    return fail(KVC_ERROR_BUSY, "%zu blocks are to be cleared; take them first", zeroing_.count());
  free_stale(pool);

  const PoolCounts& counts = pool_.counts(pool);
  const auto id_of = [](uint64_t index) { return BlockId{static_cast<int32_t>(index)}; };
  const auto movable = [&](const Block& block) {
    return block.list == List::kLru || (block.refs != 0 && block.external == 0 && block.pins == 0);
  };
  uint64_t low = counts.first, high = counts.first + counts.size;  // what lies outside is done
  size_t num_moves = 0;
  while (num_moves < capacity) {
    while (low < high && pool_[id_of(low)].list != List::kFree) ++low;
    while (low < high && !movable(pool_[id_of(high - 1)])) --high;
    if (low >= high) break;
    const BlockId from = id_of(--high), to = id_of(low++);
    if (is_node(pool_[from].node)) tree_.move(from, to);
    pool_.move(from, to);
    if (zeroing_.on()) zeroing_.set_owner(to, zeroing_.owner(from));
    moves[num_moves++] = {raw(from), raw(to)};
  }
  if (num_moves != 0) follow_moves(pool);
  pool_.sort_free(pool);
  *count = num_moves;
  return KVC_OK;
}

// What a reset left in LRU is not worth moving.
void Manager::free_stale(uint32_t pool) {
  for (BlockId id = pool_.lru_head(pool); !pool_.at_end(id) && pool_.counts(pool).stale != 0;) {
    const BlockId next = pool_[id].next;
    if (tree_.stale(tree_[pool_[id].node])) {
      evict(id);
      pool_.remove(id);
      pool_.push_free(id);
    }
    id = next;
  }
}

// Table entries that name a free block name one whose content has just moved.
void Manager::follow_moves(uint32_t pool) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    Request& request = requests_.at(i);
    if (request.id == 0 || !request.admitted) continue;
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      if (shape_.groups[g].pool != pool) continue;
      GroupTable& table = request.groups[g];
      for (uint32_t j = request.positions; j-- > 0;) {
        BlockId& entry = table.blocks.data[j];
        if (!is_block(entry) || pool_[entry].list != List::kFree) continue;
        entry = pool_.moved_to(entry);
        if (table.synced > j) table.synced = j;
        request.close_lane();
      }
    }
  }
}

}  // namespace kvc
