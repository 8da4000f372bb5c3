// SPDX-License-Identifier: Apache-2.0
// What growth.cc does, for the usual request of a decode step that reaches the end of its block, in a plain
// manager (shape.h): there is one table, its lane is open, and its buffers have room.
#include "manager/requests.h"

namespace kvc {

// Commits inside the lane, or up to the end of the block that is published next.
bool Requests::commit_usual(Request& request, uint64_t committed) {
  if (request.lane_commits(committed)) {
    lane_commit(request, committed);
    return true;
  }
  const uint32_t position = request.published;
  if (request.append_limit == 0 || committed != request.next_full || committed > request.known ||
      committed > request.capacity || committed != request.marked || request.num_keys != 0 ||
      request.hashes.data != nullptr || !curves.empty() || stale(request))
    return false;
  if (request.hashed == position) request.set_chain(publications.next_chain(request), position + 1);
  if (request.hashed != position + 1 || !blocks_.positions.publish_next(request)) return false;
  request.set_published(position + 1, true);
  request.set_committed(static_cast<uint32_t>(committed));
  request.shrink_tail(arena_, request.published_tokens());
  return true;
}

int64_t Requests::append_usual(Request& request, int32_t token) {
  const uint64_t capacity = uint64_t{request.known} + 1 + request.lookahead;
  if (request.append_limit == 0 || request.external_tokens != 0 || capacity > shape_.max_request_tokens ||
      request.known - request.tail_base >= request.tail.capacity)
    return -1;
  if (capacity > request.room) {
    const uint32_t position = request.positions;
    Buffer<BlockId>& table = request.groups[0].blocks;
    if (capacity - request.room > shape_.block_size || position >= table.capacity ||
        blocks_.pool().counts(0).available() == 0)
      return -1;
    blocks_.take(0, request.ns, 1, table.data + position);
    request.grow(position + 1, capacity);
  } else if (capacity > request.capacity) {
    request.set_capacity(capacity);
  }
  const uint32_t first = request.known;
  request.learn(&token, 1);
  open_lane(request, shape_.by_block.divide(first), request.next_full - 1);
  return request.slot_base + first;
}

}  // namespace kvc
