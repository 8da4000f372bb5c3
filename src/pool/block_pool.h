// SPDX-License-Identifier: Apache-2.0
// The blocks of all pools: who holds each one, and in which list it waits. Of prefixes it knows only the
// opaque node that a block is attached to; whoever takes a block from the LRU list detaches it. Every
// operation is O(1). The LRU list may be divided: into classes, of which a taker may evict from some only;
// each class into levels, the lowest of which leaves first; each level into the shelves of the policy
// (policy.h). Each of these lists is ordered by the time at which its blocks came, except that reshelve()
// keeps a block's time. An undivided list may also get blocks at its beginning: they leave first.
//
// Records are written when their blocks are first needed. The last unopened_[p] blocks of pool p have none,
// or old ones: they are free, and behind all others of FREE in the order of their ids. A pool has `room` ids,
// of which the first `size` are blocks now.
//
// Blocks that are filling are empty until the step that writes them is over. While they are held they are in
// a list of their own, ordered by step; FENCED ones become written when they leave FENCED.
//
// Invariants: a block is in FREE, LRU or FENCED exactly when nobody holds it (refs, external, pins are all
// 0). FREE blocks have no node; LRU blocks have one. FENCED is ordered by fence. `reserved` counts held
// blocks that are empty. Not thread-safe.
#pragma once
#include <algorithm>

#include "base/ids.h"
#include "base/memory.h"
#include "pool/policy.h"

namespace kvc {

enum class List : uint8_t { kHeld, kFree, kLru, kFenced };

// What a held or cached block has: no committed token yet; some; or a step in flight writes all of it.
enum class Content : uint8_t { kEmpty, kWritten, kFilling };

// Where a cached block waits, and how many classes and levels there are.
struct Place {
  uint32_t cls, level, shelf;
};
struct Division {
  uint32_t classes = 1, levels = 1;
  bool fills = false;  // whether blocks may be filling
};

struct Block {
  BlockId prev, next;  // neighbours in a list; FREE uses next alone; of held blocks those that are filling
  NodeId node;         // prefix position, or kNoNode
  BlockId next_copy;   // ring of the copies of one position in one group; itself if it is the only one
  uint32_t refs;       // requests, pending copy sources included
  uint16_t external, pins;  // other holds
  uint32_t fence;  // while FENCED, or held: low bits of the step that may still write it; while LRU: a block
                   // that stood kSkip places behind when it came (a hint of what to fetch, perhaps outdated)
  List list;
  uint8_t group;
  uint8_t pool : 7;
  uint8_t leaves_first : 1;  // in FENCED and LRU: it comes, or came, to the beginning of an undivided list
  Content content;

  bool held() const { return (refs | external | pins) != 0; }
  // Whether somebody besides one request holds it.
  bool shared() const { return refs > 1 || external != 0 || pins != 0; }
};
static_assert(sizeof(Block) == 32);

struct PoolCounts {
  uint64_t first, size;        // ids [first, first + size), a null block excluded
  uint64_t room;               // size may become so large
  uint64_t free, lru, fenced;  // list lengths
  uint64_t stale;              // of lru: left behind by a reset, as good as free
  uint64_t reserved, pinned;   // held blocks that are empty; held by pins alone
  uint64_t filling;            // held blocks that a step in flight writes
  uint64_t held() const { return size - free - lru - fenced; }
  uint64_t available() const { return free + lru; }
};

class BlockPool {
  static constexpr uint32_t kSkip = 32;
  struct Recent {  // the last blocks that came to a list
    BlockId blocks[kSkip];
    uint32_t count;
  };
  struct Pool {
    PoolCounts counts;
    BlockId free_top;
    Recent recent;   // without shelves
    uint64_t clock;  // blocks that came to the shelves; at 10^9 a second it lasts for centuries
    uint64_t bonus[Policy::kMaxShelves];
  };

