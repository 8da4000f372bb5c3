// SPDX-License-Identifier: Apache-2.0
// What a scheduler is made with: the calls that it makes of its manager and of an offload, and its
// configuration.
#pragma once
#include <kvcache/manager.h>
#include <kvcache/offload.h>
#include <kvcache/quota.h>
#include <kvcache/resize.h>
#include <kvcache/step.h>

#include "scheduler/prefix_walk.h"

struct kvc_probe_info;

namespace kvc {

// The calls that a scheduler makes.
struct SchedulerCalls {
  kvc_manager* manager;
  kvc_offload* offload;
  decltype(&kvc_manager_step) step;
  decltype(&kvc_manager_retire_step) retire_step;
  decltype(&kvc_manager_append_tokens) append_tokens;
  decltype(&kvc_manager_truncate_request) truncate_request;
  decltype(&kvc_manager_free_request) free_request;
  kvc_status (*probe_request)(kvc_manager* m, uint64_t request, kvc_probe_info* info);
  PrefixWalk::KeyOf prefix_key;
  decltype(&kvc_manager_request_info) request_info;
  decltype(&kvc_manager_pool_info) pool_info;
  decltype(&kvc_manager_read_stats) stats;
  decltype(&kvc_manager_quota_info) quota_info;
  decltype(&kvc_manager_expected_tokens) expected_tokens;
  decltype(&kvc_offload_lookup) look_up;
  decltype(&kvc_offload_query) query;
  decltype(&kvc_offload_cancel) cancel;
  decltype(&kvc_offload_store_request) store;
  decltype(&kvc_offload_read_stats) offload_stats;
};

// A configuration with its defaults, and what the scheduler must know of the manager.
struct SchedulerOptions {
  uint32_t policy, admission, flags, max_running, max_tokens, max_chunk, max_drafts, max_plans, max_adapters,
      max_tenants, adaptive_plans;
  uint64_t max_encoder_tokens, max_request_tokens, max_wait_ns;
  double high_watermark, low_watermark;
  size_t max_jobs, num_groups, num_token_groups, row_stride;
  uint32_t block_size, vocab_size;
  bool ends_at_blocks;  // chunks end there where they can
  bool has_states;      // a failed plan leaves states that nobody knows
  bool has_lengths;     // the manager knows how many tokens requests got

  // Slots behind the known tokens of a request with so many new tokens, for the token that the plan in flight
  // brings. No more than its last token takes, so that a request that fits does so with it.
  uint32_t lookahead(uint64_t max_new) const { return max_plans == 2 && !ends_at_blocks && max_new > 1; }
};

}  // namespace kvc
