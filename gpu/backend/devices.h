// SPDX-License-Identifier: Apache-2.0
// The devices that the runtime finds; it is asked once. Any thread.
#pragma once
#include <cstdint>

#include "runtime.h"

namespace kvc::gpu {

struct Devices {
  static constexpr uint32_t kMost = 64;

  uint32_t count = 0;
  char remark[512] = "";  // why there is none
  runtime::Properties properties[kMost];
};
const Devices& devices();

}  // namespace kvc::gpu
