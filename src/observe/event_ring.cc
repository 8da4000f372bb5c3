// SPDX-License-Identifier: Apache-2.0
#include "observe/event_ring.h"

namespace kvc {

bool EventRing::create(Memory& memory, const Env& env, size_t capacity) {
  if (capacity == 0) return true;
  if (!records_.create(memory, capacity)) return false;
  wall_clock_ns_ = env.wall_clock_ns;
  capacity_ = capacity;
  return true;
}

}  // namespace kvc
