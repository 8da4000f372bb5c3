// SPDX-License-Identifier: Apache-2.0
// Whether what a manager and its storages are is what a checkpoint was made of.
#pragma once
#include "checkpoint/checkpoint.h"

namespace kvc {

// The part of a manifest that says what it is of.
void describe_source(const Manager& manager, const std::vector<GroupMemory>& groups,
                     const CheckpointOptions& options, Manifest* out);
// INVALID_ARGUMENT with the field and both values. Groups without pages in either are not compared further.
kvc_status check_same_source(const Manifest& saved, const Manifest& here);

}  // namespace kvc
