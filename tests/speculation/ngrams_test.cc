// SPDX-License-Identifier: Apache-2.0
// Drafts by n-grams against a search that tries every length and every place.
#include <gtest/gtest.h>

#include <string>

#include "seed.h"
#include "speculation/drafted.h"

namespace kvc::test {
namespace {

// The longest suffix first, the latest place first; what follows, token by token as if it had been appended.
std::vector<int32_t> search(std::vector<int32_t> text, size_t min, size_t max, size_t length) {
  for (size_t n = std::min(max, text.size()); n >= min && n > 0; --n) {
    for (size_t end = text.size() - 1; end >= n && end > 0; --end) {
      if (!std::equal(text.end() - static_cast<ptrdiff_t>(n), text.end(),
                      text.begin() + static_cast<ptrdiff_t>(end - n)))
        continue;
      std::vector<int32_t> draft;
      for (size_t i = 0; i < length; ++i) {
        draft.push_back(text[end + i]);
        text.push_back(draft.back());
      }
      return draft;
    }
  }
  return {};
}

std::vector<int32_t> look_up(const std::vector<int32_t>& text, uint32_t min, uint32_t max, size_t length) {
  std::vector<int32_t> draft(length);
  size_t count = 99;
  EXPECT_EQ(kvc_draft_lookup(text.data(), text.size(), min, max, draft.data(), length, &count), KVC_OK)
      << kvc_last_error();
  draft.resize(count);
  return draft;
}

class Index {
 public:
  Index(uint32_t rows, uint32_t min, uint32_t max, uint32_t capacity = 0) {
    const kvc_draft_config config = {sizeof config, rows, min, max, capacity, nullptr};
    EXPECT_EQ(kvc_draft_create(&config, &c), KVC_OK) << kvc_last_error();
  }
  ~Index() { kvc_draft_destroy(c); }
  void append(int32_t row, const std::vector<int32_t>& tokens) {
    const uint64_t offsets[] = {0, tokens.size()};
    ASSERT_EQ(kvc_draft_append(c, &row, 1, offsets, tokens.data()), KVC_OK) << kvc_last_error();
  }
  std::vector<int32_t> propose(int32_t row, uint32_t length) {
    std::vector<int32_t> draft(length);
    uint64_t offsets[2] = {9, 9};
    size_t count = 9;
    EXPECT_EQ(kvc_draft_propose(c, &row, 1, &length, offsets, draft.data(), length, &count), KVC_OK)
        << kvc_last_error();
    EXPECT_EQ(offsets[0], 0u);
    EXPECT_EQ(offsets[1], count);
    draft.resize(count);
    return draft;
  }
  kvc_draft* c = nullptr;
};

using Tokens = std::vector<int32_t>;

TEST(Ngrams, DraftWhatFollowedTheLongestSuffix) {
  EXPECT_EQ(look_up({1, 2, 3, 9, 2, 3, 8, 1, 2, 3}, 1, 3, 2), (Tokens{9, 2}));
}
TEST(Ngrams, TakeTheLatestOfEquallyLongOnes) {
  EXPECT_EQ(look_up({2, 3, 7, 2, 3, 8, 2, 3}, 2, 4, 1), (Tokens{8}));
}
TEST(Ngrams, GoOnAsIfTheTextRepeated) {
  EXPECT_EQ(look_up({5, 1, 2, 1, 2}, 2, 4, 5), (Tokens{1, 2, 1, 2, 1}));
}
TEST(Ngrams, DraftNothingForAnUnseenSuffix) {
  EXPECT_EQ(look_up({1, 2, 3, 4}, 1, 3, 4), Tokens{});
  EXPECT_EQ(look_up({1, 2, 1}, 2, 3, 4), Tokens{});
  EXPECT_EQ(look_up({}, 1, 3, 4), Tokens{});
}

TEST(Ngrams, EqualASearchAndTheIndexAtEachLength) {
  Random random(test_seed());
  for (int round = 0; round < 60; ++round) {
    const auto min = static_cast<uint32_t>(random.between(1, 4)),
               max = min + static_cast<uint32_t>(random.below(5));
    Index index(2, min, max, round % 2 ? 64 : 0);
    Tokens text;
    const uint64_t alphabet = random.between(1, 6);
    for (int i = 0; i < 150; ++i) {
      Tokens some;
      for (uint64_t n = random.below(4); n-- > 0;)
        some.push_back(static_cast<int32_t>(random.below(alphabet)));
      index.append(1, some);
      text.insert(text.end(), some.begin(), some.end());
      if (random.chance(5)) {
        text.resize(random.below(text.size() + 1));
        ASSERT_EQ(kvc_draft_truncate(index.c, 1, text.size()), KVC_OK);
      }
      const size_t length = 1 + random.below(8);
      const Tokens expected = search(text, min, max, length);
      ASSERT_EQ(look_up(text, min, max, length), expected);
      ASSERT_EQ(index.propose(1, static_cast<uint32_t>(length)), expected);
    }
    EXPECT_EQ(index.propose(0, 4), Tokens{}) << "rows are apart";
  }
}

TEST(Ngrams, OfLongTextsEqualASearch) {
  Random random(test_seed() + 1);
  Index index(1, 2, 4);
  Tokens text;
  for (int i = 0; i < 20000; ++i) text.push_back(static_cast<int32_t>(random.below(300)));
  index.append(0, text);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(index.propose(0, 5), search(text, 2, 4, 5));
    const auto token = static_cast<int32_t>(random.below(300));
    index.append(0, {token});
    text.push_back(token);
  }
}

TEST(Ngrams, OfManyRowsComeInOneCall) {
  Index index(3, 1, 2);
  const int32_t rows[] = {2, 0, 1}, tokens[] = {1, 2, 1, 5, 7, 7};
  const uint64_t offsets[] = {0, 3, 4, 6};
  ASSERT_EQ(kvc_draft_append(index.c, rows, 3, offsets, tokens), KVC_OK);
  const uint32_t lengths[] = {3, 4, 2};
  uint64_t found[4] = {};
  int32_t draft[5] = {};
  size_t count = 0;
  EXPECT_EQ(kvc_draft_propose(index.c, rows, 3, lengths, found, draft, 4, &count),
            KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 5u) << "what is needed, though 9 were asked for";
  ASSERT_EQ(kvc_draft_propose(index.c, rows, 3, lengths, found, draft, 5, &count), KVC_OK);
  EXPECT_EQ(Tokens(draft, draft + 5), (Tokens{2, 1, 2, 7, 7}));
  EXPECT_EQ(std::vector<uint64_t>(found, found + 4), (std::vector<uint64_t>{0, 3, 3, 5}));
}

TEST(Ngrams, AFailedAppendChangesNoRow) {
  Index index(2, 1, 2);
  index.append(0, {1, 2, 1});
  const int32_t twice[] = {0, 0}, wrong[] = {0, 2}, rows[] = {0, 1}, tokens[] = {2, 2, 2, -1};
  const uint64_t offsets[] = {0, 2, 4}, falling[] = {0, 2, 1};
  EXPECT_EQ(kvc_draft_append(index.c, twice, 2, offsets, tokens), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "rows[1] is row 0 a second time; give each row once");
  EXPECT_EQ(kvc_draft_append(index.c, wrong, 2, offsets, tokens), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_draft_append(index.c, rows, 2, offsets, tokens), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_draft_append(index.c, rows, 2, falling, tokens), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_draft_truncate(index.c, 0, 4), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_draft_truncate(index.c, 2, 0), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(index.propose(0, 3), (Tokens{2, 1, 2}));
}

}  // namespace
}  // namespace kvc::test
