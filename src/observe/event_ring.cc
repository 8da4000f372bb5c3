// SPDX-License-Identifier: Apache-2.0
#include "observe/event_ring.h"

namespace kvc {

bool EventRing::create(Memory& memory, const Env& env, size_t capacity, uint32_t block_size) {
  if (capacity == 0) return true;
  size_t tokens;
  if (!checked_mul(capacity, block_size, &tokens)) return false;
  if (!events_.create(memory, capacity) || !tokens_.create(memory, tokens)) return false;
  wall_clock_ns_ = env.wall_clock_ns;
  capacity_ = capacity;
  block_size_ = block_size;
  return true;
}

void EventRing::push(const kvc_event& event, const int32_t* tokens) {
  const size_t at = next_ % capacity_;
  events_[at] = event;
  events_[at].sequence = next_++;
  events_[at].time_ns = wall_clock_ns_();
  if (event.num_tokens != 0) {
    std::memcpy(&tokens_[at * block_size_], tokens, event.num_tokens * sizeof(int32_t));
  }
}

size_t EventRing::read(uint64_t* cursor, void* events, size_t event_size, size_t capacity, int32_t* tokens,
                       size_t token_capacity) const {
  const uint64_t oldest = next_ > capacity_ ? next_ - capacity_ : 0;
  uint64_t sequence = *cursor < oldest ? oldest : *cursor;
  size_t count = 0;
  size_t tokens_used = 0;
  for (; sequence < next_ && count < capacity; ++sequence, ++count) {
    const size_t at = sequence % capacity_;
    const kvc_event& event = events_[at];
    if (tokens != nullptr && event.num_tokens != 0) {
      if (token_capacity - tokens_used < event.num_tokens) break;
      std::memcpy(tokens + tokens_used, &tokens_[at * block_size_], event.num_tokens * sizeof(int32_t));
      tokens_used += event.num_tokens;
    }
    char* out = static_cast<char*>(events) + count * event_size;
    std::memcpy(out, &event, sizeof event);
    if (event_size > sizeof event) std::memset(out + sizeof event, 0, event_size - sizeof event);
  }
  *cursor = sequence;
  return count;
}

}  // namespace kvc
