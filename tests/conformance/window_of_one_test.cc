// SPDX-License-Identifier: Apache-2.0
// The shortest windows and the longest: a window of one token is kept as one of two, so that a hit, a pin and
// a request end at blocks that they hold; a window, sinks or a retention beyond every request's length behave
// as endless ones.
#include "calls.h"
#include "conformance/fixture.h"

namespace conformance {
namespace {

constexpr uint32_t kBlock = 2;  // tokens of a block

TEST(WindowOfOne, AnAdmissionHoldsTheEndOfItsHitBeforeItTakesBlocks) {
  Cache c(shape(3, kBlock), {window_group(1)});
  const Tokens tokens = text(1, 5);
  const Ids raw = c.acquire(1);
  EXPECT_EQ(c.publish(first(tokens, kBlock), raw, 0), KVC_OK);
  c.release(raw);
  const Admitted r = c.allocate(tokens);
  EXPECT_EQ(r.cached, kBlock);
  EXPECT_EQ(c.table(r.id)[0], raw[0]);
  c.commit(r.id, 4);
  c.free(r.id);
  EXPECT_EQ(c.hit(tokens), 4u);
}

TEST(WindowOfOne, AnAdmissionThatNeedsTheBlockOfItsHitIsRefused) {
  Cache c(shape(2, kBlock), {window_group(1)});
  const Tokens tokens = text(1, 5);
  const Ids raw = c.acquire(1);
  EXPECT_EQ(c.publish(first(tokens, kBlock), raw, 0), KVC_OK);
  c.release(raw);
  Admitted r;
  EXPECT_EQ(c.try_allocate(tokens, &r), KVC_ERROR_NO_SPACE);
  EXPECT_EQ(c.hit(tokens), kBlock);
}

TEST(WindowOfOne, APinHoldsTheLastBlock) {
  Cache c(shape(4, kBlock), {window_group(1)});
  const Tokens tokens = text(1, 3 * kBlock);
  c.free(c.compute(tokens + text(2, 1)).id);
  uint64_t pin = 0, pinned = 0;
  ASSERT_EQ(
      kvc_manager_pin_prefix(c.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &pin, &pinned),
      KVC_OK);
  EXPECT_EQ(pinned, 3u * kBlock);
  EXPECT_EQ(c.stats().blocks_pinned, 1u);
  size_t evicted = 0;
  EXPECT_EQ(kvc_manager_evict_blocks(c.get(), -1, 4, &evicted), KVC_OK);
  EXPECT_EQ(c.whole_hit(tokens), 3u * kBlock);
  EXPECT_EQ(c.verify(kvc_manager_unpin_prefix(c.get(), pin)), KVC_OK);
}

TEST(WindowOfOne, BehavesAsAWindowOfTwo) {
  for (const uint32_t sinks : {0u, 3u}) {
    Cache one(shape(12, kBlock), {full_group(), window_group(1, sinks)}),
        two(shape(12, kBlock), {full_group(), window_group(2, sinks)});
    for (Cache* c : {&one, &two}) {
      const Admitted r = c->compute(text(1, 9));
      c->free(r.id);
      const Admitted again = c->compute(text(1, 11));
      c->truncate(again.id, sinks);
    }
    uint64_t digests[2];
    EXPECT_EQ(kvc_manager_digest(one.get(), &digests[0]), KVC_OK);
    EXPECT_EQ(kvc_manager_digest(two.get(), &digests[1]), KVC_OK);
    EXPECT_EQ(digests[0], digests[1]) << sinks;
  }
}

// The text of a refused truncation names the next lengths on both sides, and those are possible.
TEST(Windows, ARefusedTruncationNamesTheNextLengths) {
  struct Case {
    uint64_t window;
    uint32_t sinks;
    uint64_t lower, higher;
  };
  // 20 tokens are committed in blocks of 2: the window has returned what lies before 20 - window + 1.
  for (const Case& wanted : {Case{4, 0, 0, 19}, Case{4, 5, 6, 19}, Case{1, 0, 0, 19}, Case{1, 1, 2, 19}}) {
    for (const bool lower : {true, false}) {
      Cache c(shape(40, kBlock), {full_group(), window_group(wanted.window, wanted.sinks)});
      const Admitted r = c.compute(text(1, 20));
      EXPECT_EQ(c.try_truncate(r.id, 11), KVC_ERROR_UNSUPPORTED);
      EXPECT_NE(std::string(kvc_last_error())
                    .find("lower length that can be kept is " + std::to_string(wanted.lower) +
                          ", the next higher one " + std::to_string(wanted.higher)),
                std::string::npos)
          << kvc_last_error();
      EXPECT_EQ(c.try_truncate(r.id, wanted.lower + 1), KVC_ERROR_UNSUPPORTED);
      EXPECT_EQ(c.try_truncate(r.id, wanted.higher - 1), KVC_ERROR_UNSUPPORTED);
      auto info = sized<kvc_request_info>();
      EXPECT_EQ(kvc_manager_request_info(c.get(), r.id, &info), KVC_OK);
      EXPECT_EQ(info.min_truncate_tokens, wanted.lower == 0 ? wanted.higher : 1);
      c.truncate(r.id, lower ? wanted.lower : wanted.higher);
    }
  }
}

// Appends token by token, so that every path that looks at the window's edge is taken.
std::vector<uint64_t> digests_of(uint32_t block_size, const kvc_group_config& group) {
  Cache c(shape(200, block_size), {group});
  const Admitted r = c.compute(text(1, 5));
  std::vector<uint64_t> digests;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(c.try_append(r.id, text(2 + i, 1)), KVC_OK);
    c.commit(r.id, static_cast<uint64_t>(6 + i));
    uint64_t digest = 0;
    EXPECT_EQ(kvc_manager_digest(c.get(), &digest), KVC_OK);
    digests.push_back(digest);
  }
  c.free(r.id);
  uint64_t digest = 0;
  EXPECT_EQ(kvc_manager_digest(c.get(), &digest), KVC_OK);
  digests.push_back(digest);
  return digests;
}

TEST(Windows, BeyondEveryRequestAreEndless) {
  for (const uint32_t size : {1u, 2u, 3u, 16u, 64u}) {
    const auto wanted = digests_of(size, window_group(1u << 20));
    for (const uint64_t window :
         {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - size, UINT64_MAX - size + 1, UINT64_MAX - 2 * size,
          uint64_t{1} << 63, uint64_t{1} << 32, (uint64_t{1} << 32) - 1, uint64_t{1} << 31}) {
      EXPECT_EQ(digests_of(size, window_group(window)), wanted) << size << ' ' << window;
      EXPECT_EQ(digests_of(size, window_group(window, 0, UINT64_MAX / size * size)), wanted) << size;
    }
    EXPECT_EQ(digests_of(size, window_group(4, UINT32_MAX)), digests_of(size, window_group(4, 1u << 20)));
    EXPECT_EQ(digests_of(size, window_group(4, 0, UINT64_MAX / size * size)),
              digests_of(size, window_group(4, 0, uint64_t{size} << 20)));
  }
}

}  // namespace
}  // namespace conformance