 public:
  static constexpr uint32_t kMaxClasses = 64, kMaxLevels = 128;
  static constexpr uint64_t kAllClasses = ~uint64_t{0};
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
  BlockId lru_head(size_t pool, size_t list = 0) const { return blocks_[list_sentinel(pool, list)].next; }
  BlockId fenced_head(size_t pool) const { return blocks_[sentinel(pool, 1)].next; }
  bool at_end(BlockId id) const { return static_cast<uint64_t>(raw(id)) >= num_ids_; }  // a list's sentinel

  // Takes up to `count` blocks from the top of FREE, as held by one request of `group`. Returns how many.
  size_t pop_free(size_t of_pool, uint8_t group, size_t count, BlockId* out) {
    size_t taken = pop_listed(of_pool, group, count, out);
    while (taken != count && unopened_[of_pool] != 0) {
      open(of_pool);
      taken += pop_listed(of_pool, group, count - taken, out + taken);
    }
    return taken;
  }
  void push_free(BlockId id) {
    Block& block = (*this)[id];
    Pool& pool = pools_[block.pool];
    block.next = pool.free_top;
    block.list = List::kFree;
    block.content = Content::kEmpty;
    pool.free_top = id;
    ++pool.counts.free;
  }
  void push_lru(BlockId id) { LruAppender(*this, (*this)[id].pool).append(id, (*this)[id]); }

  // To the beginning of a list that is not divided.
  void push_lru_first(BlockId id) {
    Block& block = (*this)[id];
    link_behind(id, block, BlockId{static_cast<int32_t>(sentinel(block.pool, 0))});
    block.list = List::kLru;
    block.fence = static_cast<uint32_t>(raw(id));  // nothing is known of what leaves next
    ++pools_[block.pool].counts.lru;
  }

  // With several lists these replace push_lru, LruAppender and LruTaker.
  uint32_t num_lists() const { return num_lists_; }
  uint32_t num_shelves() const { return num_shelves_; }
  bool has_shelves() const { return num_lists_ != 1; }
  size_t list_of(Place place) const {
    return (size_t{place.cls} * num_levels_ + place.level) * num_shelves_ + place.shelf;
  }
  Place place_of(size_t list) const {
    return {static_cast<uint32_t>(list / num_shelves_ / num_levels_),
            static_cast<uint32_t>(list / num_shelves_ % num_levels_),
            static_cast<uint32_t>(list % num_shelves_)};
  }
  void push_shelf(BlockId id, Place place);
  // Moves a block to the end of another list. The time at which it came stays; renew() makes it the present.
  void reshelve(BlockId id, Place place);
  void renew(BlockId id, Place place);
  // The cached block of some classes that leaves first: of the lowest level, by the policy. kNoBlock: none.
  BlockId victim(size_t pool, uint64_t classes = kAllClasses);
  // The first block of the lists of these classes that `wanted` accepts, or kNoBlock.
  template <typename Wanted>
  BlockId find_head(size_t pool, uint64_t classes, Wanted&& wanted) {
    for (; classes != 0; classes &= classes - 1) {
      const auto cls = static_cast<uint32_t>(__builtin_ctzll(classes));
      if (cls >= num_classes_) break;
      for (uint32_t word = 0; word < 2; ++word) {
        for (uint64_t rest = levels(pool, cls)[word]; rest != 0; rest &= rest - 1) {
          const uint32_t level = word * 64 + static_cast<uint32_t>(__builtin_ctzll(rest));
          for (uint32_t shelves = filled(pool, cls, level); shelves != 0; shelves &= shelves - 1) {
            const auto shelf = static_cast<uint32_t>(__builtin_ctz(shelves));
            const BlockId head = lru_head(pool, list_of({cls, level, shelf}));
            if (!at_end(head) && wanted(head)) return head;
          }
        }
      }
    }
    return kNoBlock;
  }
  // Takes a block of LRU, already detached from its node, for a request of `group`.
  void take(BlockId id, uint8_t group);
  // Puts a block that was taken out of LRU by remove() back behind another one of its list, or to the list's
  // beginning (kNoBlock). False, and nothing is done, if its time is not between those of its neighbours.
  bool put_back(BlockId id, BlockId before, Place place);
  // The same in FENCED, with the fence that the block has.
  bool put_back_fenced(BlockId id, BlockId before);
  // With several lists: at least so many blocks have come to a pool's lists, which are empty. Then so many
  // have come since a block did.
  void begin_clock(size_t pool, uint64_t clock) { pools_[pool].clock = std::max(pools_[pool].clock, clock); }
  void set_age(BlockId id, uint64_t age) {
    came_[static_cast<size_t>(raw(id))] = pools_[(*this)[id].pool].clock - age;
  }
  // Blocks that came to the shelves of its pool since this one did, itself included.
  uint64_t age(BlockId id) const {
    return pools_[(*this)[id].pool].clock - came_[static_cast<size_t>(raw(id))];
  }

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
    Pool& pool_;
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
    Pool& pool_;
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
      blocks_.unlink(block);
      block.list = List::kHeld;
      block.leaves_first = 0;
      ++count_;
    }
    uint64_t count() const { return count_; }

