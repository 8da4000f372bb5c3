// SPDX-License-Identifier: Apache-2.0
// Whether there is room: what an admission, an extension or a holder may take out of each pool, and what a
// refusal says. Under the manager's lock.
#pragma once
#include "manager/block_state.h"

struct kvc_probe_info;

namespace kvc {

// What an admission or an extension takes out of each pool.
struct Demand {
  explicit Demand(size_t num_pools) {  // clearing all 32 would cost more than the rest
    for (size_t p = 0; p < num_pools; ++p) blocks[p] = fenced_hits[p] = 0;
  }
  // A hit that will be held.
  void add_hit(const Block& block) {
    blocks[block.pool] += block.list == List::kLru;
    fenced_hits[block.pool] += block.list == List::kFenced;
  }
  // What a pool must have available.
  uint64_t wanted(size_t pool, uint64_t watermark) const {
    return blocks[pool] == 0 ? 0 : blocks[pool] + watermark;
  }
  // What a probe says of the tightest pool, and whether all pools have what is wanted.
  void answer_probe(const uint64_t* available, size_t num_pools, uint64_t watermark,
                    kvc_probe_info* info) const;

  uint64_t blocks[kMaxPools];
  uint64_t fenced_hits[kMaxPools];
};

// What a request or a caller cannot do without: so many blocks of each pool at once.
struct Least {
  explicit Least(size_t num_pools) {
    for (size_t p = 0; p < num_pools; ++p) blocks[p] = 0;
  }
  uint64_t blocks[kMaxPools];
};

class Room {
 public:
  explicit Room(BlockState& state) : s_(state) {}

  // OK if every pool has what is demanded of it for a namespace, and the watermark; AGAIN if the fenced
  // blocks would fill every gap; else OVER_QUOTA if the namespace's maximum is in the way, or NO_SPACE.
  kvc_status check_room(const Demand& demand, NamespaceId ns, uint64_t watermark, const char* who) const {
    return fits(demand, ns, watermark) ? KVC_OK : refuse(demand, ns, watermark, who);
  }
  // Whether hits alone may be held: cached blocks are available, but perhaps for other namespaces.
  kvc_status check_hold(const Demand& demand, NamespaceId ns, const char* who) const {
    return s_.quotas.on() ? check_room(demand, ns, 0, who) : KVC_OK;
  }
  // Whether check_room() is OK.
  bool fits(const Demand& demand, NamespaceId ns, uint64_t watermark) const {
    for (size_t p = 0; p < s_.shape.num_pools; ++p) {
      if (demand.wanted(p, watermark) > available(ns, p)) return false;
    }
    return true;
  }
  // Blocks of a pool that a namespace may take.
  uint64_t available(NamespaceId ns, size_t pool) const {
    const uint64_t of_all = s_.pool.counts(pool).available();
    return s_.quotas.room(s_.class_of(ns), pool, of_all);
  }
  // A refusal of check_room(), or NEVER_FITS if not even an empty pool could give a namespace the least. No
  // watermark: it holds back nothing where nobody is admitted.
  kvc_status refusal(kvc_status status, const Least& least, NamespaceId ns, const char* who) const {
    const size_t pool = pool_that_lacks(least, ns);
    return pool == kMaxPools ? status : refuse_for_good(least, pool, ns, who);
  }
  // The same of a request, which is counted.
  kvc_status refused(kvc_status status, const Least& least, NamespaceId ns, const char* who) {
    status = refusal(status, least, ns, who);
    ++s_.counters.refusals;
    if (status == KVC_ERROR_OVER_QUOTA) s_.quotas.count_refusal(s_.class_of(ns), refused_pool_);
    return status;
  }
  // The pool that never has the least; kMaxPools if there is none.
  size_t pool_that_lacks(const Least& least, NamespaceId ns) const {
    for (size_t p = 0; p < s_.shape.num_pools; ++p) {
      if (least.blocks[p] > most_room(ns, p)) return p;
    }
    return kMaxPools;
  }
  // Blocks of a pool that a namespace could take if nobody held any.
  uint64_t most_room(NamespaceId ns, size_t pool) const {
    const uint64_t size = s_.pool.counts(pool).size;
    return s_.quotas.most_room(s_.class_of(ns), pool, size);
  }
  // For as long as a batch is planned, under one lock: hits that it will hold, and blocks that it will take
  // (`count` of a pool; the negative number takes them back). Lists stay as they are: only available() and
  // what refuses know. False if the block is held already.
  bool expect_hit(BlockId id, List* was);
  void take_back_hit(BlockId id, List was);
  // FREE may count less than nothing: what is available is right, since cached blocks stand in for it.
  void expect_blocks(NamespaceId ns, size_t pool, uint64_t count) {
    s_.pool.counts(pool).free -= count;
    s_.quotas.expect(s_.class_of(ns), pool, count);
  }
  static uint64_t last_shortage();  // blocks missing at this thread's last refusal

 private:
  kvc_status refuse(const Demand& demand, NamespaceId ns, uint64_t watermark, const char* who) const;
  kvc_status refuse_for_good(const Least& least, size_t pool, NamespaceId ns, const char* who) const;

  BlockState& s_;
  mutable size_t refused_pool_ = 0;  // whose maximum the last OVER_QUOTA names
};

}  // namespace kvc
