// SPDX-License-Identifier: Apache-2.0
#include "manager/request_part.h"

namespace kvc {

bool RequestPart::reserve_tables(Request& request, size_t positions) {
  for (size_t g = 0; g < shape_.num_token_groups; ++g) {
    if (!request.groups[g].blocks.reserve(arena_, positions, request.positions)) return false;
  }
  return true;
}

void RequestPart::take_blocks(Request& request, GroupIndex group, size_t begin, size_t end, uint64_t step_end,
                              uint64_t transfer_end) {
  BlockId* const blocks = request.groups[group].blocks.data;
  const Shape::Taken taken = shape_.taken(group, begin, end, step_end, transfer_end);
  for (size_t j = begin; j < taken.first; ++j) blocks[j] = kNoBlock;
  if (taken.few_begin != taken.few_end) [[unlikely]]
    blocks_.take(group, request.ns, taken.few_end - taken.few_begin, blocks + taken.few_begin);
  blocks_.take(group, request.ns, end - taken.first, blocks + taken.first);
}

void RequestPart::mark_written(Request& request, size_t positions) {
  const size_t first = shape_.by_block.divide(request.marked);
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId* blocks = request.groups[g].blocks.data;
    for (size_t j = first; j < positions; ++j) {
      if (is_block(blocks[j])) blocks_.mark_written(blocks[j]);
    }
  }
  request.set_marked(static_cast<uint32_t>(positions * shape_.block_size));
}

}  // namespace kvc
