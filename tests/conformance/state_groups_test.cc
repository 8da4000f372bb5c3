// SPDX-License-Identifier: Apache-2.0
// Groups of recurrent state: where states have blocks, which of them can be hit, what is copied and when.
#include <kvcache/quota.h>
#include <kvcache/step.h>

#include "conformance/fixture.h"

namespace conformance {
namespace {

RequestOptions chunks_of(uint64_t slots) {
  RequestOptions options = request_config();
  options.slots = slots;
  return options;
}

// Positions with a block.
std::vector<size_t> held(const Ids& table) {
  std::vector<size_t> out;
  for (size_t j = 0; j < table.size(); ++j)
    if (table[j] != -1) out.push_back(j);
  return out;
}
using At = std::vector<size_t>;

// A prefill that ends its steps at checkpoints, as an engine does. `slots`: of its first step.
void prefill(Cache& c, uint64_t id, uint64_t end) {
  for (;;) {
    const kvc_request_info info = c.request(id);
    if (info.num_committed == end) return;
    const uint64_t next =
        info.next_checkpoint != 0 && info.next_checkpoint < end ? info.next_checkpoint : end;
    EXPECT_EQ(c.try_reserve(id, next), KVC_OK) << kvc_last_error();
    c.commit(id, next);
  }
}

// One block of state is that of a hit, or the new one: where a quota has no room for both, the hit is left.
TEST(StateGroups, AHitMakesRoomForTheNewState) {
  for (const bool by_maximum : {false, true}) {
    kvc_manager_config config = shape(0, B);
    config.max_quotas = 1;
    Cache c(config, {full_group(), state_group(B, 1)}, {14, 2});
    const uint64_t other = c.open("a"), ns = by_maximum ? other : 0;
    ASSERT_EQ(kvc_manager_set_quota(c.get(), other, 1, by_maximum ? 0 : 1, by_maximum ? 1 : 0), KVC_OK);
    const RequestOptions of = request_config(0, ns);
    const Admitted once = c.compute(text(1, 2 * B), of);
    EXPECT_REFUSED(c, KVC_ERROR_NEVER_FITS, c.try_reserve(once.id, 2 * B + 1));
    Admitted r;
    EXPECT_REFUSED(c, by_maximum ? KVC_ERROR_OVER_QUOTA : KVC_ERROR_NO_SPACE,
                   c.try_allocate(text(2, B), &r, of));
    c.free(once.id);
    const kvc_probe_info info = c.probe(text(1, 3 * B), ns);
    EXPECT_EQ(info.fits, 1u);
    EXPECT_EQ(info.num_cached, 0u);
    ASSERT_EQ(c.try_allocate(text(1, 3 * B), &r, of), KVC_OK) << kvc_last_error();
    EXPECT_EQ(r.cached, 0u);
    c.commit(r.id, 3 * B);
    c.free(r.id);
    c.verify();
  }
}

// A step in flight leaves a state where it ends, and begins with the one that the step before it has left.
TEST(StateGroups, ACommitAheadOfItsStepKeepsTheStateWhereItBegins) {
  Cache c(shape(0, B), {full_group(), state_group(B, 1)}, {40, 40});
  const Tokens tokens = text(1, 8 * B + 1);
  const Admitted r = c.allocate(tokens, chunks_of(2 * B));
  c.commit(r.id, 2 * B);
  for (uint64_t end = 4 * B; end <= 8 * B; end += 2 * B) {
    ASSERT_EQ(c.try_reserve(r.id, end), KVC_OK) << kvc_last_error();
    EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT,
                   kvc_manager_commit_ahead(c.get(), r.id, end - B, end - 2 * B));  // no state there
    EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, end, end - 2 * B)), KVC_OK);
    EXPECT_EQ(held(c.table(r.id, 1)), (At{end / B - 3, end / B - 1}));
    EXPECT_EQ(c.hit(tokens), end);
  }
  ASSERT_EQ(c.try_reserve(r.id, 8 * B + 1), KVC_OK);  // a step that ends inside a block
  EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, 8 * B + 1, 8 * B)), KVC_OK);
  ASSERT_EQ(c.try_append(r.id, text(2, 2 * B)), KVC_OK);
  EXPECT_EQ(c.verify(kvc_manager_commit_ahead(c.get(), r.id, 10 * B + 1, 8 * B + 1)), KVC_OK);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{8, 10}));
  c.preempt(r.id);  // while its last steps are in flight
  EXPECT_EQ(c.hit(tokens), 8u * B);
  EXPECT_EQ(c.hit(first(tokens, 6 * B + 1)), 6u * B);
  EXPECT_EQ(c.admit(r.id), 8u * B);
}

