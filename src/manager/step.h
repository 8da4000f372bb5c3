// SPDX-License-Identifier: Apache-2.0
// A kvc_step after structural validation: pointers, offsets and rows are right, defaults are filled in.
#pragma once
#include <kvcache/step.h>

#include "manager/lookup.h"

namespace kvc {

// Statuses of items while their step runs; never seen by the caller. Committed and not extended yet; of a
// request that an earlier item names.
inline constexpr kvc_status kCommitted = INT32_MIN;
inline constexpr kvc_status kRepeated = INT32_MIN + 1;

// What unset entries of a made step hold. None of these is a valid value.
inline constexpr int32_t kUnsetToken = -1;
inline constexpr uint64_t kUnsetCount = UINT64_MAX;  // a length, or an end of tokens
inline constexpr int32_t kUnsetRow = INT32_MIN;

struct StepPlan {
  kvc_step& step;
  size_t config_stride;  // bytes between two admit_configs

  int32_t row(size_t item) const {
    return step.rows == nullptr ? static_cast<int32_t>(item) : step.rows[item];
  }
  bool writes_row(size_t item) const { return step.block_tables != nullptr && row(item) >= 0; }
  uint64_t extension(size_t i) const {
    return step.extend_offsets == nullptr ? 0 : step.extend_offsets[i + 1] - step.extend_offsets[i];
  }
  size_t commit_tokens(size_t i) const {
    return step.commit_offsets == nullptr
               ? 0
               : static_cast<size_t>(step.commit_offsets[i + 1] - step.commit_offsets[i]);
  }
  // Options of a new request, complete; defaults where none are given.
  kvc_request_config config(size_t i) const;
  TokenSpan prompt(size_t i) const {
    TokenSpan span{step.admit_tokens + step.admit_offsets[i],
                   static_cast<size_t>(step.admit_offsets[i + 1] - step.admit_offsets[i]), nullptr, 0,
                   step.admit_namespaces == nullptr ? 0 : step.admit_namespaces[i]};
    if (step.admit_key_offsets != nullptr) {
      span.keys = step.admit_keys + step.admit_key_offsets[i];
      span.num_keys = static_cast<size_t>(step.admit_key_offsets[i + 1] - step.admit_key_offsets[i]);
    }
    return span;
  }
  // Commits of known tokens and extensions by given ones into rows that are kept: some may stay inside a
  // block.
  bool may_decode() const {
    return step.extend_offsets != nullptr && step.extend_tokens != nullptr &&
           (step.flags & KVC_STEP_WHOLE_ROWS) == 0 &&
           (step.commit_offsets == nullptr || step.commit_offsets[step.num_requests] == 0);
  }
  uint64_t admit_slots(size_t i) const { return step.admit_slots == nullptr ? 0 : step.admit_slots[i]; }
  size_t num_items() const { return step.num_requests + step.num_admissions; }
  kvc_status* request_status() const {
    return step.status + step.num_frees + step.num_preempts + step.num_truncates;
  }
  kvc_status* admission_status() const { return request_status() + step.num_requests; }
};

inline kvc_request_config StepPlan::config(size_t i) const {
  kvc_request_config config = {};
  config.struct_size = sizeof config;
  if (step.admit_configs != nullptr) {
    const char* element = reinterpret_cast<const char*>(step.admit_configs) + i * config_stride;
    std::memcpy(&config, element, config_stride < sizeof config ? config_stride : sizeof config);
  }
  if (admit_slots(i) != 0) config.slots = admit_slots(i);
  return config;
}

}  // namespace kvc
