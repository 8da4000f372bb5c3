// SPDX-License-Identifier: Apache-2.0
// Forks: a request that shares its parent's blocks.
#include <algorithm>
#include <cstring>

#include "manager/requests.h"

namespace kvc {

void Requests::share_blocks(const Request& parent, Request& child, size_t positions) {
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    child.groups[g].dropped = std::min(parent.groups[g].dropped, shape_.dropped_below(g, parent.committed));
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = parent.groups[g].blocks.data[j];
      child.groups[g].blocks.data[j] = block;
      if (is_block(block)) blocks_.share(block);
    }
  }
}

kvc_status Requests::fork(Request& parent, uint64_t* child_id) {
  KVC_TRY(features_.try_each([&](const auto& feature) { return feature.check_fork(parent); }));
  if (!returns_.has_windows(parent, parent.committed)) {
    return fail(KVC_ERROR_BUSY,
                "the transfer of the request is not committed: a fork would lack the window before token %u; "
                "commit %llu tokens first",
                parent.committed, ull(transferred(parent)));
  }
  Request* taken = nullptr;
  KVC_TRY(take_record(parent.ns, &taken));
  Request& child = *taken;
  const size_t full = shape_.by_block.divide(parent.committed);
  const size_t published = full < parent.published ? full : parent.published;  // more may be filling
  const auto first = static_cast<uint32_t>(published * shape_.block_size);
  const uint32_t unpublished = parent.committed - first;
  const size_t positions = shape_.positions_of(parent.committed);
  const uint32_t num_keys = parent.keys_within(parent.committed);
  if (!child.tail.reserve(arena_, unpublished + 2 * shape_.block_size, 0) ||
      !reserve_tables(child, positions) ||
      !child.keys.reserve(arena_, num_keys + parent.ends_inside_key(parent.committed), 0) ||
      !gather_tokens(parent, published)) {
    discard(child);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a fork of %u tokens", parent.committed);
  }
  if (const kvc_status status =
          features_.try_each([&](auto& feature) { return feature.reserve_fork(parent, child); });
      status != KVC_OK) {
    discard(child);
    return status;
  }

  if (unpublished != 0) std::memcpy(child.tail.data, parent.token(first), unpublished * sizeof(int32_t));
  if (num_keys != 0) std::memcpy(child.keys.data, parent.keys.data, num_keys * sizeof(ExtraKey));
  child.fork_from(parent, positions, published, num_keys);
  child.cut_keys(child.known);
  blocks_.positions().move_cursor(&child.cursor, cursor_at(parent, published));
  child.set_chain(is_node(child.cursor) ? blocks_.tree()[child.cursor].key : matcher_.root(child.ns),
                  child.published);
  share_blocks(parent, child, positions);
  features_.each([&](auto& feature) { feature.forked(parent, child); });
  admissions_.count(child, true);
  table_.publish(child);
  *child_id = child.id;
  return KVC_OK;
}

}  // namespace kvc
