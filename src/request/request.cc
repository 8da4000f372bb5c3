// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

namespace kvc {

bool Request::reserve_tail(Arena& arena, uint32_t first_needed, uint64_t extra) {
  const uint64_t used = known - tail_base;
  if (used + extra <= tail.capacity) return true;
  const uint32_t dead = first_needed - tail_base;
  const uint64_t live = used - dead;
  if (live + extra <= tail.capacity && dead >= live) {  // moving less than was appended since the last move
    std::memmove(tail.data, tail.data + dead, live * sizeof(int32_t));
    tail_base = first_needed;
    return true;
  }
  if (!Buffer<int32_t>::fits(live + extra)) return false;
  Buffer<int32_t> larger = {};
  if (!larger.reserve(arena, live + extra, 0)) return false;
  if (live != 0) std::memcpy(larger.data, tail.data + dead, live * sizeof(int32_t));
  tail.clear(arena);
  tail = larger;
  tail_base = first_needed;
  return true;
}

void Request::shrink_tail(Arena& arena, uint32_t first_needed) {
  constexpr uint32_t kSmall = 256;
  const uint32_t live = known - first_needed;
  if (tail.capacity <= kSmall || live >= tail.capacity / 8) return;
  Buffer<int32_t> smaller = {};
  if (!smaller.reserve(arena, live + kSmall / 2, 0)) return;  // the large one serves as well
  if (live != 0) std::memcpy(smaller.data, token(first_needed), live * sizeof(int32_t));
  tail.clear(arena);
  tail = smaller;
  tail_base = first_needed;
}

void Request::free_buffers(Arena& arena, size_t num_groups) {
  tail.clear(arena);
  hashes.clear(arena);
  keys.clear(arena);
  for (size_t g = 0; g < num_groups; ++g) groups[g].blocks.clear(arena);
}

bool RequestTable::create(Memory& memory, size_t max_requests, size_t num_groups, uint32_t tag,
                          uint32_t generation) {
  size_t tables;
  if (!checked_mul(max_requests, num_groups, &tables)) return false;
  if (!requests_.create(memory, max_requests) || !tables_.create(memory, tables)) return false;
  num_groups_ = num_groups;
  tag_ = tag;
  for (size_t i = max_requests; i-- > 0;) {  // so that index 0 is taken first
    requests_[i].generation = generation;
    requests_[i].next_free = free_;
    free_ = static_cast<int32_t>(i);
  }
  return true;
}

Request* RequestTable::take() {
  if (free_ < 0) return nullptr;
  const auto index = static_cast<size_t>(free_);
  Request& request = requests_[index];
  free_ = request.next_free;
  const uint32_t generation = request.generation + 1;
  request = Request{};
  request.generation = generation;
  request.groups = &tables_[index * num_groups_];
  for (size_t g = 0; g < num_groups_; ++g) request.groups[g] = {};
  request.cursor = kNoNode;
  request.next_full = UINT32_MAX;
  request.row = -1;
  return &request;
}

void RequestTable::give_back(Request& request) {
  request.id = 0;
  if (request.generation == UINT32_MAX) return;  // ids are never reused: this entry is retired
  request.next_free = free_;
  free_ = static_cast<int32_t>(index_of(request));
}

}  // namespace kvc
