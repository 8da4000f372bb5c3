// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointer of an offload.
#pragma once
#include <memory>
#include <string>

#include "api/tier_handle.h"
#include "offload/offload.h"

struct kvc_offload {
  explicit kvc_offload(const kvc::Env& from) : account(from), env(account.env()) {}
  ~kvc_offload() {
    impl.reset();
    for (kvc_tier* tier : tiers)
      if (tier != nullptr) tier->is_offloaded = false;
  }

  kvc::Account account;
  const kvc::Env env;
  kvc::Latencies latencies{env, KVC_LATENCY_POLL, 2};
  std::unique_ptr<kvc::Offload> impl;
  kvc_manager* manager = nullptr;
  kvc_tier* tiers[kvc::kMaxOffloadTiers] = {};
  std::string differences[kvc::kMaxOffloadTiers];  // of what the tiers had
  const kvc_backend* backend = nullptr;
  uint32_t device = 0;
};
