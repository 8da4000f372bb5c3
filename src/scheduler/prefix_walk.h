// SPDX-License-Identifier: Apache-2.0
// The order of KVC_SCHEDULER_DEPTH_FIRST: a walk of the tree of the cached prefixes of some waiting requests.
// A branch is a run of blocks that the prefixes of all requests at its end and below share. Of branches that
// part, those with more requests come first, then those whose first request was added earlier; requests at a
// branch's end come after those below. A request is compared with the branches that leave its way, and in
// O(log blocks) with the one that it leaves.
#pragma once
#include <kvcache/types.h>

#include "base/memory.h"

typedef struct kvc_manager kvc_manager;

namespace kvc {

class PrefixWalk {
 public:
  // A key of the first `num_blocks` blocks of a waiting request, at least one: equal keys, equal blocks.
  using KeyOf = uint64_t (*)(kvc_manager* manager, uint64_t request, size_t num_blocks);

  [[nodiscard]] bool create(Memory& memory, size_t most_requests, kvc_manager* manager, KeyOf key_of);

  void begin();
  // The next request in the policy's order, and the blocks of its cached prefix.
  void add(uint64_t request, size_t num_blocks);
  // order[i]: which request is the i-th of the walk, counted in the order in which they were added.
  void walk(uint32_t* order);

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kRoot = 0;
  struct Waiter {
    uint64_t id;
    uint32_t next;  // at the end of the same branch
  };
  struct Branch {
    uint64_t key;     // of its first block: no two branches that part have the same
    size_t end;       // blocks before its end
    uint32_t first;   // of all requests at its end and below, the one that was added first
    uint32_t weight;  // how many they are
    uint32_t parent, next, first_below;
    uint32_t first_waiter, last_waiter;  // at its end
  };

  uint32_t branch_below(uint32_t parent, uint64_t key) const;
  uint32_t make(uint32_t parent, uint64_t key, size_t end);
  size_t common(const Branch& branch, size_t known, uint64_t request, size_t num_blocks) const;
  void split(uint32_t branch, size_t end);
  void sort_branches();

  kvc_manager* manager_ = nullptr;
  KeyOf key_of_ = nullptr;
  Array<Waiter> waiters_;
  Array<Branch> branches_;
  Array<uint32_t> sorted_;
  uint32_t num_waiters_ = 0, num_branches_ = 0;
};

}  // namespace kvc
