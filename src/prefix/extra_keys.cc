// SPDX-License-Identifier: Apache-2.0
#include "prefix/extra_keys.h"

#include <algorithm>
#include <utility>

namespace kvc {
namespace {

int compare(const ExtraKey& a, const ExtraKey& b) {
  if (a.first_token != b.first_token) return a.first_token < b.first_token ? -1 : 1;
  if (a.num_tokens != b.num_tokens) return a.num_tokens < b.num_tokens ? -1 : 1;
  return std::memcmp(a.digest, b.digest, sizeof a.digest);
}

bool precedes(const ExtraKey& a, const ExtraKey& b) { return compare(a, b) < 0; }

constexpr uint8_t kCutDigest[32] =
    "kvcache: a key's span was cut";  // no SHA-256 that anybody knows a content of

// A caller's key may have this digest too; of one token, it may count for no limit: no two of those are
// equal.
bool is_cut(const ExtraKey& key) {
  return key.num_tokens == 1 && std::memcmp(key.digest, kCutDigest, sizeof kCutDigest) == 0;
}

// visit(index): keys of the first `count` ones that end behind `token`, which none of them begins behind,
// from the last on, until it returns false.
template <typename Visit>
void each_over(const ExtraKey* keys, size_t count, uint64_t token, Visit&& visit) {
  while (count != 0) {
    const ExtraKey& key = keys[count - 1];
    if (key.end() <= token) {
      count = key.outer;  // those between end no later than it does
      continue;
    }
    --count;
    if (!visit(static_cast<uint32_t>(count))) return;
  }
}

}  // namespace

kvc_extra_key ExtraKey::plain() const {
  kvc_extra_key key = {first_token, num_tokens, {}};
  std::memcpy(key.digest, digest, sizeof digest);
  return key;
}

kvc_extra_key key_of_cut(uint64_t token) {
  kvc_extra_key key = {token, 1, {}};
  std::memcpy(key.digest, kCutDigest, sizeof kCutDigest);
  return key;
}

size_t order_keys(const kvc_extra_key* keys, size_t num_keys, ExtraKey* out, size_t num_before,
                  size_t* first_new) {
  ExtraKey* const added = out + num_before;
  bool ordered = true;
  for (size_t i = 0; i < num_keys; ++i) {
    added[i] = {keys[i].first_token, static_cast<uint32_t>(keys[i].num_tokens), 0, {}};
    std::memcpy(added[i].digest, keys[i].digest, sizeof keys[i].digest);
    ordered = ordered && (i == 0 || precedes(added[i - 1], added[i]));
  }
  const auto same = [](const ExtraKey& a, const ExtraKey& b) { return compare(a, b) == 0; };
  ExtraKey* end = added + num_keys;
  if (!ordered) {
    std::sort(added, end, precedes);
    end = std::unique(added, end, same);
  }
  end = std::remove_if(added, end,
                       [&](const ExtraKey& key) { return std::binary_search(out, added, key, precedes); });
  if (first_new != nullptr) *first_new = num_before;
  if (num_before != 0 && end != added && precedes(*added, added[-1])) {
    const ExtraKey first = *added;
    std::sort(out, end, precedes);
    if (first_new != nullptr)
      *first_new = static_cast<size_t>(std::lower_bound(out, end, first, precedes) - out);
  }
  return static_cast<size_t>(end - out);
}

// What a key knows of those before it, which are linked.
static uint32_t outer_of(const ExtraKey* keys, size_t i) {
  auto outer = static_cast<uint32_t>(i);
  while (outer != 0 && keys[outer - 1].end() <= keys[i].end()) outer = keys[outer - 1].outer;
  return outer;
}

// Whether a key and those before it are more over its first token than are allowed.
static bool is_one_too_many(const ExtraKey* keys, size_t i) {
  if (is_cut(keys[i])) return false;
  size_t over = 1;
  each_over(keys, i, keys[i].first_token,
            [&](uint32_t j) { return (over += !is_cut(keys[j])) <= KVC_MAX_KEYS_OF_TOKEN; });
  return over > KVC_MAX_KEYS_OF_TOKEN;
}

uint64_t link_keys(ExtraKey* keys, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    keys[i].outer = outer_of(keys, i);
    if (is_one_too_many(keys, i)) return keys[i].first_token;
  }
  return kNoToken;
}

