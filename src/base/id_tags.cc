// SPDX-License-Identifier: Apache-2.0
#include "base/id_tags.h"

#include <mutex>

#include "base/handle.h"

namespace kvc {
namespace {

// A tag with less than half of its generations left is not given out again.
constexpr uint32_t kLastStart = uint32_t{1} << 31;

std::mutex mutex;
bool tag_in_use[kMaxHandleTags + 1];
uint32_t generations[kMaxHandleTags + 1];
uint32_t newest_tag = 0;

}  // namespace

IdTag take_id_tag() {
  const std::lock_guard lock(mutex);
  for (uint32_t tried = 0; tried < kMaxHandleTags; ++tried) {
    newest_tag = newest_tag % kMaxHandleTags + 1;
    if (tag_in_use[newest_tag] || generations[newest_tag] >= kLastStart) continue;
    tag_in_use[newest_tag] = true;
    return {newest_tag, generations[newest_tag]};
  }
  return {};
}

void give_back_id_tag(IdTag last) {
  if (last.tag == 0) return;
  const std::lock_guard lock(mutex);
  tag_in_use[last.tag] = false;
  generations[last.tag] = last.generation;
}

}  // namespace kvc
