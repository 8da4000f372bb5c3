// SPDX-License-Identifier: Apache-2.0
// The newest events with their tokens, in a ring that is allocated at creation. The tree writes it; any
// number of readers poll it, each with its own cursor. A reader that falls behind sees a gap in the sequence
// numbers. Used under the manager's lock.
#pragma once
#include <kvcache.h>

#include "base/memory.h"

namespace kvc {

class EventRing {
 public:
  // capacity 0 = off.
  [[nodiscard]] bool create(Memory& memory, const Env& env, size_t capacity, uint32_t block_size);
  bool enabled() const { return capacity_ != 0; }

  // Appends an event; sequence and time_ns are filled in. tokens: [event.num_tokens].
  void push(const kvc_event& event, const int32_t* tokens);

  uint64_t next_sequence() const { return next_; }
  // Copies events from `cursor` on and moves it. events: elements `event_size` apart.
  size_t read(uint64_t* cursor, void* events, size_t event_size, size_t capacity, int32_t* tokens,
              size_t token_capacity) const;

 private:
  Array<kvc_event> events_;
  Array<int32_t> tokens_;
  uint64_t (*wall_clock_ns_)() = nullptr;
  size_t capacity_ = 0;
  uint32_t block_size_ = 0;
  uint64_t next_ = 0;
};

}  // namespace kvc
