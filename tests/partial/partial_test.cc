// SPDX-License-Identifier: Apache-2.0
// Partial reuse: which block is copied, how far a hit goes, and what holds the block. Random sequences are
// compared with a model in tests/property.
#include <kvcache/external.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>

#include <array>
#include <cstring>

#include "base/counting_heap.h"
#include "partial/scene.h"

namespace kvc::test {
namespace {

TEST(Partial, IsOffByDefault) {
  kvc_manager_config config = partial_config(16);
  config.flags = 0;
  const ManagerOf a(config);
  cache(a.m, tokens_from(0, 8));
  EXPECT_EQ(admit(a.m, tokens_from(0, 7)).cached, 4u);
  EXPECT_TRUE(pairs(a.m).empty());
}

TEST(Partial, CopiesTheHeadOfTheBlock) {
  const ManagerOf a(partial_config(16));
  cache(a.m, tokens_from(0, 8));
  const Admitted r = admit(a.m, joined(tokens_from(0, 6), tokens_from(90, 3)));
  EXPECT_EQ(r.cached, 6u);
  const std::vector<int32_t> table = table_of(a.m, r.id);
  const std::vector<kvc_block_copy> copies = pairs(a.m);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, 1);
  EXPECT_EQ(copies[0].destination, table[1]);
  EXPECT_EQ(table[0], 0);
  EXPECT_NE(table[1], 1);
  const kvc_stats stats = stats_of(a.m);
  EXPECT_EQ(stats.partial_hits, 1u);
  EXPECT_EQ(stats.partial_tokens, 2u);
  EXPECT_EQ(stats.cached_tokens, 6u);
  EXPECT_EQ(stats.block_hits, 1u);
  EXPECT_EQ(stats.copies, 1u);
  EXPECT_EQ(info_of(a.m, r.id).num_committed, 6u);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  // The whole block of the request is published under its own tokens.
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, r.id, 9), KVC_OK);
  EXPECT_EQ(hit(a.m, joined(tokens_from(0, 6), tokens_from(90, 3))), 8u);
}

TEST(Partial, OneTokenIsAlwaysComputed) {
  const ManagerOf a(partial_config(16));
  cache(a.m, tokens_from(0, 4));
  EXPECT_EQ(admit(a.m, tokens_from(0, 4)).cached, 3u);
  EXPECT_EQ(admit(a.m, tokens_from(0, 1)).cached, 0u);
  EXPECT_EQ(admit(a.m, tokens_from(0, 2)).cached, 1u);
}

TEST(Partial, KeepsToTheMostCachedTokens) {
  const ManagerOf a(partial_config(64));
  cache(a.m, tokens_from(0, 8));
  for (uint64_t most = 1; most <= 9; ++most) {
    kvc_request_config config = {};
    config.struct_size = sizeof config, config.max_cached_tokens = most;
    EXPECT_EQ(admit(a.m, tokens_from(0, 9), &config).cached, std::min<uint64_t>(most, 8));
  }
}

TEST(Partial, NotWithOptionsThatNeedWholeBlocks) {
  const ManagerOf a(partial_config(64));
  cache(a.m, tokens_from(0, 12));
  const std::vector<int32_t> prompt = tokens_from(0, 11);
  kvc_request_config config = {};
  config.struct_size = sizeof config, config.drop_tail_blocks = 1;
  EXPECT_EQ(admit(a.m, prompt, &config).cached, 4u);
  config.drop_tail_blocks = 0, config.external_tokens = 2;
  EXPECT_EQ(admit(a.m, prompt, &config).cached, 8u);
  config.external_tokens = 0, config.flags = KVC_REQUEST_NO_READ;
  EXPECT_EQ(admit(a.m, prompt, &config).cached, 0u);
  config.flags = 0;
  EXPECT_EQ(admit(a.m, prompt, &config).cached, 10u);
}

