// SPDX-License-Identifier: Apache-2.0
// Conformance group A: what a prefix match finds and what it must not find. Each "must miss" stands beside a
// "must hit".
#include <algorithm>

#include "conformance/fixture.h"

namespace conformance {
namespace {

TEST(Prefix, SharedBlocksAreTheSameBlocksWhileTheirOwnerLives) {  // C01
  Cache c(shape(10));
  const Tokens shared = text(1, 48);
  const Admitted r0 = c.compute(shared + text(2, 7));
  EXPECT_EQ(r0.cached, 0u);
  const Ids t0 = c.table(r0.id);
  ASSERT_EQ(t0.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(c.block(t0[i]).published, 1u);
  EXPECT_EQ(c.block(t0[3]).published, 0u);

  const Admitted r1 = c.allocate(shared + text(3, 5));
  EXPECT_EQ(r1.cached, 48u);
  const Ids t1 = c.table(r1.id);
  ASSERT_EQ(t1.size(), 4u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(t1[i], t0[i]);
    EXPECT_EQ(c.block(t0[i]).requests, 2u);
  }
  EXPECT_NE(t1[3], t0[3]);
  EXPECT_EQ(c.stats().blocks_free, 5u);
}

TEST(Prefix, ReleasedBlocksAreAllocatableAndStillFound) {  // C02
  Cache c(shape(10));
  const Tokens shared = text(1, 48);
  const Admitted r0 = c.compute(shared + text(2, 7));
  const Admitted r1 = c.compute(shared + text(3, 5));
  const Ids before = first(c.table(r0.id), 3);
  c.free(r0.id);
  c.free(r1.id);
  EXPECT_EQ(c.available(), 10u);
  const Admitted r2 = c.allocate(shared + text(4, 9));
  EXPECT_EQ(r2.cached, 48u);
  EXPECT_EQ(first(c.table(r2.id), 3), before);
  for (int32_t block : before) {
    EXPECT_EQ(c.block(block).requests, 1u);
    EXPECT_EQ(c.block(block).state, static_cast<uint32_t>(KVC_BLOCK_LIVE));
  }
  const Ids rest = c.drain();  // everything else can be taken, these cannot
  EXPECT_EQ(rest.size(), 6u);
  for (int32_t block : before) EXPECT_EQ(std::count(rest.begin(), rest.end(), block), 0);
}

TEST(Prefix, OnlyWholeBlocksMatch) {  // C03
  for (uint32_t block : {1u, 2u, 4u, 16u}) {
    Cache c(shape(16, block));
    const Tokens tokens = text(1, 2 * block + 5);
    c.store(tokens);
    const uint64_t most = (tokens.size() - 1) / block * block;
    EXPECT_EQ(c.hit(tokens), most);
    EXPECT_EQ(c.whole_hit(first(tokens, 2 * block)), 2u * block);
    for (size_t n = 0; n <= tokens.size(); ++n) {
      EXPECT_EQ(c.hit(first(tokens, n)) % block, 0u);
      EXPECT_EQ(c.whole_hit(first(tokens, n)), n / block * block);
    }
  }
}

TEST(Prefix, OneTokenIsAlwaysLeftToCompute) {  // C04
  for (uint32_t block : {1u, 2u, 16u}) {
    Cache c(shape(8, block));
    const Tokens tokens = text(1, 3 * block);
    c.store(tokens);
    EXPECT_EQ(c.allocate(tokens).cached, 2u * block);
    EXPECT_EQ(c.whole_hit(tokens), 3u * block);
    EXPECT_EQ(c.allocate(first(tokens, 1)).cached, 0u);
  }
}

TEST(Prefix, DecodingFillsTheTailAndThenPublishesIt) {  // C05
  Cache c(shape(10));
  const Tokens tokens = text(1, 55 + 23);
  const Admitted r = c.compute(first(tokens, 55));
  ASSERT_EQ(c.table(r.id).size(), 4u);
  c.append(r.id, Tokens(tokens.begin() + 55, tokens.begin() + 59));
  c.commit(r.id, 59);
  EXPECT_EQ(c.table(r.id).size(), 4u);
  EXPECT_EQ(c.block(c.table(r.id)[3]).published, 0u);
  EXPECT_EQ(c.hit(tokens), 48u);
  c.append(r.id, Tokens(tokens.begin() + 59, tokens.end()));
  EXPECT_EQ(c.hit(tokens), 48u);  // appended, not committed
  c.commit(r.id, 78);
  EXPECT_EQ(c.table(r.id).size(), 5u);
  EXPECT_EQ(c.hit(tokens), 64u);
  EXPECT_EQ(c.block(c.table(r.id)[3]).published, 1u);
  EXPECT_EQ(c.block(c.table(r.id)[4]).published, 0u);
}

TEST(Prefix, BranchesMatchUpToWhereTheyDiverge) {  // C06
  for (uint32_t block : {1u, 2u}) {
    Cache c(shape(64, block));
    const Tokens run = text(1, 8), branch = first(run, 2) + text(2, 6);
    c.store(run);
    c.store(branch);
    const uint64_t stored = c.stats().blocks_cached;
    EXPECT_EQ(stored, (8u + 6u) / block);
    EXPECT_EQ(c.hit(first(run, 4) + text(3, 4)), 4u);
    EXPECT_EQ(c.hit(first(run, 6) + text(3, 4)), 6u);
    EXPECT_EQ(c.whole_hit(run), 8u);
    EXPECT_EQ(c.whole_hit(branch), 8u);
    EXPECT_EQ(c.stats().blocks_cached, stored);
    const Ids one = c.acquire_prefix(run), other = c.acquire_prefix(branch);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i] == other[i], i < 2 / block) << i;
    EXPECT_EQ(c.release(one), KVC_OK);
    EXPECT_EQ(c.release(other), KVC_OK);
  }
}

TEST(Prefix, HitsOfFourShapes) {  // C07
  const Tokens one = text(1, B), two = text(2, 2 * B), other = first(two, B) + text(3, B), none = text(4, B);
  const struct {
    Tokens tokens;
    size_t hits, taken;
  } cases[] = {{one, 1, 0}, {two, 2, 0}, {other, 1, 1}, {none, 0, 1}};
  for (const auto& shape_case : cases) {
    Cache c(shape(12, B));
    c.store(one);
    c.store(two);
    EXPECT_EQ(c.whole_hit(shape_case.tokens), shape_case.hits * B);
    const Ids found = c.acquire_prefix(shape_case.tokens);
    EXPECT_EQ(found.size(), shape_case.hits);
    EXPECT_EQ(shape_case.tokens.size() / B - found.size(), shape_case.taken);
  }
}

TEST(Prefix, PublishingBlockByBlockExtendsTheHit) {  // C08
  Cache c(shape(8, B));
  const Tokens tokens = text(1, 3 * B + 1);
  const Admitted r = c.allocate(tokens);
  EXPECT_EQ(c.hit(tokens), 0u);
  for (uint64_t blocks = 1; blocks <= 3; ++blocks) {
    c.commit(r.id, blocks * B);
    EXPECT_EQ(c.hit(tokens), blocks * B);
  }
}

TEST(Prefix, NothingIsFoundBeforeItIsCommitted) {  // C09
  Cache c(shape(16));
  const Tokens tokens = text(1, 50);
  const Admitted r0 = c.allocate(tokens);
  EXPECT_EQ(c.allocate(tokens).cached, 0u);
  c.commit(r0.id, 50);
  EXPECT_EQ(c.allocate(tokens).cached, 48u);
  const Tokens aborted = text(2, 50);
  const Admitted r1 = c.allocate(aborted);
  c.free(r1.id);
  EXPECT_EQ(c.hit(aborted), 0u);
  EXPECT_EQ(c.stats().blocks_cached, 0u);
}

TEST(Prefix, TruncatingOneBranchLeavesTheOther) {  // C10
  Cache c(shape(20, B));
  const Tokens p = text(1, 2 * B), a = p + text(2, 2 * B), b = p + text(3, 2 * B);
  const Admitted ra = c.compute(a), rb = c.compute(b);
  EXPECT_EQ(c.whole_hit(b), 4u * B);
  c.truncate(rb.id, 2 * B);
  EXPECT_EQ(c.whole_hit(a), 4u * B);
  EXPECT_EQ(c.whole_hit(b), 2u * B);
  c.truncate(rb.id, 0);
  EXPECT_EQ(c.request(rb.id).num_tokens, 0u);
  EXPECT_EQ(c.whole_hit(a), 4u * B);
  c.append(rb.id, text(4, 3));  // and it can go on from nothing
  EXPECT_EQ(c.table(rb.id).size(), 1u);
  c.free(ra.id);
  c.free(rb.id);
}

TEST(Prefix, ARequestMayRefuseToReadTheCache) {  // C11
  Cache c(shape(10));
  const Tokens tokens = text(1, 50);
  const Admitted r0 = c.compute(tokens);
  EXPECT_EQ(c.hit(tokens), 48u);
  const Admitted r1 = c.compute(tokens, request_config(KVC_REQUEST_NO_READ));
  EXPECT_EQ(r1.cached, 0u);
  const Ids t0 = c.table(r0.id), t1 = c.table(r1.id);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(t0[i], t1[i]);
    EXPECT_EQ(c.block(t0[i]).num_copies, 2u);
    EXPECT_EQ(c.block(t1[i]).num_copies, 2u);
  }
  EXPECT_EQ(c.stats().duplicates, 3u);
  c.free(r1.id);
  EXPECT_EQ(c.whole_hit(first(tokens, 48)), 48u);
  c.free(r0.id);
  EXPECT_EQ(c.whole_hit(first(tokens, 48)), 48u);
  EXPECT_EQ(c.stats().blocks_cached, 3u);  // one idle copy each
  EXPECT_EQ(c.stats().blocks_free, 7u);
}

