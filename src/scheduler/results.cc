// SPDX-License-Identifier: Apache-2.0
#include "scheduler/results.h"

#include <algorithm>

namespace kvc {

// Offsets of one token for each item that samples.
kvc_status Results::make_offsets(const PlanSet& set, kvc_plan_result* result) {
  for (size_t i = 0; i < set.num_items; ++i) {
    if (set.num_drafts[i] != 0)
      return invalid("token_offsets is NULL and item %zu has %u drafts; say how many tokens each item brings",
                     i, set.num_drafts[i]);
    offsets_[i + 1] = offsets_[i] + set.samples[i];
  }
  result->token_offsets = offsets_.data();
  return KVC_OK;
}

// Whether each item that samples brings one token, and all of these are token ids: the usual case.
bool Results::brings_one_each(const PlanSet& set, const kvc_plan_result& result) const {
  const uint64_t* const offsets = result.token_offsets;
  uint64_t differs = offsets[0];
  for (size_t i = 0; i < set.num_items; ++i) differs |= (offsets[i + 1] - offsets[i]) ^ set.samples[i];
  if (differs != 0 || result.tokens == nullptr) return false;
  const uint32_t limit = std::min(vocab_size_ - 1, uint32_t{INT32_MAX});  // also without a vocabulary
  uint32_t bad = 0;  // the top bit is set if a token is negative or above the limit
  for (size_t i = 0; i < offsets[set.num_items]; ++i) {
    const auto token = static_cast<uint32_t>(result.tokens[i]);
    bad |= token | (limit - token);
  }
  return bad <= INT32_MAX;
}

kvc_status Results::check_tokens(const PlanSet& set, const JobTable& jobs,
                                 const kvc_plan_result& result) const {
  if (brings_one_each(set, result)) return KVC_OK;
  if (result.token_offsets[0] != 0)
    return invalid("token_offsets[0] is %llu; offsets begin with 0", ull(result.token_offsets[0]));
  for (size_t i = 0; i < set.num_items; ++i) {  // before any token is read
    if (result.token_offsets[i + 1] >= result.token_offsets[i]) continue;
    return invalid("token_offsets[%zu] is %llu after %llu; offsets never decrease", i + 1,
                   ull(result.token_offsets[i + 1]), ull(result.token_offsets[i]));
  }
  for (size_t i = 0; i < set.num_items; ++i) {
    const uint64_t begin = result.token_offsets[i], end = result.token_offsets[i + 1];
    const JobIndex index = jobs.find(set.requests[i]);
    if (index == kNoJob || jobs[index].state == JobState::kEnding) continue;
    const uint64_t most = set.samples[i] != 0 ? uint64_t{set.num_drafts[i]} + 1 : 0;
    if (end - begin > most || (most != 0 && end == begin)) {
      return invalid("item %zu brings %llu tokens; it brings %s%llu", i, ull(end - begin),
                     most > 1 ? "1 to " : "", ull(most));
    }
    if (end == begin) continue;
    if (result.tokens == nullptr) return invalid("tokens is NULL and item %zu brings some", i);
    for (uint64_t t = begin; t < end; ++t) {
      const int32_t token = result.tokens[t];
      if (token >= 0 && (vocab_size_ == 0 || static_cast<uint32_t>(token) < vocab_size_)) continue;
      return invalid("tokens[%llu] is %d; token ids are 0 to %u", ull(t), token,
                     vocab_size_ == 0 ? uint32_t{INT32_MAX} : vocab_size_ - 1);
    }
  }
  return KVC_OK;
}

}  // namespace kvc
