// SPDX-License-Identifier: Apache-2.0
#include "manager/zeroing.h"

#include <kvcache/manager.h>

#include <algorithm>

namespace kvc {

bool Zeroing::create(Memory& memory, uint32_t manager_flags, size_t num_ids) {
  always_ = (manager_flags & KVC_MANAGER_ZERO_ALWAYS) != 0;
  if (!always_ && (manager_flags & KVC_MANAGER_ZERO_CROSS_NAMESPACE) == 0) return true;
  return owners_.create(memory, num_ids) && listed_.create(memory, num_ids) &&
         blocks_.create(memory, num_ids);
}

void Zeroing::list_foreign(const BlockId* blocks, size_t count, uint64_t owner) {
  for (size_t i = 0; i < count; ++i) {
    const size_t at = index(blocks[i]);
    const uint64_t before = this->owner(blocks[i]);
    set_owner(blocks[i], owner);
    const bool crosses = before != kNobody && (before != owner || before == kExternal);
    if ((!crosses && !always_) || listed_[at] != 0) continue;
    listed_[at] = 1;
    blocks_[count_++] = raw(blocks[i]);
  }
}

void Zeroing::take_off_list(BlockId block, uint64_t owner) {
  set_owner(block, owner);
  if (listed_[index(block)] == 0) return;
  listed_[index(block)] = 0;
  count_ =
      static_cast<size_t>(std::remove(blocks_.data(), blocks_.data() + count_, raw(block)) - blocks_.data());
}

}  // namespace kvc
