// SPDX-License-Identifier: Apache-2.0
// Where copy-on-write pairs go: into the arrays of a step, or, from single calls, into the manager's list
// until they are taken.
#pragma once
#include "manager/manager.h"

namespace kvc {

struct Manager::CopyList {
  bool pending;  // single calls
  kvc_block_copy* out = nullptr;
  size_t count = 0;
  CopyList* next = nullptr;  // of another step that a thread is carrying out

  [[nodiscard]] bool reserve(Manager& manager, size_t added);
  void add(Manager& manager, BlockId source, BlockId destination);
};

}  // namespace kvc
