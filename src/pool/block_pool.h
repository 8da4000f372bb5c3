// SPDX-License-Identifier: Apache-2.0
// The blocks of all pools: who holds each one, and in which list it waits. Of prefixes it knows only the
// opaque node that a block is attached to; whoever takes a block from the LRU list detaches it. Every
// operation is O(1). The LRU list may be divided (shelves.h), and so may the blocks that are held
// (filling.h). An undivided list may also get blocks at its beginning: they leave first.
//
// Records are written at creation where memory is touched then, others when their blocks are first needed.
// The last unopened_[p] blocks of pool p have none, or old ones: they are free, and behind all others of FREE
// in the order of their ids. A pool has `room` ids, of which the first `size` are blocks now.
//
// Invariants: a block is in FREE, LRU or FENCED exactly when nobody holds it (refs, external, pins are all
// 0). FREE blocks have no node; LRU blocks have one. FENCED is ordered by fence. `reserved` counts held
// blocks that are empty. Not thread-safe.
#pragma once
#include "base/memory.h"
#include "pool/filling.h"
#include "pool/shelves.h"

namespace kvc {

class BlockPool {
 public:
  // Pools follow each other in the id space, each with room for rooms[p] blocks (null: for its size); with
  // `null_block` id 0 belongs to nobody.
  [[nodiscard]] bool create(Memory& memory, const uint64_t* pool_sizes, size_t num_pools, bool null_block,
                            const Policy& policy = kLruPolicy, double weight = 0, Division division = {},
                            const uint64_t* rooms = nullptr);

  Block& operator[](BlockId id) { return blocks_[static_cast<size_t>(raw(id))]; }
  const Block& operator[](BlockId id) const { return blocks_[static_cast<size_t>(raw(id))]; }
  void prefetch(BlockId id) const { __builtin_prefetch(&blocks_[static_cast<size_t>(raw(id))], 1); }

  uint64_t num_ids() const { return num_ids_; }  // of blocks that there may be
  size_t num_pools() const { return num_pools_; }
  PoolCounts& counts(size_t pool) { return pools_[pool].counts; }
  const PoolCounts& counts(size_t pool) const { return pools_[pool].counts; }
  bool exists(int32_t id) const {
    for (size_t p = 0; p < num_pools_; ++p) {
      const PoolCounts& counts = pools_[p].counts;
      if (static_cast<uint64_t>(id) - counts.first < counts.size) return true;
    }
    return false;
  }

  BlockId free_top(size_t pool) const { return pools_[pool].free_top; }
  // From here to the pool's end no block was ever taken, and there are no records.
  uint64_t first_unopened(size_t pool) const { return end(pools_[pool]) - unopened_[pool]; }
  // The record of an id that exists, or what it would be.
  Block read(BlockId id) const;
  BlockId lru_head(size_t pool, size_t list = 0) const { return blocks_[lru_sentinel(pool, list)].next; }
  BlockId fenced_head(size_t pool) const { return blocks_[sentinel(pool, 1)].next; }
  bool at_end(BlockId id) const { return static_cast<uint64_t>(raw(id)) >= num_ids_; }  // a list's sentinel

