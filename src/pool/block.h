// SPDX-License-Identifier: Apache-2.0
// The record of a block, its lists, and what is counted of a pool. A list is a ring through a sentinel, which
// is a record behind those of all blocks.
#pragma once
#include <cstddef>

#include "base/ids.h"

namespace kvc {

inline constexpr size_t kMaxBlockPools = 32;

enum class List : uint8_t { kHeld, kFree, kLru, kFenced };

// What a held or cached block has: no committed token yet; some; or a step in flight writes all of it.
enum class Content : uint8_t { kEmpty, kWritten, kFilling };

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

inline constexpr uint32_t kSkip = 32;
struct RecentBlocks {  // the last that came to a list
  BlockId blocks[kSkip];
  uint32_t count;
};

struct PoolState {
  PoolCounts counts;
  BlockId free_top;
  RecentBlocks recent;  // without shelves
};

// `blocks`: all records.
inline void link_last(Block* blocks, BlockId id, Block& block, size_t sentinel) {
  Block& end = blocks[sentinel];
  block.prev = end.prev;
  block.next = BlockId{static_cast<int32_t>(sentinel)};
  blocks[raw(end.prev)].next = id;
  end.prev = id;
}
inline void link_behind(Block* blocks, BlockId id, Block& block, BlockId before) {
  block.prev = before;
  block.next = blocks[raw(before)].next;
  blocks[raw(block.next)].prev = id;
  blocks[raw(before)].next = id;
}
inline void unlink(Block* blocks, const Block& block) {
  blocks[raw(block.prev)].next = block.next;
  blocks[raw(block.next)].prev = block.prev;
}
// A block comes to a list: the one that came kSkip before it learns of it.
inline void note_skip(Block* blocks, RecentBlocks& recent, BlockId id, Block& block) {
  block.fence = static_cast<uint32_t>(raw(id));
  BlockId& oldest = recent.blocks[recent.count++ % kSkip];
  if (Block& before = blocks[raw(oldest)]; before.list == List::kLru) before.fence = block.fence;
  oldest = id;
}

}  // namespace kvc
