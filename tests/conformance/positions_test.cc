// SPDX-License-Identifier: Apache-2.0
// Positions without full attention, which outlive their blocks: docs/SEMANTICS.md, "Room for positions".
#include "conformance/fixture.h"

namespace conformance {
namespace {

constexpr size_t kBlocks = 40, kTokens = kBlocks * B;  // of a prompt

struct Kind {
  const char* name;
  std::vector<kvc_group_config> groups;
  std::vector<uint64_t> pools;
};

std::vector<Kind> kinds() {
  return {{"a window", {window_group(8)}, {300}},
          {"a window at every block", {window_group(8, 0, B)}, {300}},
          {"a window, few blocks", {window_group(8, 0, B)}, {30}},
          {"chunks", {chunk_group(12, 2 * B)}, {300}},
          {"states", {state_group(4 * B)}, {300}},
          {"a window and states", {window_group(8, 0, B), state_group(0, 1)}, {300, 100}}};
}

kvc_manager_config few_nodes() {
  kvc_manager_config config = shape(0, B);
  config.max_nodes = 4 * kBlocks;
  return config;
}

uint64_t compute(Cache& c, const Tokens& tokens) {
  constexpr uint64_t kStep = 4 * B;
  RequestOptions options = request_config();
  options.slots = kStep;
  const Admitted r = c.allocate(tokens, options);
  for (uint64_t done = r.cached; done < tokens.size();) {
    done = std::min<uint64_t>(done + kStep, tokens.size());
    EXPECT_EQ(c.try_reserve(r.id, done), KVC_OK) << kvc_last_error();
    c.commit(r.id, done);
  }
  return r.id;
}

// Without room being made the fifth prompt and all after it were not found.
TEST(Positions, NewContentFindsSomeAsLongAsAnythingCanLeave) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    Cache c(few_nodes(), kind.groups, kind.pools);
    for (int32_t which = 1; which <= 20; ++which) {
      const Tokens tokens = text(which, kTokens);
      c.free(compute(c, tokens));
      EXPECT_EQ(c.whole_hit(tokens), kTokens) << "prompt " << which;
    }
    EXPECT_EQ(c.stats().unpublished_blocks, 0u);
    if (kind.pools[0] > 2 * kBlocks) {
      EXPECT_GT(c.whole_hit(text(19, kTokens)), 0u) << "the oldest leave, not all";
    }
  }
}

TEST(Positions, OfARequestThatRunsStay) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    Cache c(few_nodes(), kind.groups, kind.pools);
    const Tokens tokens = text(1, kTokens);
    const uint64_t running = compute(c, tokens);
    for (int32_t which = 2; which <= 10; ++which) c.free(compute(c, text(which, kTokens)));
    EXPECT_EQ(c.stats().unpublished_blocks, 0u);
    c.free(running);
    EXPECT_EQ(c.whole_hit(tokens), kTokens);
  }
}

// A bounded number for each position, so that no commit clears a pool.
TEST(Positions, OfOneCommitEvictFewBlocks) {
  Cache c(few_nodes(), {window_group(8, 0, B)}, {300});
  for (int32_t which = 1; which <= 3; ++which) c.free(compute(c, text(which, kTokens)));
  c.free(compute(c, text(4, kTokens / 2)));
  ASSERT_EQ(c.stats().evictions, 0u) << "an eighth of all is free";
  const Admitted r = c.allocate(text(5, 2 * B));
  c.commit(r.id, B);
  EXPECT_EQ(c.stats().evictions, 16u);
  c.commit(r.id, 2 * B);
  EXPECT_EQ(c.stats().evictions, 32u);
}

TEST(Positions, ThatAreKnownNeedNoRoom) {
  Cache c(few_nodes(), {window_group(8, 0, B)}, {300});
  for (int32_t which = 1; which <= 3; ++which) c.free(compute(c, text(which, kTokens)));
  c.free(compute(c, text(4, kTokens / 2)));
  RequestOptions again = request_config();
  again.flags = KVC_REQUEST_NO_READ;
  const Admitted r = c.allocate(text(1, kTokens), again);
  c.commit(r.id, kTokens);
  EXPECT_EQ(c.stats().evictions, 0u) << "what is computed again has its positions";
}

}  // namespace
}  // namespace conformance