  // Takes up to `count` blocks from the top of FREE, as held by one request of `group`. Returns how many.
  size_t pop_free(size_t of_pool, uint8_t group, size_t count, BlockId* out) {
    size_t taken = pop_listed(of_pool, group, count, out);
    while (taken != count && unopened_[of_pool] != 0) {
      open(of_pool, kOpenedAtOnce);
      taken += pop_listed(of_pool, group, count - taken, out + taken);
    }
    return taken;
  }
  void push_free(BlockId id) {
    Block& block = (*this)[id];
    PoolState& pool = pools_[block.pool];
    block.next = pool.free_top;
    block.list = List::kFree;
    block.content = Content::kEmpty;
    pool.free_top = id;
    ++pool.counts.free;
  }
  // A block comes to the cached ones; where, place() says if there are several lists.
  template <typename PlaceOf>
  void push_cached(BlockId id, PlaceOf&& place) {
    if (shelves_.on()) [[unlikely]]
      shelves_.push(id, place());
    else if ((*this)[id].leaves_first != 0)
      push_lru_first(id);
    else
      push_lru(id);
  }
  // The same for one that is cached, as if it came now.
  template <typename PlaceOf>
  void renew_cached(BlockId id, PlaceOf&& place) {
    (*this)[id].leaves_first = 0;
    if (shelves_.on()) [[unlikely]]
      return shelves_.renew(id, place());
    remove(id);
    push_lru(id);
  }
  void push_lru(BlockId id) { LruAppender(*this, (*this)[id].pool).append(id, (*this)[id]); }

  // To the beginning of a list that is not divided.
  void push_lru_first(BlockId id) {
    Block& block = (*this)[id];
    link_behind(blocks_.data(), id, block, BlockId{static_cast<int32_t>(sentinel(block.pool, 0))});
    block.list = List::kLru;
    block.fence = static_cast<uint32_t>(raw(id));  // nothing is known of what leaves next
    ++pools_[block.pool].counts.lru;
  }

  // The lists of cached blocks if there are several; then these replace push_lru, LruAppender and LruTaker.
  const Shelves& shelves() const { return shelves_; }
  Shelves& shelves() { return shelves_; }
  // The cached block of some classes that leaves first: of the lowest level, by the policy. kNoBlock: none.
  BlockId victim(size_t pool, uint64_t classes = Shelves::kAllClasses) {
    return shelves_.on() ? shelves_.victim(pool, classes) : lru_head(pool);
  }
  // Takes a block of LRU, already detached from its node, for a request of `group`.
  void take(BlockId id, uint8_t group);
  // Puts a block that was taken out of LRU by remove() back behind another one of its list, or to the list's
  // beginning (kNoBlock). False, and nothing is done, if its time is not between those of its neighbours.
  bool put_back(BlockId id, BlockId before, Place place);
  // The same in FENCED, with the fence that the block has.
  bool put_back_fenced(BlockId id, BlockId before);
  // Many blocks of one pool to the end of its LRU list; nothing else may touch that list meanwhile.
  class LruAppender {
   public:
    LruAppender(BlockPool& blocks, size_t pool)
        : base_(blocks.blocks_.data()),
          pool_(blocks.pools_[pool]),
          sentinel_{static_cast<int32_t>(blocks.sentinel(pool, 0))},
          last_(at(sentinel_).prev) {}
    LruAppender(const LruAppender&) = delete;
    LruAppender& operator=(const LruAppender&) = delete;
    ~LruAppender() {
      at(last_).next = sentinel_;
      at(sentinel_).prev = last_;
      pool_.counts.lru += count_;
    }
    void append(BlockId id, Block& block) {
      at(last_).next = id;
      block.prev = last_;
      last_ = id;
      block.list = List::kLru;
      note_skip(base_, pool_.recent, id, block);
      ++count_;
    }
    uint64_t count() const { return count_; }

   private:
    Block& at(BlockId id) { return base_[raw(id)]; }
    Block* const base_;
    PoolState& pool_;
    const BlockId sentinel_;
    BlockId last_;
    uint64_t count_ = 0;
  };
  // What will probably be evicted kSkip places after this LRU block.
  BlockId skip(const Block& block) const { return BlockId{static_cast<int32_t>(block.fence)}; }
  // Takes blocks off the old end of a pool's LRU list, each already detached from its node, for requests of
  // `group`; nothing else may touch that list meanwhile.
  class LruTaker {
   public:
    LruTaker(BlockPool& blocks, size_t pool, uint8_t group)
        : base_(blocks.blocks_.data()),
          pool_(blocks.pools_[pool]),
          sentinel_{static_cast<int32_t>(blocks.sentinel(pool, 0))},
          head_(at(sentinel_).next),
          group_(group) {}
    LruTaker(const LruTaker&) = delete;
    LruTaker& operator=(const LruTaker&) = delete;
    ~LruTaker() {
      at(sentinel_).next = head_;
      at(head_).prev = sentinel_;
      pool_.counts.lru -= count_;
      pool_.counts.reserved += count_;
    }
    BlockId head() const { return head_; }
    void take() {
      Block& block = at(head_);
      head_ = block.next;
      become_held(block, group_);
      ++count_;
    }