TEST(Partial, TakesTheLongestAndOfEqualOnesTheNewest) {
  const ManagerOf a(partial_config(32));
  const auto two = [](int32_t second) { return joined(tokens_from(0, 2), {second, 9}); };
  const Admitted first = admit(a.m, two(50));
  const Admitted second = admit(a.m, joined({0}, tokens_from(70, 3)));
  const Admitted third = admit(a.m, two(60));
  for (const Admitted& r : {first, second, third}) {
    ASSERT_EQ(kvc_manager_commit_tokens(a.m, r.id, 4), KVC_OK);
  }
  static_cast<void>(pairs(a.m));
  const Admitted both = admit(a.m, two(99));  // two tokens with the first and the third
  EXPECT_EQ(both.cached, 2u);
  EXPECT_EQ(pairs(a.m)[0].source, table_of(a.m, third.id)[0]);
  const Admitted longest = admit(a.m, joined({0, 70}, {1, 1}));
  EXPECT_EQ(longest.cached, 2u);
  EXPECT_EQ(pairs(a.m)[0].source, table_of(a.m, second.id)[0]);
}

TEST(Partial, LooksAt32Children) {
  for (const int others : {31, 32}) {
    const ManagerOf a(partial_config(128));
    cache(a.m, {1, 2, 3, 4});
    for (int i = 0; i < others; ++i) cache(a.m, {100 + i, 0, 0, 0});
    EXPECT_EQ(admit(a.m, {1, 2, 9, 9}).cached, others == 31 ? 2u : 0u);
  }
}

TEST(Partial, StaysInsideANamespaceAndAnEpoch) {
  const ManagerOf a(partial_config(32));
  kvc_namespace_config name = {};
  name.struct_size = sizeof name, name.tenant = "x", name.tenant_size = 1;
  uint64_t ns = 0;
  ASSERT_EQ(kvc_manager_open_namespace(a.m, &name, &ns), KVC_OK);
  cache(a.m, tokens_from(0, 4), ns);
  EXPECT_EQ(admit(a.m, tokens_from(0, 3)).cached, 0u);
  EXPECT_EQ(admit(a.m, tokens_from(0, 3), nullptr, ns).cached, 2u);
  ASSERT_EQ(kvc_manager_reset_all(a.m), KVC_OK);
  EXPECT_EQ(admit(a.m, tokens_from(0, 3), nullptr, ns).cached, 0u);
}

// The source is held until the pair is taken, so nothing evicts it.
TEST(Partial, HoldsTheSourceUntilThePairIsTaken) {
  const ManagerOf a(partial_config(8));
  cache(a.m, tokens_from(0, 4));
  const Admitted r = admit(a.m, tokens_from(0, 3));
  EXPECT_EQ(r.cached, 2u);
  kvc_block_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_block_info(a.m, 0, &info), KVC_OK);
  EXPECT_EQ(info.requests, 1u);
  uint64_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(a.m, UINT32_MAX, 8, &evicted), KVC_OK);
  EXPECT_EQ(evicted, 0u);
  EXPECT_EQ(pairs(a.m).size(), 1u);
  ASSERT_EQ(kvc_manager_evict_blocks(a.m, UINT32_MAX, 8, &evicted), KVC_OK);
  EXPECT_EQ(evicted, 1u);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

// A block that nobody holds any more may be another request's before the pairs are taken: what was to be
// copied into it must not get there.
TEST(Partial, APairGoesWithItsDestination) {
  const ManagerOf a(partial_config(8));
  cache(a.m, tokens_from(0, 4));
  const Admitted ended = admit(a.m, tokens_from(0, 3));
  ASSERT_EQ(ended.cached, 2u);
  const int32_t destination = table_of(a.m, ended.id)[0];
  ASSERT_EQ(kvc_manager_free_request(a.m, ended.id), KVC_OK);
  kvc_block_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_block_info(a.m, 0, &info), KVC_OK);
  EXPECT_EQ(info.requests, 0u) << "the source is held for nothing";
  const Admitted next = admit(a.m, tokens_from(50, 4));
  EXPECT_EQ(table_of(a.m, next.id)[0], destination);
  EXPECT_TRUE(pairs(a.m).empty());

  // The same for copies on a write, of which others stay in their order.
  const Admitted parent = admit(a.m, tokens_from(80, 2));
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, parent.id, 2), KVC_OK);
  uint64_t children[3];
  const int32_t token = 1;
  for (uint64_t& child : children) {
    ASSERT_EQ(kvc_manager_fork_request(a.m, parent.id, &child), KVC_OK);
    ASSERT_EQ(kvc_manager_append_tokens(a.m, child, &token, 1), KVC_OK) << kvc_last_error();
  }
  ASSERT_EQ(kvc_manager_preempt_request(a.m, children[1]), KVC_OK);
  const std::vector<kvc_block_copy> copies = pairs(a.m);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].destination, table_of(a.m, children[0])[0]);
  EXPECT_EQ(copies[1].destination, table_of(a.m, children[2])[0]);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

