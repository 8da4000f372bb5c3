// SPDX-License-Identifier: Apache-2.0
// A caller's kvc_attention, checked in all but q, out and what only some calls use, with defaults filled in.
#pragma once
#include "api/storage_handle.h"
#include "attention/attention.h"

namespace kvc {

// *args is written on success; it points into the caller's arrays.
kvc_status read_attention(Storage& storage, const kvc_attention* attention, AttentionArgs* args);

inline uint64_t num_queries(const AttentionArgs& args) {
  return args.num_requests == 0 ? 0 : args.q_offsets[args.num_requests];
}

}  // namespace kvc
