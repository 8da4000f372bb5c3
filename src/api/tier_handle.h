// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointer of a tier.
#pragma once
#include <kvcache/metrics.h>

#include <atomic>
#include <memory>
#include <shared_mutex>

#include "base/account.h"
#include "tier/tier.h"

struct kvc_tier {
  explicit kvc_tier(const kvc::Env& from = kvc::default_env()) : account(from), env(account.env()) {}

  kvc::Account account;
  const kvc::Env env;
  kvc::Latencies latencies{env, KVC_LATENCY_TIER_EXISTS, kvc::kNumJobKinds};
  std::unique_ptr<kvc::Tier> impl;
  uint64_t page_bytes = 0;  // of the largest page; 0 = not known

  // Its jobs and completions are an offload's from then on. False: they are already.
  bool lend() {
    const std::lock_guard lock(use);
    return !is_offloaded.exchange(true);
  }
  std::shared_mutex use;  // shared: somebody else submits or polls
  std::atomic<bool> is_offloaded{false};
};