// A window beside states: each end is hit up to the last checkpoint.
TEST(StateGroups, EveryEndIsHitBesideAWindow) {
  for (uint64_t window = 1; window <= 3 * B; ++window) {
    for (uint64_t end = 5 * B; end < 8 * B; ++end) {
      for (const bool preempts : {false, true}) {
        Cache c(shape(0, B), {full_group(), window_group(window, 0, 0, 1), state_group(B, 2)}, {40, 40, 40});
        const Tokens tokens = text(1, end);
        const Admitted r = c.allocate(first(tokens, B), chunks_of(B));
        c.commit(r.id, B);
        for (uint64_t n = B; n < end; ++n) {
          c.append(r.id, {tokens[n]});
          EXPECT_EQ(c.try_reserve(r.id, n + 1), KVC_OK) << kvc_last_error();
          c.commit(r.id, n + 1);
        }
        preempts ? c.preempt(r.id) : c.free(r.id);
        EXPECT_EQ(c.whole_hit(tokens), end / B * B) << "window " << window << " end " << end;
      }
    }
  }
}

TEST(StateGroups, OnlyTheEndOfAStepHasABlock) {
  Cache c(shape(40, B), {full_group(), state_group()});
  const Admitted r = c.allocate(text(1, 30), chunks_of(10));
  EXPECT_EQ(held(c.table(r.id, 1)), (At{2}));
  EXPECT_EQ(c.request(r.id).num_blocks, 3u + 1u);
  c.commit(r.id, 10);
  EXPECT_EQ(c.try_reserve(r.id, 29), KVC_OK);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{2, 7}));  // read there, written here
  c.commit(r.id, 29);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{7}));
  for (uint64_t n = 30; n < 50;
       ++n) {  // decoding: the block of the last token, and for a moment the next one
    if (n > 30) c.append(r.id, text(2, 1));
    EXPECT_EQ(c.try_reserve(r.id, n), KVC_OK);
    c.commit(r.id, n);
    EXPECT_EQ(held(c.table(r.id, 1)), (At{(n - 1) / B})) << n;
  }
}

TEST(StateGroups, ACommitWhereThereIsNoBlockIsRefused) {
  Cache c(shape(40, B), {state_group(), full_group()});
  const Admitted r = c.allocate(text(1, 30));
  for (const uint64_t committed : {1, 4, 8, 28})
    EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_commit_tokens(c.get(), r.id, committed));
  EXPECT_EQ(std::string(kvc_last_error()),
            "cannot commit 28 tokens: state group 0 has no block for the state after them; slots were given "
            "for a step that ends at 29 tokens or behind: commit there, or give slots for shorter steps");
  c.commit(r.id, 29);
  c.commit(r.id, 30);
}

TEST(StateGroups, AHitEndsAtACheckpoint) {
  Cache c(shape(60, B), {full_group(), state_group()});
  const Tokens tokens = text(1, 5 * B + 2);
  c.store(tokens);  // in one step, which ends inside a block
  EXPECT_EQ(c.hit(tokens), 0u);
  EXPECT_EQ(c.probe(tokens).lost_reuse_tokens, 5u * B);
  const Admitted r = c.allocate(tokens, chunks_of(5 * B));
  c.commit(r.id, 5 * B);
  EXPECT_EQ(c.hit(tokens), 5u * B);
  prefill(c, r.id, tokens.size());
  c.free(r.id);
  EXPECT_EQ(c.hit(tokens), 5u * B);
  EXPECT_EQ(c.hit(first(tokens, 4 * B + 1)), 0u);
  const Admitted again = c.allocate(tokens);
  EXPECT_EQ(again.cached, 5u * B);
  EXPECT_EQ(held(c.table(again.id, 1)), (At{4, 5}));  // the checkpoint is read, never written
}