// What would be copied counts like a hit; if it does not fit beside the admission, nothing is copied.
TEST(Partial, NeverMakesAnAdmissionFail) {
  for (const uint64_t blocks : {2u, 3u}) {
    const ManagerOf a(partial_config(blocks));
    cache(a.m, tokens_from(0, 4));
    const std::vector<int32_t> prompt = joined(tokens_from(0, 3), tokens_from(50, 5));
    EXPECT_EQ(hit(a.m, prompt), blocks == 2 ? 0u : 3u);
    EXPECT_EQ(admit(a.m, prompt).cached, blocks == 2 ? 0u : 3u);
    EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  }
}

// Nor does it fail because of the request's headroom.
TEST(Partial, NeverMakesHeadroomFail) {
  kvc_manager_config config = partial_config(4);
  config.flags |= KVC_MANAGER_HEADROOM;
  const ManagerOf a(config);
  const Admitted ended = admit(a.m, tokens_from(80, 4));
  ASSERT_EQ(kvc_manager_append_tokens(a.m, ended.id, tokens_from(90, 4).data(), 4), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(a.m, ended.id), KVC_OK);  // four more tokens are expected
  cache(a.m, tokens_from(0, 4));
  static_cast<void>(admit(a.m, tokens_from(60, 4)));
  kvc_request_config with_headroom = {};
  with_headroom.struct_size = sizeof with_headroom, with_headroom.headroom = KVC_HEADROOM_AGGRESSIVE;
  const Admitted r = admit(a.m, joined(tokens_from(0, 3), tokens_from(50, 5)), &with_headroom);
  EXPECT_EQ(r.cached, 0u);
  EXPECT_EQ(info_of(a.m, r.id).capacity, 12u);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

TEST(Partial, ProbesTellTheHit) {
  const ManagerOf a(partial_config(32));
  cache(a.m, tokens_from(0, 12));
  for (size_t n = 1; n < 13; ++n) {
    const std::vector<int32_t> prompt = tokens_from(0, n);
    kvc_probe_info info = {}, of_request = {};
    info.struct_size = of_request.struct_size = sizeof info;
    ASSERT_EQ(kvc_manager_probe(a.m, PROMPT(0, prompt.data(), n, nullptr, 0), &info), KVC_OK);
    uint64_t id = 0, cached = 0;
    ASSERT_EQ(kvc_manager_create_request(a.m, PROMPT(0, prompt.data(), n, nullptr, 0), nullptr, &id), KVC_OK);
    ASSERT_EQ(kvc_manager_probe_request(a.m, id, &of_request), KVC_OK);
    ASSERT_EQ(kvc_manager_admit_request(a.m, id, &cached), KVC_OK);
    EXPECT_EQ(cached, n - 1);
    EXPECT_EQ(info.num_cached, n - 1);
    EXPECT_EQ(of_request.num_cached, n - 1);
    EXPECT_EQ(info.blocks_needed, of_request.blocks_needed);
    static_cast<void>(pairs(a.m));
    ASSERT_EQ(kvc_manager_free_request(a.m, id), KVC_OK);
  }
}

// A head crosses no span that differs, and ends in none.
TEST(Partial, EndsAtSpans) {
  struct Case {
    std::vector<kvc_extra_key> cached, asked;
    uint64_t hit;
  };
  const Case cases[] = {
      {{key_over(1, 2, 7)}, {key_over(1, 2, 7)}, 6},  // equal
      {{key_over(1, 2, 7)}, {key_over(1, 2, 8)}, 1},  // another content
      {{key_over(1, 2, 7)}, {}, 1},                   // only there
      {{}, {key_over(2, 1, 7)}, 2},                   // only here
      {{key_over(1, 2, 7)}, {key_over(1, 3, 7)}, 1},  // longer
      {{key_over(4, 4, 7)}, {key_over(4, 4, 7)}, 4},  // the tokens differ inside it
      {{key_over(0, 3, 7)}, {key_over(1, 2, 7)}, 0},  // another beginning
      {{key_over(5, 1, 7)}, {key_over(6, 1, 7)}, 5},  // the first of both that differs
      {{key_over(0, 1, 1), key_over(3, 1, 2)}, {key_over(0, 1, 1), key_over(3, 1, 2)}, 6},
      {{key_over(1, 4, 7), key_over(2, 2, 8)},
       {key_over(2, 2, 8), key_over(1, 4, 7)},
       6},                                                               // in another order
      {{key_over(1, 4, 7), key_over(2, 2, 8)}, {key_over(1, 4, 7)}, 1},  // one more inside: before both
      {{key_over(1, 2, 7), key_over(2, 6, 8)},
       {key_over(1, 2, 7), key_over(2, 6, 8)},
       1},  // a chain of spans
  };
  int number = 0;
  for (const Case& c : cases) {
    kvc_manager_config config = partial_config(8);
    config.block_size = 8;
    const ManagerOf a(config);
    const std::vector<int32_t> whole = tokens_from(0, 8), other = joined(tokens_from(0, 6), {99, 98, 97});
    uint64_t id = 0, cached = 0;
    ASSERT_EQ(kvc_manager_allocate_request(a.m, PROMPT(0, whole.data(), 8, c.cached.data(), c.cached.size()),
                                           nullptr, &id, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(a.m, id, 8), KVC_OK);
    ASSERT_EQ(kvc_manager_allocate_request(a.m, PROMPT(0, other.data(), 9, c.asked.data(), c.asked.size()),
                                           nullptr, &id, &cached),
              KVC_OK)
        << kvc_last_error();
    EXPECT_EQ(cached, c.hit) << "case " << number;
    ++number;
  }
}

// What the groups have not in common lies behind the hit that a span cuts short: a head before it gives
// nothing of it back.
TEST(Partial, AHeadBeforeASpanRegainsNothing) {
  kvc_group_config groups[2] = {};
  groups[0].struct_size = groups[1].struct_size = sizeof groups[0];
  groups[1].kind = KVC_GROUP_SLIDING_WINDOW, groups[1].window_tokens = 32;
  kvc_manager_config config = partial_config(64);
  config.groups = groups, config.num_groups = 2;
  const ManagerOf a(config);
  const std::vector<int32_t> tokens = tokens_from(0, 13);
  const kvc_extra_key key = key_over(6, 4, 7);
  uint64_t first = 0, second = 0, cached = 0;
  ASSERT_EQ(
      kvc_manager_allocate_request(a.m, PROMPT(0, tokens.data(), 13, &key, 1), nullptr, &first, nullptr),
      KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, first, 12), KVC_OK);
  const int32_t block = table_of(a.m, first, 1)[2];
  uint64_t unpublished = 0;
  ASSERT_EQ(kvc_manager_unpublish_blocks(a.m, &block, 1, &unpublished), KVC_OK);
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_probe(a.m, PROMPT(0, tokens.data(), 13, &key, 1), &info), KVC_OK);
  EXPECT_EQ(info.lost_reuse_tokens, 4u);
  ASSERT_EQ(
      kvc_manager_allocate_request(a.m, PROMPT(0, tokens.data(), 13, &key, 1), nullptr, &second, &cached),
      KVC_OK);
  EXPECT_EQ(cached, 6u) << "a block and the head before the span";
  EXPECT_EQ(stats_of(a.m).lost_reuse_tokens, 4u);
}

