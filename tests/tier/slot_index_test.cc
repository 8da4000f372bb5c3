// SPDX-License-Identifier: Apache-2.0
// Which page gives way, by both policies, against a model that looks at every page.
#include "tier/slot_index.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>
#include <set>

#include "base/env.h"
#include "stores.h"

namespace kvc {
namespace {

using test::digest_of;

struct Model {
  struct Page {
    uint64_t last_use, leased_until;
    uint32_t uses, readers;
  };
  explicit Model(SlotPolicy which, size_t slots) : policy(which), num_slots(slots) {}

  uint64_t level(const Page& page) const {
    return policy == SlotPolicy::kLru ? 0
                                      : static_cast<uint64_t>(std::bit_width(std::min(page.uses, 128u)) - 1);
  }
  void use(uint64_t key, bool counts = true) {
    pages[key].last_use = ++now;
    if (counts) ++pages[key].uses;
  }
  // The page that gives way, or nothing.
  bool evict(uint64_t time) {
    for (int i = 0; i < SlotIndex::kTries && !pages.empty(); ++i) {
      const auto coldest = std::min_element(pages.begin(), pages.end(), [&](const auto& a, const auto& b) {
        const uint64_t first = a.second.last_use + level(a.second) * num_slots;
        const uint64_t second = b.second.last_use + level(b.second) * num_slots;
        return first != second ? first < second : level(a.second) < level(b.second);
      });
      if (coldest->second.readers == 0 && coldest->second.leased_until <= time) {
        pages.erase(coldest);
        return true;
      }
      use(coldest->first, false);
    }
    return false;
  }
  bool put(uint64_t key, uint64_t time) {
    if (pages.size() == num_slots && !evict(time)) return false;
    pages[key] = {++now, 0, 1, 0};
    return true;
  }

  const SlotPolicy policy;
  const size_t num_slots;
  uint64_t now = 0;
  std::map<uint64_t, Page> pages;
};

bool put(SlotIndex& index, uint64_t key, uint64_t time) {
  const int32_t slot = index.begin_write(digest_of(key), time);
  if (slot >= 0) index.commit_write(slot, index.next_generation(), 8, 0);
  return slot >= 0;
}

TEST(SlotIndexKeys, SpreadWhateverByteTheyDifferIn) {
  constexpr uint64_t kKeys = 1024;
  for (size_t byte = 0; byte + 1 < sizeof(Digest256::bytes); ++byte) {
    std::set<uint64_t> buckets;
    for (uint64_t i = 0; i < kKeys; ++i) {
      Digest256 key = {};
      key.bytes[byte] = static_cast<uint8_t>(i), key.bytes[byte + 1] = static_cast<uint8_t>(i >> 8);
      buckets.insert(mix_key(key) % kKeys);
    }
    EXPECT_GT(buckets.size(), kKeys / 2) << byte;
  }
}

class Policies : public testing::TestWithParam<SlotPolicy> {};

TEST_P(Policies, EvictAsTheModelDoes) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 40; ++round) {
    const size_t slots = 1 + random() % 40;
    Memory memory(default_env());
    SlotIndex index;
    ASSERT_TRUE(index.create(memory, slots, GetParam()));
    const uint64_t taken = memory.bytes();
    Model model(GetParam(), slots);
    uint64_t time = 1;
    for (int step = 0; step < 2000; ++step) {
      // A few keys come often.
      const uint64_t key = random() % 4 == 0 ? random() % 8 : random() % (2 * slots + 8);
      const int32_t slot = index.find(digest_of(key));
      ASSERT_EQ(slot >= 0, model.pages.count(key) == 1) << "step " << step << " key " << key;
      if (slot < 0) {
        ASSERT_EQ(put(index, key, time), model.put(key, time));
      } else {
        Model::Page& page = model.pages[key];
        switch (random() % 8) {
          case 0: {
            const uint64_t until = time + random() % 20;
            index.lease(slot, until);
            model.use(key, false);
            page.leased_until = std::max(page.leased_until, until);
            break;
          }
          case 1:
            if (page.readers < 3) {
              index.begin_read(slot);
              model.use(key);
              ++page.readers;
            }
            break;
          case 2:
            if (index.is_held(slot, time)) break;
            index.begin_remove(slot);
            index.end_remove(slot);
            model.pages.erase(key);
            break;
          default:
            index.use(slot);
            model.use(key);
        }
      }
      if (random() % 4 == 0 && !model.pages.empty()) {  // a reader ends, if there is one
        auto at = model.pages.lower_bound(random() % (2 * slots));
        if (at != model.pages.end() && at->second.readers != 0) {
          index.end_read(index.find(digest_of(at->first)));
          --at->second.readers;
        }
      }
      time += random() % 3;
      ASSERT_EQ(index.num_ready(), model.pages.size());
    }
    EXPECT_EQ(memory.bytes(), taken) << "memory is taken once";
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Policies, testing::Values(SlotPolicy::kLru, SlotPolicy::kFrequency),
                         [](const auto& at) { return at.param == SlotPolicy::kLru ? "Lru" : "Frequency"; });

// A working set that is read again and again, and a stream of pages that come once.
uint64_t hits_of(SlotPolicy policy) {
  Memory memory(default_env());
  SlotIndex index;
  EXPECT_TRUE(index.create(memory, 100, policy));
  uint64_t hits = 0, once = 1000;
  for (int round = 0; round < 200; ++round) {
    for (uint64_t key = 0; key < 20; ++key) {
      const int32_t slot = index.find(digest_of(key));
      if (slot >= 0) {
        ++hits;
        index.use(slot);
      } else {
        EXPECT_TRUE(put(index, key, 0));
      }
    }
    // Three reads of the set between two scans, and a scan is longer than the tier is large.
    for (int i = 0; round % 3 == 2 && i < 150; ++i) EXPECT_TRUE(put(index, once++, 0));
  }
  return hits;
}

TEST(FrequencyPolicy, KeepsWhatIsReadOftenThroughAScan) {
  const uint64_t lru = hits_of(SlotPolicy::kLru), frequency = hits_of(SlotPolicy::kFrequency);
  EXPECT_EQ(lru, 20u * 200 - 20u * 67) << "a scan takes all";
  EXPECT_EQ(frequency, 20u * 200 - 20u) << "only the first reads are misses";
}

TEST(FrequencyPolicy, ForgetsWhatIsNotReadAnyMore) {
  Memory memory(default_env());
  SlotIndex index;
  ASSERT_TRUE(index.create(memory, 10, SlotPolicy::kFrequency));
  ASSERT_TRUE(put(index, 0, 0));
  for (int i = 0; i < 1000; ++i) index.use(index.find(digest_of(0)));
  uint64_t others = 0;
  while (index.find(digest_of(0)) >= 0 && others < 1000) ASSERT_TRUE(put(index, ++others, 0));
  EXPECT_GT(others, 60u) << "it stays for 7 times the tier";
  EXPECT_LT(others, 100u) << "and no longer";
}

}  // namespace
}  // namespace kvc
