// SPDX-License-Identifier: Apache-2.0
// The presets of models.def as kvc_model. Thread-safe.
#pragma once
#include <kvcache.h>

#include <string_view>

namespace kvc {

size_t model_count();

// index < model_count().
kvc_model model_at(size_t index);
std::string_view model_source(size_t index);  // URL of its config.json.

// Finds a name, alias or repository; model_count() = not found.
size_t find_model(std::string_view name);

// Writes up to `capacity` names of presets that are similar to `name`, nearest first. Returns their number.
size_t near_models(std::string_view name, const char** names, size_t capacity);

}  // namespace kvc
