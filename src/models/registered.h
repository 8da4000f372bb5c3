// SPDX-License-Identifier: Apache-2.0
// Models that callers register, beside the presets. None is removed, so that an index stays valid. A fixed
// table: it never allocates. Thread-safe.
#pragma once
#include <kvcache/model.h>

#include <string_view>

namespace kvc {

inline constexpr size_t kNotRegistered = SIZE_MAX;

// The model has its full size, valid fields, and a name that no preset has. Replaces the model of this name.
kvc_status register_model(const kvc_model& model);

size_t registered_count();
kvc_model registered_at(size_t index);  // index < registered_count()
size_t find_registered(std::string_view name);

}  // namespace kvc
