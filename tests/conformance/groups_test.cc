// SPDX-License-Identifier: Apache-2.0
// Conformance group D: sliding windows, sinks, retention and several groups: one boundary that is valid for
// all of them.
#include <algorithm>

#include "conformance/fixture.h"
#include "rounds.h"

namespace conformance {
namespace {

TEST(Groups, TheHitIsTheLongestThatEveryGroupHas) {  // C34
  Cache c(shape(20, B), {full_group(), full_group()});
  const Tokens tokens = text(1, 3 * B);
  const Ids in0 = c.acquire(2, 0), in1 = c.acquire(3, 1);
  EXPECT_EQ(c.publish(tokens, in0, 0), KVC_OK);
  EXPECT_EQ(c.publish(tokens, in1, 1), KVC_OK);
  EXPECT_EQ(c.acquire_prefix(tokens, 0), in0);
  EXPECT_EQ(c.acquire_prefix(tokens, 1), in1);
  EXPECT_EQ(c.whole_hit(tokens), 2u * B);
  const kvc_probe_info probe = c.probe(tokens + text(2, 1));
  EXPECT_EQ(probe.lost_reuse_tokens, B);  // what group 1 could have given
}

TEST(Groups, AWindowHitNeedsOnlyTheWindow) {
  Cache c(shape(40, B), {window_group(2 * B)});
  const Tokens tokens = text(1, 6 * B + 1);
  const Admitted r = c.compute(tokens);
  const Ids table = c.table(r.id);
  ASSERT_EQ(table.size(), 7u);
  // Committed 25: the window of the query at 25 begins at 18, in position 4; what lies before is returned.
  EXPECT_EQ(std::count(table.begin(), table.begin() + 4, -1), 4);
  EXPECT_NE(table[4], -1);
  EXPECT_EQ(c.hit(tokens), 6u * B);  // the prompt's end stays reusable
  const Admitted again = c.allocate(tokens);
  EXPECT_EQ(again.cached, 6u * B);
  const Ids reused = c.table(again.id);
  EXPECT_EQ(std::count(reused.begin(), reused.begin() + 4, -1), 4);
  EXPECT_EQ(reused[4], table[4]);
  EXPECT_EQ(reused[5], table[5]);
  EXPECT_EQ(c.hit(first(tokens, 4 * B + 1)), 0u);  // no boundary there
}

// Every end of a request is hit up to its last full block, whether it is freed or preempted.
TEST(Groups, TheWindowBehindTheLastFullBlockStays) {
  std::vector<kvc_group_config> kinds;
  for (const uint64_t window : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 10u, 13u})
    kinds.push_back(window_group(window, 0, 0, 1)), kinds.push_back(window_group(window, 3, 0, 1));
  for (const uint64_t chunk : {1u, 3u, 4u, 6u, 8u, 10u}) kinds.push_back(chunk_group(chunk, 0, 1));
  kvc::test::Sample sample;
  for (const kvc_group_config& kind : kinds) {
    for (uint32_t end = 5 * B; end < 10 * B; ++end) {
      for (const bool preempts : {false, true}) {
        if (!sample.takes_next()) continue;
        Cache c(shape(0, B), {full_group(), kind}, {40, 40});
        const Tokens tokens = text(1, end);
        const Admitted r = c.allocate(first(tokens, B));
        c.commit(r.id, B);
        c.decode(r.id, tokens, B);
        EXPECT_EQ(c.verify(preempts ? kvc_manager_preempt_request(c.get(), r.id)
                                    : kvc_manager_free_request(c.get(), r.id)),
                  KVC_OK);
        EXPECT_EQ(c.probe(tokens + text(2, 1)).num_cached, end / B * B)
            << "window " << kind.window_tokens << " chunk " << kind.chunk_tokens << " end " << end;
      }
    }
  }
}

// The same of large windows and other block sizes: a sample of them, at ends around the places where the
// window passes a block.
TEST(Groups, EveryEndIsHitForWindowsAndBlocksOfAnySize) {
  kvc::test::Sample sample;
  for (const uint32_t block : {1u, 2u, 3u, 7u, 16u, 31u, 64u}) {
    for (const uint64_t window : {1u, 2u, 15u, 17u, 63u, 65u, 1000u, 1024u, 2047u, 4095u, 4096u}) {
      const uint32_t prompt = static_cast<uint32_t>(window / block + 1) * block + 1,
                     blocks = prompt / block + 8;
      const uint32_t inside = static_cast<uint32_t>(window % block);
      for (const uint32_t offset : {0u, 1u, block / 2, inside, inside + 1, block - inside, block - 1}) {
        if (!sample.takes_next()) continue;
        const uint32_t end = prompt + 2 * block + offset;
        Cache c(shape(0, block), {full_group(), window_group(window, 0, 0, 1)}, {blocks, blocks});
        const Tokens tokens = text(1, end);
        const Admitted r = c.compute(first(tokens, prompt));
        c.decode(r.id, tokens, prompt);
        c.free(r.id);
        EXPECT_EQ(c.whole_hit(tokens), end / block * block)
            << "block size " << block << ", window " << window << ", end " << end;
      }
    }
  }
}

// A fork and its parent hold the same window, and so does a request that is cut within its last block.
TEST(Groups, TheWindowBehindTheLastFullBlockStaysInForksAndCutRequests) {
  for (uint64_t window = 1; window <= 3 * B; ++window) {
    for (uint32_t end = 6 * B; end < 8 * B; ++end) {
      for (uint32_t cut = end / B * B; cut <= end; ++cut) {
        Cache c(shape(0, B), {full_group(), window_group(window, 0, 0, 1)}, {40, 40});
        const Tokens tokens = text(1, end);
        const Admitted r = c.compute(first(tokens, B));
        c.decode(r.id, tokens, B);
        const uint64_t child = c.fork(r.id);
        c.free(r.id);
        c.truncate(child, cut);
        c.free(child);
        EXPECT_EQ(c.whole_hit(tokens), end / B * B)
            << "window " << window << " end " << end << " cut " << cut;
      }
    }
  }
}

// What stays cached when it leaves the table is not held any longer than a query reads it.
TEST(Groups, WithTheRetentionOfABlockEachEndIsHitAndNoWindowIsHeldForIt) {
  for (uint64_t window = 1; window <= 3 * B; ++window) {
    for (uint32_t end = 6 * B; end < 8 * B; ++end) {
      Cache c(shape(0, B), {full_group(), window_group(window, 0, B, 1)}, {40, 40});
      const Tokens tokens = text(1, end);
      const Admitted r = c.allocate(tokens);
      c.commit(r.id, end);
      const uint64_t read = std::max<uint64_t>(window, 2), low = (end + 1 - read) / B;
      const Ids table = c.table(r.id, 1);
      for (size_t j = 0; j < table.size(); ++j) EXPECT_EQ(table[j] == -1, j < low) << window << " " << j;
      c.free(r.id);
      EXPECT_EQ(c.whole_hit(tokens), end / B * B) << "window " << window << " end " << end;
    }
  }
}

// A commit ahead of its step publishes as a commit does, and keeps what the step still reads.
TEST(Groups, ACommitAheadOfItsStepPublishesAndKeepsWhatTheStepReads) {
  std::vector<kvc_group_config> kinds;
  for (const uint64_t retention : {0u, 4u, 8u}) {
    for (const uint64_t window : {1u, 4u, 5u, 8u, 13u})
      kinds.push_back(window_group(window, 0, retention, 1));
    for (const uint64_t chunk : {3u, 4u, 8u, 12u}) kinds.push_back(chunk_group(chunk, retention, 1));
  }
  kinds.push_back(window_group(5, 3, 0, 1));
  const Tokens tokens = text(1, 10 * B);
  for (const kvc_group_config& kind : kinds) {
    for (uint32_t computed = 4 * B; computed <= 9 * B; ++computed) {
      SCOPED_TRACE(testing::Message() << "window " << kind.window_tokens << " chunk " << kind.chunk_tokens
                                      << " retention " << kind.retention_tokens << " computed " << computed);
      Cache c(shape(0, B), {full_group(), kind}, {40, 40}),
          plain(shape(0, B), {full_group(), kind}, {40, 40});
      const Admitted r = c.allocate(tokens), other = plain.allocate(tokens);
      plain.commit(other.id, computed);  // has the window that the steps behind it read
      EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, 9 * B, computed)), KVC_OK);
      EXPECT_EQ(c.request(r.id).num_committed, 9u * B);
      EXPECT_EQ(c.table(r.id, 1), plain.table(other.id, 1));
      EXPECT_EQ(c.hit(tokens), 9u * B);
      const uint64_t digest = c.digest();
      EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, 9 * B, computed - B)), KVC_OK);
      EXPECT_EQ(c.digest(), digest);  // nothing comes back
      EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT,
                     kvc_manager_commit_ahead(c.get(), r.id, 9 * B, 9 * B + 1));
      EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT,
                     kvc_manager_commit_ahead(c.get(), r.id, 8 * B, computed - B));
      c.commit(r.id, 9 * B);  // the same tokens: the step is over
      plain.commit(other.id, 9 * B);
      EXPECT_EQ(c.table(r.id, 1), plain.table(other.id, 1));
      EXPECT_EQ(c.stats().blocks_cached, plain.stats().blocks_cached);
      c.commit(r.id, 10 * B), c.free(r.id);
      EXPECT_EQ(c.whole_hit(tokens), 10u * B);
    }
  }
}

