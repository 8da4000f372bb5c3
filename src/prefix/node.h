// SPDX-License-Identifier: Apache-2.0
// A position of a prefix in the tree (prefix_tree.h).
#pragma once
#include "base/ids.h"
#include "prefix/extra_keys.h"

namespace kvc {

constexpr uint64_t kEpochMask = (uint64_t{1} << 48) - 1;  // NamespaceTable ends resets long before

struct Node {
  uint64_t key;        // chain hash; of a dead node that waits: the event before which it must wait
  ExtraRecord* extra;  // nullptr = none
  NodeId parent;       // a node, or the root of the namespace
  NodeId hash_next;    // bucket chain; also the free and the orphan list
  uint32_t listed;     // in its bucket's chain, alive: 1 (in count_dead more)
  NodeId first_child;
  NodeId sibling_next, sibling_prev;
  BlockId block;   // group 0: first copy
  uint32_t holds;  // cursors of requests
  uint64_t epoch : 48, ns : 16;
  uint32_t depth;  // blocks before it
  uint32_t resident;
};
static_assert(sizeof(Node) == 64);

}  // namespace kvc