TEST(StateGroups, NextCheckpointsAreThoseThatStay) {
  Cache c(shape(80, B), {full_group(), state_group(3 * B)});
  const Tokens tokens = text(1, 10 * B + 2);
  const Admitted r = c.allocate(tokens, chunks_of(1));
  std::vector<uint64_t> seen;
  while (c.request(r.id).num_committed < tokens.size()) {
    const uint64_t next = c.request(r.id).next_checkpoint;
    if (next != 0 && next <= tokens.size()) seen.push_back(next);
    const uint64_t end = next != 0 && next <= tokens.size() ? next : tokens.size();
    EXPECT_EQ(c.try_reserve(r.id, end), KVC_OK);
    c.commit(r.id, end);
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{3 * B, 6 * B, 9 * B, 10 * B}));
  c.free(r.id);
  for (uint64_t n = 0; n <= 10; ++n)
    EXPECT_EQ(c.hit(first(tokens, n * B + 1)), (n == 10 ? 10 : n / 3 * 3) * B) << n;
  const Admitted plain = c.allocate(text(7, 3), request_config(KVC_REQUEST_NO_WRITE));
  EXPECT_EQ(c.request(plain.id).next_checkpoint, 0u);
}

TEST(StateGroups, WhatOthersHadCachedBecomesACheckpoint) {
  Cache c(shape(80, B), {full_group(), state_group()});
  const Tokens shared = text(1, 6 * B);
  c.store(shared + text(2, 9));
  const Admitted second = c.allocate(shared + text(3, 9), chunks_of(1));
  EXPECT_EQ(second.cached, 0u);
  EXPECT_EQ(c.request(second.id).lost_reuse_tokens, 6u * B);
  EXPECT_EQ(c.request(second.id).next_checkpoint, 6u * B);
  prefill(c, second.id, 6 * B + 9);
  c.free(second.id);
  EXPECT_EQ(c.allocate(shared + text(4, 9)).cached, 6u * B);
}

// So that the first chunk of a prompt can end there.
TEST(StateGroups, AProbeTellsTheFirstCheckpointBeforeTheAdmission) {
  Cache c(shape(80, B), {full_group(), state_group()});
  const Tokens shared = text(1, 6 * B), tokens = shared + text(3, 9);
  c.store(shared + text(2, 9));
  const RequestOptions options = request_config(), silent = request_config(KVC_REQUEST_NO_WRITE);
  const PromptArgument prompt = PROMPT(0, tokens.data(), tokens.size(), nullptr, 0);
  uint64_t id = 0, mute = 0;
  ASSERT_EQ(kvc_manager_create_request(c.get(), prompt, &options, &id), KVC_OK);
  ASSERT_EQ(kvc_manager_create_request(c.get(), prompt, &silent, &mute), KVC_OK);
  kvc_probe_info probe = sized<kvc_probe_info>();
  ASSERT_EQ(kvc_manager_probe_request(c.get(), mute, &probe), KVC_OK);
  EXPECT_EQ(probe.next_checkpoint, 0u);
  ASSERT_EQ(kvc_manager_probe_request(c.get(), id, &probe), KVC_OK);
  EXPECT_EQ(probe.next_checkpoint, 6u * B);
  EXPECT_EQ(c.request(id).next_checkpoint, 0u) << "it waits";
  uint64_t slots = probe.next_checkpoint - probe.num_cached, admitted = 0, cached = 0;
  kvc_status status = -1;
  kvc_step step = sized<kvc_step>();
  step.num_admissions = 1, step.admit_requests = &id, step.admit_slots = &slots;
  step.admitted = &admitted, step.cached = &cached, step.status = &status;
  ASSERT_EQ(kvc_manager_step(c.get(), &step), KVC_OK) << kvc_last_error();
  ASSERT_EQ(status, KVC_OK);
  EXPECT_EQ(c.request(id).next_checkpoint, 6u * B);
  c.commit(id, 6 * B);
  EXPECT_EQ(c.hit(shared + text(4, 9)), 6u * B);
}

// A draft head that computes the last block again needs the state before it.
TEST(StateGroups, ADroppedTailHasACheckpoint) {
  Cache c(shape(80, B), {full_group(), state_group()});
  const Tokens tokens = text(1, 6 * B + 2);
  RequestOptions options = chunks_of(1);
  options.drop_tail_blocks = 1;
  const Admitted r = c.allocate(tokens, options);
  EXPECT_EQ(c.request(r.id).next_checkpoint, 5u * B);
  prefill(c, r.id, tokens.size());
  c.free(r.id);
  EXPECT_EQ(c.allocate(tokens, options).cached, 5u * B);
  EXPECT_EQ(c.hit(tokens), 6u * B);
}

