// SPDX-License-Identifier: Apache-2.0
// A caller's kvc_attention: checked, with defaults filled in, and as arguments of the CPU attention.
#pragma once
#include "api/storage_handle.h"
#include "attention/attention.h"

namespace kvc {

// Checks all but q and out, and fills in defaults: strides are not 0. `later`: the work is enqueued, and the
// block mask may become another one until it is done, so that each table entry must be a block whatever the
// mask says now.
kvc_status read_attention(const kvc_storage& storage, const kvc_attention* attention, bool later,
                          kvc_backend_attention* out);

// Of what read_attention() gave: queries, or with KVC_LAUNCH_ON_DEVICE at most so many.
uint64_t num_queries(const kvc_backend_attention& attention);

// Of what read_attention() gave; points into the caller's arrays.
AttentionArgs args_of(const Layout& layout, const char* slab, const kvc_backend_attention& attention);

}  // namespace kvc
