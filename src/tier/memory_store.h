// SPDX-License-Identifier: Apache-2.0
// Pages in the memory of this process: slots of one size, taken when the store is made. Thread-safe.
#pragma once
#include "base/env.h"
#include "tier/store.h"

namespace kvc {

// `bytes` of pages of up to `page_bytes` each, which take multiples of 64 bytes. `batches`: threads take
// several small pages at once, so that they wait less for locks.
kvc_status make_memory_store(const Env& env, uint64_t bytes, uint64_t page_bytes, PageStorePtr* out,
                             SlotPolicy policy = SlotPolicy::kLru, uint64_t ttl_ns = 0, bool batches = false);

}  // namespace kvc
