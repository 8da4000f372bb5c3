// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointer of a tier.
#pragma once
#include <kvcache/metrics.h>

#include <atomic>
#include <memory>

#include "base/account.h"
#include "tier/tier.h"

struct kvc_tier {
  explicit kvc_tier(const kvc::Env& from = kvc::default_env()) : account(from), env(account.env()) {}

  kvc::Account account;
  const kvc::Env env;
  kvc::Latencies latencies{env, KVC_LATENCY_TIER_EXISTS, kvc::kNumJobKinds};
  std::unique_ptr<kvc::Tier> impl;
  uint64_t page_bytes = 0;                // of the largest page; 0 = not known
  std::atomic<bool> is_offloaded{false};  // its jobs and completions are an offload's
};
