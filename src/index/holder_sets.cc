// SPDX-License-Identifier: Apache-2.0
#include "index/holder_sets.h"

namespace kvc {
namespace {

uint32_t hash_of(const HolderSets::Draft& draft) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < draft.count; ++i) {
    uint64_t x = (draft.bits[i] ^ uint64_t{draft.words[i]} << 40) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    sum += x ^ x >> 32;
  }
  return static_cast<uint32_t>(sum ^ sum >> 32);
}

}  // namespace

bool HolderSets::create(Memory& memory, size_t max_sets, size_t max_words) {
  return sets_.create(memory, max_sets + 1) && words_.create(memory, max_words + 1) &&
         heads_.create(memory, next_power_of_two(max_sets));
}

void HolderSets::draft_of(SetId set) {
  draft_.count = 0;
  for (const Word* at = first(set); at != nullptr; at = next(*at)) {
    draft_.words[draft_.count] = at->word;
    draft_.bits[draft_.count++] = at->bits;
  }
}

bool HolderSets::takes(SetId set, uint32_t holder) const {
  uint32_t count = 0;
  for (const Word* at = first(set); at != nullptr; at = next(*at), ++count)
    if (at->word == holder / 64) return true;
  return count < kMaxWords;
}

SetId HolderSets::with(SetId set, uint32_t holder) {
  const uint32_t word = holder / 64;
  const uint64_t bit = uint64_t{1} << holder % 64;
  draft_of(set);
  uint32_t at = 0;
  while (at < draft_.count && draft_.words[at] < word) ++at;
  if (at < draft_.count && draft_.words[at] == word) {
    draft_.bits[at] |= bit;
  } else {
    for (uint32_t i = draft_.count++; i > at; --i) {
      draft_.words[i] = draft_.words[i - 1];
      draft_.bits[i] = draft_.bits[i - 1];
    }
    draft_.words[at] = word;
    draft_.bits[at] = bit;
  }
  return find_or_make(draft_);
}

SetId HolderSets::without(SetId set, uint32_t holder) {
  draft_of(set);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < draft_.count; ++i) {
    uint64_t bits = draft_.bits[i];
    if (draft_.words[i] == holder / 64) bits &= ~(uint64_t{1} << holder % 64);
    draft_.words[kept] = draft_.words[i];
    draft_.bits[kept] = bits;
    kept += bits != 0;
  }
  draft_.count = kept;
  return find_or_make(draft_);
}

SetId HolderSets::strip(SetId set, const uint64_t* removed) {
  draft_of(set);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < draft_.count; ++i) {
    const uint64_t bits = draft_.bits[i] & ~removed[draft_.words[i]];
    draft_.words[kept] = draft_.words[i];
    draft_.bits[kept] = bits;
    kept += bits != 0;
  }
  draft_.count = kept;
  return find_or_make(draft_);
}

bool HolderSets::equals(SetId set, const Draft& draft) const {
  uint32_t i = 0;
  for (const Word* at = first(set); at != nullptr; at = next(*at), ++i)
    if (i == draft.count || at->word != draft.words[i] || at->bits != draft.bits[i]) return false;
  return i == draft.count;
}

SetId HolderSets::find_or_make(const Draft& draft) {
  if (draft.count == 0) return kEmpty;
  const uint32_t hash = hash_of(draft);
  for (SetId at = head(hash); at != kEmpty; at = sets_[at].chain) {
    if (sets_[at].hash != hash || !equals(at, draft)) continue;
    ++sets_[at].references;
    return at;
  }
  const size_t unused_words = words_.size() - used_words_;
  if ((free_sets_ == kEmpty && used_sets_ == sets_.size()) ||
      draft.count - 1 > num_free_words_ + unused_words)
    return kNoRoom;
  const SetId made = free_sets_ != kEmpty ? free_sets_ : used_sets_++;
  if (made == free_sets_) free_sets_ = sets_[made].chain;
  Set& set = sets_[made];
  Word* to = &set.first;
  for (uint32_t i = 0; i < draft.count; ++i) {
    uint32_t next = 0;
    if (i + 1 < draft.count) {
      next = free_words_ != 0 ? free_words_ : used_words_++;
      if (next == free_words_) {
        free_words_ = words_[next].next;
        --num_free_words_;
      }
    }
    store(to->bits, draft.bits[i]);
    store(to->word, draft.words[i]);
    store(to->next, next);
    to = &words_[next];
  }
  set.references = 1;
  set.hash = hash;
  set.chain = head(hash);
  head(hash) = made;
  ++live_sets_;
  return made;
}

void HolderSets::release(SetId set) {
  if (set == kEmpty || --sets_[set].references != 0) return;
  Set& gone = sets_[set];
  store(gone.generation, gone.generation + 1);
  uint32_t* link = &head(gone.hash);
  while (*link != set) link = &sets_[*link].chain;
  *link = gone.chain;
  for (uint32_t at = gone.first.next; at != 0;) {
    const uint32_t next = words_[at].next;
    store(words_[at].next, free_words_);
    free_words_ = at;
    ++num_free_words_;
    at = next;
  }
  gone.chain = free_sets_;
  free_sets_ = set;
  --live_sets_;
}

}  // namespace kvc
