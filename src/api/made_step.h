// SPDX-License-Identifier: Apache-2.0
// Steps whose arrays the library makes (kvc_step_create). A made step keeps to its own arrays, whatever
// counts, offsets and capacities were put into it, and refuses entries that were not set: they never count as
// data. Steps of the caller's own pass all of these checks.
#pragma once
#include <kvcache/step.h>

namespace kvc {

class Manager;

// api/step_api.cc: what a step must satisfy by itself, before the manager sees it. *stride: bytes between two
// of its admit_configs. May write num_slots, as BUFFER_TOO_SMALL says.
kvc_status check_step(const Manager& manager, kvc_step* step, size_t* stride);

// INVALID_ARGUMENT if the step was made for another manager, or if its counts and capacities exceed one of
// its arrays that is in use.
kvc_status check_made_step(const Manager& manager, const kvc_step& step);

// The same for one array of which `used` entries are used.
kvc_status check_room(const kvc_step& step, int array, uint64_t used);

// Unsets the entries that a made step has read, so that they count once. Leaves arrays of the caller's own
// alone. `created`: whether it created requests, as it was found: the caller may use one array for
// admit_requests and `admitted`.
void unset_inputs(const kvc_step& step, bool created);

}  // namespace kvc
