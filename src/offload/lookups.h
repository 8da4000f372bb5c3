// SPDX-License-Identifier: Apache-2.0
// The lookups of an offload and their memory: for each the prompt, the keys of its pages, what is known of
// them, and the blocks that a load holds.
#pragma once
#include "offload/stages.h"

namespace kvc {

enum class LookupState : uint8_t { kFree, kAsking, kFollowing, kLoading, kReady, kEnding };
enum class PageState : uint8_t { kUnknown, kFound, kGetting, kLoaded, kFailed };
struct LookupPage {
  uint64_t generation;
  int32_t block;
  uint8_t tier;  // kNoTier = none has it
  PageState state;
  uint16_t reserved;

  static constexpr uint8_t kNoTier = UINT8_MAX;
  bool is_found() const { return tier != kNoTier; }
};
// A lookup and the load that follows it. Pages of position p and group g are at (p - first) * groups + g.
struct Lookup {
  LookupState state;
  uint32_t reason;
  uint64_t request, exists_job;
  uint64_t max_tokens;
  uint64_t begun_ns, hold_until;
  uint64_t moved_ns;  // by the time of the machine: when a tier was asked, or gave something
  uint32_t tier;      // that is asked, of the positions from `asked` on
  uint32_t leader;    // that is followed, by this request:
  uint64_t leader_request;
  size_t outstanding;  // gets
  // Positions: the first that is looked up, and how many were asked for before, are now, and can be.
  size_t first, asked, count, most;
  size_t end;   // positions that a load ends at
  size_t held;  // positions of the hit that are held
  size_t next;  // page to get
  uint64_t found_tokens, loaded_tokens;
  bool is_asking;  // a question has not ended, which may be given up: it writes to the items
  bool failed;
  bool doubtful;     // a page was known and is gone
  Digest256 digest;  // of the last position that has keys
  OffloadView::Prompt prompt;
};

class Lookups {
 public:
  static constexpr size_t kMaxKeys = 256;  // of a prompt that is looked up

  // `most_blocks`: positions that one looks up.
  kvc_status create(Memory& memory, const Shape& shape, size_t lookups, size_t most_blocks);

  size_t size() const { return lookups_.size(); }
  Lookup& operator[](size_t i) { return lookups_[i]; }
  const Lookup& operator[](size_t i) const { return lookups_[i]; }
  // nullptr: the request is not looked up.
  Lookup* find(uint64_t request);
  const Lookup* find(uint64_t request) const { return const_cast<Lookups*>(this)->find(request); }
  // A new one of a request, if one is free; else nullptr.
  Lookup* begin(uint64_t request);
  size_t index_of(const Lookup& lookup) const { return static_cast<size_t>(&lookup - lookups_.data()); }
  size_t num_busy() const;
  size_t num_active() const;  // that may bring bytes to blocks

  size_t num_groups() const { return shape_->num_token_groups; }
  // Positions of a prompt, and pages of a lookup, at most.
  size_t max_positions() const { return max_positions_; }
  size_t pages_per_lookup() const { return pages_per_lookup_; }
  LookupPage* pages_of(const Lookup& l) { return pages_.data() + index_of(l) * pages_per_lookup_; }
  Digest256* keys_of(const Lookup& l) { return keys_.data() + index_of(l) * pages_per_lookup_; }
  kvc_tier_item* items_of(const Lookup& l) { return items_.data() + index_of(l) * pages_per_lookup_; }
  int32_t* blocks_of(const Lookup& l, size_t group) {
    return blocks_.data() + (index_of(l) * num_groups() + group) * max_positions_;
  }
  // The first positions of its prompt, for a call of the manager; valid until the next one.
  kvc_prompt prompt_of(const Lookup& lookup, size_t positions) const;
  // Whether a hit that ends at `end` needs the block of a position.
  bool needed(size_t group, size_t position, size_t end) const;
  // The digests of positions, and from the first one that is looked up on the keys of their pages. Returns
  // the last digest.
  Digest256 hash(const Lookup& lookup, const OffloadGroup* groups, size_t begin, size_t end, Digest256 at);
  // The first position before `end` of which a page of a group of full attention is not in `state`; else
  // `end`.
  size_t first_hole(const Lookup& lookup, size_t end, PageState state);
  // The longest prefix within `end` positions, of which all that a hit of it needs is in `state`.
  size_t longest(const Lookup& lookup, size_t end, PageState state);

 private:
  const Shape* shape_ = nullptr;
  Array<Lookup> lookups_;
  size_t pages_per_lookup_ = 0, max_positions_ = 0;
  Array<LookupPage> pages_;
  Array<Digest256> keys_;
  Array<kvc_tier_item> items_;
  Array<int32_t> blocks_, tokens_;
  Array<ExtraKey> extra_keys_;
  mutable Array<kvc_extra_key> plain_keys_;  // of one call
};

}  // namespace kvc
