// SPDX-License-Identifier: Apache-2.0
// The names by which options know the types of stored keys and values, and layouts.
#pragma once
#include <kvcache/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/errors.h"

namespace kvcli {

struct Dtype {
  const char* name;
  int32_t value;
};
inline constexpr Dtype kDtypes[] = {{"fp16", KVC_FLOAT16},    {"bf16", KVC_BFLOAT16}, {"fp32", KVC_FLOAT32},
                                    {"fp8", KVC_FLOAT8_E4M3}, {"int8", KVC_INT8},     {"int4", KVC_INT4}};

inline std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const Dtype& dtype : kDtypes) names.emplace_back(dtype.name);
  return names;
}

inline int32_t dtype_of(const std::string& name) {
  for (const Dtype& dtype : kDtypes)
    if (name == dtype.name) return dtype.value;
  throw InputError("--dtype is " + name + "; give fp16, bf16, fp32, fp8, int8 or int4");
}

// In the order of KVC_LAYOUT_*.
inline std::vector<std::string> layout_names() { return {"lbhnc", "lbnhc", "blhnc", "blnhc", "bhlnc"}; }

}  // namespace kvcli
