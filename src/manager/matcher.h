// SPDX-License-Identifier: Apache-2.0
// How much of a prompt is cached: the longest length that every group can serve. Reads the tree and the
// pool, changes neither. The rules work on masks of resident groups along a known path, so that admissions,
// probes, pins and external prefixes share them.
#pragma once
#include <mutex>

#include "base/hash.h"
#include "manager/blocks.h"
#include "manager/lookup.h"
#include "manager/lost_reuse.h"

struct kvc_probe_info;

namespace kvc {

class Matcher {
 public:
  Matcher(const Shape& shape, const Blocks& blocks, const TableHash& hash, Arena& arena, std::mutex& mutex)
      : shape_(shape), blocks_(blocks), hash_(hash), arena_(arena), mutex_(mutex) {}

  // Where a namespace's chains of hashes begin.
  uint64_t root(NamespaceId ns) const { return hash_.root(ns, blocks_.namespaces()[ns].generation); }
  // Those of the positions below a node.
  uint64_t chain(NodeId node, NamespaceId ns) const {
    return is_node(node) ? blocks_.tree()[node].key : root(ns);
  }
  // Whether a hit of `length` positions needs the group's block at `position`.
  bool needs_position(GroupIndex group, size_t position, size_t length) const {
    return needs_for(group, position, length * shape_.block_size);
  }
  // The same for a hit of so many tokens.
  bool needs_for(GroupIndex group, size_t position, uint64_t tokens) const {
    const GroupShape& shape = shape_.groups[group];
    return !shape.windowed() || position < shape.sinks ||
           position >= shape.window_start(tokens, shape_.block_size);
  }
  // Longest length <= limit whose window and sinks are all resident in a sliding-window group.
  size_t longest_window(GroupIndex group, size_t limit, const uint32_t* residents) const;
  size_t longest_common(size_t limit, const uint32_t* residents, KeyList keys, uint32_t groups) const;

  // Longest hit within `limit` positions in `groups`, less the last `drop` positions; path and residents are
  // filled for it. `lost` may be null.
  size_t match(const Prompt& prompt, size_t limit, uint32_t groups, uint32_t drop, NodeId* path,
               uint32_t* residents, LostReuse* lost) const {
    return match(prompt, limit, groups, drop, blocks_.retired(), path, residents, lost, nullptr);
  }
  // The same for an admission, in all groups, with arrays of the matcher's own, which live until its next
  // match. Blocks that steps up to `behind` write count.
  struct Match {
    const NodeId* path;
    size_t length;
    size_t reached;   // before the last positions were dropped
    size_t known;     // positions of the path that are known
    size_t junction;  // with state groups: what all others could serve, if that is more; else 0
    LostReuse lost;
  };
  kvc_status match(const Prompt& prompt, size_t limit, uint32_t drop, uint64_t behind, Match* found);
  // A known position that begins with tokens of a prompt; kNoNode if there is none.
  struct Head {
    NodeId node = kNoNode;
    uint32_t tokens = 0;  // fewer than a block
  };
  // With partial reuse: of the positions below `parent`, where a hit of `length` positions ends, the one that
  // lets the hit go on furthest, up to `limit` tokens. Looks at the newest 32; of equal ones the newest.
  Head find_head(const Prompt& prompt, NodeId parent, size_t length, uint64_t limit) const;
  // num_admitted: of requests, read under the lock.
  kvc_status probe(const TokenSpan& tokens, const uint64_t& num_admitted, kvc_probe_info* info);

 private:
  friend class LookupScratch;

  size_t match(const Prompt& prompt, size_t limit, uint32_t groups, uint32_t drop, uint64_t behind,
               NodeId* path, uint32_t* residents, LostReuse* lost, Match* found) const;
  // Largest length <= positions that does not end inside an extra key's span.
  size_t cut(KeyList keys, size_t positions) const {
    if (keys.count == 0) return positions;
    return cut_at_spans(keys, positions * shape_.block_size, shape_.block_size) / shape_.block_size;
  }
  uint32_t idle_groups(NodeId node) const;
  // The hit of a probe that knows so many positions; those at the end that no group can read are no longer
  // known.
  size_t hit_of(LookupScratch& scratch, size_t* known) const {
    while (*known != 0 && scratch.residents()[*known - 1] == 0) --*known;
    return longest_common(*known, scratch.residents(), scratch.keys(), shape_.token_groups());
  }
  LostReuse find_lost(size_t known, size_t length, const uint32_t* residents, uint32_t groups) const;
  struct Probe;
  kvc_status look_in_slices(LookupScratch& scratch, const uint64_t& num_admitted, Probe* seen);

  const Shape& shape_;
  const Blocks& blocks_;
  const TableHash& hash_;
  Arena& arena_;
  std::mutex& mutex_;
  Buffer<NodeId> path_ = {};
  Buffer<uint32_t> residents_ = {};
};

}  // namespace kvc
