// SPDX-License-Identifier: Apache-2.0
// How long positions with blocks stay: their level, and when the hint that gave it ends. Level 0 is demoted,
// 1 + p is priority p. A position without a block has the default level and no deadline. Not thread-safe.
#pragma once
#include "prefix/deadlines.h"

namespace kvc {

inline constexpr uint32_t kMaxPriority = 100;
inline constexpr uint32_t kDefaultPriority = 35;
inline constexpr uint32_t kDemoted = 0;  // a level
inline constexpr uint32_t kNumLevels = kMaxPriority + 2;
constexpr uint32_t level_of_priority(uint32_t priority) { return priority + 1; }
inline constexpr uint32_t kDefaultLevel = level_of_priority(kDefaultPriority);

class Retention {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_nodes) {
    return levels_.create(memory, max_nodes) && deadlines_.create(memory, max_nodes);
  }
  bool on() const { return levels_.size() != 0; }

  // The default one without levels.
  uint32_t level(NodeId node) const {
    return on() ? levels_[static_cast<size_t>(raw(node))] ^ kDefaultLevel : kDefaultLevel;
  }
  const Deadlines& deadlines() const { return deadlines_; }
  // Deadline 0: the level stays until it is set again or the position ends.
  void set(NodeId node, uint32_t level, uint64_t deadline) {
    levels_[static_cast<size_t>(raw(node))] = static_cast<uint8_t>(level ^ kDefaultLevel);
    deadlines_.clear(node);
    if (deadline != 0) deadlines_.set(node, deadline);
  }
  // The position has lost its last block.
  void end(NodeId node) { set(node, kDefaultLevel, 0); }
  // As Deadlines::next().
  NodeId next_ended(uint64_t until) { return deadlines_.next(until); }

 private:
  Array<uint8_t> levels_;  // XOR the default level, so that zeroed memory is right
  Deadlines deadlines_;
};

}  // namespace kvc
