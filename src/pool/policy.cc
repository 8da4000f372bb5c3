// SPDX-License-Identifier: Apache-2.0
#include "pool/policy.h"

#include <kvcache/manager.h>

namespace kvc {
namespace {

struct NumberedPolicy {
  uint32_t number;
  const Policy& policy;
};
constexpr NumberedPolicy kPolicies[] = {{KVC_POLICY_LRU, kLruPolicy},
                                        {KVC_POLICY_FREQUENCY, kFrequencyPolicy},
                                        {KVC_POLICY_FRAGMENTATION, kFragmentationPolicy}};

}  // namespace

const Policy* find_policy(uint32_t number) {
  for (const NumberedPolicy& entry : kPolicies) {
    if (entry.number == number) return &entry.policy;
  }
  return nullptr;
}

uint32_t num_policies() { return sizeof kPolicies / sizeof kPolicies[0]; }

}  // namespace kvc
