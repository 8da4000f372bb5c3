// SPDX-License-Identifier: Apache-2.0
#include "index/match_walk.h"

#include "base/position_digest.h"
#include "base/status.h"

namespace kvc {

void MatchWalk::begin() {
  assignments_ = index_.workers_.assignments();
  count_ = 0;
  depth_ = 0;
  started_ = false;
  in_a_row_ = false;
  last_ = 0;
  set_ = HolderSets::kEmpty;
  alive_ = 0;
}

BlockTable::Found MatchWalk::look_up(BlockKey key) const {
  if (in_a_row_)
    if (const auto found = index_.table_.find_behind(last_, key); found.entry != 0) return found;
  return index_.table_.find(key);
}

bool MatchWalk::go(const uint8_t* digests, size_t num_blocks) {
  constexpr size_t kHeadsAhead = 16, kEntriesAhead = 8;
  const auto key = [&](size_t i) { return BlockKey::of(digests + 32 * i); };
  BlockTable& table = index_.table_;
  for (size_t i = 0; i < num_blocks && i < kHeadsAhead; ++i) table.prefetch_head(key(i));
  for (size_t i = 0; i < num_blocks && i < kEntriesAhead; ++i) table.prefetch_entry(key(i));
  for (size_t i = 0; i < num_blocks;) {
    if (i + kHeadsAhead < num_blocks) table.prefetch_head(key(i + kHeadsAhead));
    if (i + kEntriesAhead < num_blocks) table.prefetch_entry(key(i + kEntriesAhead));
    const BlockTable::Found found = look_up(key(i));
    if (found.entry == 0) return false;
    const SetId set = found.set();
    if (!started_) {
      if (!start(found)) continue;
    } else if (set != set_ || index_.sets_.generation(set) != generation_) {
      if (!narrow(found)) continue;
    }
    if (alive_ == 0 || !has_room()) return false;
    table.mark(found.entry);
    in_a_row_ = found.entry == last_ + 1;
    last_ = found.entry;
    ++depth_;
    ++i;
  }
  return true;
}

bool MatchWalk::start(BlockTable::Found found) {
  const HolderSets& sets = index_.sets_;
  generation_ = sets.generation(found.set());
  alive_ = 0;
  count_ = 0;
  for (const HolderSets::Word* at = sets.first(found.set()); at != nullptr; at = sets.next(*at)) {
    const uint32_t word = load(at->word);
    uint64_t bits = load(at->bits);
    const bool ascends = alive_ == 0 || word > word_[alive_ - 1];
    if (!ascends || word >= index_.doomed_.size()) break;  // it was reused while we read: state() tells
    uint64_t rows = units_of(bits);
    for (uint64_t rest = rows; rest != 0; rest &= rest - 1) {
      uint32_t flags;
      const auto holder = static_cast<uint32_t>(__builtin_ctzll(rest));
      index_.workers_.owner(word * 64 + holder, &flags);
      const bool hides = (index_.flags_ & KVC_INDEX_HIDE_STALE) != 0 && (flags & IndexedWorker::kStale) != 0;
      if (flags != 0 && !hides) continue;
      rows &= ~(rest & -rest);
      bits &= ~(((uint64_t{2} << (index_.workers_.unit_bits() - 1)) - 1) << holder);
    }
    word_[alive_] = word;
    base_[alive_] = static_cast<uint32_t>(count_);
    rows_[alive_] = units_[alive_] = rows;
    media_[alive_] = bits;
    count_ += static_cast<size_t>(__builtin_popcountll(rows));
    if (++alive_ == HolderSets::kMaxWords) break;
  }
  if (index_.table_.state(found.entry) != found.state) {
    alive_ = 0;
    count_ = 0;
    return false;
  }
  started_ = true;
  set_ = found.set();
  if (!has_room()) return true;
  for (size_t i = 0; i < count_ * columns_; ++i) matched_[i] = 0;
  for (uint32_t at = 0; at < alive_; ++at)
    for (uint64_t rest = rows_[at]; rest != 0; rest &= rest - 1) {
      uint32_t flags;
      const auto holder = static_cast<uint32_t>(__builtin_ctzll(rest));
      ids_[row_of(at, (uint64_t{1} << holder) - 1)] = index_.workers_.owner(word_[at] * 64 + holder, &flags);
    }
  uint32_t kept = 0;
  for (uint32_t at = 0; at < alive_; ++at) {
    word_[kept] = word_[at];
    base_[kept] = base_[at];
    rows_[kept] = rows_[at];
    media_[kept] = media_[at];
    units_[kept] = units_[at];
    kept += units_[at] != 0;
  }
  alive_ = kept;
  return true;
}

bool MatchWalk::narrow(BlockTable::Found found) {
  const HolderSets& sets = index_.sets_;
  const uint32_t generation = sets.generation(found.set());
  uint32_t at = 0;
  int64_t last = -1;
  for (const HolderSets::Word* there = sets.first(found.set()); there != nullptr && at < alive_;
       there = sets.next(*there)) {
    const uint32_t word = load(there->word);
    if (int64_t{word} <= last) break;  // it was reused while we read: state() tells
    last = word;
    while (at < alive_ && word_[at] < word) fresh_[at++] = 0;
    if (at < alive_ && word_[at] == word) fresh_[at++] = load(there->bits);
  }
  while (at < alive_) fresh_[at++] = 0;
  if (index_.table_.state(found.entry) != found.state) return false;
  set_ = found.set();
  generation_ = generation;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < alive_; ++i) {
    const uint64_t media = media_[i] & fresh_[i];
    const uint64_t units = units_[i] & units_of(fresh_[i]);
    for (uint64_t lost = media_[i] ^ media; lost != 0; lost &= lost - 1) {
      const auto holder = static_cast<uint32_t>(__builtin_ctzll(lost));
      const uint32_t medium = holder % index_.workers_.unit_bits();
      matched_[row_of(i, (uint64_t{1} << (holder - medium)) - 1) * columns_ + 1 + medium] = depth_;
    }
    for (uint64_t lost = units_[i] ^ units; lost != 0; lost &= lost - 1)
      matched_[row_of(i, (lost & -lost) - 1) * columns_] = depth_;
    word_[kept] = word_[i];
    base_[kept] = base_[i];
    rows_[kept] = rows_[i];
    media_[kept] = media;
    units_[kept] = units;
    kept += units != 0;
  }
  alive_ = kept;
  return true;
}

