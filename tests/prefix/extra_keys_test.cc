// SPDX-License-Identifier: Apache-2.0
// Extra keys: the view of a block has exactly the keys over it, in whatever order they came and however they
// overlap; records compare by digest, length and offset, records that are not taken go back, and a cut never
// ends inside a span. Views, heads and cuts are compared with the plain definition.
#include "prefix/extra_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "base/counting_heap.h"
#include "prefix/ordered.h"

namespace kvc {
namespace {

kvc_extra_key key(uint64_t first, uint64_t count, uint8_t mark = 1) {
  kvc_extra_key key = {};
  key.first_token = first;
  key.num_tokens = count;
  for (uint8_t& byte : key.digest) byte = mark;
  return key;
}

bool same(const kvc_extra_key& a, const kvc_extra_key& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool precedes(const kvc_extra_key& a, const kvc_extra_key& b) {
  return std::tie(a.first_token, a.num_tokens, a.digest[0]) <
         std::tie(b.first_token, b.num_tokens, b.digest[0]);
}

// Disjoint ones in order; or such that share tokens, in any order, some of them twice.
std::vector<kvc_extra_key> random_keys(std::mt19937& random, uint64_t end, bool overlap) {
  std::vector<kvc_extra_key> keys;
  for (uint64_t at = random() % 4; at < end && !overlap;) {
    const uint64_t length = 1 + random() % 9;
    keys.push_back(key(at, length, static_cast<uint8_t>(random())));
    at += length + (random() % 2) * (random() % 12);
  }
  for (size_t n = random() % (KVC_MAX_KEYS_OF_TOKEN + 1); overlap && n != 0; --n) {
    const uint64_t length = random() % 3 == 0 ? 1 + random() % end : 1 + random() % 9;
    keys.push_back(random() % 8 == 0 && !keys.empty()
                       ? keys[random() % keys.size()]
                       : key(random() % end, length, static_cast<uint8_t>(random() % 3)));
  }
  return keys;
}

// The definition of what an ordered list has.
std::vector<kvc_extra_key> plain_order(std::vector<kvc_extra_key> keys) {
  std::sort(keys.begin(), keys.end(), precedes);
  keys.erase(std::unique(keys.begin(), keys.end(), same), keys.end());
  return keys;
}

class ExtraKeysTest : public ::testing::Test {
 protected:
  ExtraRecord* record_of(const ExtraView& view) {
    auto* record = static_cast<ExtraRecord*>(arena_.allocate(ExtraRecord::bytes(view.count())));
    view.copy_to(record);
    return record;
  }
  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Arena arena_{memory_};
};

TEST_F(ExtraKeysTest, AViewHasTheKeysThatOverlapItsBlock) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    const auto keys = random_keys(random, 60, round % 2 != 0);
    const auto plain = plain_order(keys);
    const Ordered ordered(keys);
    const uint64_t block_size = 1 + random() % 8;
    for (uint64_t first = 0; first < 70; first += block_size) {
      const ExtraView view(ordered.list(), first, block_size);
      std::vector<const kvc_extra_key*> expected;
      for (const kvc_extra_key& k : plain) {
        if (k.first_token < first + block_size && k.first_token + k.num_tokens > first)
          expected.push_back(&k);
      }
      ASSERT_EQ(view.count(), expected.size());
      EXPECT_EQ(view.empty(), expected.empty());
      for (size_t i = 0; i < expected.size(); ++i) {
        const ExtraSpan span = view.span(i);
        EXPECT_EQ(span.offset, static_cast<int64_t>(expected[i]->first_token) - static_cast<int64_t>(first));
        EXPECT_EQ(span.length, expected[i]->num_tokens);
        EXPECT_EQ(std::memcmp(span.digest, expected[i]->digest, 32), 0);
      }
    }
  }
}

TEST_F(ExtraKeysTest, ASpanThatBeganEarlierHasANegativeOffset) {
  const Ordered keys({key(3, 10)});
  EXPECT_EQ(ExtraView(keys.list(), 8, 4).span(0).offset, -5);
  EXPECT_TRUE(ExtraView(keys.list(), 13, 4).empty()) << "ends just before";
  EXPECT_TRUE(ExtraView(keys.list(), 0, 3).empty()) << "begins just behind";
  EXPECT_EQ(ExtraView(keys.list(), 12, 4).count(), 1u);
  EXPECT_EQ(ExtraView(keys.list(), 0, 4).count(), 1u);
}

TEST_F(ExtraKeysTest, ARecordEqualsOnlyTheSameSpans) {
  const std::vector<kvc_extra_key> base = {key(1, 2, 7), key(4, 3, 8)};
  const auto equal = [&](const std::vector<kvc_extra_key>& keys, const ExtraRecord* record,
                         uint64_t first = 0) {
    const Ordered ordered(keys);
    return ExtraView(ordered.list(), first, 8).equals(record);
  };
  const Ordered ordered(base);
  ExtraRecord* record = record_of(ExtraView(ordered.list(), 0, 8));
  EXPECT_TRUE(equal(base, record));
  EXPECT_TRUE(equal({base[1], base[0], base[1]}, record)) << "in another order, one of them twice";
  kvc_extra_key other = base[1];
  other.digest[31] ^= 1;
  EXPECT_FALSE(equal({base[0], other}, record)) << "digest";
  EXPECT_FALSE(equal({base[0], key(4, 2, 8)}, record)) << "length";
  EXPECT_FALSE(equal({base[0], key(5, 3, 8)}, record)) << "offset";
  EXPECT_FALSE(equal({base[0]}, record)) << "fewer";
  EXPECT_FALSE(equal({base[0], base[1], key(1, 2, 9)}, record)) << "another one over the same tokens";
  EXPECT_TRUE(equal({key(9, 2, 7), key(12, 3, 8)}, record, 8)) << "the same within another block";
  EXPECT_FALSE(ExtraView().equals(record));
  EXPECT_TRUE(ExtraView().equals(nullptr));
  EXPECT_FALSE(equal(base, nullptr));
}

TEST_F(ExtraKeysTest, EveryPartOfASpanMovesTheHash) {
  TableHash hash;
  hash.init(3);
  std::set<uint64_t> seen;
  const auto add = [&](const std::vector<kvc_extra_key>& keys) {
    const Ordered ordered(keys);
    seen.insert(ExtraView(ordered.list(), 0, 16).hash(hash, 99));
  };
  add({});
  EXPECT_EQ(*seen.begin(), 99u) << "no keys: the chain as it was";
  add({key(1, 2, 7)});
  add({key(1, 2, 8)});
  add({key(1, 3, 7)});
  add({key(2, 2, 7)});
  add({key(1, 2, 7), key(4, 3, 8)});
  add({key(1, 2, 8), key(4, 3, 7)});
  add({key(1, 2, 7), key(2, 3, 8)});
  EXPECT_EQ(seen.size(), 8u);
  add({key(4, 3, 8), key(1, 2, 7)});
  EXPECT_EQ(seen.size(), 8u) << "their order is no part of it";
}

TEST_F(ExtraKeysTest, WhatComesLaterIsAddedInOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const auto before = plain_order(random_keys(random, 60, round % 3 != 0));
    const auto later = random_keys(random, round % 2 == 0 ? 60 : 5, true);
    std::vector<kvc_extra_key> all = before;
    all.insert(all.end(), later.begin(), later.end());
    std::vector<ExtraKey> keys(all.size());
    size_t count = order_keys(before.data(), before.size(), keys.data());
    link_keys(keys.data(), 0, count);
    size_t first_new = 0;
    count = order_keys(later.data(), later.size(), keys.data(), count, &first_new);
    const auto plain = plain_order(all);
    ASSERT_EQ(count, plain.size());
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE(same(keys[i].plain(), plain[i]));
    size_t changed = 0;
    while (changed < before.size() && same(before[changed], plain[changed])) ++changed;
    EXPECT_EQ(first_new, changed);
    std::vector<ExtraKey> whole = keys;
    const uint64_t full = link_keys(whole.data(), 0, count);
    EXPECT_EQ(link_keys(keys.data(), first_new, count), full);
    for (size_t i = 0; full == kNoToken && i < count; ++i) EXPECT_EQ(keys[i].outer, whole[i].outer);
  }
}