TEST(Prefix, ARequestMayRefuseToPublish) {
  Cache c(shape(10));
  const Tokens tokens = text(1, 50);
  c.store(tokens, request_config(KVC_REQUEST_NO_WRITE));
  EXPECT_EQ(c.hit(tokens), 0u);
  EXPECT_EQ(c.stats().blocks_free, 10u);
  c.store(tokens);
  EXPECT_EQ(c.hit(tokens), 48u);
}

TEST(Prefix, CachingOffNeverHitsAndReturnsBlocksAtOnce) {  // C12
  for (const bool off : {true, false}) {
    kvc_manager_config config = shape(5, 4);
    if (off) config.flags = KVC_MANAGER_NO_PREFIX_CACHE;
    Cache c(config);
    const Tokens tokens = text(1, 8);
    c.store(tokens);
    EXPECT_EQ(c.stats().blocks_free, off ? 5u : 3u);
    EXPECT_EQ(c.whole_hit(tokens), off ? 0u : 8u);
    const Admitted a = c.allocate(text(2, 8)), b = c.allocate(text(3, 8));
    Admitted refused{77, 77};
    EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_allocate(text(4, 8), &refused));
    EXPECT_EQ(refused.id, 77u);
    EXPECT_EQ(refused.cached, 77u);
    c.free(a.id);
    EXPECT_EQ(c.allocate(text(4, 8)).cached, 0u);
    c.free(b.id);
  }
}