// Decoding one step ahead: the table never lacks what the step in flight reads, and each step's tokens are
// found from its schedule on, also when the request is preempted while it is in flight.
TEST(Groups, CommitsAheadOfDecodeStepsAreFoundAtOnce) {
  for (const kvc_group_config& kind :
       {window_group(5, 0, 4, 1), chunk_group(8, 4, 1), window_group(9, 0, 0, 1)}) {
    Cache c(shape(0, B), {full_group(), kind}, {40, 40});
    const Tokens tokens = text(1, 8 * B + 1);
    const Admitted r = c.compute(first(tokens, B));
    for (uint32_t n = B + 1; n <= tokens.size(); ++n) {
      EXPECT_EQ(c.try_append(r.id, {tokens[n - 1]}), KVC_OK);
      EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, n, n - 1)), KVC_OK) << kvc_last_error();
      const uint64_t window = kind.chunk_tokens != 0 ? (n - 1) % kind.chunk_tokens + 1 : kind.window_tokens;
      const Ids table = c.table(r.id, 1);
      for (uint64_t j = (n > window ? n - window : 0) / B; j < table.size(); ++j)
        EXPECT_NE(table[j], -1) << n;
      EXPECT_EQ(c.whole_hit(first(tokens, n)), n / B * B) << n;
    }
    c.preempt(r.id);
    EXPECT_EQ(c.admit(r.id), 8u * B);
  }
}

