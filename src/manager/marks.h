// SPDX-License-Identifier: Apache-2.0
// Remembers for each index (of a request, or of a row) the last item that marked it in the current round. A
// new round clears nothing: marks of earlier rounds carry an older stamp. Not thread-safe.
#pragma once
#include "base/memory.h"

namespace kvc {

class Marks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  [[nodiscard]] bool create(Memory& memory, size_t size) { return marks_.create(memory, size); }
  // Makes room for indices below `size`; on false nothing has changed.
  [[nodiscard]] bool grow(Memory& memory, size_t size) {
    return size <= marks_.size() || marks_.grow(memory, size);
  }
  size_t size() const { return marks_.size(); }

  void begin_round() {
    if (++stamp_ != 0) [[likely]]
      return;
    for (size_t i = 0; i < marks_.size(); ++i) marks_[i] = {};  // once in 2^32 rounds
    stamp_ = 1;
  }
  uint32_t item(size_t index) const { return marks_[index].stamp == stamp_ ? marks_[index].item : kNone; }
  void mark(size_t index, uint32_t item) { marks_[index] = {stamp_, item}; }

 private:
  struct Mark {
    uint32_t stamp, item;
  };
  Array<Mark> marks_;
  uint32_t stamp_ = 0;
};

}  // namespace kvc
