// SPDX-License-Identifier: Apache-2.0
// The prefix positions of blocks: blocks that become findable, and blocks that stop being so before they are
// evicted. Under the manager's lock.
#pragma once
#include "manager/shares.h"
#include "request/request.h"

namespace kvc {

class Positions {
 public:
  Positions(BlockState& state, CachedBlocks& cached, Shares& shares)
      : s_(state), cached_(cached), shares_(shares) {}

  // What makes positions of one table findable. Keys and tokens begin at the first of them.
  struct Publication {
    const uint64_t* keys;
    const int32_t* tokens;
    ExtraRecords& extras;
    const GroupTable* groups;
    NamespaceId ns;
    uint64_t epoch;
    uint64_t filled_by;  // a step in flight that will write the blocks; 0 = they are written
    size_t checkpoint;   // the only position whose state may be found
    bool encoder;        // the blocks of cross groups: all positions have the same tokens
  };
  // Publishes positions [begin, end) below *cursor, which moves along. Returns the first position that was
  // not published: before `end` if all nodes are in use. With hints, victims leave for new nodes first.
  size_t publish(NodeId* cursor, Publication publication, size_t begin, size_t end);
  // The same for externally held blocks of a group, from the root on; entries of -1 publish no block.
  void publish_external(const Prompt& prompt, GroupIndex group, const int32_t* blocks, size_t num_blocks,
                        ExtraRecords& extras);
  // Nodes that `wanted` new positions below `kept` can have: all of them, or fewer.
  size_t room_for_positions(size_t wanted, NodeId kept);
  // A cursor keeps its position alive.
  void move_cursor(NodeId* cursor, NodeId to) {
    s_.tree.hold(to);
    s_.tree.release(*cursor);
    *cursor = to;
  }
  // Whether a request alone can reach what is published at a position of its tables: it holds the only copy
  // in each group, and no longer prefix is known.
  bool is_alone(const GroupTable* groups, size_t position);
  // Takes the blocks of a position of a request's tables from the tree.
  void make_private(const GroupTable* groups, size_t position) {
    for (uint32_t g = 0; g < s_.shape.num_token_groups; ++g) {
      const BlockId id = groups[g].blocks.data[position];
      if (is_block(id) && is_node(s_.pool[id].node)) cached_.detach(id);
    }
  }
  // Makes a published block private or free; false if it is not published.
  bool unpublish(BlockId id);
  // The usual publication, in a plain manager without curves: a request's next position, which has no extra
  // keys and which nobody else knows; the chain covers it. False, and nothing has changed, if it is not that,
  // or if no node is free.
  bool publish_next(Request& request) {
    NodeId last = request.cursor;
    const size_t position = request.published;
    if (!s_.tree.has_place() ||
        s_.tree.publish_chain(last, &request.chain, request.token(request.published_tokens()),
                              request.groups[0].blocks.data + position, 1, request.ns, request.epoch) == 0)
      return false;
    move_cursor(&request.cursor, last);
    return true;
  }
  // Frees what nobody holds at a position; returns the number of blocks.
  size_t drop_idle(NodeId node) {
    size_t dropped = 0;
    cached_.each(node, [&](BlockId id) {
      cached_.free(id);
      ++dropped;
    });
    return dropped;
  }
  // Counts entries of an externally held block within one call, in its fence field: the end of the hold sets
  // that anyway.
  void begin_entries(BlockId id) { s_.pool[id].fence = 0; }
  uint32_t count_entry(BlockId id) { return ++s_.pool[id].fence; }

  // What comes from another manager, or from a checkpoint.

  // Finds or makes a position behind what `chain` covers, and holds it until end_positions(); kNoNode if all
  // nodes are in use.
  NodeId carry_position(NodeId parent, uint64_t chain, const TableHash& hash, const int32_t* tokens,
                        ExtraRecords& extras, size_t position, NamespaceId ns);
  void end_positions();
  // Publishes an externally held block, which gets its content, at a position. That has been used so often,
  // and has the level until then (0 = no end), as far as this manager keeps such things.
  void carry_block(NodeId node, GroupIndex group, BlockId id, uint32_t uses, uint32_t level, uint64_t until) {
    s_.zeroing.set_owner(id, s_.namespaces.id(s_.tree[node].ns));
    attach_external(node, group, id);
    s_.tree.notes().carry(node, uses, level, until);
  }

 private:
  template <bool kGaps>
  size_t publish_positions(NodeId* cursor, const Publication& publication, size_t begin, size_t end);
  // Without full attention the end of a long chain keeps the nodes of all positions before it. So before a
  // new position comes there, victims leave while few nodes are free: a bounded number, which is enough to
  // evict all that nobody holds before the free nodes run out. Does nothing if the position is known.
  void make_node_room(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
                      NamespaceId ns, uint64_t epoch);
  // Free ones beyond those that make_node_room() keeps.
  size_t spare_nodes() const {
    constexpr size_t kReserve = 8;  // part of the nodes
    const size_t free = s_.tree.free_nodes(), reserve = s_.shape.max_nodes / kReserve;
    return free < reserve ? 0 : free - reserve;
  }
  // A block that is held externally comes to a position: others find its content from now on.
  void attach_external(NodeId node, GroupIndex group, BlockId id) {
    shares_.give(id, s_.tree[node].ns);
    s_.pool[id].group = static_cast<uint8_t>(group);
    s_.pool.mark_written(s_.pool[id]);
    s_.tree.attach(node, group, id);
  }

  BlockState& s_;
  CachedBlocks& cached_;
  Shares& shares_;
};

}  // namespace kvc