TEST_F(ExtraKeysTest, ATokenHasSixteenKeysAtMost) {
  std::vector<kvc_extra_key> keys;
  for (uint64_t i = 0; i < KVC_MAX_KEYS_OF_TOKEN; ++i) keys.push_back(key(i, 40 - i));
  const auto link = [&] {
    std::vector<ExtraKey> ordered(keys.size());
    const size_t count = order_keys(keys.data(), keys.size(), ordered.data());
    return link_keys(ordered.data(), 0, count);
  };
  EXPECT_EQ(link(), kNoToken);
  keys.push_back(key(40, 1));
  EXPECT_EQ(link(), kNoToken) << "behind them";
  keys.push_back(key(20, 1));
  EXPECT_EQ(link(), 20u);
  keys.back() = keys.front();
  EXPECT_EQ(link(), kNoToken) << "the same once more";
}

TEST_F(ExtraKeysTest, AHeadHasTheSameWholeSpans) {
  std::mt19937 random(23);
  uint64_t shortened = 0;
  for (int round = 0; round < 2000; ++round) {
    auto mine = random_keys(random, 12, true), theirs = mine;
    if (random() % 4 != 0 && !theirs.empty()) theirs.erase(theirs.begin());
    if (random() % 4 == 0) theirs.push_back(key(random() % 12, 1 + random() % 4, 9));
    const uint64_t first = random() % 6, tokens = 1 + random() % 8;
    const Ordered a(mine), b(theirs);
    const ExtraView other(b.list(), first, 8);
    ExtraRecord* record = other.empty() ? nullptr : record_of(other);
    const auto fits = [&](uint64_t end) {  // spans that begin before `end` are in both, and end by then
      std::vector<kvc_extra_key> both[2];
      for (const kvc_extra_key& k : plain_order(mine))
        if (k.first_token < first + end && k.first_token + k.num_tokens > first) both[0].push_back(k);
      for (const kvc_extra_key& k : plain_order(theirs))
        if (k.first_token < first + end && k.first_token + k.num_tokens > first) both[1].push_back(k);
      for (const kvc_extra_key& k : both[0])
        if (k.first_token + k.num_tokens > first + end) return false;
      return std::equal(both[0].begin(), both[0].end(), both[1].begin(), both[1].end(), same);
    };
    uint64_t expected = tokens;
    while (expected != 0 && !fits(expected)) --expected;
    EXPECT_EQ(ExtraView(a.list(), first, 8).common_head(record, tokens), expected);
    shortened += expected != tokens;
    if (record != nullptr) arena_.release(record, ExtraRecord::bytes(record->count));
  }
  EXPECT_GT(shortened, 500u);
}

