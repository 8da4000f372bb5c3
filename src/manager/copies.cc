// SPDX-License-Identifier: Apache-2.0
#include "manager/copies.h"

#include <algorithm>

namespace kvc {

bool WaitingCopies::reserve(size_t added) {
  if (!buffer_.reserve(arena_, list_.count + added, list_.count)) return false;
  list_.out = buffer_.data;
  return true;
}

void WaitingCopies::take(kvc_block_copy* copies) {
  for (size_t i = 0; i < list_.count; ++i) copies[i] = list_.out[i];
  release_sources(list_);
  list_.count = 0;
}

void WaitingCopies::release_sources(const CopyList& copies) {
  for (size_t i = 0; i < copies.count; ++i) blocks_.release_source(BlockId{copies.out[i].source});
}

// The last one first: its source may be the destination of an earlier one.
void WaitingCopies::drop() {
  for (size_t i = list_.count; i-- > 0;) {
    const auto [source, destination] = list_.out[i];
    if (blocks_.pool()[BlockId{destination}].held()) continue;
    blocks_.cancel_copy(BlockId{source}, BlockId{destination});
    --list_.count;
    std::copy(list_.out + i + 1, list_.out + list_.count + 1, list_.out + i);
  }
}

}  // namespace kvc
