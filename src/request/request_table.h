// SPDX-License-Identifier: Apache-2.0
// All requests, each with a table per group. Used under the manager's lock.
#pragma once
#include "base/handle_table.h"
#include "request/request.h"

namespace kvc {

class RequestTable : public HandleTable<Request, HandleKind::kRequest> {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_requests, size_t num_groups, uint32_t tag,
                            uint32_t generation = 0);

  // Fetches ahead what growing by a block touches in the record, behind its first line.
  void prefetch_growth(const Request& request) const {
    __builtin_prefetch(reinterpret_cast<const char*>(&request) + 64, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&request) + 128, 1);
    __builtin_prefetch(&tables_[index_of(request) * num_groups_], 1);
  }
  Request* take();
  // visit(request): those that are admitted.
  template <typename Visit>
  void each_admitted(Visit&& visit) {
    for (size_t i = 0; i < size(); ++i) {
      if (Request& request = at(i); request.id != 0 && request.admitted) visit(request);
    }
  }

 private:
  Array<GroupTable> tables_;  // [max_requests][num_groups]
  size_t num_groups_ = 0;
};

}  // namespace kvc
