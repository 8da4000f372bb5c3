// SPDX-License-Identifier: Apache-2.0
// Drafts of a caller as views: the nodes of one request, checked. Pure; any thread may call.
#pragma once
#include <kvcache/speculation.h>

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace kvc {

// The nodes of one request.
struct Draft {
  const int32_t* tokens;
  const int32_t* parents;  // nullptr = a chain
  size_t size;
  size_t first;      // number of its first node
  size_t first_row;  // row of its root; that of node i is first_row + 1 + i

  int64_t parent(size_t i) const { return parents != nullptr ? parents[i] : static_cast<int64_t>(i) - 1; }
};

inline Draft draft_of(const kvc_drafts& drafts, size_t request) {
  const size_t first = drafts.offsets[request];
  return {drafts.tokens + first, drafts.parents != nullptr ? drafts.parents + first : nullptr,
          drafts.offsets[request + 1] - first, first, first + request};
}

inline size_t num_nodes(const kvc_drafts& drafts) {
  return drafts.num_requests != 0 ? drafts.offsets[drafts.num_requests] : 0;
}
inline size_t num_rows(const kvc_drafts& drafts) { return num_nodes(drafts) + drafts.num_requests; }

// Pointers are there; offsets ascend; tokens and parents are in range.
kvc_status check_drafts(const kvc_drafts& drafts);

// The accepted nodes of a request are a path from the root of its draft.
kvc_status check_path(const kvc_drafts& drafts, const kvc_verdict& verdict, size_t request);

}  // namespace kvc
