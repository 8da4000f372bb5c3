// SPDX-License-Identifier: Apache-2.0
// The blocks of a manager and the prefix positions that they are attached to. Blocks, its parts and what
// stands beside it are the only code that moves blocks between lists, holders, fences and namespaces;
// everyone else reads the pool, the tree and the namespaces. Used under the manager's lock.
//
// Blocks takes, holds and releases them. Its parts: cached_blocks.h is where cached ones wait and which
// leave, room.h what may be taken, positions.h attaches blocks to positions and detaches them, shares.h has
// quotas, namespace_blocks.h opens and resets namespaces, compact.h moves contents and lets pools grow and
// shrink. Beside it stand ContentsHolder, which holds blocks of any kind, and Rebuild and Restore, which open
// namespaces like those of other managers.
#pragma once
#include "base/bits.h"
#include "manager/compact.h"
#include "manager/namespace_blocks.h"
#include "manager/positions.h"
#include "manager/room.h"

namespace kvc {

// How a published block is kept that a request releases: not at all; until its pool is short of room, as the
// first that leaves; as long as the policy says.
enum class Keep : uint8_t { kNot, kFirstOut, kPublished };

class Blocks {
  BlockState s_;  // the first member: the parts work on it

 public:
  Blocks(const Shape& shape, Arena& arena, EventRing& events, Counters& counters)
      : s_(shape, arena, events, counters) {}
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  [[nodiscard]] bool create(Memory& memory, const Env& env, IdTag tag, uint64_t secret);

  const BlockPool& pool() const { return s_.pool; }
  const PrefixTree& tree() const { return s_.tree; }
  Identities& identities() { return s_.tree.identities(); }
  const NamespaceTable& namespaces() const { return s_.namespaces; }
  const Zeroing& zeroing() const { return s_.zeroing; }
  const Quotas& quotas() const { return s_.quotas; }
  // Whether requests and external holders find and publish anything now.
  bool caches() const { return caches_; }
  void set_caches(bool on) { caches_ = on; }
  // Of so many tokens those that may be hits: the last one is always computed.
  uint64_t most_cached(uint64_t num_tokens) const { return caches_ && num_tokens != 0 ? num_tokens - 1 : 0; }

  Lineages& lineages() { return s_.lineages; }
  const Lineages& lineages() const { return s_.lineages; }

  // The parts.
  CachedBlocks cached{s_};
  Room room{s_};
  Shares shares{s_, cached};
  NamespaceBlocks namespace_blocks{s_, shares};
  Positions positions{s_, cached, shares};
  Compactor compactor{s_, cached};

  // ---- taking and holding

  // Takes blocks for requests of a namespace. The group's pool must have `count` available.
  void take(GroupIndex group, NamespaceId ns, size_t count, BlockId* out) {
    cached.pop(group, ns, count, out);
    if (s_.zeroing.on()) [[unlikely]]
      s_.zeroing.hand_over(out, count, s_.namespaces.id(ns));
  }
  // A copy of a block that is filling is filling too.
  void fill_like(BlockId copy, BlockId source) {
    s_.pool.filling().begin(copy, s_.pool.filling().step(source));
  }
  // Takes one block that a copy will overwrite.
  BlockId take_copy(GroupIndex group, NamespaceId ns, bool written);
  void take_external(GroupIndex group, size_t count, BlockId* out);
  // So many free blocks for contents to come, as held externally by nobody; give_back() makes one the
  // first to be taken. Positions::carry_block() attaches one, release_external() makes it a cached one.
  void take_for_contents(PoolIndex pool, size_t count, BlockId* out);
  void give_back(BlockId id) {
    s_.pool.drop_external(s_.pool[id]);
    free_held(id);
  }

  // Adds a request's hold to a block that another request holds.
  void share(BlockId id) { s_.pool.add_ref(s_.pool[id]); }
  // Adds a request's, an external caller's or a pin's hold to a block that a match has found.
  void hold(BlockId id) {
    hit(id);
    s_.pool.add_ref(s_.pool[id]);
  }
  // The same for a group's blocks at positions of a namespace, which come to out[0, count).
  void hold_run(GroupIndex group, const NodeId* path, size_t count, NamespaceId ns, BlockId* out);
  // Ends a hold that share() or hold() added, and that was not the last: no trace is left.
  void unshare(BlockId id) { s_.pool.drop_ref(s_.pool[id]); }
  void hold_external(BlockId id) {
    hit(id);
    s_.pool.add_external(s_.pool[id]);
  }
  void pin(BlockId id) {
    Block& block = s_.pool[id];
    const bool idle = block.list == List::kLru;
    hit(id);
    if (idle) note_release(block, retired_);
    s_.pool.add_pin(block);
  }
  void mark_written(BlockId id) { s_.pool.mark_written(s_.pool[id]); }
  // Groups whose block at a position can be read by those that run behind a step: no later one writes it.
  uint32_t readable(NodeId node, uint64_t step) const {
    return s_.pool.filling().size() == 0 ? s_.tree[node].resident : written(node, step);
  }

