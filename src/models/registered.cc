// SPDX-License-Identifier: Apache-2.0
#include "models/registered.h"

#include <mutex>

#include "base/status.h"
#include "models/registry.h"

namespace kvc {
namespace {

constinit std::mutex models_mutex;  // guards the two below
constinit kvc_model registered_models[KVC_MODEL_MAX_REGISTERED] = {};
constinit size_t num_registered = 0;

size_t find_registered_locked(std::string_view name) {
  for (size_t i = 0; i < num_registered; ++i)
    if (same_name(name, registered_models[i].name)) return i;
  return kNotRegistered;
}

}  // namespace

kvc_status register_model(const kvc_model& model) {
  const std::lock_guard lock(models_mutex);
  size_t index = find_registered_locked(model.name);
  if (index == kNotRegistered && num_registered == KVC_MODEL_MAX_REGISTERED) {
    return fail(KVC_ERROR_LIMIT,
                "%zu models are registered, as many as can be; register \"%s\" under the name of one of them",
                num_registered, model.name);
  }
  if (index == kNotRegistered) index = num_registered++;
  registered_models[index] = model;
  return KVC_OK;
}

size_t registered_count() {
  const std::lock_guard lock(models_mutex);
  return num_registered;
}

kvc_model registered_at(size_t index) {
  const std::lock_guard lock(models_mutex);
  return registered_models[index];
}

size_t find_registered(std::string_view name) {
  const std::lock_guard lock(models_mutex);
  return find_registered_locked(name);
}

}  // namespace kvc
