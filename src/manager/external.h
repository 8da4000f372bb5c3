// SPDX-License-Identifier: Apache-2.0
// External blocks, for engines that keep their own tables: acquire, look up, publish, release. External holds
// are counted apart from those of requests. An entry of -1 in a list of blocks stands for none.
#pragma once
#include "manager/matcher.h"

namespace kvc {

class ExternalBlocks {
 public:
  ExternalBlocks(const Shape& shape, Blocks& blocks, Matcher& matcher, Arena& arena)
      : shape_(shape), blocks_(blocks), matcher_(matcher), arena_(arena) {}

  // Under the manager's lock, all of them.
  kvc_status acquire(GroupIndex group, int32_t* blocks, size_t num_blocks);
  kvc_status acquire_prefix(LookupScratch& scratch, GroupIndex group, int32_t* blocks, size_t capacity,
                            size_t* count);
  kvc_status publish(LookupScratch& scratch, GroupIndex group, const int32_t* blocks, size_t num_blocks);
  kvc_status release(const int32_t* blocks, size_t num_blocks);
  kvc_status unpublish(const int32_t* blocks, size_t num_blocks, uint64_t* num_unpublished);

 private:
  kvc_status check_token_group(GroupIndex group) const;
  kvc_status check_exists(const int32_t* blocks, size_t i) const;
  kvc_status begin_entries(const int32_t* blocks, size_t num_blocks);
  kvc_status check_publication(GroupIndex group, const int32_t* blocks, size_t num_blocks, const NodeId* path,
                               size_t known);

  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  Arena& arena_;
};

}  // namespace kvc
