// SPDX-License-Identifier: Apache-2.0
// What src/offload sees of a manager. It reads, and changes nothing: whether a manager is offloaded has no
// effect on what it decides.
#pragma once
#include "manager/requests.h"
#include "observe/event_ring.h"

namespace kvc {

class Manager;

// A block that was published at a position. A serial names the position for ever; the rest may be out of
// date.
struct StoredBlock {
  uint64_t serial;
  NodeId node;
  BlockId block;
  uint32_t group;
};

class OffloadView {
 public:
  explicit OffloadView(Manager& manager);

  const Shape& shape() const { return shape_; }
  uint64_t next_event() const {
    const std::lock_guard lock(mutex_);
    return events_.next_sequence();
  }

  // Blocks that were published, from *cursor on, which moves along. *lost: events that came and went unread.
  size_t read_published(uint64_t* cursor, StoredBlock* out, size_t capacity, uint64_t* lost) const;
  // The cached blocks of a pool that leave first, at most `most` of each of its lists.
  size_t read_cold(size_t pool, size_t most, StoredBlock* out, size_t capacity) const;
  // The published blocks of an admitted request, from the last on.
  size_t read_request(uint64_t id, StoredBlock* out, size_t capacity) const;
  // Blocks that serve a prompt. *length: positions within `limit` that all groups serve; *last: the last of
  // them, for name(), without a block.
  kvc_status read_hit(const TokenSpan& prompt, size_t limit, StoredBlock* out, size_t capacity, size_t* count,
                      size_t* length, StoredBlock* last) const;
  // The digests of their positions. A block whose position has gone gets kNoNode.
  void name(StoredBlock* blocks, size_t count, Digest256* digests) const;
  // Whether each block has the content of its position now, or may have it later.
  enum class Content : uint8_t { kGone, kLater, kThere };
  // Counts what brings blocks to positions.
  struct Moment {
    uint64_t events, quiet_arrivals;
  };
  Moment check(const StoredBlock* blocks, size_t count, Content* out) const {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; ++i) out[i] = content(blocks[i]);
    return {events_.next_sequence(), blocks_.tree().copies().quiet_arrivals()};
  }
  // The same of blocks that were THERE then. One that may have left and come back since is LATER.
  void recheck(const StoredBlock* blocks, size_t count, Moment since, Content* out) const;

  // The tokens and keys of a waiting request, up to the capacities. `most_cached`: tokens that may be hits.
  struct Prompt {
    int32_t* tokens;
    size_t token_capacity, num_tokens;
    ExtraKey* keys;
    size_t key_capacity, num_keys;  // as many as there are; of them the first ones
    uint64_t namespace_id, epoch, most_cached;
    Digest256 root;
  };
  kvc_status read_prompt(uint64_t id, Prompt* out) const;
  enum class State { kGone, kWaiting, kAdmitted };
  State state_of(uint64_t id) const {
    const std::lock_guard lock(mutex_);
    const Request* request = requests_.peek(id);
    return request == nullptr ? State::kGone : request->admitted ? State::kAdmitted : State::kWaiting;
  }
  // Whether a namespace is open and was not reset.
  bool is_epoch(uint64_t namespace_id, uint64_t epoch) const {
    const std::lock_guard lock(mutex_);
    NamespaceId ns{};
    return blocks_.namespaces().find(namespace_id, &ns) == KVC_OK && blocks_.namespaces().epoch(ns) == epoch;
  }

 private:
  StoredBlock stored(NodeId node, GroupIndex group, BlockId block) const {
    return {blocks_.identities().serial(node), node, block, group};
  }
  void add_position(NodeId node, StoredBlock* out, size_t capacity, size_t* count) const;
  Content content(const StoredBlock& stored) const;

  std::mutex& mutex_;
  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  Requests& requests_;
  const EventRing& events_;
};

}  // namespace kvc
