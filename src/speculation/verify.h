// SPDX-License-Identifier: Apache-2.0
// Verification of drafts: greedy, exact rejection sampling, typical acceptance. The arguments are checked but
// for the rows of probabilities, which are checked as they are read; results are written only on success.
// Pure; any thread may call.
#pragma once
#include "speculation/distribution.h"
#include "speculation/drafts.h"

namespace kvc {

// Where results stand until all requests have one.
struct VerifyWork {
  float* left;           // [p_width]
  int32_t* path;         // [num_nodes]
  float* thresholds;     // [num_nodes]
  uint32_t* accepted;    // [num_requests]
  int32_t* next_tokens;  // [num_requests]

  static constexpr size_t kUnit = 4;
  // false: the number of units overflows.
  static bool count(const kvc_drafts& drafts, size_t p_width, size_t* units);
  VerifyWork(const kvc_drafts& drafts, size_t p_width, void* memory);
};

struct Targets {
  ProbabilityRows p, q;   // q.values nullptr: all nodes are certain
  const int64_t* q_rows;  // nullptr: node i has row i
  const double* uniforms;
};

void verify_greedy(const kvc_drafts& drafts, const int32_t* target_tokens, const kvc_verdict& verdict);
kvc_status verify_sampling(const kvc_drafts& drafts, const Targets& targets, VerifyWork work,
                           const kvc_verdict& verdict);
kvc_status verify_typical(const kvc_drafts& drafts, const Targets& targets, double epsilon, double delta,
                          VerifyWork work, const kvc_verdict& verdict);

}  // namespace kvc
