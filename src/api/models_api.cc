// SPDX-License-Identifier: Apache-2.0
// C functions about models. They need no manager and take no lock.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "api/guard.h"
#include "models/hf_config.h"
#include "models/memory.h"
#include "models/registry.h"

using namespace kvc;

namespace {

constexpr size_t kNearNames = 4;
constexpr size_t kShownName = 80;  // Characters of an unknown name in the error text.

kvc_status unknown_model(std::string_view name) {
  const char* near[kNearNames] = {};
  const size_t count = near_models(name, near, kNearNames);
  char list[kNearNames * (sizeof(kvc_model::name) + 2)] = "";
  for (size_t i = 0, at = 0; i < count; ++i)
    at +=
        static_cast<size_t>(std::snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ", near[i]));
  return fail(KVC_ERROR_NOT_FOUND, "no preset \"%.*s%s\"; %s%s",
              static_cast<int>(std::min(name.size(), kShownName)), name.data(),
              name.size() > kShownName ? "..." : "",
              count == 0 ? "kvc_model_get lists all" : "nearest: ", list);
}

}  // namespace

extern "C" {

size_t kvc_model_count(void) { return model_count(); }

kvc_status kvc_model_get(size_t index, kvc_model* model) {
  return guarded([&] {
    return answer(model, [&](kvc_model* out) -> kvc_status {
      if (index >= model_count())
        return invalid("preset %zu does not exist; there are %zu, from 0 on", index, model_count());
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
      if (index == model_count()) return unknown_model(name);
      *out = model_at(index);
      return KVC_OK;
    });
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
    KVC_REQUIRE_POINTER(query);
    kvc_memory_query known;
    kvc_model model;
    KVC_TRY(read_struct(query, &known));
    KVC_REQUIRE_POINTER(known.model);
    KVC_TRY(read_struct(known.model, &model));
    return answer(estimate, [&](kvc_memory_estimate* out) { return estimate_memory(known, model, out); });
  });
}

}  // extern "C"
