// SPDX-License-Identifier: Apache-2.0
// A reader of the events of a World, as Manager::poll_events is one, in single steps; and digests computed
// from tokens alone.
#pragma once
#include <kvcache/events.h>

#include "prefix/tree_world.h"

namespace kvc {

inline Digest256 digest_of(const uint8_t* bytes) {
  Digest256 digest;
  std::memcpy(digest.bytes, bytes, sizeof digest.bytes);
  return digest;
}

// Of the position {token, token + 1} below one, without extra keys.
inline Digest256 below(const Digest256& parent, int32_t token) {
  const int32_t tokens[kBlockSize] = {token, token + 1};
  Sha256 sha;
  sha.update(tokens, sizeof tokens);
  sha.update(parent.bytes, 32);
  sha.update(&kBlockSize, 4);
  return sha.finish();
}

// Of the end of World::chain(root, length).
inline Digest256 chain_end(Digest256 root, size_t length) {
  for (size_t i = 0; i < length; ++i) root = below(root, static_cast<int32_t>(i));
  return root;
}

class EventReader {
 public:
  explicit EventReader(World& world) : w_(&world) {}

  const std::vector<kvc_event>& events() const { return events_; }  // all that were read
  void forget_events() { events_.clear(); }
  size_t rounds() const { return rounds_; }
  size_t most() const { return most_; }  // positions of one round
  uint64_t cursor() const { return cursor_; }

  // What can be read now.
  std::vector<kvc_event> read() {
    const size_t before = events_.size();
    if (cursor_ < w_->ring.oldest()) cursor_ = w_->ring.oldest();
    for (; w_->ring.holds(cursor_); ++cursor_) {
      const EventRecord& record = w_->ring[cursor_];
      if (is_node(record.position) && !w_->tree.identities().known(record.position)) break;
      kvc_event event;
      w_->tree.identities().describe(record, &event);
      event.sequence = cursor_;
      events_.push_back(event);
    }
    return {events_.begin() + static_cast<ptrdiff_t>(before), events_.end()};
  }
  void gather() {  // and hashes
    if (cursor_ < w_->ring.oldest()) cursor_ = w_->ring.oldest();
    w_->tree.identities().gather_events(cursor_, &work_);
    most_ = std::max(most_, work_.size());
    work_.compute();
    ++rounds_;
  }
  void learn() { w_->tree.identities().learn(&work_); }
  // What a poll does under the lock and then without it.
  void round() {
    learn();
    read();
    if (w_->ring.holds(cursor_)) gather();
  }
  // All events.
  std::vector<kvc_event> work_and_read() {
    const size_t before = events_.size();
    for (round(); w_->ring.holds(cursor_);) round();
    return {events_.begin() + static_cast<ptrdiff_t>(before), events_.end()};
  }

 private:
  World* w_;
  Identities::Work work_;
  std::vector<kvc_event> events_;
  uint64_t cursor_ = 0;
  size_t rounds_ = 0, most_ = 0;
};

}  // namespace kvc
