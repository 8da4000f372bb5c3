// SPDX-License-Identifier: Apache-2.0
#include "scheduler/budget.h"

#include <algorithm>

namespace kvc {

uint32_t Budget::chunk(const Job& job, uint32_t first, uint32_t goal, Share* share) {
  uint32_t count = std::min({goal - first, tokens, options->max_chunk});
  if (options->ends_at_blocks && first + count < goal) {
    const uint32_t end = (first + count) / options->block_size * options->block_size;
    if (end > first) count = end - first;
  }
  return job.num_inputs == 0 ? count : encodable(job, first, count, share);
}

uint32_t Budget::encodable(const Job& job, uint32_t first, uint32_t count, Share* share) {
  const uint64_t before = encoder;
  uint64_t left = before;  // for the inputs from `begin` on, which begin at one token
  uint32_t next = job.next_input, begin = next;
  for (; next < job.num_inputs && job.inputs[next].first_token < first + count; ++next) {
    const JobInput& input = job.inputs[next];
    if (input.first_token != job.inputs[begin].first_token) begin = next, left = encoder;
    if (options->max_encoder_tokens == 0 || input.end() <= job.inputs_from) continue;
    // What the first token needs is needed together.
    const bool alone = (input.first_token <= first ? before : encoder) == options->max_encoder_tokens;
    if (input.num_tokens > encoder && !alone) {
      count = input.first_token <= first ? 0 : input.first_token - first;
      next = begin, encoder = left;  // the chunk ends before that token: it needs none of them
      break;
    }
    encoder -= std::min<uint64_t>(encoder, input.num_tokens);
  }
  if (count == 0) encoder = before;
  share->inputs_end = next;
  return count;
}

}  // namespace kvc
