// SPDX-License-Identifier: Apache-2.0
// What a plan may still compute: tokens of requests, and tokens of the encoder.
#pragma once
#include "scheduler/options.h"
#include "scheduler/plan_set.h"

namespace kvc {

struct Budget {
  const SchedulerOptions* options = nullptr;
  uint32_t tokens = 0;
  uint64_t encoder = 0;

  void begin() {
    tokens = options->max_tokens;
    encoder = options->max_encoder_tokens;
  }
  // Tokens of a prompt from `first` on that fit into the plan. Takes what they need of the encoder.
  uint32_t chunk(const Job& job, uint32_t first, uint32_t goal, Share* share);
  // Of so many tokens those whose inputs the encoder has room for.
  uint32_t encodable(const Job& job, uint32_t first, uint32_t count, Share* share);
};

}  // namespace kvc
