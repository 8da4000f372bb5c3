// SPDX-License-Identifier: Apache-2.0
#include "prefix/extra_keys.h"

#include <algorithm>
#include <utility>

namespace kvc {
namespace {

// Index of the first key that ends after `token`.
size_t first_ending_after(const kvc_extra_key* keys, size_t num_keys, uint64_t token) {
  const kvc_extra_key* key = std::partition_point(keys, keys + num_keys, [token](const kvc_extra_key& k) {
    return k.first_token + k.num_tokens <= token;
  });
  return static_cast<size_t>(key - keys);
}

}  // namespace

void ExtraView::select(const kvc_extra_key* keys, size_t num_keys, uint64_t first_token,
                       uint64_t block_size) {
  first_token_ = first_token;
  const size_t begin = first_ending_after(keys, num_keys, first_token);
  size_t end = begin;
  while (end < num_keys && keys[end].first_token < first_token + block_size) ++end;
  keys_ = keys + begin;
  count_ = end - begin;
}

ExtraSpan ExtraView::span(uint64_t i) const {
  ExtraSpan span;
  span.offset = static_cast<int64_t>(keys_[i].first_token) - static_cast<int64_t>(first_token_);
  span.length = keys_[i].num_tokens;
  std::memcpy(span.digest, keys_[i].digest, sizeof span.digest);
  return span;
}

bool ExtraView::equals_record(const ExtraRecord& record) const {
  if (record.count != count_) return false;
  for (uint64_t i = 0; i < count_; ++i) {
    const ExtraSpan mine = span(i);
    if (std::memcmp(&mine, &record.spans()[i], sizeof mine) != 0) return false;
  }
  return true;
}

// Spans are in order and disjoint, so the first that is not shared whole is where the head ends.
uint64_t ExtraView::common_head(const ExtraRecord* record, uint64_t tokens) const {
  const uint64_t others = record == nullptr ? 0 : record->count;
  for (uint64_t i = 0; i < count_ || i < others; ++i) {
    int64_t begin = INT64_MAX;
    ExtraSpan mine = {};
    if (i < count_) mine = span(i), begin = mine.offset;
    if (i < others && record->spans()[i].offset < begin) begin = record->spans()[i].offset;
    const bool same = i < count_ && i < others && std::memcmp(&mine, &record->spans()[i], sizeof mine) == 0;
    const int64_t end = mine.offset + static_cast<int64_t>(mine.length);
    if (same && end <= static_cast<int64_t>(tokens)) continue;
    return begin < 0 ? 0 : std::min(tokens, static_cast<uint64_t>(begin));
  }
  return tokens;
}

uint64_t ExtraView::hash(const TableHash& table_hash, uint64_t chain) const {
  for (uint64_t i = 0; i < count_; ++i) {
    const ExtraSpan mine = span(i);
    chain = table_hash.extra(chain, &mine, sizeof mine);
  }
  return chain;
}

void ExtraView::copy_to(ExtraRecord* record) const {
  record->count = count_;
  for (uint64_t i = 0; i < count_; ++i) record->spans()[i] = span(i);
}

Digest256 ExtraView::digest() const {
  if (count_ == 0) return {};
  Sha256 sha;
  for (uint64_t i = 0; i < count_; ++i) {
    const ExtraSpan own = span(i);
    sha.update(&own, sizeof own);
  }
  return sha.finish();
}

Digest256 digest_of(const ExtraRecord* record) {
  if (record == nullptr) return {};
  Sha256 sha;
  sha.update(record->spans(), record->count * sizeof(ExtraSpan));
  return sha.finish();
}

ExtraRecords::ExtraRecords(Arena& arena, const kvc_extra_key* keys, size_t num_keys, size_t begin, size_t end,
                           uint64_t block_size)
    : arena_(arena), keys_(keys), num_keys_(num_keys), begin_(begin), end_(end), block_size_(block_size) {
  if (num_keys == 0 || begin == end) return;
  if (!records_.reserve(arena, end - begin, 0)) {
    ok_ = false;
    return;
  }
  std::memset(records_.data, 0, (end - begin) * sizeof(ExtraRecord*));
  for (size_t i = begin; i < end && ok_; ++i) {
    const ExtraView keys_here = view(i);
    if (keys_here.empty()) continue;
    auto* record = static_cast<ExtraRecord*>(arena.allocate(ExtraRecord::bytes(keys_here.count())));
    ok_ = record != nullptr;
    if (ok_) keys_here.copy_to(record);
    records_.data[i - begin] = record;
  }
}

ExtraRecords::~ExtraRecords() {
  if (records_.data == nullptr) return;
  for (size_t i = 0; i < end_ - begin_; ++i) {
    ExtraRecord* record = records_.data[i];
    if (record != nullptr) arena_.release(record, ExtraRecord::bytes(record->count));
  }
  records_.clear(arena_);
}

uint64_t cut_at_spans(const kvc_extra_key* keys, size_t num_keys, uint64_t tokens, uint64_t block_size) {
  tokens -= tokens % block_size;
  while (tokens != 0) {
    const size_t i = first_ending_after(keys, num_keys, tokens);
    if (i == num_keys || keys[i].first_token >= tokens) break;
    tokens = keys[i].first_token - keys[i].first_token % block_size;
  }
  return tokens;
}

}  // namespace kvc
