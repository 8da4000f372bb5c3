// SPDX-License-Identifier: Apache-2.0
// What has gone wrong in cache managers of inference engines, as tests: each name says what must hold.
#include <algorithm>
#include <string>

#include "calls.h"
#include "conformance/fixture.h"

namespace conformance {
namespace {

TEST(Bugs, LengthsAroundABlockEdge) {
  for (const uint32_t block : {1u, 2u, 4u, 16u})
    for (uint64_t k = 1; k <= 3; ++k)
      for (uint64_t n : {k * block - 1, uint64_t{k * block}, k * block + 1}) {
        Cache c(shape(12, block));
        const Tokens tokens = text(1, n);
        const Admitted r = c.compute(tokens);
        EXPECT_EQ(c.table(r.id).size(), (n + block - 1) / block);
        EXPECT_EQ(c.hit(tokens), n ? (n - 1) / block * block : 0u);
        EXPECT_EQ(c.whole_hit(tokens), n / block * block);
        c.append(r.id, {7});
        c.commit(r.id, n + 1);
        EXPECT_EQ(c.table(r.id).size(), n / block + 1);
        EXPECT_EQ(c.whole_hit(tokens + Tokens{7}), (n + 1) / block * block);
        c.free(r.id);
        EXPECT_EQ(c.available(), 12u);
      }
}

TEST(Bugs, AHitIsNeverTheWholePrompt) {
  for (const uint32_t block : {1u, 3u, 8u}) {
    Cache c(shape(40, block));
    const Tokens tokens = text(1, 5 * block);
    c.store(tokens);
    for (size_t n = 1; n <= tokens.size(); ++n) {
      const Admitted r = c.allocate(first(tokens, n));
      EXPECT_LT(r.cached, n);
      EXPECT_EQ(r.cached, (n - 1) / block * block);
      c.free(r.id);
    }
  }
}

TEST(Bugs, AHitIsNeverLongerThanTheCommonPrefix) {
  const uint32_t small = 2;
  Cache c(shape(40, small), {full_group(), window_group(4, 1, 4)});
  const Tokens tokens(12, 5);  // all equal: only position tells blocks apart
  c.store(tokens);
  for (size_t common = 0; common < tokens.size(); ++common) {
    Tokens other = tokens;
    other[common] = 6;
    EXPECT_LE(c.whole_hit(other), common) << common;
    EXPECT_LE(c.acquire_prefix(other, 1).size() * small, common) << common;
  }
  EXPECT_EQ(c.whole_hit(tokens), 12u);
  // The same block content after another beginning is another position.
  EXPECT_EQ(c.whole_hit(Tokens{6, 6} + first(tokens, 10)), 0u);
}

TEST(Bugs, RoundRobinReuseWithSpareBlocksStaysAHit) {
  Cache c(shape(30, B));
  for (int round = 0; round < 3; ++round)
    for (int32_t which = 0; which < 3; ++which) {
      const Tokens tokens = text(which, 4 * B + 1);
      EXPECT_EQ(c.store(tokens), round ? 4u * B : 0u);
    }
  EXPECT_EQ(c.stats().evictions, 0u);
}

TEST(Bugs, AnAdmissibleRequestIsAdmittedByAnEmptyPool) {
  for (uint64_t blocks = 1; blocks <= 6; ++blocks)
    for (uint64_t n = 0; n <= 7 * B; ++n) {
      Cache c(shape(blocks, B));
      const kvc_probe_info probe = c.probe(text(1, n));
      EXPECT_EQ(probe.blocks_needed, (n + B - 1) / B);
      EXPECT_EQ(probe.blocks_available, blocks);
      Admitted r;
      const bool fits = probe.blocks_needed <= probe.blocks_available;
      EXPECT_EQ(c.try_allocate(text(1, n), &r), fits ? KVC_OK : KVC_ERROR_NEVER_FITS);
      EXPECT_EQ(probe.never_fits, fits ? 0u : 1u);
    }
}

TEST(Bugs, TheProbeTellsTheAdmission) {
  Cache c(shape(12, B));
  c.store(text(1, 4 * B));
  const Admitted live = c.compute(text(2, 3 * B));
  for (const Tokens& tokens :
       {text(1, 4 * B), text(1, 9 * B), text(2, 3 * B) + text(3, 6 * B), text(4, 10 * B)}) {
    const uint64_t before = c.digest();
    const kvc_probe_info probe = c.probe(tokens);
    EXPECT_EQ(c.digest(), before);
    Admitted r;
    const kvc_status status = c.try_allocate(tokens, &r);
    EXPECT_EQ(status, probe.blocks_needed <= probe.blocks_available ? KVC_OK : KVC_ERROR_NO_SPACE);
    if (status != KVC_OK) continue;
    EXPECT_EQ(r.cached, probe.num_cached);
    c.free(r.id);
  }
  c.free(live.id);
}

TEST(Bugs, TheWatermarkSparesTheFirstRequestAlone) {
  kvc_manager_config config = shape(6, 4);
  config.watermark_blocks = 2;
  Cache c(config);
  const Admitted r = c.allocate(text(1, 6 * 4));  // nothing runs: the watermark does not apply
  c.free(r.id);
  const Admitted small = c.allocate(text(2, 2 * 4));
  Admitted refused;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, c.try_allocate(text(3, 3 * 4), &refused));
  c.allocate(text(3, 2 * 4));
  c.append(small.id, text(4, 8));  // extensions do not respect it
}

TEST(Bugs, TableRowsArePaddedToTheirEndAndNeverPastIt) {
  Cache c(shape(10, B));
  const Admitted a = c.allocate(text(1, 3 * B)), b = c.allocate(text(2, 1));
  const uint64_t ids[] = {a.id, b.id};
  std::vector<int32_t> rows(2 * 5 + 1, 99);
  ASSERT_EQ(kvc_manager_export_tables(c.get(), ids, 2, 0, 7, rows.data(), 5), KVC_OK);
  EXPECT_EQ(Ids(rows.begin() + 3, rows.begin() + 5), (Ids{7, 7}));
  EXPECT_EQ(Ids(rows.begin() + 6, rows.begin() + 10), (Ids{7, 7, 7, 7}));
  EXPECT_EQ(rows[10], 99);
  std::fill(rows.begin(), rows.end(), 99);
  EXPECT_EQ(kvc_manager_export_tables(c.get(), ids, 2, 0, 7, rows.data(), 2), KVC_ERROR_BUFFER_TOO_SMALL);
  const uint64_t one_wrong[] = {a.id, a.id + 1};
  EXPECT_EQ(kvc_manager_export_tables(c.get(), one_wrong, 2, 0, 7, rows.data(), 5), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_manager_export_tables(c.get(), ids, 2, 1, 7, rows.data(), 5), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 99), 11);
  int64_t slot = 99;
  EXPECT_EQ(kvc_manager_export_slots(c.get(), b.id, 0, 1, 1, &slot, 8), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_export_slots(c.get(), b.id, 0, ~uint64_t{0}, 2, &slot, 8),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(slot, 99);
}

TEST(Bugs, TheNullBlockIsNeverGivenOutNorCounted) {
  kvc_manager_config config = shape(5, 4);
  config.flags = KVC_MANAGER_NULL_BLOCK;
  Cache c(config);
  EXPECT_EQ(c.stats().blocks_total, 4u);
  const Ids all = c.drain();
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(std::count(all.begin(), all.end(), 0), 0);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.release({0}));
  kvc_block_info info = sized<kvc_block_info>();
  EXPECT_EQ(kvc_manager_block_info(c.get(), 0, &info), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Bugs, LengthsOverTheLimitAreRefusedInEveryCall) {
  for (const uint64_t limit : {uint64_t{16}, uint64_t{18}}) {  // at a block's edge and inside a block
    kvc_manager_config config = shape(40, 4);
    config.max_request_tokens = limit;
    Cache c(config);
    Admitted r;
    EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_allocate(text(1, limit + 1), &r));
    r = c.compute(text(1, limit - 1));
    EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_append(r.id, text(2, 2)));
    EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_reserve(r.id, limit + 1));
    EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_reserve(r.id, ~uint64_t{0}));
    c.append(r.id, text(2, 1));
    EXPECT_REFUSED(c, KVC_ERROR_LIMIT, c.try_append(r.id, text(2, 1)));
    EXPECT_EQ(c.request(r.id).num_tokens, limit);
    EXPECT_EQ(c.request(r.id).capacity, limit);

    RequestOptions ahead = request_config();  // lookahead stops at the limit
    ahead.lookahead = 7;
    const Admitted other = c.allocate(text(3, limit - 2), ahead);
    EXPECT_EQ(c.request(other.id).capacity, limit);
    c.append(other.id, text(4, 1));
    EXPECT_EQ(c.request(other.id).capacity, limit);
  }
}

