// SPDX-License-Identifier: Apache-2.0
// The adapters of the jobs that run: there may be so many at a time. Adapter 0 is none.
#pragma once
#include "base/memory.h"

namespace kvc {

class Adapters {
 public:
  // 0: as many as come.
  [[nodiscard]] bool create(Memory& memory, size_t most) { return adapters_.create(memory, most); }

  bool may_join(uint64_t adapter) const {
    return !counts(adapter) || count_ < adapters_.size() || find(adapter) != count_;
  }
  void join(uint64_t adapter) {
    if (!counts(adapter)) return;
    const size_t i = find(adapter);
    if (i == count_) adapters_[count_++] = {adapter, 0};
    ++adapters_[i].num_jobs;
  }
  void leave(uint64_t adapter) {
    if (!counts(adapter)) return;
    const size_t i = find(adapter);
    if (--adapters_[i].num_jobs == 0) adapters_[i] = adapters_[--count_];
  }

 private:
  struct Adapter {
    uint64_t id;
    uint32_t num_jobs;
  };
  bool counts(uint64_t adapter) const { return adapter != 0 && adapters_.size() != 0; }
  size_t find(uint64_t adapter) const {
    size_t i = 0;
    while (i < count_ && adapters_[i].id != adapter) ++i;
    return i;
  }

  Array<Adapter> adapters_;
  size_t count_ = 0;
};

}  // namespace kvc
