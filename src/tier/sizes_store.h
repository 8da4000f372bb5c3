// SPDX-License-Identifier: Apache-2.0
// A model of a store, for simulations: it keeps keys and sizes in slots and evicts as a memory store does,
// but no bytes. A get that finds its page writes nothing.
#pragma once
#include "base/env.h"
#include "tier/store.h"

namespace kvc {

// Room for `bytes` of pages of up to `page_bytes` each.
kvc_status make_sizes_store(const Env& env, uint64_t bytes, uint64_t page_bytes, PageStorePtr* out,
                            uint64_t ttl_ns = 0);

}  // namespace kvc