  // ---- releasing

  // Ends a request's hold. If it was the last, the block goes to FENCED, LRU or FREE, as it is to be kept.
  // `ns` and `stale` are those of the block's node, if it has one.
  void release(BlockId id, Keep keep, NamespaceId ns, bool stale);
  // The same for blocks[begin, end) of a group, from the end on, all of the current epoch.
  void release_run(GroupIndex group, const BlockId* blocks, size_t begin, size_t end, NamespaceId ns);
  // Ends the hold of a copy on its source.
  void release_source(BlockId id) {
    if (drop_ref(s_.pool[id])) place(id);
  }
  // A copy will not be made: its destination has what others left there.
  void cancel_copy(BlockId source, BlockId destination) {
    s_.zeroing.set_owner(destination, Zeroing::kExternal);
    release_source(source);
  }
  void release_external(BlockId id);
  void unpin(BlockId id) {
    if (s_.pool.drop_pin(s_.pool[id])) settle_or_fence(id);
  }

  // Blocks that lose their last hold from now on are fenced until step `step_id` retires.
  void issue(uint64_t step_id) {
    if (issued_ < step_id) issued_ = step_id;
  }
  void retire(uint64_t step_id) {
    if (step_id > retired_) settle_fenced(step_id);
  }
  // The blocks that steps from `step_id` on were to write have no content, and nobody finds them.
  void fail_fills(uint64_t step_id);
  uint64_t retired() const { return retired_; }
  uint64_t issued() const { return issued_; }

  // Hands out the blocks to be cleared and forgets them.
  void take_zero_blocks(int32_t* blocks) {
    if (s_.zeroing.count() != 0)
      std::memcpy(blocks, s_.zeroing.blocks(), s_.zeroing.count() * sizeof(int32_t));
    s_.zeroing.clear_list();
  }

 private:
  friend class ContentsHolder;
  friend class Rebuild;
  friend class Restore;

  // The same when something is filling.
  uint32_t written(NodeId node, uint64_t step) const;
  // Takes a block that is found again out of LRU or FENCED, before a hold is added.
  void hit(BlockId id) {
    const List list = s_.pool[id].list;
    if (list == List::kHeld) return;
    s_.pool[id].leaves_first = 0;
    if (list == List::kLru) --s_.namespaces.cached(s_.tree[s_.pool[id].node].ns, s_.pool[id].pool);
    s_.pool.remove(id);
    if (s_.pool.is_filling(id)) [[unlikely]]
      s_.pool.filling().resume(id, retired_);
    s_.quotas.hit(id, s_.pool[id].pool, list == List::kFenced);
  }
  bool fencing() const { return issued_ > retired_; }
  // While a block is held, `fence` is the newest step that may read or write it for a former holder.
  static void note_release(Block& block, uint64_t step) { block.fence = static_cast<uint32_t>(step); }
  // Ends a request's hold, or a copy's. True if that was the last.
  bool drop_ref(Block& block) {
    if (s_.pool.drop_ref(block)) return true;
    note_release(block, issued_);
    return false;
  }
  // Puts a block without holds into FENCED, into FREE.
  void fence(BlockId id) {
    s_.pool.push_fenced(id, issued_);
    s_.quotas.fence(id, s_.pool[id].pool);
  }
  void free_held(BlockId id) {
    s_.pool.push_free(id);
    s_.quotas.free_held(id, s_.pool[id].pool);
  }
  // Puts a block without holds where it belongs.
  void place(BlockId id);
  void settle(BlockId id);
  // The same after a hold that writes nothing: what nobody else has released since is not fenced.
  void settle_or_fence(BlockId id) { s_.pool.fence_passed(s_.pool[id], retired_) ? settle(id) : fence(id); }
  void settle_fenced(uint64_t step_id);
  void take_back(BlockId id);
  void settle_published(BlockId id, NamespaceId ns, bool stale);

  bool caches_ = s_.shape.caches();
  uint64_t issued_ = 0;   // newest step that may be in flight
  uint64_t retired_ = 0;  // may be a step that a thread is still carrying out
};

}  // namespace kvc