TEST_F(ExtraKeysTest, RecordsExistForPositionsWithKeysAlone) {
  const Ordered keys({key(2, 3, 1), key(17, 1, 2)});
  ExtraRecords records(arena_, keys.list(), 1, 6, 4);  // positions 1 .. 5, tokens 4 .. 23
  ASSERT_TRUE(records.ok());
  ExtraRecord* first = records.take(1);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(records.view(1).equals(first));
  EXPECT_EQ(first->spans()[0].offset, -2);
  EXPECT_EQ(records.take(1), nullptr) << "taken already";
  EXPECT_EQ(records.take(2), nullptr);
  EXPECT_EQ(records.take(3), nullptr);
  ExtraRecord* last = records.take(4);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->spans()[0].offset, 1);
  EXPECT_EQ(records.take(5), nullptr);
}

TEST_F(ExtraKeysTest, NoKeysCostNothing) {
  ExtraRecords records(arena_, {}, 0, 1000000, 16);
  EXPECT_TRUE(records.ok());
  EXPECT_EQ(records.take(999999), nullptr);
  EXPECT_EQ(heap_.calls(), 0u);
}

TEST_F(ExtraKeysTest, WhatIsNotTakenGoesBack) {
  std::vector<kvc_extra_key> keys;
  for (uint64_t i = 0; i < 200; ++i) keys.push_back(key(16 * i, 16));
  const Ordered ordered(keys);
  uint64_t bytes = 0;
  for (int round = 0; round < 50; ++round) {
    ExtraRecords records(arena_, ordered.list(), 0, 200, 16);
    ASSERT_TRUE(records.ok());
    ExtraRecord* taken = records.take(100);
    ASSERT_NE(taken, nullptr);
    EXPECT_TRUE(records.view(100).equals(taken));
    arena_.release(taken, ExtraRecord::bytes(taken->count));
    if (round == 0) bytes = memory_.bytes();
  }
  EXPECT_EQ(memory_.bytes(), bytes);
}

