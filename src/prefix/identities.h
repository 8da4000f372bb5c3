// SPDX-License-Identifier: Apache-2.0
// What positions are called outside the process: a number that is never used again and, once somebody asks
// for it, a digest (kvcache.h, kvc_event). Only managers with events have identities.
//
// Only readers hash, and without the lock: gather() under the lock, Work::compute() without it, learn() under
// the lock again, until the digest is known. Nothing is lost in between: a position that has died keeps its
// place, its parent and its tokens until its events have left the ring.
//
// Each call looks at a bounded number of positions. A chain of many that are not known is climbed in parts,
// and each position is told by which child the way leads down again; then it is gathered from the top.
//
// Invariant: with a position, its ancestors are known. Not thread-safe, apart from compute().
#pragma once
#include "base/ids.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "observe/event_ring.h"

struct kvc_event;

namespace kvc {

class NamespaceTable;
class PrefixTree;

class Identities {
 public:
  static constexpr size_t kSteps = 512;  // positions or events that one call looks at

  // A few positions and what their digests depend on.
  class Work {
   public:
    void compute();
    size_t size() const { return count; }

   private:
    friend class Identities;
    static constexpr size_t kPositions = 64, kTokens = 4096;
    struct Position {
      NodeId id;
      int32_t parent;  // index in `positions`, or -1: parent_digest
      uint64_t serial;
      Digest256 parent_digest, extra, digest;
    };
    // The way to a position that takes several calls. `at` is its end, or an ancestor of it.
    struct Way {
      uint64_t serial;
      NodeId end, at;
    };
    size_t room(uint32_t size_of_blocks) const {
      const size_t most = kTokens / size_of_blocks;
      return (most < kPositions ? most : kPositions) - count;
    }
    int32_t find(NodeId id) const {  // -1 = none
      auto i = static_cast<int32_t>(count);
      while (--i >= 0 && positions[i].id != id) continue;
      return i;
    }

    size_t count = 0;
    Way way = {0, kNoNode, kNoNode};
    uint32_t block_size = 0;
    Position positions[kPositions];
    int32_t tokens[kTokens];
  };

  Identities(const PrefixTree& tree, const NamespaceTable& namespaces, EventRing& events)
      : tree_(tree), namespaces_(namespaces), events_(events) {}
  [[nodiscard]] bool create(Memory& memory, size_t num_places, uint32_t block_size);

  // A position begins to live.
  void begin(NodeId id) {
    Identity& identity = of(id);
    identity.serial = next_serial_++;
    identity.known = false;
    identity.waypoint = 0;
  }
  // A position without a block that was told of in a group, as the parent of one that was. Each is told of
  // once, until it gets a block or dies.
  bool is_waypoint(NodeId id) const { return of(id).waypoint != 0; }
  uint32_t waypoint_group(NodeId id) const { return of(id).waypoint - 1; }
  void begin_waypoint(NodeId id, size_t group);
  void end_waypoint(NodeId id);
  // Before a block of the group is told of at a position: it is no waypoint any more, and its ancestors were
  // told of, the first one first.
  [[gnu::noinline]] void tell_way(NodeId id, size_t group);

  void prefetch(NodeId id) const { __builtin_prefetch(&identities_[static_cast<size_t>(raw(id))], 1); }

  bool known(NodeId id) const { return of(id).known; }
  uint64_t serial(NodeId id) const { return of(id).serial; }
  const Digest256& digest(NodeId id) const { return of(id).digest; }  // if it is known
  // All of an event but its sequence. The digest of its position is known.
  void describe(const EventRecord& record, kvc_event* event) const;

  // Adds a position and those before it whose digests are not known; false if there are more of them than fit
  // or than one call looks at. Called again with the same position, it goes on.
  bool gather(NodeId id, Work* work);
  // The same for the positions of events from `sequence` on.
  void gather_events(uint64_t sequence, Work* work);
  void learn(Work* work);

 private:
  struct Identity {
    uint64_t serial;
    Digest256 digest;
    NodeId down;  // the child by which a reader came, a hint
    bool known;
    uint8_t waypoint;  // 0 = it is none; else its group + 1
  };

  Identity& of(NodeId id) { return identities_[static_cast<size_t>(raw(id))]; }
  const Identity& of(NodeId id) const { return identities_[static_cast<size_t>(raw(id))]; }
  bool go_on(NodeId end, Work* work) const;
  void add(NodeId id, Work* work) const;
  const Digest256& parent_digest(NodeId id) const;
  Digest256 extra_digest(NodeId id) const;

  const PrefixTree& tree_;
  const NamespaceTable& namespaces_;
  EventRing& events_;
  Array<Identity> identities_;
  uint32_t block_size_ = 0;
  uint64_t next_serial_ = 1;
};

}  // namespace kvc
