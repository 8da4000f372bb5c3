// SPDX-License-Identifier: Apache-2.0
// Where the accepted nodes of drafts must move, so that they follow the known tokens; where the state after
// them must go. Pure; any thread may call.
#pragma once
#include "speculation/drafts.h"

namespace kvc {

// Paths and tables are checked. Writes the first `capacity` moves and counts all.
kvc_status list_moves(const kvc_drafts& drafts, const kvc_verdict& verdict, const kvc_draft_tables& tables,
                      kvc_token_copy* moves, size_t capacity, size_t* count);

// The same for copies of states, one a request. nullptr: checks alone. starts are at least 1.
kvc_status list_states(const kvc_drafts& drafts, const kvc_verdict& verdict, const kvc_draft_tables& tables,
                       const int32_t* states, kvc_block_copy* copies);

}  // namespace kvc