TEST(Bugs, TokensOutsideOfTheVocabularyAreRefused) {
  kvc_manager_config config = shape(20, 4);
  config.vocab_size = 100;
  Cache c(config);
  const Admitted r = c.compute(Tokens{1, 2, 99});
  for (const int32_t wrong : {-1, 100, -2147483647 - 1, 2147483647}) {
    Admitted refused{77, 77};
    EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_allocate(Tokens{1, 2, wrong}, &refused));
    EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_append(r.id, Tokens{1, wrong}));
    EXPECT_EQ(refused.id, 77u);
  }
}

TEST(Bugs, CommitsCannotRunAheadNorBack) {
  Cache c(shape(20, 4));
  const Admitted r = c.allocate(text(1, 10));
  ASSERT_EQ(c.try_reserve(r.id, 20), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT,
                 kvc_manager_commit_tokens(c.get(), r.id, 11));  // slots without known tokens
  c.commit(r.id, 6);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_commit_tokens(c.get(), r.id, 5));
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_truncate(r.id, 11));
}

TEST(Bugs, StaleDoubledAndForeignIdsAreErrors) {
  Cache c(shape(20, 4)), other(shape(20, 4));
  const Admitted r = c.compute(text(1, 6)), foreign = other.compute(text(1, 6));
  c.free(r.id);
  const Admitted next = c.compute(text(1, 6));  // may stand in the same slot
  uint64_t child = 77;
  for (const uint64_t id : {r.id, foreign.id, uint64_t{0}, ~uint64_t{0}}) {
    EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, kvc_manager_free_request(c.get(), id));
    EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, kvc_manager_commit_tokens(c.get(), id, 6));
    EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.try_append(id, {1}));
    EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.try_truncate(id, 0));
    EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, kvc_manager_fork_request(c.get(), id, &child));
    EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, kvc_manager_preempt_request(c.get(), id));
  }
  EXPECT_EQ(child, 77u);
  c.free(next.id);
}

