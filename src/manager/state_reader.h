// SPDX-License-Identifier: Apache-2.0
// All of a manager's state, to be read under its lock: the check, the digest and the reports walk it through
// this alone. A visitor returns nothing, or a status: the first that is not KVC_OK ends the walk.
#pragma once
#include "manager/prompts.h"
#include "manager/stepper.h"

struct kvc_lost_reuse;
struct kvc_quota_info;

namespace kvc {

struct StateReader {
  const Shape& shape;
  const Blocks& blocks;
  const Requests& requests;
  const TableRows& rows;
  const PinTable& pins;
  const Prompts& prompts;
  const Stepper& steps;
  const Counters& counters;

  const BlockPool& pool() const { return blocks.pool(); }
  const PrefixTree& tree() const { return blocks.tree(); }
  const NamespaceTable& namespaces() const { return blocks.namespaces(); }

  template <typename Visit, typename... Arguments>
  static kvc_status call(Visit& visit, const Arguments&... arguments) {
    if constexpr (std::is_void_v<std::invoke_result_t<Visit&, const Arguments&...>>) {
      visit(arguments...);
      return KVC_OK;
    } else {
      return visit(arguments...);
    }
  }
  // visit(id, block): the blocks of a pool by id; those from `first` on.
  template <typename Visit>
  kvc_status each_block(size_t p, Visit&& visit) const {
    return each_block(p, pool().counts(p).first, visit);
  }
  template <typename Visit>
  kvc_status each_block(size_t p, uint64_t first, Visit&& visit) const {
    for (uint64_t i = first; i < pool().counts(p).first + pool().counts(p).size; ++i) {
      const BlockId id{static_cast<int32_t>(i)};
      KVC_TRY(call(visit, id, pool().read(id)));
    }
    return KVC_OK;
  }
  // visit(id, block): the blocks of FREE, LRU or FENCED, in the order in which they are taken; LRU may be
  // several lists.
  template <typename Visit>
  kvc_status each_listed(size_t p, List list, Visit&& visit) const {
    if (list == List::kFenced) return each_from(pool().fenced_head(p), visit);
    if (list == List::kFree) {
      KVC_TRY(each_from(pool().free_top(p), visit));
      return each_block(p, pool().first_unopened(p), visit);
    }
    for (uint32_t l = 0; l < pool().shelves().num_lists(); ++l)
      KVC_TRY(each_from(pool().lru_head(p, l), visit));
    return KVC_OK;
  }
  // The same from a block of some list on.
  template <typename Visit>
  kvc_status each_from(BlockId id, Visit&& visit) const {
    for (; is_block(id) && !pool().at_end(id); id = pool()[id].next) KVC_TRY(call(visit, id, pool()[id]));
    return KVC_OK;
  }
  // visit(id): the copies of a block's position in its group, the block first; none of kNoBlock.
  template <typename Visit>
  kvc_status each_copy(BlockId first, Visit&& visit) const {
    for (BlockId id = first; is_block(id);) {
      KVC_TRY(call(visit, id));
      id = pool()[id].next_copy;
      if (id == first) break;
    }
    return KVC_OK;
  }
  // visit(id, node): all nodes of a namespace, newest sibling first, depth first; up again over parents.
  template <typename Visit>
  kvc_status each_node_of(NamespaceId ns, Visit&& visit) const {
    NodeId node = tree().first_child(root_of(ns));
    while (is_node(node)) {
      if (tree().alive(node)) KVC_TRY(call(visit, node, tree()[node]));
      NodeId next = tree()[node].first_child;
      while (!is_node(next) && is_node(node)) {
        next = tree()[node].sibling_next;
        if (!is_node(next)) node = tree()[node].parent;
      }
      node = next;
    }
    return KVC_OK;
  }
  // visit(index, request): the requests, those that are being created (`building`) included.
  template <typename Visit>
  kvc_status each_request(Visit&& visit) const {
    for (size_t i = 0; i < requests.table().size(); ++i) {
      const Request& request = requests.table()[i];
      if (request.id != 0 || request.building) KVC_TRY(call(visit, i, request));
    }
    return KVC_OK;
  }
  // visit(index, pin)
  template <typename Visit>
  kvc_status each_pin(Visit&& visit) const {
    for (size_t i = 0; i < pins.size(); ++i) {
      if (pins[i].id != 0) KVC_TRY(call(visit, i, pins[i]));
    }
    return KVC_OK;
  }

  // What kvcache.h says of them: reports.cc, check.cc, digest.cc.
  kvc_status request_info(uint64_t id, kvc_request_info* info) const;
  kvc_status list_requests(uint64_t* ids, size_t capacity, size_t* count) const;
  kvc_status list_pins(uint64_t* ids, size_t capacity, size_t* count) const;
  kvc_status list_prompts(char* names, size_t capacity, size_t* size) const;
  kvc_status list_namespaces(uint64_t* ids, size_t capacity, size_t* count) const;
  kvc_status pool_info(uint32_t p, kvc_pool_info* info) const;
  kvc_status lost_reuse(GroupIndex group, kvc_lost_reuse* info) const;
  kvc_status block_info(int32_t id, kvc_block_info* info) const;
  kvc_status quota_info(uint64_t namespace_id, PoolIndex pool, kvc_quota_info* info) const;
  kvc_status export_tables(const uint64_t* ids, size_t num_ids, GroupIndex group, int32_t fill_id,
                           int32_t* tables, size_t row_stride) const;
  kvc_status export_slots(uint64_t id, GroupIndex group, uint64_t first_token, uint64_t num_tokens,
                          void* slots, size_t element_size) const;
  kvc_status check(const Env& env) const;
  uint64_t digest() const;
  kvc_status find(uint64_t id, const Request** request) const {
    *request = requests.table().find(id);
    return *request != nullptr ? KVC_OK : Requests::not_found(id);
  }
  // A few columns at a time, so that a request with little in common ends it early.
  kvc_status common_prefix(const uint64_t* ids, size_t num_ids, GroupIndex group,
                           uint64_t* num_common) const {
    constexpr size_t kColumns = 16;
    size_t common = 0;
    for (bool more = num_ids != 0; more;) {
      const BlockId* first = nullptr;
      size_t end = common + kColumns;
      for (size_t i = 0; i < num_ids; ++i) {
        const Request* request = nullptr;
        KVC_TRY(find(ids[i], &request));
        const BlockId* const entries = request->groups[group].blocks.data;
        if (i == 0) first = entries;
        end = std::min<size_t>(end, positions_in(shape, *request, group));
        size_t j = common;
        while (j < end && is_block(entries[j]) && entries[j] == first[j]) ++j;
        end = std::min(end, j);
      }
      more = end == common + kColumns;
      common = end;
    }
    *num_common = common;
    return KVC_OK;
  }
};

}  // namespace kvc
