// SPDX-License-Identifier: Apache-2.0
// What the tables of requests have in common, for cascade attention: kvc_manager_common_prefix.
#include <algorithm>

#include "conformance/fixture.h"

namespace conformance {
namespace {

uint64_t common(Cache& c, const std::vector<uint64_t>& ids, uint32_t group = 0) {
  uint64_t blocks = 77;
  EXPECT_EQ(kvc_manager_common_prefix(c.get(), ids.data(), ids.size(), group, &blocks), KVC_OK)
      << kvc_last_error();
  return blocks;
}

TEST(CommonPrefix, IsOfTheTablesAndNotOfTheTokens) {
  Cache c(shape(400, B));
  const Tokens prompt = text(1, 40 * B);
  const Admitted a = c.allocate(prompt), twin = c.allocate(prompt);
  EXPECT_EQ(common(c, {a.id}), 40u);
  EXPECT_EQ(common(c, {a.id, a.id}), 40u);
  EXPECT_EQ(common(c, {a.id, twin.id}), 0u) << "computed twice";
  c.commit(a.id, 35 * B);
  const Admitted b = c.allocate(first(prompt, 33 * B) + text(2, 9)), d = c.allocate(prompt);
  EXPECT_EQ(common(c, {a.id, b.id}), 33u);
  EXPECT_EQ(common(c, {a.id, d.id}), 35u);
  EXPECT_EQ(common(c, {d.id, b.id, a.id}), 33u);
  EXPECT_EQ(common(c, {d.id, b.id, a.id, twin.id}), 0u);
  const Admitted short_one = c.allocate(first(prompt, 16 * B + 1));
  EXPECT_EQ(common(c, {d.id, short_one.id, a.id}), 16u);
  c.commit(b.id, 33 * B + 2);
  const uint64_t child = c.fork(b.id);
  EXPECT_EQ(common(c, {b.id, child}), 34u) << "the last of them in part";
  c.append(child, {7});
  EXPECT_EQ(common(c, {b.id, child}), 33u) << "and then a copy";
  EXPECT_EQ(common(c, {}), 0u);
  c.preempt(d.id);
  EXPECT_EQ(common(c, {a.id, d.id}), 0u) << "it waits";
}

TEST(CommonPrefix, EndsWhereAWindowHasGivenBlocksBack) {
  Cache c(shape(0, B), {full_group(), window_group(2 * B, 0, 0, 1), window_group(2 * B, 5, 0, 2)},
          {100, 100, 100});
  const Tokens prompt = text(1, 8 * B);
  const Admitted a = c.compute(prompt), b = c.allocate(prompt + text(2, 1));
  ASSERT_EQ(b.cached, 8u * B);
  EXPECT_EQ(common(c, {a.id, b.id}), 8u);
  EXPECT_EQ(common(c, {a.id, b.id}, 1), 0u);
  EXPECT_EQ(common(c, {a.id, b.id}, 2), 2u) << "the sinks";
}

TEST(CommonPrefix, OfRandomTablesIsThatOfTheExportedOnes) {
  Cache c(shape(2000, B));
  std::vector<uint64_t> ids;
  uint64_t random = 1;
  const auto below = [&](uint64_t n) { return ((random = random * 6364136223846793005u + 1) >> 33) % n; };
  for (int i = 0; i < 60; ++i) {
    Tokens tokens;
    for (uint64_t part = below(4); part != 0; --part)
      tokens = tokens + text(static_cast<int32_t>(tokens.size() + below(2)), (1 + below(20)) * B);
    ids.push_back(c.compute(tokens + text(9, 1)).id);
  }
  for (int i = 0; i < 300; ++i) {
    std::vector<uint64_t> some;
    for (uint64_t n = 1 + below(4); n != 0; --n) some.push_back(ids[below(ids.size())]);
    const Ids table = c.table(some[0]);
    size_t expected = table.size();
    for (const uint64_t id : some) {
      const Ids other = c.table(id);
      const size_t end = std::min(expected, other.size());
      expected = static_cast<size_t>(
          std::mismatch(table.begin(), table.begin() + static_cast<ptrdiff_t>(end), other.begin()).first -
          table.begin());
    }
    EXPECT_EQ(common(c, some), expected);
  }
}

TEST(CommonPrefix, RefusesWhatIsNotThere) {
  Cache c(shape(8, B));
  const uint64_t ids[]{c.allocate(text(1, B)).id, 99};
  uint64_t blocks = 77;
  EXPECT_EQ(kvc_manager_common_prefix(c.get(), ids, 2, 0, &blocks), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_manager_common_prefix(c.get(), ids, 1, 1, &blocks), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(blocks, 77u);
}

}  // namespace
}  // namespace conformance
