// SPDX-License-Identifier: Apache-2.0
// Copies of blocks, on a write or of the head of a block, that the engine has yet to make. The source of each
// is held until the step ends, or the pair is taken or dropped. Under the manager's lock.
#pragma once
#include <algorithm>

#include "manager/blocks.h"

namespace kvc {

// The copies of a step, in the caller's array, or those that wait.
struct CopyList {
  kvc_block_copy* out = nullptr;
  size_t count = 0;
  CopyList* next = nullptr;  // of another step that a thread is carrying out

  // There is room, and the source is held for the copy.
  void add(BlockId source, BlockId destination) { out[count++] = {raw(source), raw(destination)}; }
};

// Those of single calls wait until they are taken or their destination has no holder.
class WaitingCopies {
 public:
  WaitingCopies(Blocks& blocks, Arena& arena) : blocks_(blocks), arena_(arena) {}

  CopyList& list() { return list_; }
  const CopyList& list() const { return list_; }
  // Room for so many more; a step has checked its own.
  bool reserve(size_t added) {
    if (!buffer_.reserve(arena_, list_.count + added, list_.count)) return false;
    list_.out = buffer_.data;
    return true;
  }
  // Hands out all and forgets them.
  void take(kvc_block_copy* copies) {
    std::copy_n(list_.out, list_.count, copies);
    release_sources(list_);
    list_.count = 0;
  }
  void release_sources(const CopyList& copies) {
    for (size_t i = 0; i < copies.count; ++i) blocks_.release_source(BlockId{copies.out[i].source});
  }
  // After a request has released blocks: pairs whose destination nobody holds any more are dropped, before
  // somebody else gets it.
  void drop_released() {
    if (list_.count != 0) [[unlikely]]
      drop();
  }

 private:
  // The last one first: its source may be the destination of an earlier one.
  [[gnu::noinline]] void drop() {
    for (size_t i = list_.count; i-- > 0;) {
      const auto [source, destination] = list_.out[i];
      if (blocks_.pool()[BlockId{destination}].held()) continue;
      blocks_.cancel_copy(BlockId{source}, BlockId{destination});
      --list_.count;
      std::copy(list_.out + i + 1, list_.out + list_.count + 1, list_.out + i);
    }
  }

  Blocks& blocks_;
  Arena& arena_;
  CopyList list_;
  Buffer<kvc_block_copy> buffer_ = {};
};

}  // namespace kvc
