// SPDX-License-Identifier: Apache-2.0
#include "request/request_table.h"

namespace kvc {

bool RequestTable::create(Memory& memory, size_t max_requests, size_t num_groups, uint32_t tag,
                          uint32_t generation) {
  num_groups_ = num_groups;
  size_t tables;
  return checked_mul(max_requests, num_groups, &tables) &&
         HandleTable::create(memory, max_requests, tag, generation) && tables_.create(memory, tables);
}

Request* RequestTable::take() {
  Request* request = HandleTable::take();
  if (request == nullptr) return nullptr;
  request->groups = &tables_[index_of(*request) * num_groups_];
  for (size_t g = 0; g < num_groups_; ++g) request->groups[g] = {};
  request->cursor = kNoNode;
  request->next_full = UINT32_MAX;
  request->row = -1;
  return request;
}

}  // namespace kvc
