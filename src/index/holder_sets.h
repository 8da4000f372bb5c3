// SPDX-License-Identifier: Apache-2.0
// Sets of holders, each stored once. A holder is a bit number; a set is its words with a bit, ascending. Most
// blocks of a prefix have the same holders, so a block keeps the id of a set, and a match compares ids.
//
// A set never changes while a block has it. Its record is reused later, with another generation: a reader
// that finds the id and the generation that it knows has the same set. Until a reader has checked that the
// block still has the set, what it read may be a mixture of two sets; words that do not ascend show it.
//
// One writer, any number of readers. create() takes all memory.
#pragma once
#include "base/memory.h"
#include "index/shared_word.h"

namespace kvc {

using SetId = uint32_t;

class HolderSets {
 public:
  static constexpr SetId kEmpty = 0;
  static constexpr SetId kNoRoom = UINT32_MAX;
  static constexpr uint32_t kMaxWords = 1024;  // of one set

  struct Word {
    uint64_t bits;
    uint32_t word;  // holders [64 * word, 64 * word + 64)
    uint32_t next;  // 0 = the last one
  };
  // A set under construction.
  struct Draft {
    uint32_t count = 0;
    uint32_t words[kMaxWords];
    uint64_t bits[kMaxWords];
  };

  [[nodiscard]] bool create(Memory& memory, size_t max_sets, size_t max_words);

  // The writer's. Each gives a set with a reference for the caller; `set` keeps its own. kNoRoom: release
  // some set first.
  SetId with(SetId set, uint32_t holder);
  SetId without(SetId set, uint32_t holder);
  SetId strip(SetId set, const uint64_t* removed);  // without the bits of removed[word]
  SetId find_or_make(const Draft& draft);
  void add_reference(SetId set) { ++sets_[set].references; }
  void release(SetId set);

  bool contains(SetId set, uint32_t holder) const {
    const uint32_t word = holder / 64;
    for (const Word* at = first(set); at != nullptr; at = next(*at))
      if (at->word == word) return (at->bits >> holder % 64 & 1) != 0;
    return false;
  }
  bool touches(SetId set, const uint64_t* mask) const {
    for (const Word* at = first(set); at != nullptr; at = next(*at))
      if ((at->bits & mask[at->word]) != 0) return true;
    return false;
  }
  // Whether `set` has room for one more word, or needs none for this holder.
  bool takes(SetId set, uint32_t holder) const;

  uint64_t num_sets() const { return live_sets_; }
  uint64_t bytes_used() const {
    return used_sets_ * (sizeof(Set) + sizeof(uint32_t)) + used_words_ * sizeof(Word);
  }
  uint32_t limit() const { return used_sets_; }  // ids are below
  uint32_t references(SetId set) const { return sets_[set].references; }

  // Readers' too: load() the fields.
  const Word* first(SetId set) const { return set == kEmpty ? nullptr : &sets_[set].first; }
  const Word* next(const Word& word) const {
    const uint32_t at = load(word.next);
    return at == 0 ? nullptr : &words_[at];
  }
  uint32_t generation(SetId set) const { return load(sets_[set].generation); }

 private:
  struct Set {
    Word first;
    uint32_t references;  // 0 = free: `chain` is the next free one
    uint32_t hash;
    uint32_t chain;
    uint32_t generation;
  };
  static_assert(sizeof(Set) == 32);

  void draft_of(SetId set);
  uint32_t& head(uint32_t hash) { return heads_[hash & (heads_.size() - 1)]; }
  bool equals(SetId set, const Draft& draft) const;

  Array<Set> sets_;        // 0 is the empty set
  Array<Word> words_;      // 0 is none
  Array<uint32_t> heads_;  // by hash
  Draft draft_;
  uint32_t used_sets_ = 1, free_sets_ = 0;
  uint32_t used_words_ = 1, free_words_ = 0, num_free_words_ = 0;
  uint64_t live_sets_ = 0;
};

}  // namespace kvc
