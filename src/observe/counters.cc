// SPDX-License-Identifier: Apache-2.0
#include "observe/counters.h"

#include <cstring>

namespace kvc {

void Snapshot::publish(const Counters& counters) {
  const auto* const bytes = reinterpret_cast<const char*>(&counters);
  const uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  // Release on each word: a reader that sees a new word also sees the odd version before it.
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    words_[i].store(word, std::memory_order_release);
  }
  version_.store(version + 2, std::memory_order_release);
}

Counters Snapshot::read() const {
  uint64_t words[kWords];
  for (;;) {
    const uint64_t before = version_.load(std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
  }
  Counters counters;
  std::memcpy(&counters, words, sizeof counters);
  return counters;
}

}  // namespace kvc
