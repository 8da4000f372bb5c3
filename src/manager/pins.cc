// SPDX-License-Identifier: Apache-2.0
#include "manager/pins.h"

namespace kvc {

kvc_status Pins::pin(LookupScratch& scratch, uint64_t* id, uint64_t* num_pinned) {
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  const size_t limit = shape_.caches() ? scratch.num_blocks() : 0;
  const size_t length =
      matcher_.match(prompt, limit, shape_.all_groups(), 0, scratch.path(), scratch.residents(), nullptr);
  if (length == 0) {
    return fail(KVC_ERROR_NOT_FOUND, "no block of these %zu tokens is cached", scratch.num_tokens());
  }
  Demand demand(shape_.num_pools);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < length; ++j) {
      if (!matcher_.needs_position(g, j, length)) continue;
      const Block& block = blocks_.pool()[blocks_.tree().block_of(scratch.path()[j], g)];
      if (block.pins == UINT16_MAX) {
        return fail(KVC_ERROR_LIMIT, "position %zu of this prefix is pinned %d times; unpin some", j,
                    UINT16_MAX);
      }
      demand.add_hit(block);
    }
  }
  KVC_TRY(blocks_.check_hold(demand, prompt.ns, "the pin"));
  Pin* pin = table_.take();
  if (pin == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %zu pins are in use; unpin some or raise max_requests", table_.size());
  }
  if (!pin->blocks.reserve(arena_, length * shape_.num_groups, 0)) {
    table_.give_back(*pin);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a pin of %zu blocks", length);
  }
  pin->ns = prompt.ns;
  pin->length = static_cast<uint32_t>(length);
  blocks_.add_user(pin->ns);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < length; ++j) {
      BlockId block = kNoBlock;
      if (matcher_.needs_position(g, j, length)) {
        block = blocks_.tree().block_of(scratch.path()[j], g);
        blocks_.pin(block);
      }
      pin->blocks.data[g * length + j] = block;
    }
  }
  table_.publish(*pin);
  *id = pin->id;
  *num_pinned = length * shape_.block_size;
  return KVC_OK;
}

kvc_status Pins::unpin(uint64_t id) {
  Pin* pin = table_.find(id);
  if (pin == nullptr) {
    return fail(KVC_ERROR_NOT_FOUND, "no pin %llu: it ended, or is of another manager", ull(id));
  }
  for (const uint32_t kind : {shape_.window_groups, shape_.full_groups}) {
    for (size_t j = pin->length; j-- > 0;) {
      for (uint32_t groups = kind; groups != 0; groups &= groups - 1) {
        const BlockId block = pin->blocks.data[static_cast<size_t>(__builtin_ctz(groups)) * pin->length + j];
        if (is_block(block)) blocks_.unpin(block);
      }
    }
  }
  pin->blocks.clear(arena_);
  blocks_.drop_user(pin->ns);
  table_.give_back(*pin);
  return KVC_OK;
}

}  // namespace kvc
