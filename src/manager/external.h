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
  kvc_status check_token_group(GroupIndex group) const {
    if (group < shape_.num_token_groups) return KVC_OK;
    return fail(KVC_ERROR_UNSUPPORTED,
                "group %u is a cross group, whose blocks have no prefix; requests share them by cross_digest",
                raw(group));
  }
  kvc_status check_exists(const int32_t* blocks, size_t i) const {
    if (blocks[i] == -1 || blocks_.pool().exists(blocks[i])) return KVC_OK;
    return invalid(
        "entry %zu: no block %d; ids end at %llu, kvc_manager_pool_info tells which are blocks now", i,
        blocks[i], ull(blocks_.pool().num_ids() - 1));
  }
  kvc_status begin_entries(const int32_t* blocks, size_t num_blocks);
  kvc_status check_publication(GroupIndex group, const int32_t* blocks, size_t num_blocks, const NodeId* path,
                               size_t known);

  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  Arena& arena_;
};

}  // namespace kvc