TEST(StateGroups, AForkInsideABlockCopiesTheStateAtOnce) {
  Cache c(shape(40, B), {full_group(), state_group()});
  const Admitted r = c.compute(text(1, 3 * B + 2));
  const uint64_t child = c.fork(r.id);
  const Ids parents = c.table(r.id, 1), childs = c.table(child, 1);
  EXPECT_EQ(held(childs), (At{3}));
  EXPECT_NE(childs[3], parents[3]);
  EXPECT_EQ(c.table(child, 0), c.table(r.id, 0));
  const auto copies = c.take_copies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, parents[3]);
  EXPECT_EQ(copies[0].destination, childs[3]);
  c.append(r.id, text(2, 1));  // goes on in place
  EXPECT_EQ(c.table(r.id, 1)[3], parents[3]);
  c.commit(r.id, 3 * B + 3);
  c.append(r.id, text(2, 1));
  c.commit(r.id, 4 * B);
  const uint64_t at_end = c.fork(r.id);  // this state is not written any more
  EXPECT_EQ(c.table(at_end, 1), c.table(r.id, 1));
  c.take_copies();
}

TEST(StateGroups, AForkNeedsABlockForTheState) {
  Cache c(shape(0, B), {full_group(), state_group(0, 1)}, {40, 2});
  const Admitted r = c.compute(text(1, 3 * B + 2));
  const Ids last = c.acquire(1, 1);
  uint64_t child = 0;
  EXPECT_REFUSED(c, KVC_ERROR_NO_SPACE, kvc_manager_fork_request(c.get(), r.id, &child));
  EXPECT_EQ(c.release(last), KVC_OK);
  c.fork(r.id);
}

TEST(StateGroups, TruncationKeepsThePresentStateOrNothing) {
  Cache c(shape(40, B), {full_group(), state_group()});
  const Admitted r = c.allocate(text(1, 30), chunks_of(10));
  c.commit(r.id, 10);
  EXPECT_EQ(c.try_reserve(r.id, 30), KVC_OK);
  for (const uint64_t length : {1, 8, 9})
    EXPECT_REFUSED(c, KVC_ERROR_UNSUPPORTED, kvc_manager_truncate_request(c.get(), r.id, length));
  EXPECT_EQ(c.request(r.id).min_truncate_tokens, 10u);
  c.truncate(r.id, 17);  // a step that ended there would have no block
  EXPECT_EQ(c.request(r.id).capacity, 10u);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{2}));
  EXPECT_EQ(c.try_reserve(r.id, 17), KVC_OK);
  c.commit(r.id, 17);
  c.truncate(r.id, 0);
  EXPECT_EQ(c.request(r.id).num_blocks, 0u);
}

// A transfer whose end is cut off leaves neither its state nor, without it, the slots of the window before
// it.
TEST(StateGroups, ATransferThatIsCutBesideAWindowLeavesNoSlots) {
  Cache c(shape(0, B), {window_group(2), state_group(0, 1)}, {20, 20});
  RequestOptions options = request_config();
  options.external_tokens = 4 * B + 1;
  const Admitted r = c.allocate(text(1, 4 * B + 1), options);
  c.truncate(r.id, 3 * B + 2);
  EXPECT_EQ(c.request(r.id).num_blocks, 0u);
  EXPECT_EQ(c.request(r.id).min_truncate_tokens, 1u);
  EXPECT_EQ(c.try_reserve(r.id, 3 * B + 2), KVC_OK) << kvc_last_error();
  EXPECT_EQ(c.table(r.id).size(), 4u);
  c.commit(r.id, 3 * B + 2);
}

TEST(StateGroups, CheckpointsAreAtMostSoMany) {
  Cache c(shape(0, B), {full_group(), state_group(0, 1, 2)}, {60, 20});
  for (int32_t i = 1; i <= 4; ++i) c.store(text(i, 2 * B));
  kvc_pool_info states = sized<kvc_pool_info>();
  ASSERT_EQ(kvc_manager_pool_info(c.get(), 1, &states), KVC_OK);
  EXPECT_EQ(states.cached, 2u);
  EXPECT_EQ(states.free, 18u);
  for (int32_t i = 1; i <= 4; ++i) EXPECT_EQ(c.whole_hit(text(i, 2 * B)), i > 2 ? 2u * B : 0u) << i;
}