TEST(Prefix, CachingSwitchedOffFindsAndPublishesNothingAndKeepsWhatIsCached) {
  const auto set = [](Cache& c, uint32_t on) {
    EXPECT_EQ(c.verify(kvc_manager_set_prefix_caching(c.get(), on)), KVC_OK);
  };
  Cache c(shape(20, 4));
  const Tokens a = text(1, 8), b = text(2, 16);
  c.store(a);
  const Admitted old = c.compute(first(b, 6));  // has published one block
  const uint64_t on = c.digest();
  set(c, 0);
  EXPECT_NE(c.digest(), on);
  const uint64_t off = c.digest();
  set(c, 0);
  EXPECT_EQ(c.digest(), off);
  EXPECT_EQ(c.whole_hit(a), 0u);
  EXPECT_TRUE(c.acquire_prefix(a).empty());
  const Ids taken = c.acquire(1);
  EXPECT_EQ(c.publish(text(3, 4), taken), KVC_OK);
  EXPECT_EQ(c.block(taken[0]).published, 0u);
  EXPECT_EQ(c.release(taken), KVC_OK);
  const Admitted during = c.compute(a);
  EXPECT_EQ(during.cached, 0u);
  const Admitted pin = c.pin(a);  // what is cached is there
  EXPECT_EQ(pin.cached, 8u);
  c.unpin(pin.id);
  c.append(old.id, {b.begin() + 6, b.begin() + 10});
  c.commit(old.id, 10);  // its second block is full, and not published
  set(c, 1);
  EXPECT_EQ(c.whole_hit(a), 8u);
  c.append(old.id, {b.begin() + 10, b.end()});
  c.commit(old.id, 16);  // the blocks behind it are not either
  c.append(during.id, b);
  c.commit(during.id, 24);
  EXPECT_EQ(c.whole_hit(b), 4u);
  c.preempt(old.id);
  EXPECT_EQ(c.admit(old.id), 4u);
  c.commit(old.id, 16);  // an admission of its own publishes again
  EXPECT_EQ(c.whole_hit(b), 16u);
  c.free(old.id);
  c.free(during.id);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_set_prefix_caching(c.get(), 2));

  kvc_manager_config without = shape(5, 4);
  without.flags = KVC_MANAGER_NO_PREFIX_CACHE;
  Cache none(without);
  const uint64_t before = none.digest();
  set(none, 0);
  EXPECT_EQ(none.digest(), before);
  EXPECT_REFUSED(none, KVC_ERROR_UNSUPPORTED, kvc_manager_set_prefix_caching(none.get(), 1));
}

