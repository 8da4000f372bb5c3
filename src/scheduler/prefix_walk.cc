// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prefix_walk.h"

#include <algorithm>

namespace kvc {

// A request adds at most a branch that ends with it and one where it leaves another.
bool PrefixWalk::create(Memory& memory, size_t most_requests, kvc_manager* manager, KeyOf key_of) {
  manager_ = manager;
  key_of_ = key_of;
  const size_t most_branches = 2 * most_requests + 1;
  return waiters_.create(memory, most_requests) && branches_.create(memory, most_branches) &&
         sorted_.create(memory, most_branches);
}

void PrefixWalk::begin() {
  num_waiters_ = num_branches_ = 0;
  make(kNone, 0, 0);
}

uint32_t PrefixWalk::make(uint32_t parent, uint64_t key, size_t end) {
  branches_[num_branches_] = {key, end, num_waiters_, 0, parent, kNone, kNone, kNone, kNone};
  return num_branches_++;
}

uint32_t PrefixWalk::branch_below(uint32_t parent, uint64_t key) const {
  uint32_t at = branches_[parent].first_below;
  while (at != kNone && branches_[at].key != key) at = branches_[at].next;
  return at;
}

void PrefixWalk::add(uint64_t request, size_t num_blocks) {
  uint32_t at = kRoot;
  while (++branches_[at].weight, branches_[at].end != num_blocks) {
    const size_t begin = branches_[at].end;
    const uint64_t key = key_of_(manager_, request, begin + 1);
    uint32_t below = branch_below(at, key);
    if (below == kNone) {
      below = make(at, key, num_blocks);
      branches_[below].next = branches_[at].first_below;
      branches_[at].first_below = below;
    } else if (const size_t end = common(branches_[below], begin + 1, request, num_blocks);
               end != branches_[below].end) {
      split(below, end);
    }
    at = below;
  }
  Branch& branch = branches_[at];
  (branch.first_waiter == kNone ? branch.first_waiter : waiters_[branch.last_waiter].next) = num_waiters_;
  branch.last_waiter = num_waiters_;
  waiters_[num_waiters_++] = {request, kNone};
}

// Blocks that the request has in common with a branch, of which `known` are.
size_t PrefixWalk::common(const Branch& branch, size_t known, uint64_t request, size_t num_blocks) const {
  const uint64_t other = waiters_[branch.first].id;
  size_t most = std::min(branch.end, num_blocks);
  for (size_t next = most; known != most; next = known + (most - known + 1) / 2) {
    const bool same = key_of_(manager_, request, next) == key_of_(manager_, other, next);
    (same ? known : most) = same ? next : next - 1;
  }
  return known;
}

// The branch ends there, and another one below it has the rest.
void PrefixWalk::split(uint32_t index, size_t end) {
  const uint32_t rest = num_branches_++;
  Branch& branch = branches_[index];
  branches_[rest] = branch;
  branches_[rest].key = key_of_(manager_, waiters_[branch.first].id, end + 1);
  branches_[rest].parent = index;
  branches_[rest].next = kNone;
  for (uint32_t at = branch.first_below; at != kNone; at = branches_[at].next) branches_[at].parent = rest;
  branch.end = end;
  branch.first_below = rest;
  branch.first_waiter = branch.last_waiter = kNone;
}

void PrefixWalk::sort_branches() {
  for (uint32_t i = 0; i < num_branches_; ++i) {
    sorted_[i] = i;
    branches_[i].first_below = kNone;
  }
  std::sort(sorted_.data(), sorted_.data() + num_branches_, [&](uint32_t a, uint32_t b) {
    const Branch &one = branches_[a], &other = branches_[b];
    if (one.weight != other.weight) return one.weight < other.weight;
    return one.first != other.first ? one.first > other.first : a < b;
  });
  for (uint32_t i = 0; i < num_branches_; ++i) {  // the last comes to the front
    Branch& branch = branches_[sorted_[i]];
    if (branch.parent == kNone) continue;
    branch.next = branches_[branch.parent].first_below;
    branches_[branch.parent].first_below = sorted_[i];
  }
}

void PrefixWalk::walk(uint32_t* order) {
  sort_branches();
  uint32_t at = kRoot;
  for (;;) {
    while (branches_[at].first_below != kNone) at = branches_[at].first_below;
    for (;; at = branches_[at].parent) {
      for (uint32_t i = branches_[at].first_waiter; i != kNone; i = waiters_[i].next) *order++ = i;
      if (at == kRoot) return;
      if (branches_[at].next != kNone) break;
    }
    at = branches_[at].next;
  }
}

}  // namespace kvc
