// SPDX-License-Identifier: Apache-2.0
#include "manager/positions.h"

#include <algorithm>

namespace kvc {

size_t Positions::publish(NodeId* cursor, Publication publication, size_t begin, size_t end) {
  size_t done = begin;
  do {
    const size_t first = done;
    done = s_.shape.has_gaps() ? publish_positions<true>(cursor, publication, first, end)
                               : publish_positions<false>(cursor, publication, first, end);
    publication.keys += done - first;
    if (!publication.encoder) publication.tokens += (done - first) * s_.shape.block_size;
  } while (done < end && cached_.evict_for_node(publication.ns));
  return done;
}

// kGaps: positions may get no block. So the cursor keeps each alive, and room is made for it.
template <bool kGaps>
size_t Positions::publish_positions(NodeId* cursor, const Publication& publication, size_t begin,
                                    size_t end) {
  constexpr size_t kAhead = 8;
  const auto& [first_key, first_token, extras, groups, ns, epoch, filled_by, checkpoint, encoder] =
      publication;
  const uint32_t states = s_.shape.state_groups;
  const uint32_t first_group = encoder ? s_.shape.num_token_groups : 0;
  const uint32_t end_group = encoder ? s_.shape.num_groups : s_.shape.num_token_groups;
  const size_t stride = encoder ? 0 : s_.shape.block_size;
  const BlockId* const first_blocks = groups[first_group].blocks.data;
  const PrefixTree::Bulk bulk(s_.tree, end - begin);
  NodeId last = *cursor;
  size_t i = begin;
  while (i < end) {
    const uint64_t* keys = first_key + (i - begin);
    const int32_t* tokens = first_token + (i - begin) * stride;
    if (kGaps) make_node_room(last, *keys, tokens, extras.view(i), ns, epoch);
    if (extras.empty() && filled_by == 0 && states == 0) {
      size_t run = end - i;
      if (kGaps) {
        const size_t most = std::min(run, std::max(spare_nodes(), size_t{1}));
        for (run = 0; run < most && is_block(first_blocks[i + run]);) ++run;
      }
      const size_t made =
          run == 0 ? 0 : s_.tree.publish_chain(last, keys, tokens, first_blocks + i, run, ns, epoch);
      if (made != 0) {
        if (kGaps) move_cursor(cursor, last);
        i += made;
        continue;
      }
    }
    if (i + kAhead < end) {
      s_.tree.table().prefetch_write(keys[kAhead]);
      s_.pool.prefetch(first_blocks[i + kAhead]);
    }
    const NodeId node = s_.tree.publish_position(last, *keys, tokens, extras, i, ns, epoch);
    if (!is_node(node)) break;
    last = node;
    if (kGaps) move_cursor(cursor, last);
    for (uint32_t g = first_group; g < end_group; ++g) {
      const BlockId block = groups[g].blocks.data[i];
      if (!is_block(block)) continue;
      if (filled_by != 0) {
        s_.pool.filling().begin(block, filled_by);
      } else {
        s_.pool.mark_written(s_.pool[block]);
      }
      const bool inside = i != checkpoint && (states >> g & 1) != 0;
      if (!inside) s_.tree.attach(node, g, block);
    }
    cached_.use(&node, 1);
    ++i;
  }
  move_cursor(cursor, last);
  return i;
}

void Positions::make_node_room(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
                               NamespaceId ns, uint64_t epoch) {
  constexpr size_t kReclaim = 16;  // dead chains
  constexpr size_t kRounds = 16;   // for a group
  if (spare_nodes() != 0 || is_node(s_.tree.find(parent, key, tokens, extra, epoch))) return;
  size_t chains = kReclaim, rounds = kRounds * s_.shape.num_groups;
  while (spare_nodes() == 0) {
    if (is_node(s_.tree.first_orphan())) {  // what is dead comes first
      if (chains-- == 0) return;
      s_.tree.has_room();
    } else if (rounds-- == 0 || !cached_.evict_position(ns)) {
      return;
    }
  }
}

size_t Positions::room_for_positions(size_t wanted, NodeId kept) {
  size_t room = s_.tree.free_nodes();
  if (wanted <= room) return wanted;
  s_.tree.hold(kept);  // it may be dead; the others that are dead and not reclaimed yet count
  room += s_.tree.count_dead(wanted - room);
  s_.tree.release(kept);
  return room < wanted ? room : wanted;
}

void Positions::publish_external(const Prompt& prompt, GroupIndex group, const int32_t* blocks,
                                 size_t num_blocks, ExtraRecords& extras) {
  NodeId cursor = root_of(prompt.ns);
  for (size_t j = 0; j < num_blocks; ++j) {
    const NodeId node =
        s_.tree.publish_position(cursor, prompt.hashes[j], prompt.tokens + j * s_.shape.block_size, extras, j,
                                 prompt.ns, prompt.epoch);
    if (!is_node(node)) break;   // the caller has counted the nodes
    move_cursor(&cursor, node);  // a position without a block would die when the next orphan is reclaimed
    if (blocks[j] == -1) continue;
    const BlockId id{blocks[j]};
    if (s_.pool[id].node == node) continue;
    if (is_node(s_.pool[id].node)) cached_.detach(id);  // of an epoch that is over
    s_.zeroing.overwrite(id, s_.namespaces.id(prompt.ns));
    attach_external(node, group, id);
    cached_.use(&node, 1);
  }
  s_.tree.release(cursor);
}

NodeId Positions::carry_position(NodeId parent, uint64_t chain, const TableHash& hash, const int32_t* tokens,
                                 ExtraRecords& extras, size_t position, NamespaceId ns) {
  hash.blocks(chain, tokens, s_.shape.block_size, 1, &chain);
  const uint64_t key = extras.view(position).hash(hash, chain);
  const NodeId node =
      s_.tree.publish_position(parent, key, tokens, extras, position, ns, s_.namespaces.epoch(ns));
  if (is_node(node) && s_.tree[node].holds == 0) s_.tree.hold(node);
  return node;
}

void Positions::end_positions() {
  uint64_t left = s_.counters.nodes_used;
  for (size_t i = 0; left != 0 && i < s_.tree.places().used(); ++i) {
    const NodeId node{static_cast<int32_t>(i)};
    if (!s_.tree.alive(node)) continue;
    --left;
    if (s_.tree[node].holds != 0) s_.tree.release(node);
  }
}

bool Positions::is_alone(const GroupTable* groups, size_t position) {
  NodeId node = kNoNode;
  for (uint32_t g = 0; g < s_.shape.num_token_groups; ++g) {
    const BlockId id = groups[g].blocks.data[position];
    if (is_block(id) && is_node(s_.pool[id].node)) node = s_.pool[id].node;
  }
  if (!is_node(node)) return true;  // nothing is published
  if (s_.tree.stale(s_.tree[node])) {
    // Nobody finds it; how long what waits in LRU stays there, others decide.
    for (uint32_t g = 0; g < s_.shape.num_token_groups; ++g) {
      const BlockId id = groups[g].blocks.data[position];
      if (is_block(id) && s_.pool[id].shared()) return false;
    }
    return true;
  }
  for (uint32_t g = 0; g < s_.shape.num_token_groups; ++g) {
    const BlockId id = s_.tree.block_of(node, g);
    if (!is_block(id)) continue;
    if (id != groups[g].blocks.data[position] || s_.pool[id].shared() || s_.pool[id].next_copy != id)
      return false;
  }
  return !s_.tree.has_children(node);
}

bool Positions::unpublish(BlockId id) {
  const Block block = s_.pool.read(id);
  if (!is_node(block.node) || s_.tree.stale(s_.tree[block.node])) return false;
  if (block.list == List::kLru) {
    cached_.free(id);
  } else {
    cached_.detach(id);
  }
  return true;
}

}  // namespace kvc
