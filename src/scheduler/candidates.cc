// SPDX-License-Identifier: Apache-2.0
#include "scheduler/candidates.h"

#include <kvcache/prefix.h>

#include <algorithm>

namespace kvc {

// The first jobs of the policy's order, sorted by what is cached of them. With fair shares those of the
// tenant whose turn it is, who keeps it: they stay in their queue.
void Candidates::add_sorted() {
  const size_t begin = count_;
  while (count_ < kMost) {
    JobIndex index = waiting_->top();
    if (index == kNoJob) break;
    if (waiting_->policy() == KVC_SCHEDULE_FAIR && !(*jobs_)[index].aged) {
      for (; index != kNoJob && count_ < kMost; index = (*jobs_)[index].tenant_after) add(index);
      break;
    }
    waiting_->set_aside(index);
    add(index);
  }
  for (size_t i = begin; i < count_; ++i) {
    kvc_probe_info info = {};
    info.struct_size = sizeof info;
    if (calls_->probe_request(calls_->manager, (*jobs_)[list_[i].job].id, &info) == KVC_OK)
      list_[i].cached = info.num_cached;
  }
  const bool longest = (options_->flags & KVC_SCHEDULER_CACHE_AWARE) != 0;
  if (!longest) walk_prefixes(begin);
  std::sort(list_.data() + begin, list_.data() + count_, [&](const Candidate& a, const Candidate& b) {
    if (longest && may_swap(a, b) && a.cached != b.cached) return a.cached > b.cached;
    return a.order < b.order;
  });
}

// Whether what is cached decides which of them comes first.
bool Candidates::may_swap(const Candidate& a, const Candidate& b) const {
  const Job &one = (*jobs_)[a.job], &other = (*jobs_)[b.job];
  return !one.aged && !other.aged &&
         (waiting_->policy() != KVC_SCHEDULE_PRIORITY || one.priority == other.priority);
}

// Gives the candidates from `begin` on the order of a walk of the tree of their cached prefixes.
void Candidates::walk_prefixes(size_t begin) {
  for (size_t end; begin < count_; begin = end) {
    walk_.begin();
    for (end = begin; end < count_ && (end == begin || may_swap(list_[begin], list_[end])); ++end)
      walk_.add((*jobs_)[list_[end].job].id, static_cast<size_t>(list_[end].cached) / options_->block_size);
    uint32_t order[kMost];
    walk_.walk(order);
    for (size_t i = begin; i < end; ++i) list_[begin + order[i - begin]].order = i;
  }
}

}  // namespace kvc