// A window holds what a query at the end of the hit reads, and no block before it.
TEST(Partial, AWindowHoldsWhatTheHitNeeds) {
  kvc_group_config groups[2] = {};
  groups[0].struct_size = groups[1].struct_size = sizeof groups[0];
  groups[1].kind = KVC_GROUP_SLIDING_WINDOW, groups[1].window_tokens = 6;
  kvc_manager_config config = partial_config(64);
  config.groups = groups, config.num_groups = 2;
  const ManagerOf a(config);
  const Admitted first = admit(a.m, tokens_from(0, 12));
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, first.id, 12), KVC_OK);
  const Admitted r = admit(a.m, tokens_from(0, 12));  // 8 + 3 tokens: the window begins at token 6
  EXPECT_EQ(r.cached, 11u);
  EXPECT_EQ(pairs(a.m).size(), 2u);
  EXPECT_EQ(table_of(a.m, r.id, 1)[0], -1);
  EXPECT_NE(table_of(a.m, r.id, 1)[1], -1);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  // Without its block in one group a position is not copied.
  ASSERT_EQ(kvc_manager_free_request(a.m, r.id), KVC_OK);
  const int32_t block = table_of(a.m, first.id, 1)[2];
  uint64_t unpublished = 0;
  ASSERT_EQ(kvc_manager_unpublish_blocks(a.m, &block, 1, &unpublished), KVC_OK);
  ASSERT_EQ(unpublished, 1u);
  EXPECT_EQ(admit(a.m, tokens_from(0, 12)).cached, 8u);
}