// A truncation drops what its request alone can reach. What another prompt goes on behind stays, as it would
// if the request were freed.
TEST(Prefix, ATruncationLeavesWhatAnotherPromptReaches) {
  for (const uint64_t kept : {0u, 4u, 6u, 7u}) {
    Cache c(shape(40, B));
    const Tokens shared = text(1, 3 * B), longer = shared + text(2, B + 1);
    const Admitted r = c.compute(shared + text(3, 2 * B));
    EXPECT_EQ(c.store(longer), 3u * B);  // goes on behind the request's blocks
    EXPECT_EQ(c.hit(longer), 4u * B);
    const uint64_t cached = c.stats().blocks_cached;
    c.truncate(r.id, kept);
    EXPECT_EQ(c.hit(longer), 4u * B) << kept;
    EXPECT_EQ(c.whole_hit(shared + text(3, 2 * B)), 3u * B) << kept;  // what it alone had is dropped
    EXPECT_GE(c.stats().blocks_cached, cached);
    c.append(r.id, text(4, 2 * B));  // writes into a copy of what it shares
    EXPECT_EQ(c.take_copies().size(), kept % B != 0 ? 1u : 0u);
    c.commit(r.id, kept + 2 * B);
    EXPECT_EQ(c.hit(longer), 4u * B) << kept;
    c.free(r.id);
    EXPECT_EQ(c.hit(longer), 4u * B) << kept;
  }
}

// In all groups: where one of them is kept for others, the others at that position are, too.
TEST(Prefix, ATruncationLeavesAPositionInAllGroupsOrInNone) {
  Cache c(shape(40, B), {full_group(), window_group(5 * B)});
  const Tokens shared = text(1, 4 * B), longer = shared + text(2, 1);
  const Admitted r = c.compute(longer);
  const Ids raw = c.acquire_prefix(shared, 0);  // of the full group alone
  ASSERT_EQ(raw.size(), 4u);
  EXPECT_EQ(c.hit(longer), 4u * B);
  c.truncate(r.id, 3 * B + 1);
  EXPECT_EQ(c.hit(longer), 4u * B);
  EXPECT_EQ(c.release(raw), KVC_OK);
}

}  // namespace
}  // namespace conformance