   private:
    Block& at(BlockId id) { return base_[raw(id)]; }
    Block* const base_;
    PoolState& pool_;
    const BlockId sentinel_;
    BlockId head_;
    const uint8_t group_;
    uint64_t count_ = 0;
  };
  // Takes blocks of one pool that are found again out of LRU.
  class LruLeaver {
   public:
    LruLeaver(BlockPool& blocks, size_t pool) : blocks_(blocks), pool_(blocks.pools_[pool]) {}
    LruLeaver(const LruLeaver&) = delete;
    LruLeaver& operator=(const LruLeaver&) = delete;
    ~LruLeaver() { pool_.counts.lru -= count_; }
    void take(Block& block) {
      unlink(blocks_.blocks_.data(), block);
      block.list = List::kHeld;
      block.leaves_first = 0;
      ++count_;
    }
    uint64_t count() const { return count_; }

   private:
    BlockPool& blocks_;
    PoolState& pool_;
    uint64_t count_ = 0;
  };
  void push_fenced(BlockId id, uint64_t step) {
    Block& block = (*this)[id];
    link_last(blocks_.data(), id, block, sentinel(block.pool, 1));
    block.list = List::kFenced;
    block.fence = static_cast<uint32_t>(step);
    ++pools_[block.pool].counts.fenced;
  }
  // Takes a block out of LRU or FENCED.
  void remove(BlockId id) {
    Block& block = (*this)[id];
    unlink(blocks_.data(), block);
    --(block.list == List::kLru ? pools_[block.pool].counts.lru : pools_[block.pool].counts.fenced);
    block.list = List::kHeld;
  }
  // `to`, a free block, takes the place of `from`, which is held or in LRU and becomes free. sort_free() puts
  // FREE in order again; until then moved_to(from) is `to`.
  void move(BlockId from, BlockId to) {
    Block& source = (*this)[from];
    Block& target = (*this)[to];
    target = source;
    if (source.next_copy == from) target.next_copy = to;
    if (source.list == List::kLru) (*this)[source.prev].next = (*this)[source.next].prev = to;
    if (shelves_.on()) shelves_.move(from, to);
    source.node = kNoNode;
    source.next_copy = from;
    source.refs = 0;
    source.content = Content::kEmpty;
    source.pins = 0;
    source.list = List::kFree;
    source.prev = to;
  }
  BlockId moved_to(BlockId id) const { return (*this)[id].prev; }
  // The lowest free block is taken first, as from a new pool.
  void sort_free(size_t pool);
  // The pool has `size` blocks from now on, at most its room. Those that leave are free; call sort_free()
  // then.
  void resize(size_t pool, uint64_t size);

  bool fence_passed(const Block& block, uint64_t retired) const {
    return static_cast<int32_t>(static_cast<uint32_t>(retired) - block.fence) >= 0;
  }

  // The holds below keep `reserved` and `pinned` right; the caller moves the block between lists.
  void mark_written(Block& block) {
    if (block.content == Content::kWritten) return;
    if (block.content == Content::kEmpty) {
      --pools_[block.pool].counts.reserved;
    } else {
      filling_.end(block);
    }
    block.content = Content::kWritten;
  }
  // A sole copy becomes published and written. Returns 1 if it was not written, for count_written().
  size_t publish(BlockId id, NodeId node) {
    Block& block = (*this)[id];
    block.node = node;
    block.next_copy = id;
    const size_t fresh = block.content == Content::kEmpty;
    if (block.content == Content::kFilling) [[unlikely]]
      filling_.end(block);
    block.content = Content::kWritten;
    return fresh;
  }
  void count_written(size_t pool, size_t count) { pools_[pool].counts.reserved -= count; }

