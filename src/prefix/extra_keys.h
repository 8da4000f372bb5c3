// SPDX-License-Identifier: Apache-2.0
// The extra keys over one block. They tell apart equal tokens with different content, such as placeholder
// tokens of different images. A caller gives keys in any order; a list has them in one order, so that equal
// sets are equal lists. A view reads a list in place; a record is a node's copy.
//
// Keys may share tokens. Whatever they do, a view is found in O(log keys + keys of the block), since at most
// KVC_MAX_KEYS_OF_TOKEN keys lie over a token: each key knows the nearest one before it that ends behind it,
// and a chain of such keys has one token in common.
#pragma once
#include <kvcache/request.h>

#include <utility>

#include "base/arena.h"
#include "base/hash.h"
#include "base/sha256.h"

namespace kvc {

// A key of a list. What it says is a kvc_extra_key.
struct ExtraKey {
  uint64_t first_token;
  uint32_t num_tokens;
  uint32_t outer;  // index + 1 of the nearest key before it that ends behind it; 0 = none
  uint8_t digest[32];
  uint64_t end() const { return first_token + num_tokens; }
  kvc_extra_key plain() const;
};
static_assert(sizeof(ExtraKey) == sizeof(kvc_extra_key));

// Keys in the order of first token, length and digest, no two equal, linked.
struct KeyList {
  const ExtraKey* data = nullptr;
  size_t count = 0;
};

// Puts keys in order at `out`, which may have `num_before` keys in order already. Those that are there count
// once. Returns their number then. *first_new: index of the first that is new; from there on they have no
// links.
size_t order_keys(const kvc_extra_key* keys, size_t num_keys, ExtraKey* out, size_t num_before = 0,
                  size_t* first_new = nullptr);
// Of the first token behind the place where a request was cut inside a key's span: what comes there is not
// what the key says. It counts for no limit.
kvc_extra_key key_of_cut(uint64_t token);
// Links the keys from `begin` on; those before are linked. Returns a token with more than
// KVC_MAX_KEYS_OF_TOKEN keys, else kNoToken.
constexpr uint64_t kNoToken = UINT64_MAX;
uint64_t link_keys(ExtraKey* keys, size_t begin, size_t end);
// The first key of a list that is not as the functions above leave it, within `most_tokens` tokens; the
// list's count if all are. O(keys).
size_t first_broken_key(KeyList keys, uint64_t most_tokens);

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
  ExtraView() {}
  // The keys that overlap tokens [first_token, first_token + block_size).
  ExtraView(KeyList keys, uint64_t first_token, uint64_t block_size) {
    if (keys.count != 0) select(keys, first_token, block_size);
  }

  bool empty() const { return count() == 0; }
  uint64_t count() const { return num_before_ + num_inside_; }
  const ExtraKey& key(uint64_t i) const {
    return i < num_before_ ? keys_[before_[i]] : inside_[i - num_before_];
  }
  ExtraSpan span(uint64_t i) const;
  bool equals(const ExtraRecord* record) const {
    return record == nullptr ? empty() : !empty() && equals_record(*record);
  }
  // Of the block's first `tokens` tokens, how many have the same spans here and in a record, whole ones only.
  uint64_t common_head(const ExtraRecord* record, uint64_t tokens) const;
  uint64_t hash(const TableHash& table_hash, uint64_t chain) const;
  void copy_to(ExtraRecord* record) const;
  Digest256 digest() const;  // kvc_event.extra_digest

 private:
  void select(KeyList keys, uint64_t first_token, uint64_t block_size);
  bool equals_record(const ExtraRecord& record) const;

  const ExtraKey* keys_ = nullptr;
  const ExtraKey* inside_ = nullptr;  // those that begin in the block
  uint64_t num_inside_ = 0;
  uint64_t first_token_ = 0;
  uint32_t num_before_ = 0;  // those that began earlier
  uint32_t before_[KVC_MAX_KEYS_OF_TOKEN];
};

// Records for the positions [begin, end) of one publication, all allocated before anything changes. A
// position without keys costs nothing. The destructor frees those that were not taken.
class ExtraRecords {
 public:
  ExtraRecords(Arena& arena, KeyList keys, size_t begin, size_t end, uint64_t block_size);
  ~ExtraRecords();
  ExtraRecords(const ExtraRecords&) = delete;
  ExtraRecords& operator=(const ExtraRecords&) = delete;

  bool ok() const { return ok_; }
  bool empty() const { return keys_.count == 0; }
  ExtraView view(size_t position) const { return {keys_, position * block_size_, block_size_}; }
  // The position's record, now the caller's; nullptr if it has no keys.
  ExtraRecord* take(size_t position) {
    return records_.data == nullptr ? nullptr : std::exchange(records_.data[position - begin_], nullptr);
  }

 private:
  Arena& arena_;
  KeyList keys_;
  size_t begin_, end_;
  uint64_t block_size_;
  Buffer<ExtraRecord*> records_ = {};
  bool ok_ = true;
};

// Keys that may lie over a block: users', and one that stands where a request was cut.
constexpr size_t most_keys_of_block(size_t block_size) { return (KVC_MAX_KEYS_OF_TOKEN + 2) * block_size; }

// The largest multiple of block_size not above `tokens` that does not lie strictly inside a key's span.
uint64_t cut_at_spans(KeyList keys, uint64_t tokens, uint64_t block_size);

}  // namespace kvc
