// SPDX-License-Identifier: Apache-2.0
// Rotary embedding for `kvcache bench --rope`.
#pragma once
#include <kvcache/model.h>
#include <kvcache/storage.h>

#include <vector>

#include "cli/bench.h"

namespace kvcli {

/// Cosines and sines of all positions of a request.
std::vector<float> rope_angles(const BenchOptions& options);

/// Makes a store of these rows rotate their keys. `table` has those angles, `positions` one entry per token.
void rotate_by(const float* table, const BenchOptions& options, const void* positions, kvc_rows* rows);

/// The keys of such rows, for kvc_rope_apply.
kvc_rope_rows keys_of(const kvc_rows& rows, const BenchOptions& options);

}  // namespace kvcli
