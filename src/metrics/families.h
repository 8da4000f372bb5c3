// SPDX-License-Identifier: Apache-2.0
// The table of all metrics (families.def), and what it reads from parts.
#pragma once
#include "metrics/parts.h"

namespace kvc {

enum class FamilyType { kGauge, kCounter, kHistogram };

// A number of a part, exact for integers; or a histogram of it.
using MetricValue = std::variant<uint64_t, double, const LatencyReading*>;

struct FamilyValue {
  const char* labels;
  bool (*read)(const PartData& data, MetricValue* out);  // false: of another part
};

struct Family {
  FamilyType type;
  bool is_vllm;
  const char *name, *unit, *help;
  size_t first_value, num_values;
};

extern const FamilyValue kFamilyValues[];
extern const Family* const kFamilies;
extern const size_t kNumFamilies;

// Whether a family or a part uses the name of a label.
bool is_own_label(const char* name);

}  // namespace kvc