TEST_F(ExtraKeysTest, AFailureGivesBackWhatWasAllocated) {
  std::vector<kvc_extra_key> keys;
  for (uint64_t i = 0; i < 5000; ++i) keys.push_back(key(4 * i, 4));
  const Ordered ordered(keys);
  uint64_t failed = 0, bytes = 0;
  for (;; ++failed) {
    heap_.fail_after(0);
    const ExtraRecords records(arena_, ordered.list(), 0, 5000, 4);
    heap_.fail_after(CountingHeap::kNever);
    if (records.ok()) break;
    const uint64_t chunk = memory_.bytes();
    ASSERT_TRUE(arena_.reserve(64 << 10));  // one chunk more for the next attempt
    ASSERT_GT(memory_.bytes(), chunk);
    ASSERT_LT(failed, 100u);
  }
  EXPECT_GE(failed, 5u) << "5000 records of 64 bytes do not fit in 5 chunks";
  bytes = memory_.bytes();
  EXPECT_LT(bytes, 1u << 20) << "the failed attempts have left nothing";
  EXPECT_TRUE(ExtraRecords(arena_, ordered.list(), 0, 5000, 4).ok());
  EXPECT_EQ(memory_.bytes(), bytes);
}

// The definition: the largest multiple that is not strictly inside a span.
uint64_t plain_cut(const std::vector<kvc_extra_key>& keys, uint64_t tokens, uint64_t block_size) {
  for (uint64_t cut = tokens / block_size * block_size; cut != 0; cut -= block_size) {
    bool inside = false;
    for (const kvc_extra_key& k : keys) inside |= k.first_token < cut && cut < k.first_token + k.num_tokens;
    if (!inside) return cut;
  }
  return 0;
}

TEST(CutAtSpans, IsTheLargestMultipleOutsideAllSpans) {
  std::mt19937 random(17);
  uint64_t shortened = 0;
  for (int round = 0; round < 800; ++round) {
    const auto keys = random_keys(random, 80, round % 2 != 0);
    const Ordered ordered(keys);
    const uint64_t block_size = 1 + random() % 8;
    for (uint64_t tokens = 0; tokens < 90; ++tokens) {
      const uint64_t cut = cut_at_spans(ordered.list(), tokens, block_size);
      ASSERT_EQ(cut, plain_cut(keys, tokens, block_size)) << tokens << " tokens in blocks of " << block_size;
      shortened += cut < tokens / block_size * block_size;
    }
  }
  EXPECT_GT(shortened, 1000u);
}

uint64_t cut(const std::vector<kvc_extra_key>& keys, uint64_t tokens, uint64_t block_size) {
  const Ordered ordered(keys);
  return cut_at_spans(ordered.list(), tokens, block_size);
}

TEST(CutAtSpans, TheEdgesOfASpanAreOutside) {
  EXPECT_EQ(cut({key(4, 8)}, 4, 4), 4u);
  EXPECT_EQ(cut({key(4, 8)}, 11, 4), 4u);
  EXPECT_EQ(cut({key(4, 8)}, 12, 4), 12u);
}

TEST(CutAtSpans, ACutThatFallsIntoAnEarlierSpanGoesOn) {
  EXPECT_EQ(cut({key(1, 4), key(5, 4), key(9, 4)}, 12, 4), 0u) << "4 and 8 and 12 are inside";
  EXPECT_EQ(cut({key(1, 3), key(4, 5), key(9, 4)}, 12, 4), 4u) << "between two spans that touch";
  EXPECT_EQ(cut({key(4, 8), key(6, 1)}, 10, 4), 4u) << "a short span lies inside";
  EXPECT_EQ(cut({key(0, 1000)}, 999, 16), 0u);
  EXPECT_EQ(cut({}, 999, 16), 992u);
}

}  // namespace
}  // namespace kvc