size_t first_broken_key(KeyList keys, uint64_t most_tokens) {
  for (size_t i = 0; i < keys.count; ++i) {
    const ExtraKey& key = keys.data[i];
    const bool inside = key.num_tokens != 0 && key.first_token < most_tokens && key.end() <= most_tokens;
    const bool ordered = i == 0 || precedes(keys.data[i - 1], key);
    if (!inside || !ordered || key.outer != outer_of(keys.data, i) || is_one_too_many(keys.data, i)) return i;
  }
  return keys.count;
}

void ExtraView::select(KeyList keys, uint64_t first_token, uint64_t block_size) {
  keys_ = keys.data;
  first_token_ = first_token;
  const ExtraKey* const end = keys.data + keys.count;
  inside_ = std::partition_point(keys.data, end,
                                 [&](const ExtraKey& key) { return key.first_token < first_token; });
  const ExtraKey* last = inside_;
  while (last != end && last->first_token < first_token + block_size) ++last;
  num_inside_ = static_cast<uint64_t>(last - inside_);
  each_over(keys_, static_cast<size_t>(inside_ - keys_), first_token, [&](uint32_t i) {
    before_[num_before_++] = i;
    return num_before_ < KVC_MAX_KEYS_OF_TOKEN;
  });
  std::reverse(before_, before_ + num_before_);
}

ExtraSpan ExtraView::span(uint64_t i) const {
  const ExtraKey& own = key(i);
  ExtraSpan span;
  span.offset = static_cast<int64_t>(own.first_token) - static_cast<int64_t>(first_token_);
  span.length = own.num_tokens;
  std::memcpy(span.digest, own.digest, sizeof span.digest);
  return span;
}

bool ExtraView::equals_record(const ExtraRecord& record) const {
  if (record.count != count()) return false;
  for (uint64_t i = 0; i < record.count; ++i) {
    const ExtraSpan mine = span(i);
    if (std::memcmp(&mine, &record.spans()[i], sizeof mine) != 0) return false;
  }
  return true;
}

// The head ends before the first span that only one of both has, and before each one that it would cut.
uint64_t ExtraView::common_head(const ExtraRecord* record, uint64_t tokens) const {
  const uint64_t others = record == nullptr ? 0 : record->count;
  auto end = static_cast<int64_t>(tokens);
  uint64_t same = 0;
  while (same < count() && same < others) {
    const ExtraSpan mine = span(same);
    if (std::memcmp(&mine, &record->spans()[same], sizeof mine) != 0) break;
    ++same;
  }
  if (same < count()) end = std::min(end, span(same).offset);
  if (same < others) end = std::min(end, record->spans()[same].offset);
  while (same-- > 0) {
    const ExtraSpan shared = span(same);
    if (shared.offset < end && end < shared.offset + static_cast<int64_t>(shared.length)) end = shared.offset;
  }
  return end < 0 ? 0 : static_cast<uint64_t>(end);
}

uint64_t ExtraView::hash(const TableHash& table_hash, uint64_t chain) const {
  for (uint64_t i = 0; i < count(); ++i) {
    const ExtraSpan mine = span(i);
    chain = table_hash.extra(chain, &mine, sizeof mine);
  }
  return chain;
}

void ExtraView::copy_to(ExtraRecord* record) const {
  record->count = count();
  for (uint64_t i = 0; i < record->count; ++i) record->spans()[i] = span(i);
}

Digest256 ExtraView::digest() const {
  if (empty()) return {};
  Sha256 sha;
  for (uint64_t i = 0; i < count(); ++i) {
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

ExtraRecords::ExtraRecords(Arena& arena, KeyList keys, size_t begin, size_t end, uint64_t block_size)
    : arena_(arena), keys_(keys), begin_(begin), end_(end), block_size_(block_size) {
  if (keys.count == 0 || begin == end) return;
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

uint64_t cut_at_spans(KeyList keys, uint64_t tokens, uint64_t block_size) {
  tokens -= tokens % block_size;
  while (tokens != 0) {
    const ExtraView over(keys, tokens, 0);
    if (over.empty()) break;
    const uint64_t first = over.key(0).first_token;
    tokens = first - first % block_size;
  }
  return tokens;
}

}  // namespace kvc
