// SPDX-License-Identifier: Apache-2.0
// What positions are called outside the process: a number that is never used again and, once somebody asks
// for it, a digest (kvcache.h, kvc_event). Only managers with events have identities.
//
// Telling an event costs no digest: the event waits in the ring for that of its position. A reader works
// digests out, most of them without the lock: gather() under the lock, Work::compute() without it, learn()
// under the lock again. A position that dies while an event in the ring waits is worked out at once.
//
// Invariants: the events of a position that wait form a chain, newest first, from Identity::waiting; a
// position whose digest is known has none; so have its ancestors. Not thread-safe, apart from compute().
#pragma once
#include "base/ids.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "observe/event_ring.h"

namespace kvc {

class NamespaceTable;
class PrefixTree;

class Identities {
 public:
  // A few positions and what their digests depend on.
  class Work {
   public:
    void compute();

   private:
    friend class Identities;
    static constexpr size_t kPositions = 64, kTokens = 4096;
    struct Position {
      NodeId id;
      int32_t parent;  // index in `positions`, or -1: parent_digest
      uint64_t serial;
      Digest256 parent_digest, extra, digest;
    };
    size_t room(uint32_t size_of_blocks) const {
      const size_t most = kTokens / size_of_blocks;
      return (most < kPositions ? most : kPositions) - count;
    }

    size_t count = 0;
    uint32_t block_size = 0;
    Position positions[kPositions];
    int32_t tokens[kTokens];
  };

  Identities(const PrefixTree& tree, const NamespaceTable& namespaces, EventRing& events)
      : tree_(tree), namespaces_(namespaces), events_(events) {}
  [[nodiscard]] bool create(Memory& memory, size_t max_nodes, uint32_t block_size);

  // A position begins to live; it is stored or removed in a group; it is about to die.
  void begin(NodeId id) {
    Identity& identity = of(id);
    identity.serial = next_serial_++;
    identity.waiting = 0;
  }
  void tell(uint32_t kind, NodeId id, size_t group, BlockId block);
  void end(NodeId id) {
    const uint64_t waiting = of(id).waiting;
    if (waiting != kKnown && waiting != 0 && events_.holds(waiting - 1)) identify(id);
  }
  void prefetch(NodeId id) const { __builtin_prefetch(&identities_[static_cast<size_t>(raw(id))], 1); }

  // A position as an event tells of it, but for sequence, time and digests.
  void describe(uint32_t kind, NodeId id, size_t group, BlockId block, kvc_event* event) const;
  bool known(NodeId id) const { return of(id).waiting == kKnown; }
  void write_digests(NodeId id, kvc_event* event) const;  // of a known position

  // Adds a position and those before it whose digests are not known; false if they do not all fit.
  bool gather(NodeId id, Work* work);
  // The same for the positions of events from `sequence` on.
  void gather_events(uint64_t sequence, Work* work);
  void learn(Work* work);
  // Works out a position's digest under the lock.
  void identify(NodeId id) { identify(id, SIZE_MAX); }

 private:
  struct Identity {
    uint64_t serial;
    uint64_t waiting;  // newest event that waits, + 1; 0 = none; kKnown
    Digest256 digest;
  };
  static constexpr uint64_t kKnown = UINT64_MAX;

  Identity& of(NodeId id) { return identities_[static_cast<size_t>(raw(id))]; }
  const Identity& of(NodeId id) const { return identities_[static_cast<size_t>(raw(id))]; }
  void identify(NodeId id, size_t most);
  NodeId unknown_from(NodeId id, size_t most, const Work* work, size_t* count);
  const Digest256& parent_digest(NodeId id) const;
  Digest256 extra_digest(NodeId id) const;
  void set(NodeId id, const Digest256& digest);

  const PrefixTree& tree_;
  const NamespaceTable& namespaces_;
  EventRing& events_;
  Array<Identity> identities_;
  uint32_t block_size_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace kvc
