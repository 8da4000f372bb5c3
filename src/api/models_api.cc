// SPDX-License-Identifier: Apache-2.0
// C functions about models. They need no manager and take no lock.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "api/guard.h"
#include "api/storage_handle.h"
#include "models/hf_config.h"
#include "models/memory.h"
#include "models/registered.h"
#include "models/registry.h"
#include "models/rope.h"

using namespace kvc;

namespace {

constexpr size_t kNearNames = 4;
constexpr size_t kShownName = 80;  // Characters of an unknown name in the error text.

kvc_status unknown_model(std::string_view name) {
  ModelName near[kNearNames];
  const size_t count = near_models(name, near, kNearNames);
  char list[kNearNames * (sizeof(kvc_model::name) + 2)] = "";
  for (size_t i = 0, at = 0; i < count; ++i)
    at +=
        static_cast<size_t>(std::snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ", near[i]));
  return fail(KVC_ERROR_NOT_FOUND, "no model \"%.*s%s\"; %s%s",
              static_cast<int>(std::min(name.size(), kShownName)), name.data(),
              name.size() > kShownName ? "..." : "",
              count == 0 ? "kvc_model_get lists all" : "nearest: ", list);
}

kvc_status check_name(const kvc_model& model) {
  const std::string_view name(model.name, strnlen(model.name, sizeof model.name));
  const bool visible = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (name.empty() || name.size() == sizeof model.name || !visible) {
    return invalid(
        "kvc_model.name has %zu bytes%s; give 1 .. %zu printable ASCII characters without spaces, and a zero",
        name.size(), visible ? "" : ", some of them others", sizeof model.name - 1);
  }
  if (const size_t preset = find_preset(name); preset != kNoModel) {
    return invalid("\"%s\" means the preset %s, which stays as it is; register the model by another name",
                   model.name, model_at(preset).name);
  }
  return KVC_OK;
}

// Rotary embedding is described if there is a base.
kvc_status check_embedding(const kvc_model& model) {
  uint32_t unused = 0;
  for (uint32_t layer = 0; model.rope_theta != 0 && layer < model.num_layers; ++layer) {
    if ((model.state_layers[layer / 64] >> layer % 64 & 1) == 0)
      KVC_TRY(check_rope_fields(model, layer, &unused));
  }
  return KVC_OK;
}

// Turns a fraction into budget_bytes.
kvc_status read_fraction(kvc_memory_query* query) {
  const double fraction = static_cast<double>(query->memory_fraction);
  if (fraction == 0) return KVC_OK;
  if (!(fraction > 0 && fraction <= 1))
    return invalid("query.memory_fraction is %g; above 0 and at most 1, or 0 = budget_bytes", fraction);
  if (query->budget_bytes != 0) {
    return invalid("query.memory_fraction is %g and query.budget_bytes %llu; set one of them, the other to 0",
                   fraction, ull(query->budget_bytes));
  }
  const kvc_backend* backend;
  uint32_t device;
  kvc_backend_device info = {};
  KVC_TRY(find_device(query->device, &backend, &device));
  KVC_TRY(backend->properties(device, &info));
  if (info.free_bytes == 0) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "%s does not tell its free memory; set budget_bytes instead of memory_fraction",
                backend->name);
  }
  query->budget_bytes = static_cast<uint64_t>(static_cast<double>(info.free_bytes) * fraction);
  query->memory_fraction = 0;
  return KVC_OK;
}

}  // namespace

namespace kvc {

kvc_status read_memory_query(const kvc_memory_query* query, kvc_memory_query* out, kvc_model* model) {
  KVC_REQUIRE_POINTER(query);
  KVC_TRY(read_struct(query, out));
  KVC_REQUIRE_POINTER(out->model);
  KVC_TRY(read_struct(out->model, model));
  return read_fraction(out);
}

}  // namespace kvc

extern "C" {

size_t kvc_model_count(void) { return model_count(); }

kvc_status kvc_model_get(size_t index, kvc_model* model) {
  return guarded([&] {
    return answer(model, [&](kvc_model* out) -> kvc_status {
      if (index >= model_count())
        return invalid("model %zu does not exist; there are %zu, from 0 on", index, model_count());
      *out = model_at(index);
      return KVC_OK;
    });
  });
}

kvc_status kvc_model_find(const char* name, kvc_model* model) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(name);
    return answer(model, [&](kvc_model* out) -> kvc_status {
      const size_t index = find_model(name);
      if (index == kNoModel) return unknown_model(name);
      *out = model_at(index);
      return KVC_OK;
    });
  });
}

kvc_status kvc_model_register(const kvc_model* model) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(model);
    kvc_model known;
    KVC_TRY(read_struct(model, &known));
    KVC_TRY(check_name(known));
    KVC_TRY(check_model(known));
    if (known.max_context == 0)
      return invalid("kvc_model.max_context is 0; give the tokens of the longest sequence");
    KVC_TRY(check_embedding(known));
    return register_model(known);
  });
}

kvc_status kvc_model_from_config(const char* json, size_t size, kvc_model* model) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_MEMORY(json, size);
    KVC_REQUIRE_POINTER(model);
    return answer(model, [&](kvc_model* out) { return parse_hf_config({json, size}, out); });
  });
}

kvc_status kvc_estimate_memory(const kvc_memory_query* query, kvc_memory_estimate* estimate) {
  return guarded([&]() -> kvc_status {
    kvc_memory_query known;
    kvc_model model;
    KVC_TRY(read_memory_query(query, &known, &model));
    return answer(estimate, [&](kvc_memory_estimate* out) { return estimate_memory(known, model, out); });
  });
}

}  // extern "C"
