// SPDX-License-Identifier: Apache-2.0
#include "metrics/families.h"

#include <cstring>
#include <iterator>

namespace kvc {
namespace {

MetricValue value_of(uint64_t number) { return number; }
MetricValue value_of(uint32_t number) { return uint64_t{number}; }
MetricValue value_of(double number) { return number; }
MetricValue value_of(const LatencyReading& reading) { return &reading; }

// A row of the table: a family, or a value of the family above it.
struct Row {
  bool is_family;
  Family family;
};

constexpr Row kRows[] = {
#define KVC_FAMILY(type, name, unit, help) {true, {FamilyType::type, false, name, unit, help, 0, 0}},
#define KVC_VLLM_FAMILY(type, name, unit, help) {true, {FamilyType::type, true, name, unit, help, 0, 0}},
#define KVC_VALUE(part, field, labels) {false, {}},
#include "metrics/families.def"
#undef KVC_FAMILY
#undef KVC_VLLM_FAMILY
#undef KVC_VALUE
};

constexpr size_t count_families() {
  size_t count = 0;
  for (const Row& row : kRows) count += row.is_family;
  return count;
}

struct Families {
  Family all[count_families()] = {};
};

constexpr Families collect_families() {
  Families families;
  size_t count = 0, values = 0;
  for (const Row& row : kRows) {
    if (row.is_family) {
      families.all[count] = row.family;
      families.all[count++].first_value = values;
    } else {
      ++families.all[count - 1].num_values;
      ++values;
    }
  }
  return families;
}

constexpr Families kCollected = collect_families();

// Of parts, of values, and those that OpenMetrics reserves. tests/metrics checks that none is missing.
constexpr const char* kOwnLabels[] = {"call", "change",   "kind",   "le",     "order", "part",
                                      "pool", "quantile", "reason", "result", "state", "tier_index"};

}  // namespace

const FamilyValue kFamilyValues[] = {
#define KVC_FAMILY(type, name, unit, help)
#define KVC_VLLM_FAMILY(type, name, unit, help)
#define KVC_VALUE(part, field, labels)                  \
  {labels, [](const PartData& data, MetricValue* out) { \
     const auto* from = std::get_if<part>(&data);       \
     if (from != nullptr) *out = value_of(from->field); \
     return from != nullptr;                            \
   }},
#include "metrics/families.def"
#undef KVC_FAMILY
#undef KVC_VLLM_FAMILY
#undef KVC_VALUE
};

const Family* const kFamilies = kCollected.all;
const size_t kNumFamilies = std::size(kCollected.all);

bool is_own_label(const char* name) {
  for (const char* own : kOwnLabels)
    if (std::strcmp(own, name) == 0) return true;
  return false;
}

}  // namespace kvc
