// SPDX-License-Identifier: Apache-2.0
// The lists of cached blocks where a pool has several: it is divided into classes, of which a taker may evict
// from some only; each class into levels, the lowest of which leaves first; each level into the shelves of
// the policy (policy.h). Each list is ordered by the time at which its blocks came, except that reshelve()
// keeps a block's time. List 0 is LRU's own. Not thread-safe.
#pragma once
#include <algorithm>

#include "base/memory.h"
#include "pool/block.h"
#include "pool/policy.h"

namespace kvc {

// Where a cached block waits, and how many classes and levels there are.
struct Place {
  uint32_t cls, level, shelf;
  bool operator==(const Place&) const = default;
};
struct Division {
  uint32_t classes = 1, levels = 1;
  bool fills = false;  // whether blocks may be filling
};

class Shelves {
 public:
  static constexpr uint32_t kMaxClasses = 64, kMaxLevels = 128;
  static constexpr uint64_t kAllClasses = ~uint64_t{0};

  void set_policy(const Policy& policy, double weight, Division division);
  // Whether there are several lists. Only then the rest is created and used.
  bool on() const { return num_lists_ != 1; }
  // The sentinels are the records behind those of the `num_ids` blocks: two for each pool, whose first is
  // that of list 0, then those of more lists.
  [[nodiscard]] bool create(Memory& memory, Block* blocks, PoolState* pools, size_t num_pools,
                            uint64_t num_ids);
  // The lists of a pool are empty; `first` is a block of it.
  void begin(size_t pool, BlockId first);
  void resize(size_t pool, uint64_t size);

  uint32_t num_lists() const { return num_lists_; }               // classes * levels * shelves
  uint32_t num_divided() const { return on() ? num_lists_ : 0; }  // lists whose blocks have ages
  uint32_t num_shelves() const { return num_shelves_; }
  // Whether what is cached of a position comes to another shelf when that loses a block.
  bool moves_fragments() const { return num_shelves_ != 1 && policy_->moves_fragments; }
  size_t list_of(Place place) const {
    return (size_t{place.cls} * num_levels_ + place.level) * num_shelves_ + place.shelf;
  }
  Place place_of(size_t list) const {
    return {static_cast<uint32_t>(list / num_shelves_ / num_levels_),
            static_cast<uint32_t>(list / num_shelves_ % num_levels_),
            static_cast<uint32_t>(list % num_shelves_)};
  }
  size_t sentinel(size_t pool, size_t list) const {
    return list == 0 ? num_ids_ + 2 * pool : num_ids_ + 2 * num_pools_ + pool * (num_lists_ - 1) + list - 1;
  }

  // A block comes to the end of a list.
  void push(BlockId id, Place place);
  // Moves a block to the end of another list. The time at which it came stays; renew() makes it the present.
  void reshelve(BlockId id, Place place);
  void renew(BlockId id, Place place);
  // Whether a block may stand between two others of a list, by the time at which it came.
  bool fits_between(BlockId id, BlockId before, BlockId after) const {
    return (at_end(before) || came(before) < came(id)) && (at_end(after) || came(after) > came(id));
  }
  // A place may have blocks.
  void mark(size_t pool, Place place) {
    filled(pool, place.cls, place.level) |= static_cast<uint16_t>(1u << place.shelf);
    levels(pool, place.cls)[place.level / 64] |= uint64_t{1} << place.level % 64;
  }
  // `to` takes the place of `from`.
  void move(BlockId from, BlockId to) { came_[static_cast<size_t>(raw(to))] = came(from); }
  // The block of some classes that leaves first: of the lowest level, by the policy. kNoBlock: none.
  BlockId victim(size_t pool, uint64_t classes);
  // The first block of the lists of these classes that `wanted` accepts, or kNoBlock; where there is one
  // list, it looks at nothing.
  template <typename Wanted>
  BlockId find_head(size_t pool, uint64_t classes, Wanted&& wanted) {
    if (!on()) return kNoBlock;
    for (; classes != 0; classes &= classes - 1) {
      const auto cls = static_cast<uint32_t>(__builtin_ctzll(classes));
      if (cls >= num_classes_) break;
      for (uint32_t word = 0; word < 2; ++word) {
        for (uint64_t rest = levels(pool, cls)[word]; rest != 0; rest &= rest - 1) {
          const uint32_t level = word * 64 + static_cast<uint32_t>(__builtin_ctzll(rest));
          for (uint32_t shelves = filled(pool, cls, level); shelves != 0; shelves &= shelves - 1) {
            const auto shelf = static_cast<uint32_t>(__builtin_ctz(shelves));
            const BlockId head = this->head(pool, list_of({cls, level, shelf}));
            if (!at_end(head) && wanted(head)) return head;
          }
        }
      }
    }
    return kNoBlock;
  }
  // At least so many blocks have come to a pool's lists, which are empty. Then so many have come since a
  // block did.
  void begin_clock(size_t pool, uint64_t clock) { clocks_[pool].now = std::max(clocks_[pool].now, clock); }
  void set_age(BlockId id, uint64_t age) {
    came_[static_cast<size_t>(raw(id))] = clocks_[blocks_[raw(id)].pool].now - age;
  }
  // Blocks that came to the lists of its pool since this one did, itself included. 0 with one list.
  uint64_t age(BlockId id) const { return on() ? clocks_[blocks_[raw(id)].pool].now - came(id) : 0; }

 private:
  struct Clock {
    uint64_t now;  // blocks that came to the lists; at 10^9 a second it lasts for centuries
    uint64_t bonus[Policy::kMaxShelves];
  };
  bool at_end(BlockId id) const { return static_cast<uint64_t>(raw(id)) >= num_ids_; }
  BlockId head(size_t pool, size_t list) const { return blocks_[sentinel(pool, list)].next; }
  uint64_t came(BlockId id) const { return came_[static_cast<size_t>(raw(id))]; }
  // A bit for each shelf of a level, and for each level of a class, that may have blocks: set when one comes,
  // cleared by victim() when it finds none.
  uint16_t& filled(size_t pool, ClassIndex cls, uint32_t level) {
    return filled_[(pool * num_classes_ + cls) * num_levels_ + level];
  }
  uint64_t* levels(size_t pool, ClassIndex cls) { return &levels_[(pool * num_classes_ + cls) * 2]; }
  void link_into(BlockId id, Block& block, Place place);
  bool lowest_level(size_t pool, ClassIndex cls, uint32_t* level);
  BlockId first_of_level(size_t pool, ClassIndex cls, uint32_t level, uint64_t* score);

  Block* blocks_ = nullptr;
  PoolState* pools_ = nullptr;
  uint64_t num_ids_ = 0;
  size_t num_pools_ = 0;
  uint32_t num_classes_ = 1, num_levels_ = 1, num_shelves_ = 1, num_lists_ = 1;
  const Policy* policy_ = &kLruPolicy;
  double weight_ = 0;
  Clock clocks_[kMaxBlockPools] = {};
  Array<uint64_t> came_;        // the pool's clock when a block came to a list
  Array<uint16_t> filled_;      // [pools][classes][levels]
  Array<uint64_t> levels_;      // [pools][classes][2]
  Array<RecentBlocks> recent_;  // [pools][lists]
};

}  // namespace kvc