  // Those that steps in flight write.
  const FillingBlocks& filling() const { return filling_; }
  FillingBlocks& filling() { return filling_; }
  bool is_filling(BlockId id) const { return (*this)[id].content == Content::kFilling; }

  void add_ref(Block& block) {
    if (block.refs++ == 0 && block.external == 0 && block.pins != 0) --pools_[block.pool].counts.pinned;
  }
  // True if that was the last hold.
  bool drop_ref(Block& block) {
    if (--block.refs != 0) return false;
    return dropped(block);
  }
  void add_external(Block& block) {
    if (block.external++ == 0 && block.refs == 0 && block.pins != 0) --pools_[block.pool].counts.pinned;
  }
  bool drop_external(Block& block) { return --block.external == 0 && block.refs == 0 && dropped(block); }
  void add_pin(Block& block) {
    if (block.pins++ == 0 && block.refs == 0 && block.external == 0) ++pools_[block.pool].counts.pinned;
  }
  bool drop_pin(Block& block) {
    if (--block.pins != 0 || block.refs != 0 || block.external != 0) return false;
    --pools_[block.pool].counts.pinned;
    return true;
  }

 private:
  static constexpr uint64_t kOpenedAtOnce = 512;

  // The sentinel of list 0 is that of LRU.
  size_t sentinel(size_t pool, size_t list) const { return num_ids_ + 2 * pool + list; }
  size_t lru_sentinel(size_t pool, size_t list) const {
    return list == 0 ? sentinel(pool, 0) : shelves_.sentinel(pool, list);
  }
  static uint64_t end(const PoolState& pool) { return pool.counts.first + pool.counts.size; }
  void open(size_t pool, uint64_t at_most);
  // Of the blocks that have records.
  size_t pop_listed(size_t of_pool, uint8_t group, size_t count, BlockId* out) {
    PoolState& pool = pools_[of_pool];
    Block* const base = blocks_.data();
    const uint64_t listed = pool.counts.free - unopened_[of_pool];
    const size_t taken = count < listed ? count : listed;
    BlockId top = pool.free_top;
    for (size_t i = 0; i < taken; ++i) {
      out[i] = top;
      Block& block = base[raw(top)];
      top = block.next;
      if (is_block(top)) prefetch(top);  // for the next call too
      become_held(block, group);
    }
    pool.free_top = top;
    pool.counts.free -= taken;
    pool.counts.reserved += taken;
    return taken;
  }
  static void become_held(Block& block, uint8_t group) {
    block.list = List::kHeld;
    block.refs = 1;
    block.group = group;
    block.leaves_first = 0;
    block.content = Content::kEmpty;
  }
  bool dropped(Block& block) {
    if (block.pins != 0) {
      if (block.external == 0) ++pools_[block.pool].counts.pinned;
      return false;
    }
    if (block.external != 0) return false;
    if (block.content == Content::kEmpty) --pools_[block.pool].counts.reserved;
    if (block.content == Content::kFilling) [[unlikely]] {  // it still is
      filling_.unlist(block);
    }
    return true;
  }
  Array<Block> blocks_;  // all ids, then two sentinels (LRU, FENCED) per pool, those of more lists, and one
                         // of those that are filling
  PoolState pools_[kMaxBlockPools] = {};
  uint64_t unopened_[kMaxBlockPools] = {};  // blocks at the end of a pool without records, counted as free
  uint64_t num_ids_ = 0;
  size_t num_pools_ = 0;
  Shelves shelves_;
  FillingBlocks filling_;
};

}  // namespace kvc