   private:
    BlockPool& blocks_;
    Pool& pool_;
    uint64_t count_ = 0;
  };
  void push_fenced(BlockId id, uint64_t step) {
    Block& block = (*this)[id];
    link_last(id, block, sentinel(block.pool, 1));
    block.list = List::kFenced;
    block.fence = static_cast<uint32_t>(step);
    ++pools_[block.pool].counts.fenced;
  }
  // Takes a block out of LRU or FENCED.
  void remove(BlockId id) {
    Block& block = (*this)[id];
    unlink(block);
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
    if (has_shelves()) came_[static_cast<size_t>(raw(to))] = came_[static_cast<size_t>(raw(from))];
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
      end_filling(block);
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
      end_filling(block);
    block.content = Content::kWritten;
    return fresh;
  }
  void count_written(size_t pool, size_t count) { pools_[pool].counts.reserved -= count; }

  // Blocks that steps in flight write. The pools were made for them.
  bool fills() const { return filling_.size() != 0; }
  // All that are filling, held or FENCED.
  uint64_t num_filling() const { return num_filling_; }
  bool is_filling(BlockId id) const { return (*this)[id].content == Content::kFilling; }
  uint32_t filling_step(BlockId id) const { return filling_[static_cast<size_t>(raw(id))]; }
  // Step `step` will write all of a held block.
  void begin_filling(BlockId id, uint64_t step);
  // Whether the steps up to `retired` have written a block that is filling: it may wait in FENCED for others.
  bool filled(BlockId id, uint64_t retired) const {
    return static_cast<int32_t>(static_cast<uint32_t>(retired) - filling_step(id)) >= 0;
  }
  // A block that is filling is held again, after it was taken out of FENCED.
  void resume_filling(BlockId id, uint64_t retired) {
    if (filled(id, retired)) return end_released_filling((*this)[id], Content::kWritten);
    link_filling(id);
  }
  // A block that is filling, and that nobody holds, is written now, or never will be.
  void end_released_filling(Block& block, Content content) {
    --num_filling_;
    block.content = content;
  }
  // The held blocks that the steps up to `retired` have written are no longer filling.
  void retire_filling(size_t pool, uint64_t retired) {
    while (pools_[pool].counts.filling != 0) {
      const BlockId id = filling_head(pool);
      if (!filled(id, retired)) return;
      mark_written((*this)[id]);
    }
  }
  // A held block that is filling will not be written.
  void fail_filling(BlockId id) {
    Block& block = (*this)[id];
    end_filling(block);
    block.content = Content::kEmpty;
    ++pools_[block.pool].counts.reserved;
  }
  BlockId filling_head(size_t pool) const { return blocks_[filling_sentinel(pool)].next; }

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
  static constexpr size_t kMaxPools = 32;
  static constexpr uint64_t kOpenedAtOnce = 512;

  // The sentinel of list 0 is that of LRU.
  size_t sentinel(size_t pool, size_t list) const { return num_ids_ + 2 * pool + list; }
  size_t filling_sentinel(size_t pool) const { return num_ids_ + (1 + num_lists_) * num_pools_ + pool; }
  void link_filling(BlockId id);
  void end_filling(Block& block) {
    unlink(block);
    --pools_[block.pool].counts.filling;
    --num_filling_;
  }
  size_t list_sentinel(size_t pool, size_t list) const {
    return list == 0 ? sentinel(pool, 0) : num_ids_ + 2 * num_pools_ + pool * (num_lists_ - 1) + list - 1;
  }
  // A bit for each shelf of a level, and for each level of a class, that may have blocks: set when one comes,
  // cleared by victim() when it finds none.
  uint16_t& filled(size_t pool, uint32_t cls, uint32_t level) {
    return filled_[(pool * num_classes_ + cls) * num_levels_ + level];
  }
  uint64_t* levels(size_t pool, uint32_t cls) { return &levels_[(pool * num_classes_ + cls) * 2]; }
  void link_into(BlockId id, Block& block, Place place);
  static void note_skip(Block* base, Recent& recent, BlockId id, Block& block) {
    block.fence = static_cast<uint32_t>(raw(id));
    BlockId& oldest = recent.blocks[recent.count++ % kSkip];
    if (Block& before = base[raw(oldest)]; before.list == List::kLru) before.fence = block.fence;
    oldest = id;
  }
  bool lowest_level(size_t pool, uint32_t cls, uint32_t* level);
  BlockId first_of_level(size_t pool, uint32_t cls, uint32_t level, uint64_t* score);
  static uint64_t end(const Pool& pool) { return pool.counts.first + pool.counts.size; }
  void set_bonuses(Pool& pool);
  void open(size_t pool);
  // Of the blocks that have records.
  size_t pop_listed(size_t of_pool, uint8_t group, size_t count, BlockId* out) {
    Pool& pool = pools_[of_pool];
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
      unlink(block);
      --pools_[block.pool].counts.filling;
    }
    return true;
  }
  void link_last(BlockId id, Block& block, size_t sentinel_index) {
    Block& end = blocks_[sentinel_index];
    block.prev = end.prev;
    block.next = BlockId{static_cast<int32_t>(sentinel_index)};
    (*this)[end.prev].next = id;
    end.prev = id;
  }
  void link_behind(BlockId id, Block& block, BlockId before) {
    block.prev = before;
    block.next = (*this)[before].next;
    (*this)[block.next].prev = id;
    (*this)[before].next = id;
  }
  void unlink(const Block& block) {
    (*this)[block.prev].next = block.next;
    (*this)[block.next].prev = block.prev;
  }

  Array<Block> blocks_;  // all ids, then two sentinels (LRU, FENCED) per pool, those of more lists, and one
                         // of those that are filling
  Array<uint32_t> filling_;  // low bits of the step that writes a block that is filling
  Array<uint64_t> came_;     // the pool's clock when a block came to a shelf; with several lists, as the next
  Array<uint16_t> filled_;   // [pools][classes][levels]
  Array<uint64_t> levels_;   // [pools][classes][2]
  Array<Recent> recent_;     // [pools][lists]
  Pool pools_[kMaxPools] = {};
  uint64_t unopened_[kMaxPools] = {};  // blocks at the end of a pool without records, counted as free
  uint64_t num_ids_ = 0;
  uint64_t num_filling_ = 0;
  BlockId last_filling_[kMaxPools];  // that was listed
  size_t num_pools_ = 0;
  uint32_t num_classes_ = 1, num_levels_ = 1, num_shelves_ = 1;
  uint32_t num_lists_ = 1;  // classes * levels * shelves
  const Policy* policy_ = &kLruPolicy;
  double weight_ = 0;
};

}  // namespace kvc
