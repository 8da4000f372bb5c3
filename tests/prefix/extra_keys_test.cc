// SPDX-License-Identifier: Apache-2.0
// Extra keys: the view of a block has exactly the keys over it, records compare by digest, length and offset,
// records that are not taken go back, and a cut never ends inside a span. Views and cuts are compared with
// the plain definition.
#include "prefix/extra_keys.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

kvc_extra_key key(uint64_t first, uint64_t count, uint8_t mark = 1) {
  kvc_extra_key key = {};
  key.first_token = first;
  key.num_tokens = count;
  for (uint8_t& byte : key.digest) byte = mark;
  return key;
}

std::vector<kvc_extra_key> random_keys(std::mt19937& random, uint64_t end) {
  std::vector<kvc_extra_key> keys;
  for (uint64_t at = random() % 4; at < end;) {
    const uint64_t length = 1 + random() % 9;
    keys.push_back(key(at, length, static_cast<uint8_t>(random())));
    at += length + (random() % 2) * (random() % 12);
  }
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
  for (int round = 0; round < 300; ++round) {
    const auto keys = random_keys(random, 60);
    const uint64_t block_size = 1 + random() % 8;
    for (uint64_t first = 0; first < 70; first += block_size) {
      const ExtraView view(keys.data(), keys.size(), first, block_size);
      std::vector<const kvc_extra_key*> expected;
      for (const kvc_extra_key& k : keys) {
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
  const kvc_extra_key keys[] = {key(3, 10)};
  EXPECT_EQ(ExtraView(keys, 1, 8, 4).span(0).offset, -5);
  EXPECT_TRUE(ExtraView(keys, 1, 13, 4).empty()) << "ends just before";
  EXPECT_TRUE(ExtraView(keys, 1, 0, 3).empty()) << "begins just behind";
  EXPECT_EQ(ExtraView(keys, 1, 12, 4).count(), 1u);
  EXPECT_EQ(ExtraView(keys, 1, 0, 4).count(), 1u);
}

TEST_F(ExtraKeysTest, ARecordEqualsOnlyTheSameSpans) {
  const kvc_extra_key base[] = {key(1, 2, 7), key(4, 3, 8)};
  ExtraRecord* record = record_of(ExtraView(base, 2, 0, 8));
  EXPECT_TRUE(ExtraView(base, 2, 0, 8).equals(record));
  kvc_extra_key other[] = {base[0], base[1]};
  other[1].digest[31] ^= 1;
  EXPECT_FALSE(ExtraView(other, 2, 0, 8).equals(record)) << "digest";
  other[1] = key(4, 2, 8);
  EXPECT_FALSE(ExtraView(other, 2, 0, 8).equals(record)) << "length";
  other[1] = key(5, 3, 8);
  EXPECT_FALSE(ExtraView(other, 2, 0, 8).equals(record)) << "offset";
  EXPECT_FALSE(ExtraView(base, 1, 0, 8).equals(record)) << "fewer";
  const kvc_extra_key shifted[] = {key(9, 2, 7), key(12, 3, 8)};
  EXPECT_TRUE(ExtraView(shifted, 2, 8, 8).equals(record)) << "the same within another block";
  EXPECT_FALSE(ExtraView().equals(record));
  EXPECT_TRUE(ExtraView().equals(nullptr));
  EXPECT_FALSE(ExtraView(base, 2, 0, 8).equals(nullptr));
}

TEST_F(ExtraKeysTest, EveryPartOfASpanMovesTheHash) {
  TableHash hash;
  hash.init(3);
  std::set<uint64_t> seen;
  const auto add = [&](std::vector<kvc_extra_key> keys) {
    seen.insert(ExtraView(keys.data(), keys.size(), 0, 16).hash(hash, 99));
  };
  add({});
  EXPECT_EQ(*seen.begin(), 99u) << "no keys: the chain as it was";
  add({key(1, 2, 7)});
  add({key(1, 2, 8)});
  add({key(1, 3, 7)});
  add({key(2, 2, 7)});
  add({key(1, 2, 7), key(4, 3, 8)});
  add({key(1, 2, 8), key(4, 3, 7)});
  EXPECT_EQ(seen.size(), 7u);
}

TEST_F(ExtraKeysTest, RecordsExistForPositionsWithKeysAlone) {
  const kvc_extra_key keys[] = {key(2, 3, 1), key(17, 1, 2)};
  ExtraRecords records(arena_, keys, 2, 1, 6, 4);  // positions 1 .. 5, tokens 4 .. 23
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
  ExtraRecords records(arena_, nullptr, 0, 0, 1000000, 16);
  EXPECT_TRUE(records.ok());
  EXPECT_EQ(records.take(999999), nullptr);
  EXPECT_EQ(heap_.calls(), 0u);
}

TEST_F(ExtraKeysTest, WhatIsNotTakenGoesBack) {
  std::vector<kvc_extra_key> keys;
  for (uint64_t i = 0; i < 200; ++i) keys.push_back(key(16 * i, 16));
  uint64_t bytes = 0;
  for (int round = 0; round < 50; ++round) {
    ExtraRecords records(arena_, keys.data(), keys.size(), 0, 200, 16);
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
  uint64_t failed = 0, bytes = 0;
  for (;; ++failed) {
    heap_.fail_after(0);
    const ExtraRecords records(arena_, keys.data(), keys.size(), 0, 5000, 4);
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
  EXPECT_TRUE(ExtraRecords(arena_, keys.data(), keys.size(), 0, 5000, 4).ok());
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
  for (int round = 0; round < 400; ++round) {
    const auto keys = random_keys(random, 80);
    const uint64_t block_size = 1 + random() % 8;
    for (uint64_t tokens = 0; tokens < 90; ++tokens) {
      const uint64_t cut = cut_at_spans(keys.data(), keys.size(), tokens, block_size);
      ASSERT_EQ(cut, plain_cut(keys, tokens, block_size)) << tokens << " tokens in blocks of " << block_size;
      shortened += cut < tokens / block_size * block_size;
    }
  }
  EXPECT_GT(shortened, 1000u);
}

TEST(CutAtSpans, TheEdgesOfASpanAreOutside) {
  const kvc_extra_key keys[] = {key(4, 8)};
  EXPECT_EQ(cut_at_spans(keys, 1, 4, 4), 4u);
  EXPECT_EQ(cut_at_spans(keys, 1, 11, 4), 4u);
  EXPECT_EQ(cut_at_spans(keys, 1, 12, 4), 12u);
}

TEST(CutAtSpans, ACutThatFallsIntoAnEarlierSpanGoesOn) {
  const kvc_extra_key touching[] = {key(1, 4), key(5, 4), key(9, 4)};  // 4 and 8 and 12 are inside
  EXPECT_EQ(cut_at_spans(touching, 3, 12, 4), 0u);
  const kvc_extra_key edge[] = {key(1, 3), key(4, 5), key(9, 4)};
  EXPECT_EQ(cut_at_spans(edge, 3, 12, 4), 4u) << "between two spans that touch";
  const kvc_extra_key whole[] = {key(0, 1000)};
  EXPECT_EQ(cut_at_spans(whole, 1, 999, 16), 0u);
  EXPECT_EQ(cut_at_spans(nullptr, 0, 999, 16), 992u);
}

}  // namespace
}  // namespace kvc
