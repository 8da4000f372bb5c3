// SPDX-License-Identifier: Apache-2.0
// A caller's kvc_attention, checked in all but q, out and what only some calls use, with defaults filled in;
// and as what the CPU attention takes.
#pragma once
#include "api/storage_handle.h"
#include "attention/attention.h"

namespace kvc {

// *out is written on success; it points into the caller's arrays. What is not done `now` but in a stream may
// follow work that writes its masks: they are not read here.
kvc_status read_attention(const kvc_storage& storage, const kvc_attention* attention, bool now,
                          kvc_attention* out);

AttentionArgs attention_args(const Layout& layout, const char* slab, const kvc_attention& attention);

inline uint64_t num_queries(const kvc_attention& attention) {
  return attention.num_requests == 0 ? 0 : attention.q_offsets[attention.num_requests];
}

}  // namespace kvc