TEST(Partial, StepsListThePairsOfAdmissions) {
  const ManagerOf a(partial_config(32));
  cache(a.m, tokens_from(0, 4));
  kvc_step_limits limits = {};
  limits.struct_size = sizeof limits, limits.max_admissions = 2, limits.max_prompt_tokens = 16;
  limits.max_requests = 1;
  kvc_step* step = nullptr;
  ASSERT_EQ(kvc_step_create(a.m, &limits, &step), KVC_OK);
  EXPECT_EQ(step->copy_capacity, 3u);
  kvc_view view = {};
  ASSERT_EQ(kvc_step_view(step, KVC_STEP_COPIES, &view), KVC_OK);
  const std::vector<int32_t> tokens = joined(tokens_from(0, 3), {0, 1, 9});
  const uint64_t offsets[] = {0, 3, 6};
  step->num_admissions = 2;
  const auto fill = [&] {
    std::memcpy(const_cast<uint64_t*>(step->admit_offsets), offsets, sizeof offsets);
    std::memcpy(const_cast<int32_t*>(step->admit_tokens), tokens.data(), 6 * sizeof(int32_t));
  };
  step->block_tables = nullptr;
  fill();
  step->copy_capacity = 1;
  const uint64_t before = digest_of(a.m);
  EXPECT_EQ(kvc_manager_step(a.m, step), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(step->num_copies, 2u);
  EXPECT_EQ(digest_of(a.m), before);
  step->copy_capacity = 2;
  ASSERT_EQ(kvc_manager_step(a.m, step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(step->num_copies, 2u);
  EXPECT_EQ(step->cached[0], 2u);
  EXPECT_EQ(step->cached[1], 2u);
  EXPECT_EQ(step->copies[0].source, 0);
  EXPECT_EQ(step->copies[1].source, 0);
  EXPECT_TRUE(pairs(a.m).empty());
  EXPECT_EQ(pool_of(a.m).fenced, 1u) << "the source, until the step is retired";
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_manager_retire_step(a.m, step->step_id), KVC_OK);
  EXPECT_EQ(pool_of(a.m).cached, 1u);
  kvc_step_destroy(step);
}

// A block that a step in flight writes is not copied, not even for requests that share it.
TEST(Partial, DoesNotCopyWhatIsFilling) {
  kvc_manager_config config = partial_config(32);
  config.flags |= KVC_MANAGER_FILLS;
  const ManagerOf a(config);
  const std::vector<int32_t> tokens = joined(tokens_from(0, 5), tokens_from(0, 3));
  const uint64_t offsets[] = {0, 5, 8};
  kvc_request_config configs[2] = {};
  for (kvc_request_config& of : configs)
    of.struct_size = sizeof of, of.flags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
  uint64_t admitted[2], cached[2];
  kvc_status status[2];
  kvc_block_copy copies[2];
  kvc_step step = {};
  step.struct_size = sizeof step, step.num_admissions = 2, step.admit_offsets = offsets;
  step.admit_tokens = tokens.data(), step.admit_configs = configs, step.admitted = admitted;
  step.cached = cached, step.status = status, step.copies = copies, step.copy_capacity = 2;
  ASSERT_EQ(kvc_manager_step(a.m, &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(cached[1], 0u);
  ASSERT_EQ(kvc_manager_retire_step(a.m, step.step_id), KVC_OK);
  EXPECT_EQ(admit(a.m, tokens_from(0, 3)).cached, 2u);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

TEST(Partial, ReadmissionsCopyToo) {
  const ManagerOf a(partial_config(32));
  cache(a.m, tokens_from(0, 8));
  const Admitted r = admit(a.m, tokens_from(0, 7));
  ASSERT_EQ(kvc_manager_preempt_request(a.m, r.id), KVC_OK);
  static_cast<void>(pairs(a.m));
  uint64_t cached = 0;
  ASSERT_EQ(kvc_manager_admit_request(a.m, r.id, &cached), KVC_OK);
  EXPECT_EQ(cached, 6u);
  EXPECT_EQ(pairs(a.m).size(), 1u);
  EXPECT_EQ(stats_of(a.m).partial_hits, 1u) << "of first admissions";
}

// A position that lost its block while a longer one keeps it becomes the newest with its next block.
TEST(Partial, AgeIsThatOfTheFirstBlock) {
  const ManagerOf a(partial_config(32));
  const Admitted old = admit(a.m, {1, 2, 3, 4});
  const Admitted young = admit(a.m, {1, 2, 5, 6});
  for (const Admitted& r : {old, young}) ASSERT_EQ(kvc_manager_commit_tokens(a.m, r.id, 4), KVC_OK);
  static_cast<void>(pairs(a.m));
  const int32_t block = table_of(a.m, old.id)[0];
  uint64_t count = 0;
  ASSERT_EQ(kvc_manager_unpublish_blocks(a.m, &block, 1, &count), KVC_OK);
  const Admitted again = admit(a.m, {1, 2, 3, 4});
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, again.id, 4), KVC_OK);
  static_cast<void>(pairs(a.m));
  EXPECT_EQ(admit(a.m, {1, 2, 9, 9}).cached, 2u);
  EXPECT_EQ(pairs(a.m)[0].source, table_of(a.m, again.id)[0]);
}

// The copy has the bytes of the whole block; only the tokens of the hit count as committed, and what the
// request writes behind them does not reach the source.
TEST(Partial, TheBytesOfTheHeadAreRight) {
  kvc_storage_config shape = {};
  shape.struct_size = sizeof shape, shape.num_blocks = 16, shape.num_layers = 2, shape.num_heads = 1;
  shape.head_dim = 4, shape.block_size = kBlock, shape.dtype = KVC_FLOAT32;
  kvc_storage* storage = nullptr;
  ASSERT_EQ(kvc_storage_create(&shape, &storage), KVC_OK) << kvc_last_error();
  const ManagerOf a(partial_config(16));
  using Row = std::array<float, 4>;
  // Tokens [first, end) of a request in layer 1; the row of token t is t + base.
  const auto rows_of = [&](uint64_t request, uint64_t first, uint64_t end, std::vector<Row>& keys,
                           bool store) {
    std::vector<int64_t> slots(end - first);
    ASSERT_EQ(kvc_manager_export_slots(a.m, request, 0, first, end - first, slots.data(), sizeof slots[0]),
              KVC_OK);
    std::vector<Row> values = keys;
    kvc_rows rows = {};
    rows.struct_size = sizeof rows, rows.first_layer = 1, rows.num_tokens = end - first,
    rows.slots = slots.data();
    rows.k = keys.data(), rows.v = values.data(), rows.dtype = KVC_FLOAT32;
    ASSERT_EQ(
        store ? kvc_storage_store(storage, &rows, nullptr) : kvc_storage_gather(storage, &rows, nullptr),
        KVC_OK)
        << kvc_last_error();
  };
  const auto numbered = [](float base, size_t count) {
    std::vector<Row> rows;
    for (size_t i = 0; i < count; ++i) rows.push_back({base + float(i), 1, 2, 3});
    return rows;
  };
  const Admitted first = admit(a.m, tokens_from(0, 8));
  std::vector<Row> content = numbered(0, 8), found(8);
  rows_of(first.id, 0, 8, content, true);
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, first.id, 8), KVC_OK);
  const std::vector<int32_t> prompt = joined(tokens_from(0, 6), {90, 91});
  const Admitted second = admit(a.m, prompt);
  ASSERT_EQ(second.cached, 6u);
  const std::vector<kvc_block_copy> copies = pairs(a.m);
  ASSERT_EQ(kvc_storage_copy_blocks(storage, copies.data(), copies.size(), nullptr), KVC_OK);
  EXPECT_EQ(info_of(a.m, second.id).num_committed, 6u);
  std::vector<Row> head(6);
  rows_of(second.id, 0, 6, head, false);
  EXPECT_EQ(head, numbered(0, 6));
  std::vector<Row> rest = numbered(700, 2);
  rows_of(second.id, 6, 8, rest, true);
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, second.id, 8), KVC_OK);
  rows_of(first.id, 0, 8, found, false);
  EXPECT_EQ(found, numbered(0, 8));
  // Both are found under their own tokens, with their own bytes.
  for (const bool own : {true, false}) {
    const Admitted third = admit(a.m, joined(own ? prompt : tokens_from(0, 8), {1}));
    EXPECT_EQ(third.cached, 8u);
    rows_of(third.id, 0, 8, found, false);
    EXPECT_EQ(found[7][0], own ? 701.0f : 7.0f);
    EXPECT_EQ(found[5][0], 5.0f);
  }
  kvc_storage_destroy(storage);
}

