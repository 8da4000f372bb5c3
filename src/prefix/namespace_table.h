// SPDX-License-Identifier: Apache-2.0
// Namespaces. Each has an identity (typed, length-framed bytes; equal identities name one namespace), an
// epoch that a reset increments, the first positions of its tree, and the number of its blocks in each pool's
// LRU list. Index 0 is the default namespace, which always exists.
//
// Resetting all namespaces increments one number: counts of an older global epoch read as 0. The index of a
// closed namespace is reused once it has no node left, and the events before that have left the ring: they
// are told with its id and digest. If there is no other index, the oldest events are dropped. Not
// thread-safe.
#pragma once
#include <kvcache/manager.h>

#include "base/arena.h"
#include "base/handle.h"
#include "base/ids.h"
#include "base/sha256.h"
#include "observe/event_ring.h"

namespace kvc {

struct Namespace {
  uint64_t resets;        // of this namespace alone, closings included
  uint64_t counts_epoch;  // global epoch of its cached counts
  NodeId first_child;
  uint32_t generation;
  uint32_t opens;    // 0 = closed (index 0: always 1)
  uint32_t users;    // requests and pins
  ClassIndex quota;  // its class (pool/quotas.h); 0 = it has none
  uint32_t num_nodes;
  int32_t hash_next;  // identity table; also the list of unused indices
  uint64_t identity_hash;
  char* identity;  // framed, in the arena
  uint64_t identity_size;
  uint64_t waits_for;  // in the list of unused indices: the event before which it must wait
  Digest256 digest;    // SHA-256 of the framed identity
};

// What NamespaceTable::carry() has done.
struct CarriedNamespace {
  NamespaceId index;
  uint32_t used;  // indices that had ever been used before
  uint64_t most_resets;
  Namespace before;  // at the index; not set if that had never been used
};

class NamespaceTable {
 public:
  static constexpr uint32_t kMaxNamespaces = 65536;
  static constexpr uint64_t kMaxResets = uint64_t{1} << 47;

  // Ids get the tag and generations above the one given.
  [[nodiscard]] bool create(Memory& memory, Arena& arena, EventRing& events, size_t num_pools, uint32_t tag,
                            uint32_t generation = 0);

  Namespace& operator[](NamespaceId index) { return namespaces_[index]; }
  const Namespace& operator[](NamespaceId index) const { return namespaces_[index]; }
  uint32_t size() const { return used_; }
  // What callers know a namespace by: 0 for the default one.
  uint64_t id(NamespaceId index) const {
    return index == 0 ? 0 : make_handle(tag_, HandleKind::kNamespace, index, namespaces_[index].generation);
  }
  bool is_open(uint64_t id) const {
    const uint32_t index = id == 0 ? 0 : handle_index(id);
    return index < used_ && namespaces_[index].opens != 0 && this->id(index) == id;
  }

  // The index of an open one; NOT_FOUND for any other id.
  kvc_status find(uint64_t id, NamespaceId* index) const;

  uint64_t epoch(NamespaceId index) const { return namespaces_[index].resets + global_resets_; }
  // Blocks of this namespace and epoch in the LRU list of a pool.
  uint64_t& cached(NamespaceId index, size_t pool) {
    Namespace& ns = namespaces_[index];
    if (ns.counts_epoch != global_resets_) refresh(index);
    return cached_[index * num_pools_ + pool];
  }

  uint64_t cached(NamespaceId index, size_t pool) const {
    return namespaces_[index].counts_epoch != global_resets_ ? 0 : cached_[index * num_pools_ + pool];
  }

  kvc_status open(const kvc_namespace_config& config, NamespaceId* index);
  // A new namespace with the identity of an open one of another table, open as often.
  kvc_status open_like(const Namespace& other, NamespaceId* index);
  // A namespace with this framed identity (of size 0: the default one) is open `opens` times more, in an
  // epoch that is at least the given one; it has no positions.
  kvc_status carry(const char* identity, size_t size, uint32_t opens, uint64_t epoch, CarriedNamespace* out);
  // Reverses that: the last one comes first.
  void drop(const CarriedNamespace& carried);
  // Whether these bytes are an identity as this table frames it.
  static bool is_framed(const char* identity, size_t size);
  // What Namespace.digest is.
  // That of a namespace with this configuration, in every process.
  static Digest256 digest_of_config(const kvc_namespace_config& config);
  static Digest256 digest_of_identity(const char* identity, size_t size);
  // Makes the index unusable for callers; it is used again after free_if_unused.
  void close(NamespaceId index);
  void free_if_unused(NamespaceId index);

  // Positions keep 48 bits of an epoch. Closings count as well, but the generations of an index end long
  // before.
  bool may_reset() const { return global_resets_ + most_resets_ < kMaxResets; }
  void reset_one(NamespaceId index) {
    if (++namespaces_[index].resets > most_resets_) most_resets_ = namespaces_[index].resets;
    for (size_t p = 0; p < num_pools_; ++p) cached(index, p) = 0;
  }
  void reset_all() { ++global_resets_; }

 private:
  friend class ManagerPeer;  // tests
  static constexpr size_t kBuckets = 4096;
  void refresh(NamespaceId index);
  bool may_reuse(int32_t index) const {
    return index >= 0 && namespaces_[static_cast<size_t>(index)].waits_for <= events_->oldest();
  }
  int32_t find(uint64_t hash, const char* identity, uint64_t size) const;  // -1: it is not open
  void forget_identity(Namespace& ns);
  int32_t* bucket(uint64_t hash) { return &buckets_[hash % kBuckets]; }

  Memory* memory_ = nullptr;
  Arena* arena_ = nullptr;
  EventRing* events_ = nullptr;
  Array<Namespace> namespaces_;
  Array<uint64_t> cached_;  // [indices][pools]
  Array<int32_t> buckets_;  // identity hash -> index, -1 = none
  size_t num_pools_ = 0;
  uint32_t tag_ = 0;
  uint32_t first_generation_ = 0;
  uint64_t global_resets_ = 0;
  uint64_t most_resets_ = 0;                // of one namespace
  uint32_t used_ = 0;                       // indices ever used
  int32_t unused_ = -1, last_unused_ = -1;  // list of closed and empty indices, oldest first
};

}  // namespace kvc
