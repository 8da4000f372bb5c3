// SPDX-License-Identifier: Apache-2.0
#include "manager/pins.h"

namespace kvc {

size_t Pins::first_full(const NodeId* path, size_t length) const {
  size_t first = length;
  each(path, length, [&](uint32_t, size_t j, BlockId block) {
    if (blocks_.pool()[block].pins == UINT16_MAX) first = std::min(first, j);
  });
  return first;
}

kvc_status Pins::check(const NodeId* path, size_t length, NamespaceId ns) const {
  const size_t full = first_full(path, length);
  if (full == length)
    return blocks_.quotas().on() ? blocks_.room.check_room(demand(path, length), ns, 0, "the pin") : KVC_OK;
  return fail(KVC_ERROR_LIMIT, "position %zu of this prefix is pinned %d times; unpin some", full,
              UINT16_MAX);
}

void Pins::hold(const NodeId* path, size_t length, BlockId* blocks) {
  std::fill_n(blocks, length * shape_.num_token_groups, kNoBlock);
  each(path, length, [&](uint32_t g, size_t j, BlockId block) {
    blocks[g * length + j] = block;
    blocks_.pin(block);
  });
}

// States leave last, as those of a request do (returns.cc).
void Pins::release(const BlockId* blocks, size_t length) {
  const uint32_t windows = shape_.sliding_groups();
  for (const uint32_t kind : {windows, shape_.full_groups, shape_.window_groups & ~windows}) {
    for (size_t j = length; j-- > 0;) {
      for (const uint32_t g : bits_of(kind)) {
        if (is_block(blocks[g * length + j])) blocks_.unpin(blocks[g * length + j]);
      }
    }
  }
}

kvc_status Pins::pin(LookupScratch& scratch, uint64_t* id, uint64_t* num_pinned) {
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  const size_t length = find(prompt, scratch.num_blocks(), scratch.path(), scratch.residents());
  if (length == 0) {
    return fail(KVC_ERROR_NOT_FOUND, "no block of these %zu tokens is cached", scratch.num_tokens());
  }
  KVC_TRY(check(scratch.path(), length, prompt.ns));
  Pin* pin = table_.take();
  if (pin == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %zu pins are in use; unpin some or raise max_requests", table_.size());
  }
  if (!pin->blocks.reserve(arena_, length * shape_.num_token_groups, 0)) {
    table_.give_back(*pin);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a pin of %zu blocks", length);
  }
  pin->ns = prompt.ns;
  pin->length = static_cast<uint32_t>(length);
  blocks_.namespace_blocks.add_user(pin->ns);
  hold(scratch.path(), length, pin->blocks.data);
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
  release(pin->blocks.data, pin->length);
  pin->blocks.clear(arena_);
  blocks_.namespace_blocks.drop_user(pin->ns);
  table_.give_back(*pin);
  return KVC_OK;
}

}  // namespace kvc
