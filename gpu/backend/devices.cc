// SPDX-License-Identifier: Apache-2.0
#include "backend/devices.h"

#include <algorithm>

namespace kvc::gpu {
namespace {

Devices find_devices() {
  Devices found;
  uint32_t count = 0;
  runtime::Error error = runtime::device_count(&count);
  for (uint32_t i = 0; error == 0 && i < std::min(count, Devices::kMost); ++i)
    error = runtime::properties(i, &found.properties[i]);
  if (error != 0 || count == 0) {
    runtime::explain_none(error, found.remark, sizeof found.remark);
  } else {
    found.count = std::min(count, Devices::kMost);
  }
  return found;
}

}  // namespace

const Devices& devices() {
  static const Devices all = find_devices();
  return all;
}

}  // namespace kvc::gpu
