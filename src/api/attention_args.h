// SPDX-License-Identifier: Apache-2.0
// The one place that checks a caller's kvc_attention and translates it for backends.
#pragma once
#include "api/storage_handle.h"

namespace kvc {

// kEnqueue: until the work is done, the block mask may become another one, so that each table entry must be a
// block whatever the mask says now. kSelect: for read_selection().
enum class AttentionUse { kNow, kEnqueue, kSelect };

// Checks everything but q and out.
kvc_status read_attention(const kvc_storage& storage, const kvc_attention* attention, AttentionUse use,
                          kvc_backend_attention* out);
// Checks everything but q.
kvc_status read_selection(const kvc_storage& storage, const kvc_attention* attention,
                          const kvc_block_choice* choice, kvc_backend_attention* out,
                          kvc_backend_selection* selection);

// The caller's structs with the defaults that read_attention() has filled in: for kernels of the caller.
kvc_attention complete_attention(const kvc_attention* attention, const kvc_backend_attention& a,
                                 kvc_attention_launch* launch);

}  // namespace kvc
