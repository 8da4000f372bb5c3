// SPDX-License-Identifier: Apache-2.0
#include "speculation/acceptance.h"

#include <algorithm>

namespace kvc {
namespace {

constexpr double kPrior = 0.7, kPriorWeight = 4;

void add(uint64_t* counter, uint64_t value) {
  if (__builtin_add_overflow(*counter, value, counter)) *counter = UINT64_MAX;
}

bool has_child(const Draft& draft, int64_t node) {
  for (auto i = static_cast<size_t>(node + 1); i < draft.size; ++i)
    if (draft.parent(i) == node) return true;
  return false;
}

}  // namespace

void count_verdict(const kvc_drafts& drafts, const kvc_verdict& verdict, kvc_acceptance* counts) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    if (draft.size == 0) continue;
    const uint64_t accepted = verdict.num_accepted[r];
    add(&counts->num_drafts, 1);
    add(&counts->num_nodes, draft.size);
    add(&counts->num_accepted, accepted);
    for (size_t d = 0; d < std::min<uint64_t>(accepted, KVC_MAX_DRAFT_DEPTHS); ++d) {
      add(&counts->tried[d], 1);
      add(&counts->accepted[d], 1);
    }
    const int64_t last = accepted != 0 ? verdict.path[draft.first + accepted - 1] : -1;
    if (accepted < KVC_MAX_DRAFT_DEPTHS && has_child(draft, last)) add(&counts->tried[accepted], 1);
  }
}

void halve(kvc_acceptance* counts) {
  counts->num_drafts /= 2, counts->num_nodes /= 2, counts->num_accepted /= 2;
  for (uint64_t& count : counts->tried) count /= 2;
  for (uint64_t& count : counts->accepted) count /= 2;
}

uint32_t best_length(const kvc_acceptance& counts, const double* costs, size_t num_costs,
                     double* num_tokens) {
  double estimate = kPrior, reached = 1, tokens = 1, best_rate = 1 / costs[0], best_tokens = 1;
  size_t best = 0;
  for (size_t length = 1; length < num_costs; ++length) {
    const size_t depth = length - 1;
    if (depth < KVC_MAX_DRAFT_DEPTHS) {
      estimate = (static_cast<double>(counts.accepted[depth]) + kPriorWeight * estimate) /
                 (static_cast<double>(counts.tried[depth]) + kPriorWeight);
    }
    reached *= estimate;
    tokens += reached;
    if (tokens / costs[length] > best_rate) {
      best = length, best_rate = tokens / costs[length], best_tokens = tokens;
    }
  }
  *num_tokens = best_tokens;
  return static_cast<uint32_t>(best);
}

}  // namespace kvc