TEST(Groups, ReturnedPositionsAreBlockAlignedForEveryWindow) {  // C35
  for (const uint32_t block : {1u, 4u}) {
    for (uint64_t window :
         {uint64_t{2}, uint64_t{block}, uint64_t{block + 1}, uint64_t{2 * block}, uint64_t{3 * block + 1}}) {
      if (window < 2) continue;
      Cache c(shape(64, block), {window_group(window)});
      const Tokens tokens = text(1, 10 * block);
      const Admitted r = c.allocate(tokens);
      for (uint64_t committed = 1; committed <= tokens.size(); ++committed) {
        c.commit(r.id, committed);
        const uint64_t full = committed / block * block;  // the window behind the last full block stays
        const uint64_t low = full + 1 > window ? (full + 1 - window) / block : 0;
        const Ids table = c.table(r.id);
        for (size_t j = 0; j < table.size(); ++j)
          EXPECT_EQ(table[j] == -1, j < low) << block << " " << window << " " << committed << " " << j;
      }
      const Admitted pin = c.pin(tokens), raw_pin = c.pin(first(tokens, tokens.size()));
      c.unpin(raw_pin.id);
      c.free(r.id);
      c.unpin(pin.id);
      const kvc_stats stats = c.stats();
      EXPECT_EQ(stats.blocks_free + stats.blocks_cached, 64u);
      EXPECT_EQ(stats.blocks_pinned, 0u);
    }
  }
}

TEST(Groups, SinksAreNeverReturned) {
  Cache c(shape(40, B), {window_group(B + 1, 5)});  // 5 tokens: two blocks
  const Tokens tokens = text(1, 8 * B);
  const Admitted r = c.compute(tokens);
  const Ids table = c.table(r.id);
  EXPECT_NE(table[0], -1);
  EXPECT_NE(table[1], -1);
  EXPECT_EQ(std::count(table.begin() + 2, table.begin() + 7, -1), 5);
  EXPECT_NE(table[7], -1);
  c.free(r.id);
  EXPECT_EQ(c.hit(tokens), 7u * B);  // the prompt's last boundary
  EXPECT_EQ(c.drop(first(tokens, B)), 1u);
  EXPECT_EQ(c.hit(tokens), 0u);  // without a sink there is no hit
}

