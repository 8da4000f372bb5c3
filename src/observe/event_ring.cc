// SPDX-License-Identifier: Apache-2.0
#include "observe/event_ring.h"

namespace kvc {

bool EventRing::create(Memory& memory, const Env& env, size_t capacity, uint32_t block_size) {
  if (capacity == 0) return true;
  size_t tokens;
  if (!checked_mul(capacity, block_size, &tokens)) return false;
  if (!events_.create(memory, capacity) || !tokens_.create(memory, tokens) ||
      !waits_.create(memory, capacity)) {
    return false;
  }
  wall_clock_ns_ = env.wall_clock_ns;
  capacity_ = capacity;
  block_size_ = block_size;
  return true;
}

kvc_event& EventRing::add(const int32_t* tokens, size_t num_tokens) {
  const size_t at = next_ % capacity_;
  if (now_ == 0) now_ = wall_clock_ns_();
  dropped_ += next_ >= capacity_ && next_ - capacity_ >= read_;
  kvc_event& event = events_[at];
  event.sequence = next_++;
  event.time_ns = now_;
  waits_[at].owner = -1;
  if (num_tokens == 16) {  // the usual block size: no call
    std::memcpy(&tokens_[at * block_size_], tokens, 16 * sizeof(int32_t));
  } else if (num_tokens != 0) {
    std::memcpy(&tokens_[at * block_size_], tokens, num_tokens * sizeof(int32_t));
  }
  return event;
}

size_t EventRing::read(uint64_t* cursor, void* events, size_t event_size, size_t capacity, int32_t* tokens,
                       size_t token_capacity, size_t* tokens_used) {
  uint64_t sequence = *cursor < oldest() ? oldest() : *cursor;
  size_t count = 0;
  for (; sequence < next_ && count < capacity && !waits(sequence); ++sequence, ++count) {
    const size_t at = sequence % capacity_;
    const kvc_event& event = events_[at];
    if (tokens != nullptr && event.num_tokens != 0) {
      if (token_capacity - *tokens_used < event.num_tokens) break;
      std::memcpy(tokens + *tokens_used, &tokens_[at * block_size_], event.num_tokens * sizeof(int32_t));
      *tokens_used += event.num_tokens;
    }
    write_event(event, static_cast<char*>(events) + count * event_size, event_size);
  }
  *cursor = sequence;
  if (read_ < sequence) read_ = sequence;
  return count;
}

}  // namespace kvc
