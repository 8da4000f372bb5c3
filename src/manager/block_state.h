// SPDX-License-Identifier: Apache-2.0
// What a manager knows of its blocks: the pool, the prefix positions that blocks are attached to, and the
// namespaces that they count for. Blocks, its parts and CheckpointBlocks change it, under the manager's lock.
#pragma once
#include "base/id_tags.h"
#include "base/status.h"
#include "manager/shape.h"
#include "manager/zeroing.h"
#include "pool/quotas.h"
#include "prefix/prefix_tree.h"

namespace kvc {

// No namespace: an external holder.
inline constexpr NamespaceId kNoNamespace{UINT32_MAX};

struct BlockState {
  BlockState(const Shape& of, Arena& in, EventRing& ring, Counters& counted)
      : shape(of), arena(in), events(ring), counters(counted), tree(pool, namespaces, in, ring, counted) {}

  // The class of a namespace; 0 if it has no quota.
  ClassIndex class_of(NamespaceId ns) const {
    return quotas.on() && ns != kNoNamespace ? namespaces[ns].quota : ClassIndex{0};
  }

  const Shape& shape;
  Arena& arena;
  EventRing& events;
  Counters& counters;
  BlockPool pool;
  NamespaceTable namespaces;
  PrefixTree tree;
  Zeroing zeroing;
  Quotas quotas;
};

}  // namespace kvc