TEST(Bugs, DigestsDependOnTheCallsAlone) {
  const auto drive = [](Cache& c, int32_t last) {
    std::vector<uint64_t> digests;
    std::vector<uint64_t> live;
    for (int32_t i = 0; i < 40; ++i) {
      live.push_back(c.compute(text(i % 5, 3 + static_cast<size_t>(i % 9))).id);
      if (live.size() > 3) c.free(live.front()), live.erase(live.begin());
      if (i % 7 == 3) c.append(live.back(), text(20 + i, 2));
      if (i == 20) c.reset_all();
      digests.push_back(c.digest());
    }
    c.store(text(last, 4));
    digests.push_back(c.digest());
    return digests;
  };
  kvc_manager_config config = shape(40, 2);
  std::vector<std::vector<uint64_t>> runs;
  for (uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{0}}) {
    config.seed = seed;
    Cache c(config);
    runs.push_back(drive(c, 30));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
  Cache c(config);
  const std::vector<uint64_t> other = drive(c, 31);  // another last call, another digest
  EXPECT_NE(runs[0].back(), other.back());
}

TEST(Bugs, AForkedPartialBlockIsCopiedByWhoeverWritesFirst) {
  Cache c(shape(20, B));
  const Admitted parent = c.compute(text(1, 6));
  const uint64_t child = c.fork(parent.id);
  EXPECT_EQ(c.table(child), c.table(parent.id));
  const int32_t shared = c.table(parent.id)[1];
  EXPECT_EQ(c.block(shared).requests, 2u);
  c.append(child, text(2, 1));
  const std::vector<kvc_block_copy> copies = c.take_copies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, shared);
  EXPECT_EQ(copies[0].destination, c.table(child)[1]);
  EXPECT_EQ(c.table(parent.id)[1], shared);
  c.append(parent.id, text(3, 1));  // it is alone now
  EXPECT_TRUE(c.take_copies().empty());
  EXPECT_EQ(c.table(parent.id)[1], shared);
  c.commit(child, 7);
  c.append(child, text(2, 1));
  c.commit(child, 8);
  EXPECT_EQ(c.whole_hit(text(1, 6) + text(2, 1) + text(2, 1)), 8u);
}