bool MatchWalk::end() {
  if (has_room()) {
    for (uint32_t i = 0; i < alive_; ++i) {
      for (uint64_t left = media_[i]; left != 0; left &= left - 1) {
        const auto holder = static_cast<uint32_t>(__builtin_ctzll(left));
        const uint32_t medium = holder % index_.workers_.unit_bits();
        matched_[row_of(i, (uint64_t{1} << (holder - medium)) - 1) * columns_ + 1 + medium] = depth_;
      }
      for (uint64_t left = units_[i]; left != 0; left &= left - 1)
        matched_[row_of(i, (left & -left) - 1) * columns_] = depth_;
    }
  }
  return index_.workers_.assignments() == assignments_;
}

namespace {

template <typename Go>
kvc_status run_walk(PrefixIndex& index, uint64_t* ids, uint32_t* matched, size_t capacity, size_t* count,
                    Go&& go) {
  MatchWalk walk(index, ids, matched, capacity);
  do {
    walk.begin();
    go(walk);
  } while (!walk.end());
  *count = walk.count();
  if (walk.has_room()) return KVC_OK;
  return fail(KVC_ERROR_BUFFER_TOO_SMALL,
              "room for %zu workers, and %zu have the first block; give max_workers", capacity, walk.count());
}

}  // namespace

kvc_status PrefixIndex::match(const uint8_t* digests, size_t num_blocks, uint64_t* ids, uint32_t* matched,
                              size_t capacity, size_t* count) {
  return run_walk(*this, ids, matched, capacity, count,
                  [&](MatchWalk& walk) { walk.go(digests, num_blocks); });
}

kvc_status PrefixIndex::match_tokens(const uint8_t* root, const int32_t* tokens, uint32_t block_size,
                                     size_t num_blocks, uint64_t* ids, uint32_t* matched, size_t capacity,
                                     size_t* count) {
  constexpr size_t kSlice = 64;
  return run_walk(*this, ids, matched, capacity, count, [&](MatchWalk& walk) {
    if (num_blocks == 0) return;
    Digest256 chain;
    std::memcpy(chain.bytes, root, sizeof chain.bytes);
    PositionDigests digests(block_size, tokens);
    uint8_t slice[kSlice][32];
    for (size_t begin = 0; begin < num_blocks; begin += kSlice) {
      const size_t end = begin + kSlice < num_blocks ? begin + kSlice : num_blocks;
      for (size_t i = begin; i < end; ++i) {
        const int32_t* next = i + 1 < num_blocks ? tokens + (i + 1) * block_size : nullptr;
        chain = digests.next(chain, {}, next);
        std::memcpy(slice[i - begin], chain.bytes, sizeof chain.bytes);
      }
      if (!walk.go(slice[0], end - begin)) return;
    }
  });
}

}  // namespace kvc