TEST(Groups, RetentionKeepsInnerBoundariesReusable) {
  for (const uint64_t retention : {uint64_t{0}, uint64_t{4 * B}}) {
    Cache c(shape(80, B), {window_group(B + 1, 0, retention)});
    const Tokens tokens = text(1, 16 * B + 1);
    c.store(tokens);
    EXPECT_EQ(c.hit(tokens), 16u * B);
    const uint64_t inner = retention ? 8u * B : 0u;
    EXPECT_EQ(c.hit(first(tokens, 9 * B)), inner);
    EXPECT_EQ(c.hit(first(tokens, 8 * B + 1)), inner);
  }
}

TEST(Groups, AHybridRequestIsEvictedBoundaryByBoundary) {
  Cache c(shape(8, B), {full_group(), window_group(5 * B, 0, 2 * B)});
  const Tokens tokens = text(1, 4 * B);
  const Admitted r = c.compute(tokens);
  const Ids f = c.table(r.id, 0), w = c.table(r.id, 1);
  c.free(r.id);
  // Boundaries at 8 (retention), 12 (the prompt's end) and 16 (the end): between two of them the window's
  // blocks go first.
  std::vector<uint64_t> hits = {c.whole_hit(tokens)};
  Ids victims, one;
  while (c.try_acquire(1, &one) == KVC_OK) {
    victims.push_back(one[0]);
    hits.push_back(c.whole_hit(tokens));
  }
  EXPECT_EQ(victims, (Ids{w[3], f[3], w[2], f[2], w[1], w[0], f[1], f[0]}));
  EXPECT_EQ(hits, (std::vector<uint64_t>{16, 12, 12, 8, 8, 4, 0, 0, 0}));
}

TEST(Groups, AChunkIsReturnedWhenACommitPassesIt) {
  for (const uint32_t block : {1u, 4u}) {
    for (const uint64_t chunk :
         {uint64_t{1}, uint64_t{block}, uint64_t{block + 1}, uint64_t{2 * block}, uint64_t{7}}) {
      Cache c(shape(64, block), {chunk_group(chunk)});
      const Tokens tokens = text(1, 10 * block);
      const Admitted r = c.allocate(tokens);
      for (uint64_t committed = 1; committed <= tokens.size(); ++committed) {
        c.commit(r.id, committed);
        const uint64_t full = committed / block * block;  // the chunk behind the last full block stays
        const Ids table = c.table(r.id);
        for (size_t j = 0; j < table.size(); ++j) {
          const bool passed = (j + 1) * block <= full / chunk * chunk;  // all its tokens are of older chunks
          EXPECT_EQ(table[j] == -1, passed) << block << " " << chunk << " " << committed << " " << j;
        }
      }
    }
  }
}

TEST(Groups, AHitThatEndsWhereAChunkBeginsNeedsNoBlockOfTheChunks) {
  Cache c(shape(40, B), {full_group(), chunk_group(2 * B)});
  const Tokens tokens = text(1, 5 * B + 1);
  c.store(tokens);
  EXPECT_EQ(c.hit(tokens), 5u * B);                    // the prompt's end, in its third chunk
  EXPECT_EQ(c.hit(first(tokens, 4 * B + 1)), 4u * B);  // where a chunk begins
  EXPECT_EQ(c.hit(first(tokens, 3 * B + 1)), 2u * B);  // inside a chunk that was returned
  EXPECT_EQ(c.probe(first(tokens, 3 * B + 1)).lost_reuse_tokens, B);
  const Admitted r = c.allocate(first(tokens, 4 * B + 1));
  EXPECT_EQ(r.cached, 4u * B);
  const Ids table = c.table(r.id, 1);
  EXPECT_EQ(std::count(table.begin(), table.begin() + 4, -1), 4);
  EXPECT_NE(table[4], -1);
}

