// SPDX-License-Identifier: Apache-2.0
// The extra keys over one block. They tell apart equal tokens with different content, such as placeholder
// tokens of different images. A view reads a request's sorted, disjoint keys in place; a record is a node's
// copy.
#pragma once
#include <kvcache/request.h>

#include <utility>

#include "base/arena.h"
#include "base/hash.h"
#include "base/sha256.h"

namespace kvc {

struct ExtraSpan {
  int64_t offset;  // of the span's first token from the block's first; negative if it began earlier
  uint64_t length;
  uint8_t digest[32];
};
static_assert(sizeof(ExtraSpan) == 48);

struct ExtraRecord {
  uint64_t count;
  ExtraSpan* spans() { return reinterpret_cast<ExtraSpan*>(this + 1); }
  const ExtraSpan* spans() const { return reinterpret_cast<const ExtraSpan*>(this + 1); }
  static size_t bytes(uint64_t count) {
    return Arena::rounded(sizeof(ExtraRecord) + count * sizeof(ExtraSpan));
  }
};

// kvc_event.extra_digest.
Digest256 digest_of(const ExtraRecord* record);

class ExtraView {
 public:
  ExtraView() = default;
  // The keys that overlap tokens [first_token, first_token + block_size).
  ExtraView(const kvc_extra_key* keys, size_t num_keys, uint64_t first_token, uint64_t block_size) {
    if (num_keys != 0) select(keys, num_keys, first_token, block_size);
  }

  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  ExtraSpan span(uint64_t i) const;
  bool equals(const ExtraRecord* record) const {
    return record == nullptr ? count_ == 0 : count_ != 0 && equals_record(*record);
  }
  // Of the block's first `tokens` tokens, how many have the same spans here and in a record, whole ones only.
  uint64_t common_head(const ExtraRecord* record, uint64_t tokens) const;
  uint64_t hash(const TableHash& table_hash, uint64_t chain) const;
  void copy_to(ExtraRecord* record) const;
  Digest256 digest() const;  // kvc_event.extra_digest

 private:
  void select(const kvc_extra_key* keys, size_t num_keys, uint64_t first_token, uint64_t block_size);
  bool equals_record(const ExtraRecord& record) const;

  const kvc_extra_key* keys_ = nullptr;
  uint64_t count_ = 0;
  uint64_t first_token_ = 0;
};

// Records for the positions [begin, end) of one publication, all allocated before anything changes. A
// position without keys costs nothing. The destructor frees those that were not taken.
class ExtraRecords {
 public:
  ExtraRecords(Arena& arena, const kvc_extra_key* keys, size_t num_keys, size_t begin, size_t end,
               uint64_t block_size);
  ~ExtraRecords();
  ExtraRecords(const ExtraRecords&) = delete;
  ExtraRecords& operator=(const ExtraRecords&) = delete;

  bool ok() const { return ok_; }
  bool empty() const { return num_keys_ == 0; }
  ExtraView view(size_t position) const { return {keys_, num_keys_, position * block_size_, block_size_}; }
  // The position's record, now the caller's; nullptr if it has no keys.
  ExtraRecord* take(size_t position) {
    return records_.data == nullptr ? nullptr : std::exchange(records_.data[position - begin_], nullptr);
  }

 private:
  Arena& arena_;
  const kvc_extra_key* keys_;
  size_t num_keys_, begin_, end_;
  uint64_t block_size_;
  Buffer<ExtraRecord*> records_ = {};
  bool ok_ = true;
};

// The largest multiple of block_size not above `tokens` that does not lie strictly inside a key's span.
uint64_t cut_at_spans(const kvc_extra_key* keys, size_t num_keys, uint64_t tokens, uint64_t block_size);

}  // namespace kvc