// Pairs pile up until their list needs memory, as do tables and tokens.
TEST(Partial, AFailedAllocationChangesNothing) {
  constexpr size_t kNever = SIZE_MAX;
  uint64_t refusals = 0;
  // Returns which request met the failure. The state before one of them is asked for, which takes long.
  const auto run = [&](uint64_t after, size_t asked) {
    CountingHeap heap;
    kvc_manager_config config = partial_config(20000);
    config.max_requests = 20000;
    const ManagerOf a(config, heap.env());
    cache(a.m, tokens_from(0, 4));
    heap.fail_after(after);
    const std::vector<int32_t> prompt = tokens_from(0, 3);
    size_t i = 0;
    for (; i < 15000 && heap.failures() == 0; ++i) {
      const uint64_t before = i == asked ? digest_of(a.m) : 0;
      uint64_t id = 0, cached = 0;
      const auto allocate = [&] {
        return kvc_manager_allocate_request(a.m, PROMPT(0, prompt.data(), 3, nullptr, 0), nullptr, &id,
                                            &cached);
      };
      kvc_status status = allocate();
      if (status != KVC_OK) {
        EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
        if (i == asked) {
          EXPECT_EQ(digest_of(a.m), before);
          ++refusals;
        }
        EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
        status = allocate();
      }
      EXPECT_EQ(status, KVC_OK);
      EXPECT_EQ(cached, 2u);
      if (::testing::Test::HasFailure()) break;
    }
    EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
    return i == 0 ? kNever : i - 1;
  };
  for (uint64_t after = 0; after < 16; ++after) run(after, run(after, kNever));
  EXPECT_NE(refusals, 0u);
}

}  // namespace
}  // namespace kvc::test
