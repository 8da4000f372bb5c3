// SPDX-License-Identifier: Apache-2.0
// The divided LRU list: classes, levels, shelves. Random blocks come, go and move; who leaves first is worked
// out anew each time from a plain list of what is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/counting_heap.h"
#include "pool/block_pool.h"
#include "seed.h"

namespace kvc {
namespace {

struct Waiting {
  int32_t id;
  Place place;
  uint64_t came;
};

class ListsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBlocks = 64;
  void create(const Policy& policy, double weight, Division division) {
    division_ = division;
    const uint64_t size = kBlocks;
    ASSERT_TRUE(pool_.create(memory_, &size, 1, false, policy, weight, division));
    shelves_ = policy.num_shelves(weight);
    for (uint32_t shelf = 0; shelf < shelves_; ++shelf) bonus_.push_back(policy.bonus(shelf, weight, size));
    for (int32_t id = 0; id < static_cast<int32_t>(kBlocks); ++id) {
      BlockId taken = kNoBlock;
      ASSERT_EQ(pool_.pop_free(0, 0, 1, &taken), 1u);
      held_.push_back(raw(taken));
    }
  }
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  Place any_place() { return {below(division_.classes), below(division_.levels), below(shelves_)}; }

  // Among equals the shelf and the class with the lower number.
  std::vector<Waiting>::iterator expected_victim(uint64_t classes) {
    const auto rank = [&](const Waiting& w) {
      return std::tuple(w.place.level, w.came + bonus_[w.place.shelf], w.place.cls, w.place.shelf);
    };
    auto best = waiting_.end();
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if ((classes >> it->place.cls & 1) == 0) continue;
      // Only the first of its list.
      const bool first = std::none_of(waiting_.begin(), it, [&](const Waiting& other) {
        return pool_.shelves().list_of(other.place) == pool_.shelves().list_of(it->place);
      });
      if (first && (best == waiting_.end() || rank(*it) < rank(*best))) best = it;
    }
    return best;
  }

  void push() {
    if (held_.empty()) return;
    const size_t i = below(static_cast<uint32_t>(held_.size()));
    const BlockId id{held_[i]};
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    const Place place = any_place();
    ASSERT_TRUE(pool_.drop_ref(pool_[id]));
    pool_.shelves().push(id, place);
    waiting_.push_back({raw(id), place, clock_++});
  }
  void move(bool renew) {
    if (waiting_.empty()) return;
    const auto it = waiting_.begin() + below(static_cast<uint32_t>(waiting_.size()));
    Waiting moved = *it;
    waiting_.erase(it);
    moved.place = any_place();
    if (renew) moved.came = clock_++;
    renew ? pool_.shelves().renew(BlockId{moved.id}, moved.place)
          : pool_.shelves().reshelve(BlockId{moved.id}, moved.place);
    waiting_.push_back(moved);
  }
  void hit() {
    if (waiting_.empty()) return;
    const auto it = waiting_.begin() + below(static_cast<uint32_t>(waiting_.size()));
    pool_.remove(BlockId{it->id});
    pool_.add_ref(pool_[BlockId{it->id}]);
    held_.push_back(it->id);
    waiting_.erase(it);
  }
  void evict(uint64_t classes) {
    const auto it = expected_victim(classes);
    const BlockId victim = pool_.victim(0, classes);
    ASSERT_EQ(raw(victim), it == waiting_.end() ? -1 : it->id) << "classes " << classes;
    if (it == waiting_.end()) return;
    pool_.take(victim, 0);
    held_.push_back(it->id);
    waiting_.erase(it);
  }

  void run(const Policy& policy, double weight, Division division) {
    const uint64_t seed = test::test_seed();
    SCOPED_TRACE(testing::Message() << "KVC_TEST_SEED=" << seed);
    random_.seed(seed);
    create(policy, weight, division);
    for (int i = 0; i < 20000 && !HasFatalFailure(); ++i) {
      switch (below(8)) {
        case 0:
        case 1:
        case 2:
          push();
          break;
        case 3:
          move(false);
          break;
        case 4:
          move(true);
          break;
        case 5:
          hit();
          break;
        case 6:
          evict(Shelves::kAllClasses);
          break;
        case 7:
          evict(random_());
          break;
      }
      ASSERT_EQ(pool_.counts(0).lru, waiting_.size());
      const int32_t sought = static_cast<int32_t>(below(kBlocks));
      const BlockId found =
          pool_.shelves().find_head(0, Shelves::kAllClasses, [&](BlockId id) { return raw(id) == sought; });
      const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) {
        return raw(pool_.lru_head(0, pool_.shelves().list_of(w.place))) == sought && w.id == sought;
      });
      ASSERT_EQ(raw(found), it == waiting_.end() ? -1 : sought);
    }
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  BlockPool pool_;
  Division division_;
  uint32_t shelves_ = 1;
  std::vector<uint64_t> bonus_;
  std::vector<int32_t> held_;
  std::vector<Waiting> waiting_;  // in the order in which they came to their lists
  uint64_t clock_ = 0;
  std::mt19937_64 random_;
};

TEST_F(ListsTest, TheLowestLevelLeavesFirst) { run(kLruPolicy, 0, {1, 102}); }
TEST_F(ListsTest, ATakerEvictsFromItsClassesOnly) { run(kLruPolicy, 0, {64, 1}); }
TEST_F(ListsTest, ClassesLevelsAndShelvesGoTogether) { run(kFrequencyPolicy, 0.3, {5, 102}); }
TEST_F(ListsTest, ShelvesAlone) { run(kFrequencyPolicy, 0.3, {1, 1}); }

TEST_F(ListsTest, AListsNumberNamesItsPlace) {
  create(kFrequencyPolicy, 1, {3, 102});
  ASSERT_EQ(pool_.shelves().num_lists(), 3u * 102 * 8);
  for (size_t list = 0; list < pool_.shelves().num_lists(); ++list) {
    const Place place = pool_.shelves().place_of(list);
    EXPECT_TRUE(place.cls < 3 && place.level < 102 && place.shelf < 8) << list;
    EXPECT_EQ(pool_.shelves().list_of(place), list);
  }
}

}  // namespace
}  // namespace kvc
