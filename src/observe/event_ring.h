// SPDX-License-Identifier: Apache-2.0
// The newest events with their tokens, in a ring that is allocated at creation. The tree writes it; any
// number of readers poll it, each with its own cursor. A reader that falls behind sees a gap in the sequence
// numbers. An event may wait for its owner to complete it; reading stops there. Used under the manager's
// lock.
#pragma once
#include <kvcache.h>

#include "base/memory.h"

namespace kvc {

// Into the caller's element of event_size bytes.
inline void write_event(const kvc_event& event, void* out, size_t event_size) {
  std::memcpy(out, &event, sizeof event);
  if (event_size > sizeof event)
    std::memset(static_cast<char*>(out) + sizeof event, 0, event_size - sizeof event);
}

class EventRing {
 public:
  // capacity 0 = off.
  [[nodiscard]] bool create(Memory& memory, const Env& env, size_t capacity, uint32_t block_size);
  bool enabled() const { return capacity_ != 0; }

  // Appends an event with its tokens [num_tokens]; sequence and time_ns are filled in, the caller writes the
  // other fields. All events of one call of the manager, up to end_call(), have one time.
  kvc_event& add(const int32_t* tokens, size_t num_tokens);
  void end_call() { now_ = 0; }

  // The event just added waits for `owner`, which keeps `previous` with it.
  void wait(int32_t owner, uint64_t previous) { waits_[(next_ - 1) % capacity_] = {previous, owner}; }
  // It is complete. Returns `previous`.
  uint64_t end_wait(uint64_t sequence) {
    Wait& wait = waits_[sequence % capacity_];
    wait.owner = -1;
    return wait.previous;
  }
  bool waits(uint64_t sequence) const { return owner(sequence) >= 0; }
  int32_t owner(uint64_t sequence) const { return waits_[sequence % capacity_].owner; }

  uint64_t next_sequence() const { return next_; }
  uint64_t dropped() const { return dropped_; }  // overwritten before any reader had read them
  uint64_t oldest() const { return next_ > capacity_ ? next_ - capacity_ : 0; }
  bool holds(uint64_t sequence) const { return sequence < next_ && next_ - sequence <= capacity_; }
  kvc_event& operator[](uint64_t sequence) { return events_[sequence % capacity_]; }
  // Copies events from `cursor` on and moves it. events: elements `event_size` apart. Adds the number of
  // tokens to *tokens_used.
  size_t read(uint64_t* cursor, void* events, size_t event_size, size_t capacity, int32_t* tokens,
              size_t token_capacity, size_t* tokens_used);

 private:
  struct Wait {
    uint64_t previous;
    int32_t owner;  // -1 = complete
  };
  Array<kvc_event> events_;
  Array<int32_t> tokens_;
  Array<Wait> waits_;
  uint64_t (*wall_clock_ns_)() = nullptr;
  size_t capacity_ = 0;
  uint32_t block_size_ = 0;
  uint64_t next_ = 0;
  uint64_t read_ = 0;  // what the foremost reader reads next
  uint64_t dropped_ = 0;
  uint64_t now_ = 0;  // 0 = to be asked for
};

}  // namespace kvc