TEST(Bugs, ACopysSourceIsHeldUntilTheCopyIsTaken) {
  Cache c(shape(3, B));
  const Admitted parent = c.compute(text(1, 2));
  const int32_t source = c.table(parent.id)[0];
  const uint64_t child = c.fork(parent.id);
  c.append(child, {9});
  c.free(parent.id);
  EXPECT_EQ(c.block(source).requests, 1u);
  const Ids rest = c.drain();
  EXPECT_EQ(rest.size(), 1u);
  EXPECT_NE(rest[0], source);
  kvc_block_copy copy;
  size_t count = 77;
  EXPECT_REFUSED(c, KVC_ERROR_BUFFER_TOO_SMALL, take_copies(c.get(), nullptr, 0, &count));
  EXPECT_EQ(count, 1u);
  ASSERT_EQ(take_copies(c.get(), &copy, 1, &count), KVC_OK);
  EXPECT_EQ(copy.source, source);
  EXPECT_EQ(c.drain(), Ids{source});
}

TEST(Bugs, APublishedBlockIsNeverWrittenAgain) {
  Cache c(shape(20, B));
  const Tokens tokens = text(1, 2 * B);
  const Admitted r = c.compute(tokens), reader = c.allocate(tokens + text(5, 1));
  EXPECT_EQ(reader.cached, 2u * B);
  const Ids before = c.table(r.id);
  c.truncate(r.id, B + 2);  // into a block that the reader holds
  EXPECT_EQ(c.whole_hit(tokens), 2u * B);
  c.append(r.id, text(2, 2));
  const std::vector<kvc_block_copy> copies = c.take_copies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, before[1]);
  c.free(reader.id);
  EXPECT_EQ(c.whole_hit(tokens), 2u * B);

  const Admitted alone = c.compute(text(3, 2 * B));  // nobody else: unpublished and written in place
  const Ids own = c.table(alone.id);
  c.truncate(alone.id, B + 2);
  EXPECT_EQ(c.whole_hit(text(3, 2 * B)), B);
  c.append(alone.id, text(4, 2));
  EXPECT_TRUE(c.take_copies().empty());
  EXPECT_EQ(c.table(alone.id), own);
}

TEST(Bugs, ARejectedDraftAfterACopyIsNotLeftInTheCache) {
  Cache c(shape(20, B));
  const Admitted parent = c.compute(text(1, 6));
  const uint64_t child = c.fork(parent.id);
  c.append(child, text(2, 2));
  c.take_copies();
  c.commit(child, 8);
  const Tokens drafted = text(1, 6) + text(2, 2);
  EXPECT_EQ(c.whole_hit(drafted), 8u);
  c.truncate(child, B);  // the second block is the child's own copy: dropped
  EXPECT_EQ(c.whole_hit(drafted), B);
}

