// SPDX-License-Identifier: Apache-2.0
// The presets of models.def as kvc_model, and behind them the models that callers register. Thread-safe.
#pragma once
#include <kvcache/model.h>

#include <string_view>

namespace kvc {

inline constexpr size_t kNoModel = SIZE_MAX;

size_t preset_count();
size_t model_count();  // with the registered ones; it never shrinks

// index < model_count().
kvc_model model_at(size_t index);
std::string_view preset_source(size_t index);  // URL of its config.json.

// Names are equal but for upper and lower case.
bool same_name(std::string_view a, std::string_view b);

// Finds a name, alias or repository, or kNoModel.
size_t find_preset(std::string_view name);
size_t find_model(std::string_view name);

// Writes up to `capacity` names of models that are similar to `name`, nearest first. Returns their number.
using ModelName = char[sizeof(kvc_model::name)];
size_t near_models(std::string_view name, ModelName* names, size_t capacity);

}  // namespace kvc
