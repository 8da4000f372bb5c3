// SPDX-License-Identifier: Apache-2.0
#include "speculation/draft_index.h"

#include <new>

namespace kvc {

bool DraftIndex::create(Memory& memory, const kvc_draft_config& config) {
  void* place = memory.allocate(config.max_rows * sizeof(NgramIndex), alignof(NgramIndex));
  if (place == nullptr) return false;
  memory_ = &memory;
  rows_ = static_cast<NgramIndex*>(place);
  num_rows_ = config.max_rows;
  for (size_t row = 0; row < num_rows_; ++row) {
    (new (rows_ + row) NgramIndex)->configure(config.min_ngram, config.max_ngram);
  }
  for (size_t row = 0; row < num_rows_; ++row)
    if (config.row_capacity != 0 && !rows_[row].reserve(memory, config.row_capacity)) return false;
  return true;
}

DraftIndex::~DraftIndex() {
  if (rows_ == nullptr) return;
  for (size_t row = 0; row < num_rows_; ++row) rows_[row].~NgramIndex();
  memory_->release(rows_, num_rows_ * sizeof(NgramIndex), alignof(NgramIndex));
}

kvc_status DraftIndex::check_row(const char* name, size_t i, int32_t row) const {
  if (row >= 0 && static_cast<size_t>(row) < num_rows_) return KVC_OK;
  return invalid("%s[%zu] is %d; the index has rows 0 .. %zu: create it with more", name, i, row,
                 num_rows_ - 1);
}

kvc_status DraftIndex::append(const int32_t* rows, size_t num_rows, const uint64_t* offsets,
                              const int32_t* tokens) {
  ++calls_;
  for (size_t i = 0; i < num_rows; ++i) {
    KVC_TRY(check_row("rows", i, rows[i]));
    NgramIndex& row = rows_[rows[i]];
    if (row.stamp == calls_)
      return invalid("rows[%zu] is row %d a second time; give each row once", i, rows[i]);
    row.stamp = calls_;
    const uint64_t more = offsets[i + 1] - offsets[i];
    if (more > NgramIndex::kMaxTokens - row.size()) {
      return fail(KVC_ERROR_LIMIT, "row %d has %zu tokens and would get %llu more; a row has at most %zu",
                  rows[i], row.size(), ull(more), NgramIndex::kMaxTokens);
    }
    for (uint64_t t = offsets[i]; t < offsets[i + 1]; ++t)
      if (tokens[t] < 0) return invalid("tokens[%llu] is %d; tokens are at least 0", ull(t), tokens[t]);
  }
  for (size_t i = 0; i < num_rows; ++i) {
    NgramIndex& row = rows_[rows[i]];
    if (!row.reserve(*memory_, row.size() + (offsets[i + 1] - offsets[i])))
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the n-grams of row %d", rows[i]);
  }
  for (size_t i = 0; i < num_rows; ++i)
    for (uint64_t t = offsets[i]; t < offsets[i + 1]; ++t) rows_[rows[i]].append(tokens[t]);
  return KVC_OK;
}

kvc_status DraftIndex::truncate(int32_t row, uint64_t num_tokens) {
  KVC_TRY(check_row("row", 0, row));
  NgramIndex& index = rows_[row];
  if (num_tokens > index.size())
    return invalid("num_tokens is %llu; row %d has %zu", ull(num_tokens), row, index.size());
  index.truncate(num_tokens);
  return KVC_OK;
}

kvc_status DraftIndex::propose(const int32_t* rows, size_t num_rows, const uint32_t* max_lengths,
                               uint64_t* offsets, int32_t* tokens, size_t capacity, size_t* count) const {
  size_t most = 0;
  for (size_t i = 0; i < num_rows; ++i) {
    KVC_TRY(check_row("rows", i, rows[i]));
    if (max_lengths[i] > KVC_MAX_DRAFT_NODES)
      return invalid("max_lengths[%zu] is %u; give at most %d", i, max_lengths[i], KVC_MAX_DRAFT_NODES);
    most += max_lengths[i];
  }
  const auto place = [&](size_t i) { return max_lengths[i] != 0 ? rows_[rows[i]].find() : 0; };
  if (most > capacity) {  // perhaps not all have a draft
    most = 0;
    for (size_t i = 0; i < num_rows; ++i) most += place(i) != 0 ? max_lengths[i] : 0;
    if (most > capacity) {
      *count = most;
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "capacity is %zu; the drafts have %zu tokens", capacity, most);
    }
  }
  size_t used = 0;
  offsets[0] = 0;
  for (size_t i = 0; i < num_rows; ++i) {
    const NgramIndex& row = rows_[rows[i]];
    if (const size_t at = place(i); at != 0) {
      continue_from(row.tokens(), row.size(), at, tokens + used, max_lengths[i]);
      used += max_lengths[i];
    }
    offsets[i + 1] = used;
  }
  *count = used;
  return KVC_OK;
}

}  // namespace kvc
