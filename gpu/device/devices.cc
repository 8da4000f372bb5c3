// SPDX-License-Identifier: Apache-2.0
#include "device/devices.h"

#include <algorithm>
#include <cstdio>

namespace kvc::gpu {
namespace {

Devices find_devices() {
  Devices found;
  uint32_t count = 0;
  runtime::Error error = runtime::device_count(&count);
  for (uint32_t i = 0; error == 0 && i < std::min(count, Devices::kMost); ++i)
    error = runtime::properties(i, &found.properties[i]);
  if (error != 0) {
    std::snprintf(found.remark, sizeof found.remark, "%s (error %d)", runtime::error_text(error), error);
  } else if (count == 0) {
    std::snprintf(found.remark, sizeof found.remark, "the runtime finds no device");
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