TEST(Bugs, CuttingAForkTwiceKeepsWhatTheParentPublished) {
  Cache c(shape(20, B));
  const Tokens tokens = text(1, 3 * B);
  const Admitted parent = c.compute(tokens);
  const uint64_t child = c.fork(parent.id);
  c.free(parent.id);
  c.truncate(child, 2 * B + 3);
  c.truncate(child, 2 * B + 1);
  c.truncate(child, B + 1);
  c.truncate(child, B);
  EXPECT_EQ(c.whole_hit(first(tokens, B)), B);
  c.free(child);
  EXPECT_EQ(c.available(), 20u);
}

TEST(Bugs, ABlockHeldByARequestCannotBeGivenAnotherIdentity) {
  Cache c(shape(20, B));
  const Tokens tokens = text(1, 2 * B);
  const Admitted r = c.compute(tokens);
  const Ids raw = c.acquire_prefix(tokens);
  EXPECT_REFUSED(c, KVC_ERROR_BUSY, c.publish(text(2, 2 * B), raw));
  c.reset_all();  // now it is published nowhere, but the request still reads it
  EXPECT_REFUSED(c, KVC_ERROR_BUSY, c.publish(text(2, 2 * B), raw));
  c.free(r.id);
  EXPECT_EQ(c.publish(text(2, 2 * B), raw), KVC_OK);
  EXPECT_EQ(c.whole_hit(text(2, 2 * B)), 2 * B);
}

TEST(Bugs, APrefixWhoseBlocksAreGoneCanBePublishedAgainWithHoles) {
  const uint32_t small = 2;
  Cache c(shape(15, small), {window_group(3, 2)});
  const Tokens tokens = text(1, 10 * small);
  const Ids raw = c.acquire(2);
  c.store(tokens);  // ten positions, most of them without a block
  EXPECT_EQ(c.evict(10), 2u + 1u);
  EXPECT_EQ(c.publish(tokens, {-1, raw[0], raw[1]}), KVC_OK);
  EXPECT_EQ(c.block(raw[0]).token_offset, small);
  EXPECT_EQ(c.block(raw[1]).token_offset, 2u * small);
  EXPECT_EQ(c.whole_hit(tokens), 0u);  // the sink is missing
  const Ids sink = c.acquire(1);
  EXPECT_EQ(c.publish(tokens, sink), KVC_OK);
  EXPECT_EQ(c.whole_hit(first(tokens, 3 * small)), 3u * small);
}

TEST(Bugs, FullNodesStopPublishingAndNeverFailARequest) {
  kvc_manager_config config = shape(64, 1);
  config.max_nodes = 66;  // a few more than blocks
  config.event_capacity = 0;
  Cache c(config, {window_group(2)});
  for (int32_t i = 0; i < 6; ++i) {
    const Admitted r = c.compute(text(i, 40));  // a window keeps few blocks but many positions
    EXPECT_EQ(c.request(r.id).num_committed, 40u);
    c.append(r.id, text(50 + i, 3));
    c.commit(r.id, 43);
    if (i % 2) c.free(r.id);
  }
  EXPECT_GT(c.stats().unpublished_blocks, 0u);
  EXPECT_LE(c.stats().nodes_used, 66u);
}

TEST(Bugs, PreemptedRequestsFindWhatTheyComputed) {
  Cache c(shape(8, B));
  const Tokens tokens = text(1, 3 * B + 1);
  const Admitted r = c.compute(tokens);
  c.preempt(r.id);
  EXPECT_EQ(c.request(r.id).admitted, 0u);
  EXPECT_EQ(c.available(), 8u);
  c.append(r.id, text(2, 2));  // waiting: only known
  EXPECT_EQ(c.request(r.id).capacity, 0u);
  EXPECT_EQ(c.admit(r.id), 3u * B);
  EXPECT_EQ(c.request(r.id).capacity, 3u * B + 3);
  EXPECT_REFUSED(c, KVC_ERROR_BUSY, kvc_manager_admit_request(c.get(), r.id, nullptr));
}

}  // namespace
}  // namespace conformance
