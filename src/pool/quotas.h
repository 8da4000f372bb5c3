// SPDX-License-Identifier: Apache-2.0
// Quotas: how many blocks of each pool a namespace is sure of, and how many it may have at most. A namespace
// with a quota is a class of its own; class 0 is all others and the external holders. Everything that decides
// is O(1): what each class has is counted, and so is what the classes together still lack of their minimums.
//
// Invariants, per pool: `lacking` is the sum of the classes' unmet minimums, and at least so many blocks are
// free or cached, so that a class always gets its minimum; `above` has the classes that have more than their
// minimum, and class 0. A block that is not FREE counts for one class. Not thread-safe.
#pragma once
#include "pool/block_pool.h"

namespace kvc {

// Who pays for a block beside the ids of namespaces: an external holder that has not published it.
inline constexpr uint64_t kNoPayer = UINT64_MAX;

class Quotas {
 public:
  static constexpr uint32_t kMaxQuotas = Shelves::kMaxClasses - 1;
  static constexpr uint64_t kNoMaximum = UINT64_MAX;

  // What one class has of one pool.
  struct Share {
    uint64_t min, max;      // max: kNoMaximum if there is none
    uint64_t held, cached;  // held: by requests, pins, external holds and steps in flight; cached: not stale
    uint64_t fenced;        // of held
    uint64_t refusals;      // for its maximum
    uint64_t used() const { return held + cached; }
    uint64_t unmet() const { return min > held ? min - held : 0; }
    uint64_t left() const { return max > held ? max - held : 0; }  // that it may still hold
    bool full() const { return used() >= max; }
  };
  struct Tenant {
    bool taken;         // the class belongs to a namespace
    NamespaceId ns;     // its index
    uint64_t admitted;  // requests
    uint64_t block_queries, block_hits;
  };

  // With 0 quotas nothing is kept, and on() is false. Then what happens to blocks is ignored, and a class has
  // room for all that there is, and may evict everything. Shares and tenants, limits and refusals, and the
  // class and payer of a block are there only if on().
  [[nodiscard]] bool create(Memory& memory, uint32_t max_quotas, const BlockPool& pool);
  bool on() const { return num_classes_ != 0; }
  uint32_t num_classes() const { return num_classes_; }

  const Share& share(ClassIndex cls, size_t pool) const { return shares_[cls * num_pools_ + pool]; }
  Tenant& tenant(ClassIndex cls) { return tenants_[cls]; }
  const Tenant& tenant(ClassIndex cls) const { return tenants_[cls]; }
  uint64_t lacking(size_t pool) const { return lacking_[pool]; }
  uint64_t minimums(size_t pool) const;  // their sum, O(classes)
  uint64_t above(size_t pool) const { return on() ? above_[pool] : Shelves::kAllClasses; }
  uint64_t max(ClassIndex cls, size_t pool) const { return on() ? share(cls, pool).max : kNoMaximum; }
  uint8_t class_of(BlockId id) const { return classes_[static_cast<size_t>(raw(id))]; }
  // Id of the namespace that has the block, or kNoPayer.
  uint64_t payer(BlockId id) const { return payers_[static_cast<size_t>(raw(id))]; }

  // Blocks that a class may take, of `available` in the pool: what the others are sure of stays, and it keeps
  // to its maximum.
  uint64_t room(ClassIndex cls, size_t pool, uint64_t available) const {
    if (!on()) [[likely]]
      return available;
    const Share& s = share(cls, pool);
    const uint64_t others = lacking_[pool] - s.unmet();
    const uint64_t rest = available > others ? available - others : 0;
    return rest < s.left() ? rest : s.left();
  }
  // The same if nobody held any; what it holds above a maximum that was lowered stays its own. O(classes).
  uint64_t most_room(ClassIndex cls, size_t pool, uint64_t size) const {
    if (!on()) return size;
    const Share& s = share(cls, pool);
    return std::min(size - (minimums(pool) - s.min), std::max(s.max, s.held));
  }
  // The same once the fenced blocks of all classes have settled, `kept` of its own excepted.
  uint64_t room_after_fences(ClassIndex cls, size_t pool, uint64_t available, uint64_t kept) const;
  // Whether so many more, while `kept` of its fenced blocks stay, would be more than a class may have.
  bool exceeds(ClassIndex cls, size_t pool, uint64_t wanted, uint64_t kept) const {
    if (!on()) return false;
    const Share& s = share(cls, pool);
    return s.held - (s.fenced - kept) + wanted > s.max;
  }
  // Classes whose cached blocks the class may evict: class 0, those above their minimum, and its own. Below
  // its minimum it leaves its own alone: others have what it lacks.
  uint64_t evictable(ClassIndex cls, size_t pool) const {
    if (!on()) return Shelves::kAllClasses;
    const Share& s = share(cls, pool);
    const uint64_t own = uint64_t{1} << cls;
    return s.used() < s.min ? above_[pool] & ~own : above_[pool] | own;
  }

