// SPDX-License-Identifier: Apache-2.0
// Whole block tables, slots, and the copies that single calls have asked for.
#include "manager/guard.h"

namespace kvc {

kvc_status Manager::export_tables(const uint64_t* ids, size_t num_ids, uint32_t group, int32_t fill_id,
                                  int32_t* tables, size_t row_stride) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < num_ids; ++i) {
    Request* request = nullptr;
    if (const kvc_status status = find_request(ids[i], false, &request); status != KVC_OK) return status;
    if (request->positions > row_stride) {
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "request %zu has a table of %u blocks, rows have room for %zu",
                  i, request->positions, row_stride);
    }
  }
  for (size_t i = 0; i < num_ids; ++i) {
    const Request& request = *requests_.find(ids[i]);
    const BlockId* blocks = request.groups[group].blocks.data;
    int32_t* row = tables + i * row_stride;
    for (size_t j = 0; j < request.positions; ++j) row[j] = is_block(blocks[j]) ? raw(blocks[j]) : fill_id;
    for (size_t j = request.positions; j < row_stride; ++j) row[j] = fill_id;
  }
  return KVC_OK;
}

kvc_status Manager::export_slots(uint64_t id, uint32_t group, uint64_t first_token, uint64_t num_tokens,
                                 void* slots, size_t element_size) {
  const std::lock_guard lock(mutex_);
  Request* request = nullptr;
  if (const kvc_status status = find_request(id, false, &request); status != KVC_OK) return status;
  if (num_tokens > request->capacity || first_token > request->capacity - num_tokens) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "tokens %llu + %llu are past the capacity, %u",
                static_cast<unsigned long long>(first_token), static_cast<unsigned long long>(num_tokens),
                request->capacity);
  }
  const uint64_t largest = pool_.num_ids() * shape_.block_size - 1;
  if (element_size == 4 && largest > INT32_MAX) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "slots go up to %llu and do not fit int32; use element_size 8",
                static_cast<unsigned long long>(largest));
  }
  const BlockId* blocks = request->groups[group].blocks.data;
  for (uint64_t i = 0; i < num_tokens; ++i) {
    const uint64_t token = first_token + i;
    const BlockId block = blocks[token / shape_.block_size];
    const int64_t slot = is_block(block) ? int64_t{raw(block)} * shape_.block_size +
                                               static_cast<int64_t>(token % shape_.block_size)
                                         : -1;
    if (element_size == 4) {
      static_cast<int32_t*>(slots)[i] = static_cast<int32_t>(slot);
    } else {
      static_cast<int64_t*>(slots)[i] = slot;
    }
  }
  return KVC_OK;
}

kvc_status Manager::take_copies(kvc_block_copy* copies, size_t capacity, size_t* count) {
  const Guard lock(*this);
  if (num_copies_ > capacity) {
    *count = num_copies_;
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu copies are waiting, the array has room for %zu", num_copies_,
                capacity);
  }
  for (size_t i = 0; i < num_copies_; ++i) {
    copies[i] = copies_.data[i];
    const BlockId source{copies[i].source};
    if (pool_.drop_ref(pool_[source])) place(source);
  }
  *count = num_copies_;
  num_copies_ = 0;
  return KVC_OK;
}

}  // namespace kvc