// A transfer brings the state at its end, and the step that follows its own.
TEST(StateGroups, ATransferEndsWithAState) {
  Cache c(shape(40, B), {full_group(), state_group()});
  RequestOptions options = chunks_of(9);
  options.external_tokens = 2 * B;
  const Admitted r = c.allocate(text(1, 30), options);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{1, 4}));
  c.commit(r.id, 2 * B);
  EXPECT_EQ(c.whole_hit(first(text(1, 30), 2 * B)), 2u * B);
  c.commit(r.id, 2 * B + 9);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{4}));
}

// Speculative slots behind the known tokens have blocks too: nobody knows where the accepted ones end.
TEST(StateGroups, LookaheadHasBlocks) {
  Cache c(shape(40, B), {full_group(), state_group()});
  RequestOptions options = request_config();
  options.lookahead = B;
  const Admitted r = c.allocate(text(1, 3 * B), options);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{2, 3}));
  c.commit(r.id, 3 * B);
  c.append(r.id, text(2, 2));
  c.commit(r.id, 3 * B + 2);
  EXPECT_EQ(held(c.table(r.id, 1)), (At{3, 4}));
}

TEST(StateGroups, AModelOfStatesAloneHitsItsCheckpoints) {
  Cache c(shape(20, B), {state_group(2 * B)});
  const Tokens tokens = text(1, 9 * B + 1);
  const Admitted r = c.allocate(tokens, chunks_of(1));
  prefill(c, r.id, tokens.size());
  c.free(r.id);
  EXPECT_EQ(c.stats().blocks_cached, 5u);  // after 2, 4, 6, 8 and 9 blocks
  for (uint64_t n = 0; n <= 9; ++n)
    EXPECT_EQ(c.hit(first(tokens, n * B + 1)), (n == 9 ? 9 : n / 2 * 2) * B) << n;
  const Admitted again = c.allocate(tokens);
  EXPECT_EQ(again.cached, 9u * B);
  EXPECT_EQ(held(c.table(again.id)), (At{8, 9}));
}

// Going back to a checkpoint: preempt, truncate, admit.
TEST(StateGroups, APreemptedRequestGoesBackToACheckpoint) {
  Cache c(shape(40, B), {full_group(), state_group(2 * B)});
  const Admitted r = c.allocate(text(1, 5 * B + 2), chunks_of(1));
  prefill(c, r.id, 5 * B + 2);
  c.preempt(r.id);
  c.truncate(r.id, 4 * B + 3);
  EXPECT_EQ(c.admit(r.id), 4u * B);
}

TEST(StateGroups, MixesThatNoTableServesAreRefused) {
  const auto refused = [](kvc_status status, std::vector<kvc_group_config> groups, uint32_t flags = 0,
                          std::vector<uint64_t> blocks = {20}) {
    kvc_manager_config config = shape(0, B);
    std::vector<kvc_pool_config> pools;
    for (const uint64_t count : blocks) pools.push_back({sizeof(kvc_pool_config), count, 0});
    config.pools = pools.data(), config.num_pools = pools.size();
    config.flags = flags;
    config.groups = groups.data(), config.num_groups = groups.size();
    kvc_manager* m = nullptr;
    EXPECT_EQ(kvc_manager_create(&config, &m), status) << kvc_last_error();
    kvc_manager_destroy(m);
  };
  refused(KVC_ERROR_UNSUPPORTED, {state_group()}, KVC_MANAGER_FILLS);
  refused(KVC_ERROR_UNSUPPORTED, {full_group(), state_group()}, KVC_MANAGER_HEADROOM);
  refused(KVC_ERROR_INVALID_ARGUMENT, {full_group(), state_group(0, 0, 3)});  // shares its pool
  refused(KVC_ERROR_INVALID_ARGUMENT, {state_group(B + 1)});
  kvc_group_config group = full_group();
  group.max_checkpoints = 3;
  refused(KVC_ERROR_INVALID_ARGUMENT, {group});
  group = state_group();
  group.window_tokens = 2;
  refused(KVC_ERROR_INVALID_ARGUMENT, {group});
  refused(KVC_OK, {state_group(0, 0, 3)});
  refused(KVC_ERROR_INVALID_ARGUMENT, {full_group(), state_group(0, 1)}, 0, {20, 1});
  refused(KVC_ERROR_INVALID_ARGUMENT, {state_group(0, 0), full_group(1)}, KVC_MANAGER_NULL_BLOCK, {2, 20});
  refused(KVC_OK, {full_group(), state_group(0, 1)}, 0, {20, 2});
}

}  // namespace
}  // namespace conformance