  // A block becomes held, cached or free, or moves; each names what it was before.
  void take(BlockId id, size_t pool, ClassIndex cls, uint64_t payer) {
    if (!on()) return;
    classes_[static_cast<size_t>(raw(id))] = static_cast<uint8_t>(cls);
    payers_[static_cast<size_t>(raw(id))] = payer;
    change(cls, pool, [](Share& s) { ++s.held; });
  }
  void hit(BlockId id, size_t pool, bool was_fenced) {
    change_of(id, pool, [&](Share& s) { was_fenced ? --s.fenced : (--s.cached, ++s.held); });
  }
  // A class will take so many blocks more.
  void expect(ClassIndex cls, size_t pool, uint64_t count) {
    if (on()) change(cls, pool, [&](Share& s) { s.held += count; });
  }
  void fence(BlockId id, size_t pool) {
    change_of(id, pool, [](Share& s) { ++s.fenced; });
  }
  void leave_fence(BlockId id, size_t pool) {
    change_of(id, pool, [](Share& s) { --s.fenced; });
  }
  void cache_held(BlockId id, size_t pool) {
    change_of(id, pool, [](Share& s) { --s.held, ++s.cached; });
  }
  void free_held(BlockId id, size_t pool) {
    change_of(id, pool, [](Share& s) { --s.held; });
  }
  void free_cached(BlockId id, size_t pool) {
    change_of(id, pool, [](Share& s) { --s.cached; });
  }
  void move(BlockId from, BlockId to) {
    if (!on()) return;
    classes_[static_cast<size_t>(raw(to))] = class_of(from);
    payers_[static_cast<size_t>(raw(to))] = payer(from);
  }
  // A block that is not FREE comes to another class. What it is stays: `fenced` and `cached` say what.
  void give(BlockId id, size_t pool, ClassIndex cls, uint64_t payer, List list);

  // Cached blocks of a class, of all classes, are stale from now on.
  void forget(ClassIndex cls, size_t pool, uint64_t cached) {
    if (on()) change(cls, pool, [&](Share& s) { s.cached -= cached; });
  }
  void forget_all() {
    for (uint32_t cls = 0; cls < num_classes_; ++cls) {
      for (size_t p = 0; p < num_pools_; ++p) forget(cls, p, share(cls, p).cached);
    }
  }
  void set_limits(ClassIndex cls, size_t pool, uint64_t min, uint64_t max) {
    change(cls, pool, [&](Share& s) { s.min = min, s.max = max; });
  }
  void count_refusal(ClassIndex cls, size_t pool) { ++at(cls, pool).refusals; }
  // The lowest class that no namespace has, or 0.
  uint32_t unused_class() const;
  // The class belongs to a namespace from now on; to nobody.
  void begin(ClassIndex cls, NamespaceId ns, uint64_t admitted);
  void end(ClassIndex cls);

 private:
  static constexpr size_t kMaxPools = 32;

  Share& at(ClassIndex cls, size_t pool) { return shares_[cls * num_pools_ + pool]; }
  template <typename Change>
  void change(ClassIndex cls, size_t pool, Change&& change) {
    Share& s = at(cls, pool);
    lacking_[pool] -= s.unmet();
    change(s);
    lacking_[pool] += s.unmet();
    const uint64_t bit = uint64_t{1} << cls;
    above_[pool] = s.used() > s.min || cls == 0 ? above_[pool] | bit : above_[pool] & ~bit;
  }

  template <typename Change>
  void change_of(BlockId id, size_t pool, Change&& change) {
    if (on()) [[unlikely]]
      this->change(class_of(id), pool, change);
  }

  Array<Share> shares_;     // [classes][pools]
  Array<Tenant> tenants_;   // [classes]
  Array<uint8_t> classes_;  // of blocks that are not FREE
  Array<uint64_t> payers_;  // likewise
  uint64_t lacking_[kMaxPools] = {};
  uint64_t above_[kMaxPools] = {};
  size_t num_pools_ = 0;
  uint32_t num_classes_ = 0;
};

}  // namespace kvc
