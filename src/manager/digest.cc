// SPDX-License-Identifier: Apache-2.0
// kvc_manager_digest: a hash of everything that decides future answers. Nodes go in by content (a hash chain
// over tokens and extra keys with a fixed seed), never by index, hash or address.
#include "manager/guard.h"

namespace kvc {
namespace {

// Content identity of a node, from that of its parent.
uint64_t content(uint64_t parent, const Node& node, const int32_t* tokens, uint32_t block_size) {
  DigestHash hash;
  hash.add(parent);
  hash.add_bytes(tokens, block_size * sizeof(int32_t));
  if (node.extra != nullptr) hash.add_bytes(node.extra->spans(), node.extra->count * sizeof(ExtraSpan));
  return hash.value();
}

}  // namespace

// Walks all known positions of a namespace, newest sibling first, depth first; up again over parents. `path`
// has room for the deepest one.
void Manager::digest_namespace(uint32_t ns, DigestHash& out) const {
  out.add(namespaces_.epoch(ns));
  out.add(namespaces_[ns].opens);
  out.add_bytes(namespaces_[ns].digest.bytes, sizeof namespaces_[ns].digest.bytes);
  NodeId node = namespaces_[ns].first_child;
  while (is_node(node)) {
    if (tree_.alive(node)) {
      const Node& here = tree_[node];
      out.add(here.depth);
      out.add(content(tree_.stale(here), here, tree_.tokens(node), shape_.block_size));
      for (size_t g = 0; g < shape_.num_groups; ++g) {
        const BlockId lowest = tree_.block_of(node, g);
        uint64_t copies = 0;  // independent of the ring's order
        if (is_block(lowest)) {
          for (BlockId copy = pool_[lowest].next_copy;; copy = pool_[copy].next_copy) {
            DigestHash one;
            one.add(static_cast<uint64_t>(raw(copy)));
            copies += one.value();
            if (copy == lowest) break;
          }
        }
        out.add(copies);
      }
    }
    NodeId next = tree_[node].first_child;
    while (!is_node(next) && is_node(node)) {
      next = tree_[node].sibling_next;
      if (!is_node(next)) node = tree_[node].parent;
    }
    node = next;
  }
}

void Manager::digest_pool(size_t p, DigestHash& out) const {
  const PoolCounts& counts = pool_.counts(p);
  for (BlockId id = pool_.free_top(p); is_block(id); id = pool_[id].next)
    out.add(static_cast<uint64_t>(raw(id)));
  for (BlockId id = pool_.lru_head(p); !pool_.at_end(id); id = pool_[id].next)
    out.add(static_cast<uint64_t>(raw(id)));
  for (BlockId id = pool_.fenced_head(p); !pool_.at_end(id); id = pool_[id].next) {
    out.add(static_cast<uint64_t>(raw(id)));
    out.add(pool_[id].fence);
  }
  for (uint64_t i = counts.first; i < counts.first + counts.size; ++i) {
    const Block& block = pool_[BlockId{static_cast<int32_t>(i)}];
    out.add(static_cast<uint64_t>(block.list) | uint64_t{block.written} << 8 |
            uint64_t{block.external} << 16 | uint64_t{block.pins} << 32);
    out.add(block.refs);
    if (block.list != List::kFree) out.add(block.group);
    if (zeroing_.on()) {  // ids differ from manager to manager, indices do not
      const uint64_t owner = zeroing_.owner(BlockId{static_cast<int32_t>(i)});
      const bool ns = owner < Zeroing::kExternal;
      out.add(!ns ? owner : namespaces_.is_open(owner) ? handle_index(owner) : Zeroing::kExternal - 1);
    }
  }
}

void Manager::digest_request(const Request& request, DigestHash& out) const {
  out.add(request.ns);
  out.add(request.epoch == namespaces_.epoch(request.ns));
  for (const uint64_t value :
       {uint64_t{request.known}, uint64_t{request.capacity}, uint64_t{request.committed},
        uint64_t{request.published}, uint64_t{request.flags}, uint64_t{request.prompt_len},
        uint64_t{request.own_from}, request.slots, request.external_tokens, request.max_cached_tokens,
        uint64_t{request.lookahead}, uint64_t{request.drop_tail_blocks}, request.user_data,
        uint64_t{request.admitted}, uint64_t{request.next_full != UINT32_MAX},
        uint64_t{request.readmission}}) {
    out.add(value);
  }
  const uint32_t published = request.published * shape_.block_size;
  if (request.known > published)
    out.add_bytes(request.token(published), (request.known - published) * sizeof(int32_t));
  out.add_bytes(request.keys.data, request.num_keys * sizeof(kvc_extra_key));
  for (size_t g = 0; g < shape_.num_groups; ++g) {
    out.add(request.positions == 0 ? 0 : request.groups[g].dropped);
    out.add_bytes(request.groups[g].blocks.data, request.positions * sizeof(BlockId));
  }
}

uint64_t Manager::digest() {
  const std::lock_guard lock(mutex_);
  DigestHash out;
  for (size_t p = 0; p < shape_.num_pools; ++p) digest_pool(p, out);
  for (uint32_t s = 0; s < namespaces_.size(); ++s) digest_namespace(s, out);
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_.at(i).id == 0) continue;
    out.add(i);
    digest_request(requests_.at(i), out);
  }
  for (size_t i = 0; i < pins_.size(); ++i) {
    const Pin& pin = pins_.at(i);
    if (pin.id == 0) continue;
    out.add(i);
    out.add_bytes(pin.blocks.data, pin.length * shape_.num_groups * sizeof(BlockId));
  }
  if (zeroing_.on()) out.add_bytes(zeroing_.blocks(), zeroing_.count() * sizeof(int32_t));
  for (size_t i = 0; i < num_copies_; ++i) out.add_bytes(&copies_.data[i], sizeof copies_.data[i]);
  out.add(assigned_ - retired_);
  return out.value();
}

}  // namespace kvc