TEST(Groups, TruncationGoesBackToWhereAChunkBegins) {
  Cache c(shape(40, B), {full_group(), chunk_group(2 * B)});
  const Admitted r = c.compute(text(1, 5 * B));
  EXPECT_EQ(c.request(r.id).min_truncate_tokens, 2u * B);
  EXPECT_EQ(c.try_truncate(r.id, 3 * B), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(
      std::string(kvc_last_error()),
      "cannot keep 12 tokens: a window, a chunk or a state has left the blocks that they need; the next "
      "lower length that can be kept is 8, the next higher one 16");
  c.truncate(r.id, 2 * B);
  EXPECT_EQ(c.table(r.id, 1), (Ids{-1, -1}));
  c.append(r.id, text(9, B));
  c.commit(r.id, 3 * B);
  EXPECT_NE(c.table(r.id, 1)[2], -1);
}

TEST(Groups, PoolsAreCountedApart) {
  Cache c(shape(0, B), {full_group(0), window_group(2 * B, 0, 0, 1)}, {10, 3});
  Admitted r;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE,
                 c.try_allocate(text(1, 4 * B), &r));  // four blocks of pool 1, three exist
  const Admitted fits = c.allocate(text(1, 3 * B));
  for (int32_t block : c.table(fits.id, 0)) EXPECT_LT(block, 10);
  for (int32_t block : c.table(fits.id, 1)) EXPECT_GE(block, 10);
  kvc_pool_info info = sized<kvc_pool_info>();
  ASSERT_EQ(kvc_manager_pool_info(c.get(), 1, &info), KVC_OK);
  EXPECT_EQ(info.first_block, 10u);
  EXPECT_EQ(info.free, 0u);
  EXPECT_EQ(kvc_manager_pool_info(c.get(), 2, &info), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Groups, ALengthWhoseWindowIsGoneCannotBeRestored) {
  Cache c(shape(40, B), {window_group(B + 1)});
  const Admitted r = c.compute(text(1, 8 * B + 2));
  const uint64_t least = c.request(r.id).min_truncate_tokens;
  EXPECT_EQ(least, 8u * B);
  EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED, c.try_truncate(r.id, least - 1));
  c.truncate(r.id, least);
  EXPECT_EQ(c.request(r.id).num_committed, least);
  c.truncate(r.id, 0);  // always possible
  EXPECT_EQ(c.available(), 40u);
}

TEST(Groups, ALengthWithinTheSinksCanBeRestored) {
  Cache c(shape(40, B), {window_group(B + 1, B)});
  const Admitted r = c.compute(text(1, 8 * B));
  EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED, c.try_truncate(r.id, 2 * B));
  c.truncate(r.id, B);  // position 0 is a sink and was never returned
  EXPECT_EQ(c.request(r.id).num_committed, B);
}

// What hung below the cut block is gone, however long the chain was: the block is private again, not copied.
TEST(Groups, ALongChainOfReturnedPositionsIsNoLongerPrefix) {
  Cache c(shape(40, B), {window_group(7, 2)});
  const Tokens tokens = text(1, 20 * B + 1);
  const Admitted r = c.allocate(first(tokens, B + 1));
  c.append(r.id, Tokens(tokens.begin() + B + 1, tokens.end()));
  EXPECT_EQ(c.try_reserve(r.id, tokens.size()), KVC_OK);
  c.commit(r.id, tokens.size());
  c.truncate(r.id, 2);
  EXPECT_EQ(c.whole_hit(first(tokens, B)), 0u);
  c.append(r.id, text(2, 1));
  EXPECT_EQ(c.try_reserve(r.id, 3), KVC_OK);
  EXPECT_TRUE(c.take_copies().empty());
}

TEST(Groups, DroppingTheTailCostsItsBlocksOnceWithManyGroups) {
  Cache c(shape(120, B), {full_group(), window_group(2 * B, 0, B), window_group(3 * B + 1, 0, B),
                          full_group(), window_group(B, 0, B)});
  const Tokens tokens = text(1, 8 * B + 1);
  c.store(tokens);
  EXPECT_EQ(c.hit(tokens), 8u * B);
  for (const uint32_t drop : {1u, 2u, 20u}) {
    RequestOptions config = request_config();
    config.drop_tail_blocks = drop;
    const Admitted r = c.allocate(tokens, config);
    EXPECT_EQ(r.cached, drop < 8 ? (8u - drop) * B : 0u);
    c.free(r.id);
  }
}

TEST(Groups, HitsOfAllGroupsAreTakenBeforeAnythingIsAllocated) {
  // The pool holds exactly the cached prefix of both groups plus one block; the hits lie at the head of the
  // LRU list.
  Cache c(shape(6, B), {full_group(), full_group()});
  const Tokens tokens = text(1, 2 * B);
  c.store(tokens);
  c.store(text(2, B));  // younger
  EXPECT_EQ(c.stats().blocks_cached, 6u);
  const Admitted r =
      c.allocate(tokens + text(3, 1));  // two new blocks: only the younger prefix can give them
  EXPECT_EQ(r.cached, 2u * B);
  EXPECT_EQ(c.whole_hit(tokens), 2u * B);
  EXPECT_EQ(c.whole_hit(text(2, B)), 0u);
  Admitted refused;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_allocate(tokens + text(4, 1), &refused));
}

}  // namespace
}  // namespace conformance
