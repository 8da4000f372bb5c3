// SPDX-License-Identifier: Apache-2.0
// What a manager knows of its blocks: the pool, the prefix positions that blocks are attached to, and the
// namespaces that they count for. Blocks and its parts change it, and what stands beside them (blocks.h),
// under the manager's lock.
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

// What the content of a manager comes from: of which manager, and after how many resets and unpublications.
// A restored one has that of the checkpoint; the next reset gives it another, which nobody has had. Zeroes:
// of a new manager.
struct Lineage {
  uint64_t origin = 0, num_ended = 0;
  bool operator==(const Lineage&) const = default;
};

// The lineages of one manager: another one after each reset and unpublication, since what was copied
// elsewhere before that has equal names and perhaps other bytes.
class Lineages {
 public:
  void begin(uint64_t origin) { origin_ = origin; }
  const Lineage& current() const { return current_; }
  void end() { current_ = {origin_, ++num_ended_}; }
  void carry(const Lineage& lineage) { current_ = lineage; }

 private:
  Lineage current_;
  uint64_t origin_ = 0, num_ended_ = 0;
};

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
  Lineages lineages;
};

}  // namespace kvc
