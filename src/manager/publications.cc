// SPDX-License-Identifier: Apache-2.0
#include "manager/publications.h"

namespace kvc {

kvc_status Publications::publish_full(Request& request, size_t full, bool ends_there, uint64_t filled_by,
                                      bool computed) {
  if (stale(request)) {  // reset since its admission
    stop(request, false);
    return KVC_OK;
  }
  ExtraRecords extras(arena_, request.key_list(), request.published, full, shape_.block_size);
  if (!extras.ok()) return no_memory_for_keys(full - request.published);
  constexpr size_t kPiece = 64;  // positions that are hashed here, then published together
  const size_t checkpoint = ends_there ? full - 1 : SIZE_MAX;
  size_t done = request.published, end = done;
  while (done == end && end < full) {
    uint64_t chains[kPiece];
    const uint64_t* keys = chains;
    if (done < request.num_hashes) {
      keys = request.hashes.data + done;
      end = request.num_hashes < full ? request.num_hashes : full;
    } else {
      if (request.hashed > end) chains[end++ - done] = request.chain;  // hashed ahead
      for (; end < full && end - done < kPiece; ++end) {
        chains[end - done] = next_chain(request);
        request.set_chain(chains[end - done], request.hashed + 1);
      }
    }
    const size_t first = done;
    done = blocks_.positions.publish(&request.cursor,
                                     {keys, request.token(first * shape_.block_size), extras, request.groups,
                                      request.ns, request.epoch, filled_by, checkpoint, false},
                                     first, end);
    if (keys == chains && !curves_.empty()) [[unlikely]]
      curves_.grow(request.ns, chains, done - first);
  }
  const size_t before = request.published;
  if (filled_by == 0 && computed) {
    if (request.marked < request.published_tokens()) mark_written(request, before);
  } else if (filled_by != 0 &&
             request.marked > request.published_tokens()) {  // it has committed tokens of the first block
    request.set_marked(request.published_tokens());
  }
  request.set_published(done, filled_by == 0 && computed);
  features_.each([&](auto& feature) { feature.published(request, before, done); });
  if (done < full) {
    counters_.unpublished_blocks += full - done;
    node_tokens_ += (request.known / shape_.block_size - done) * shape_.block_size;
    stop(request, true);
  }
  request.drop_used_hashes(arena_);
  request.shrink_tail(arena_, request.published_tokens());
  return KVC_OK;
}

// The first committed tokens of blocks up to the committed count.
void Publications::mark_committed(Request& request) {
  if (!features_.all([&](auto& feature) { return feature.marks_all(request); })) return;
  const uint32_t block_size = shape_.block_size;
  // In a lane, the first token of its block, which the last known one is in: the slots tell which it is.
  if (shape_.num_token_groups != 1 || request.append_limit == 0 ||
      uint64_t{request.marked} + block_size < request.known)
    return mark_written(request, shape_.by_block.divide_up(request.committed));
  const int64_t slot = request.slot_base + request.marked;
  blocks_.mark_written(BlockId{static_cast<int32_t>(slot / block_size)});
  request.set_marked(request.marked + block_size);
}

void Publications::stop(Request& request, bool warns) {
  request.stop_publishing();
  features_.each([&](auto& feature) { feature.published(request, request.published, request.published); });
  if (!warns || warned_nodes_) return;
  warned_nodes_ = true;
  warning_ = "all prefix nodes are in use: requests stop publishing; raise kvc_manager_config.max_nodes";
}

void Publications::prefetch(Request& request) {
  if (request.known < request.next_full || request.published < request.num_hashes) return;
  if (request.published < request.positions) {
    if (const BlockId block = request.groups[0].blocks.data[request.published]; is_block(block))
      blocks_.pool().prefetch(block);
  }
  if (request.hashed == request.published) request.set_chain(next_chain(request), request.hashed + 1);
  blocks_.tree().table().prefetch_write(request.chain);
}

}  // namespace kvc
