// SPDX-License-Identifier: Apache-2.0
// What the engine said about the positions of a request: ranges with a priority, and whether its session is
// over. Kept beside the requests' records, only by managers with hints. Not thread-safe.
#pragma once
#include <cstdint>

namespace kvc {

// Positions [begin, end); UINT32_MAX = without end.
struct HintRange {
  uint32_t begin, end;
  uint64_t until;  // 0 = no end
  uint32_t priority;

  bool has(size_t position) const { return position >= begin && position < end; }
  bool covers(const HintRange& other) const { return begin <= other.begin && other.end <= end; }
};

struct RequestHints {
  static constexpr uint32_t kMaxRanges = 8;

  HintRange ranges[kMaxRanges];  // [count], in the order in which they were set
  uint32_t count;
  bool session_over;
  uint32_t shared_positions;  // these stay when the session is over

  // Whether there is room for a range that replaces those that it covers.
  bool has_room(const HintRange& range) const {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; ++i) kept += !range.covers(ranges[i]);
    return kept < kMaxRanges;
  }
  void add(const HintRange& range) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (!range.covers(ranges[i])) ranges[kept++] = ranges[i];
    }
    ranges[kept] = range;
    count = kept + 1;
  }
  // The latest range of a position; nullptr if there is none.
  const HintRange* of(size_t position) const {
    for (uint32_t i = count; i-- > 0;) {
      if (ranges[i].has(position)) return &ranges[i];
    }
    return nullptr;
  }
};

}  // namespace kvc
