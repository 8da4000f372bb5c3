// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointer of a scheduler.
#pragma once
#include <kvcache/metrics.h>

#include "api/locked.h"
#include "scheduler/scheduler.h"

struct kvc_scheduler : kvc::Locked<kvc::Scheduler> {
  using Locked::Locked;
  kvc_manager* manager = nullptr;
  void (*on_pressure)(void* user_data, int32_t high, double usage) = nullptr;
  void* user_data = nullptr;
  kvc::Latencies latencies{env, KVC_LATENCY_PLAN, 2};
};
