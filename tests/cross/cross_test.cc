// SPDX-License-Identifier: Apache-2.0
// Cross groups: the blocks of a request's encoder, who shares them, and what the decoder's prefix depends on.
// Random sequences are compared with a model in tests/property.
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/rebuild.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>

#include <numeric>

#include "cross/scene.h"
#include "event_calls.h"

namespace kvc::test {
namespace {

TEST(Cross, ATableHasTheEncodersBlocksAndNeverGrows) {
  Decoder d({}, 2);
  const uint64_t id = d.allocate(hearing(1));
  const std::vector<int32_t> before = d.table(id, 2);
  EXPECT_EQ(d.info(id).num_blocks, 3u + 2 * 3u);
  const std::vector<int32_t> more = tokens_from(500, 20);
  d.ok(kvc_manager_append_tokens(d.m, id, more.data(), more.size()));
  d.commit(id, 15);
  EXPECT_EQ(d.table(id, 2), before);
  EXPECT_EQ(d.info(id).num_blocks, 8u + 2 * 3u);
  EXPECT_EQ(d.info(id).cross_tokens, kEncoder);

  int64_t slots[kEncoder];
  d.ok(kvc_manager_export_slots(d.m, id, 2, 0, kEncoder, slots, 8));
  for (uint64_t t = 0; t < kEncoder; ++t)
    EXPECT_EQ(slots[t], int64_t{before[t / kBlock]} * kBlock + int64_t(t % kBlock));
  EXPECT_EQ(kvc_manager_export_slots(d.m, id, 2, 1, kEncoder, slots, 8), KVC_ERROR_INVALID_ARGUMENT);
  int32_t row[2];
  EXPECT_EQ(kvc_manager_export_tables(d.m, &id, 1, 2, -1, row, 2), KVC_ERROR_BUFFER_TOO_SMALL);
}

TEST(Cross, TheEncoderIsFoundOnceATokenComputedAfterItIsCommitted) {
  Decoder d;
  const uint64_t a = d.allocate(hearing(1));
  EXPECT_EQ(d.info(a).num_cross_cached, 0u);
  EXPECT_EQ(d.block(d.table(a)[0]).state, KVC_BLOCK_RESERVED);
  d.commit(a, 0);  // of no token
  const uint64_t b = d.allocate(hearing(1));
  EXPECT_EQ(d.info(b).num_cross_cached, 0u) << "found before it was written";
  EXPECT_NE(d.table(b), d.table(a));
  d.commit(a, 1);  // a part of the prompt
  EXPECT_EQ(d.block(d.table(a)[0]).state, KVC_BLOCK_LIVE);
  const uint64_t c = d.allocate(hearing(1));
  EXPECT_EQ(d.info(c).num_cross_cached, kEncoder);
  EXPECT_EQ(d.info(c).num_cached, 0u);
  EXPECT_EQ(d.table(c), d.table(a));
  d.commit(b, prompt().size());  // a duplicate
  EXPECT_EQ(d.stats().duplicates, 3u);
  for (const uint64_t id : {a, b, c}) d.free(id);
  EXPECT_EQ(d.stats().blocks_cached, 3u + 2u) << "one copy of each stays";
}

// Without full attention positions outlive their blocks, and would run out.
TEST(Cross, RoomIsMadeForThePositionsOfAnEncoder) {
  constexpr uint64_t kLong = 40;
  kvc_group_config window = full_group();
  window.kind = KVC_GROUP_SLIDING_WINDOW, window.window_tokens = 8;
  kvc_manager_config config = with_blocks(300);
  config.max_nodes = 40;
  Decoder d(config, 1, default_env(), window);
  for (uint8_t input = 1; input <= 20; ++input) d.cache(hearing(input, kLong), tokens_from(100 * input, 9));
  EXPECT_EQ(d.stats().unpublished_blocks, 0u);
  EXPECT_GT(d.stats().evictions, 0u);
  EXPECT_EQ(d.info(d.allocate(hearing(20, kLong), tokens_from(2000, 9))).num_cross_cached, kLong);
}

TEST(Cross, WhatATransferHasWrittenDoesNotPublishTheEncoder) {
  Decoder d;
  kvc_request_config config = hearing(1);
  config.external_tokens = 5;
  const uint64_t a = d.allocate(config);
  d.commit(a, 5);
  EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, 0u);
  d.commit(a, 6);
  EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, kEncoder);
}

TEST(Cross, AStepPublishesTheEncoderByItsCommitAndNotWhenItIsEnqueued) {
  kvc_manager_config shape = {};
  shape.flags = KVC_MANAGER_FILLS;
  Decoder d(shape);
  kvc_request_config configs[2] = {hearing(1), hearing(1)};
  for (kvc_request_config& config : configs)
    config.flags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
  std::vector<int32_t> tokens = prompt();
  tokens.insert(tokens.end(), prompt().begin(), prompt().end());
  const uint64_t offsets[] = {0, prompt().size(), 2 * prompt().size()};
  uint64_t ids[2] = {}, cached[2];
  kvc_status status[2];
  kvc_step step = {};
  step.struct_size = sizeof step, step.num_admissions = 2, step.admit_offsets = offsets;
  step.admit_tokens = tokens.data(), step.admit_configs = configs;
  step.admitted = ids, step.cached = cached, step.status = status;
  d.ok(kvc_manager_step(d.m, &step));
  EXPECT_EQ(cached[1], 2u * kBlock) << "the decoder's prompt is shared as it fills";
  EXPECT_EQ(d.info(ids[1]).num_cross_cached, 0u) << "the encoder is not";
  EXPECT_NE(d.table(ids[0]), d.table(ids[1]));
  kvc_step next = {};
  const uint64_t committed[] = {prompt().size()};
  next.struct_size = sizeof next, next.num_requests = 1, next.requests = ids, next.committed = committed;
  next.status = status;
  d.ok(kvc_manager_step(d.m, &next));
  EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, kEncoder);
}

TEST(Cross, AStepRefusesAnItemWhoseEncoderIsLongerThanARow) {
  Decoder d;
  const uint64_t a = d.allocate(hearing(1));
  const uint64_t row_stride = (kEncoder - 1) / kBlock;  // a block too few
  std::vector<int32_t> tables(4 * row_stride, -7);
  const uint64_t offsets[] = {0, 1};
  const int32_t token[] = {5};
  kvc_status status[1];
  kvc_step step = {};
  step.struct_size = sizeof step, step.num_requests = 1, step.requests = &a, step.status = status;
  step.extend_offsets = offsets, step.extend_tokens = token;
  step.block_tables = tables.data(), step.num_rows = 1, step.row_stride = row_stride;
  d.ok(kvc_manager_step(d.m, &step));
  EXPECT_EQ(status[0], KVC_ERROR_BUFFER_TOO_SMALL);
}

// The same when the request only writes on in its last block, and the rows were long enough before.
TEST(Cross, AShorterRowIsRefusedInTheMiddleOfABlock) {
  Decoder d;
  const uint64_t a = d.allocate(hearing(1, 24));
  d.commit(a, 9);
  std::vector<int32_t> tables(4 * 16, -7);
  const uint64_t offsets[] = {0, 1};
  const int32_t token[] = {5};
  kvc_status status[1];
  kvc_step step = {};
  step.struct_size = sizeof step, step.num_requests = 1, step.requests = &a, step.status = status;
  step.extend_offsets = offsets, step.extend_tokens = token;
  step.block_tables = tables.data(), step.num_rows = 1, step.row_stride = 16;
  d.ok(kvc_manager_step(d.m, &step));
  ASSERT_EQ(status[0], KVC_OK);
  step.row_stride = 24 / kBlock - 1;  // more than the request itself has
  d.ok(kvc_manager_step(d.m, &step));
  EXPECT_EQ(status[0], KVC_ERROR_BUFFER_TOO_SMALL);
}

TEST(Cross, AHitNeedsAllBlocksInAllCrossGroups) {
  for (const uint32_t group : {1u, 2u}) {
    for (size_t j = 0; j < 3; ++j) {
      Decoder d({}, 2);
      const uint64_t a = d.allocate(hearing(1));
      d.commit(a, prompt().size());
      const int32_t missing = d.table(a, group)[j];
      d.free(a);
      uint64_t count = 0;
      d.ok(kvc_manager_unpublish_blocks(d.m, &missing, 1, &count));
      EXPECT_EQ(count, 1u);
      const uint64_t b = d.allocate(hearing(1));
      EXPECT_EQ(d.info(b).num_cross_cached, 0u);
      EXPECT_EQ(d.info(b).num_cached, 2u * kBlock) << "the decoder's own blocks are there";
      d.commit(b, prompt().size());
      EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, kEncoder) << "filled again";
    }
  }
}

TEST(Cross, OtherInputsOtherLengthsAndNoEncoderAreOtherContentOfTheDecoder) {
  Decoder d;
  d.cache(hearing(1));
  const auto cached = [&](const kvc_request_config& config) {
    const uint64_t id = d.allocate(config);
    const kvc_request_info info = d.info(id);
    d.free(id);
    return info.num_cached * 100 + info.num_cross_cached;
  };
  EXPECT_EQ(cached(hearing(1)), 8u * 100 + kEncoder);
  EXPECT_EQ(cached(hearing(2)), 0u);
  EXPECT_EQ(cached(hearing(1, kEncoder - 1)), 0u);
  EXPECT_EQ(cached(hearing(1, kEncoder + 1)), 0u) << "of as many blocks";
  kvc_request_config none = hearing(0, 0);
  EXPECT_EQ(cached(none), 0u);
  d.cache(none);
  EXPECT_EQ(cached(none), 8u * 100);
  EXPECT_EQ(cached(hearing(0)), 0u) << "private";
  kvc_request_config blind = hearing(3), silent = hearing(4);
  blind.flags = KVC_REQUEST_NO_READ, silent.flags = KVC_REQUEST_NO_WRITE;
  d.cache(blind), d.cache(silent);
  EXPECT_EQ(cached(blind), 0u);
  EXPECT_EQ(cached(hearing(3)), 8u * 100 + kEncoder);
  EXPECT_EQ(cached(hearing(4)), 0u);
}

TEST(Cross, APrivateRequestReadsAndPublishesNothing) {
  kvc_manager_config shape = {};
  shape.flags = KVC_MANAGER_HINTS;
  Decoder d(shape);
  d.cache(hearing(0));
  EXPECT_EQ(d.stats().blocks_free, 64u);
  kvc_request_config plain = hearing(0, 0);
  d.cache(plain);
  const uint64_t digest = d.digest();
  uint64_t waiting = 0;  // equal tokens, whose prefix is not its own
  const kvc_request_config config = hearing(0);
  d.ok(kvc_manager_create_request(d.m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0), &config,
                                  &waiting));
  d.ok(kvc_manager_end_session(d.m, waiting, 0));
  d.free(waiting);
  EXPECT_EQ(d.digest(), digest) << "the end of a private session demoted what others have cached";
}

TEST(Cross, AKeyOverTheFirstTokenIsRefusedUnlessItIsTheOneThatTheEncoderImplies) {
  Decoder d;
  d.cache(hearing(1));
  uint64_t id = 0;
  EXPECT_EQ(d.try_allocate(hearing(1), &id, prompt(), {key_over(0, 3)}), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(d.stats().live_requests + d.stats().waiting_requests, 0u);
  id = d.allocate(hearing(1), prompt(), {implied_key(hearing(1))});
  EXPECT_EQ(d.info(id).num_cached, 2u * kBlock);
  id = d.allocate(hearing(1), prompt(), {key_over(1, 2)});
  EXPECT_EQ(d.info(id).num_cached, 0u);
  id = d.allocate(hearing(0), prompt(), {key_over(0, 3)});  // private: nothing is bound

  // With that key, a prompt names the decoder's prefix: to probe, to pin.
  const kvc_extra_key key = implied_key(hearing(1));
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  d.ok(kvc_manager_probe(d.m, PROMPT(0, prompt().data(), prompt().size(), &key, 1), &info));
  EXPECT_EQ(info.num_cached, 2u * kBlock);
  d.ok(kvc_manager_probe(d.m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0), &info));
  EXPECT_EQ(info.num_cached, 0u);
  uint64_t pin = 0, pinned = 0;
  d.ok(kvc_manager_pin_prefix(d.m, PROMPT(0, prompt().data(), prompt().size(), &key, 1), &pin, &pinned));
  EXPECT_EQ(pinned, 2u * kBlock);
}

TEST(Cross, AProbeOfAWaitingRequestCountsTheEncoder) {
  Decoder d(with_blocks(8));
  uint64_t id = 0;
  const kvc_request_config config = hearing(1, 5 * kBlock);
  d.ok(
      kvc_manager_create_request(d.m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0), &config, &id));
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  d.ok(kvc_manager_probe_request(d.m, id, &info));
  EXPECT_EQ(info.blocks_needed, 3u + 5u);
  EXPECT_EQ(info.fits, 1u);
  d.ok(kvc_manager_admit_request(d.m, id, nullptr));
}

TEST(Cross, AnAdmissionTakesTheEncodersBlocksWithTheRestOrNothing) {
  Decoder d(with_blocks(6));
  const uint64_t digest = d.digest();
  uint64_t id = 0;
  EXPECT_EQ(d.try_allocate(hearing(1, 4 * kBlock), &id), KVC_ERROR_NEVER_FITS);
  EXPECT_NE(std::string(kvc_last_error()).find("can never get more than 6"), std::string::npos);
  EXPECT_EQ(d.digest(), digest);
  d.allocate(hearing(1, 3 * kBlock));
}

TEST(Cross, ATruncationKeepsTheEncoderAndWhatThePrefixDependsOn) {
  Decoder d;
  const uint64_t a = d.allocate(hearing(1));
  d.commit(a, prompt().size());
  const std::vector<int32_t> before = d.table(a);
  d.ok(kvc_manager_truncate_request(d.m, a, 0));
  EXPECT_EQ(d.table(a), before);
  const std::vector<int32_t> other = tokens_from(700, 2 * kBlock + 1);
  d.ok(kvc_manager_append_tokens(d.m, a, other.data(), other.size()));
  d.commit(a, other.size());
  EXPECT_EQ(d.info(d.allocate(hearing(0, 0), other)).num_cached, 0u) << "found without the encoder";
  EXPECT_EQ(d.info(d.allocate(hearing(1), other)).num_cached, 2u * kBlock);

  uint64_t waiting = 0;  // the same of a request that waits, and of one that begins without a token
  const kvc_request_config config = hearing(1);
  d.ok(kvc_manager_create_request(d.m, PROMPT(0, nullptr, 0, nullptr, 0), &config, &waiting));
  d.ok(kvc_manager_append_tokens(d.m, waiting, other.data(), 3));
  d.ok(kvc_manager_truncate_request(d.m, waiting, 0));
  d.ok(kvc_manager_append_tokens(d.m, waiting, other.data(), other.size()));
  d.ok(kvc_manager_admit_request(d.m, waiting, nullptr));
  EXPECT_EQ(d.info(waiting).num_cached, 2u * kBlock);
}

TEST(Cross, AForkSharesTheEncoderOnceItIsWritten) {
  Decoder d;
  const uint64_t parent = d.allocate(hearing(1));
  uint64_t child = 0;
  EXPECT_EQ(kvc_manager_fork_request(d.m, parent, &child), KVC_ERROR_BUSY) << "both would write the encoder";
  EXPECT_STREQ(kvc_last_error(),
               ("the encoder's " + std::to_string(kEncoder) +
                " tokens of the request are not written yet; compute and commit a token first")
                   .c_str());
  d.commit(parent, 1);
  d.ok(kvc_manager_fork_request(d.m, parent, &child));
  EXPECT_EQ(d.table(child), d.table(parent));
  EXPECT_EQ(d.info(child).num_cross_cached, kEncoder);
  const int32_t withdrawn = d.table(parent)[2];
  EXPECT_EQ(d.block(withdrawn).published, 1u);
  uint64_t count = 0;
  d.ok(kvc_manager_unpublish_blocks(d.m, &withdrawn, 1, &count));
  EXPECT_EQ(count, 1u);
  d.ok(kvc_manager_truncate_request(d.m, child, 0));
  d.ok(kvc_manager_append_tokens(d.m, child, prompt().data(), prompt().size()));
  d.commit(child, prompt().size());
  EXPECT_EQ(d.block(withdrawn).published, 0u) << "a fork has published what was withdrawn";
  EXPECT_EQ(d.info(d.allocate(hearing(0, 0))).num_cached, 0u) << "a fork without tokens lost the encoder";
  for (const uint64_t id : {parent, child}) d.free(id);
}

TEST(Cross, APreemptionGivesTheEncoderBackAndAReadmissionFindsItOrNot) {
  for (const bool evicts : {false, true}) {
    Decoder d;
    const uint64_t id = d.allocate(hearing(1));
    d.commit(id, prompt().size());
    d.ok(kvc_manager_preempt_request(d.m, id));
    EXPECT_EQ(d.info(id).num_blocks, 0u);
    size_t evicted = 0;
    if (evicts) d.ok(kvc_manager_evict_blocks(d.m, -1, 64, &evicted));
    d.ok(kvc_manager_admit_request(d.m, id, nullptr));
    EXPECT_EQ(d.info(id).num_cross_cached, evicts ? 0u : kEncoder);
    d.commit(id, prompt().size());
    EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, kEncoder);
  }
}

TEST(Cross, NamespacesResetsAndQuotasHoldForEncoders) {
  kvc_manager_config shape = {};
  shape.max_quotas = 1;
  Decoder d(shape);
  uint64_t ns = 0;
  kvc_namespace_config config = {};
  config.struct_size = sizeof config, config.tenant = "a", config.tenant_size = 1;
  d.ok(kvc_manager_open_namespace(d.m, &config, &ns));
  d.ok(kvc_manager_set_quota(d.m, ns, 0, 0, 6));
  d.cache(hearing(1));
  uint64_t id = d.allocate(hearing(1), prompt(), {}, ns);
  EXPECT_EQ(d.info(id).num_cross_cached, 0u) << "of another namespace";
  kvc_quota_info quota = {};
  quota.struct_size = sizeof quota;
  d.ok(kvc_manager_quota_info(d.m, ns, 0, &quota));
  EXPECT_EQ(quota.held, 6u);
  uint64_t other = 0;
  EXPECT_EQ(d.try_allocate(hearing(2), &other, prompt(), {}, ns), KVC_ERROR_OVER_QUOTA);
  d.free(id);
  id = d.allocate(hearing(1));
  EXPECT_EQ(d.info(id).num_cross_cached, kEncoder);
  d.ok(kvc_manager_reset_all(d.m));
  EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, 0u);
  d.commit(id, prompt().size());
  d.free(id);
}

TEST(Cross, CompactionAndShrinkingMoveEncoders) {
  Decoder d(with_blocks(32));
  const uint64_t first = d.allocate(hearing(1)), second = d.allocate(hearing(2));
  d.commit(second, prompt().size());
  d.free(first);
  const std::vector<int32_t> before = d.table(second);
  kvc_block_copy moves[32];
  size_t count = 0;
  d.ok(kvc_manager_compact(d.m, 0, moves, 32, &count));
  EXPECT_GT(count, 0u);
  EXPECT_NE(d.table(second), before);
  EXPECT_EQ(d.table(d.allocate(hearing(2))), d.table(second)) << "found where they have gone";
}

TEST(Cross, ExternalHoldersHaveNoPrefixesOfACrossGroup) {
  Decoder d;
  int32_t blocks[3];
  d.ok(kvc_manager_acquire_blocks(d.m, 1, blocks, 3));
  const auto* of_prompt = prompt().data();
  EXPECT_EQ(kvc_manager_publish_blocks(d.m, PROMPT(0, of_prompt, 8, nullptr, 0), 1, blocks, 2),
            KVC_ERROR_UNSUPPORTED);
  size_t count = 0;
  EXPECT_EQ(kvc_manager_acquire_prefix(d.m, PROMPT(0, of_prompt, 8, nullptr, 0), 1, blocks, 3, &count),
            KVC_ERROR_UNSUPPORTED);
  d.ok(kvc_manager_release_blocks(d.m, blocks, 3));
}

TEST(Cross, EventsTellOfEncodersByTheirGroup) {
  kvc_manager_config shape = {};
  shape.event_capacity = 64;
  Decoder d(shape);
  const uint64_t a = d.allocate(hearing(1));
  d.commit(a, 1);
  kvc_event events[8];
  int32_t tokens[8 * kBlock];
  uint64_t cursor = 0;
  size_t count = 0;
  d.ok(poll_events(d.m, &cursor, events, sizeof events[0], 8, &count, tokens, 8 * kBlock));
  ASSERT_EQ(count, 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].group, 1u);
    EXPECT_EQ(events[i].token_offset, i * kBlock);
    EXPECT_EQ(events[i].block, d.table(a)[i]);
    EXPECT_EQ(tokens[i * kBlock], -1) << "of no vocabulary";
  }
}

// A cached encoder is no fragment: it has blocks in all groups that it needs.
TEST(Cross, FragmentsAreTheBlocksOfEncodersThatLackOthers) {
  kvc_manager_config shape = {};
  shape.policy = KVC_POLICY_FRAGMENTATION, shape.policy_weight = 1;
  Decoder d(shape, 2);
  d.cache(hearing(1));
  const uint64_t a = d.allocate(hearing(2), tokens_from(100, 1));
  d.commit(a, 1);
  const int32_t missing = d.table(a, 1)[2], left = d.table(a, 2)[2];
  d.free(a);
  uint64_t count = 0;
  size_t evicted = 0;
  d.ok(kvc_manager_unpublish_blocks(d.m, &missing, 1, &count));
  d.ok(kvc_manager_evict_blocks(d.m, -1, 1, &evicted));
  EXPECT_EQ(d.block(left).state, KVC_BLOCK_FREE) << "the fragment is newer, and leaves first";
  EXPECT_EQ(d.info(d.allocate(hearing(1))).num_cross_cached, kEncoder);
}

TEST(Cross, ManagersThatCannotBeAreRefused) {
  const auto refused = [](std::vector<kvc_group_config> groups) {
    kvc_manager_config config = {};
    config.struct_size = sizeof config, config.num_blocks = 16, config.block_size = kBlock;
    config.groups = groups.data(), config.num_groups = groups.size();
    kvc_manager* m = nullptr;
    const kvc_status status = kvc_manager_create(&config, &m);
    EXPECT_EQ(status, KVC_ERROR_INVALID_ARGUMENT);
    return std::string(kvc_last_error());
  };
  EXPECT_NE(refused({cross_group()}).find("group 0 is a cross group"), std::string::npos);
  EXPECT_NE(refused({full_group(), cross_group(), window_group(8)}).find("behind a cross group"),
            std::string::npos);
  for (uint64_t kvc_group_config::*field :
       {&kvc_group_config::window_tokens, &kvc_group_config::retention_tokens,
        &kvc_group_config::chunk_tokens}) {
    kvc_group_config group = cross_group();
    group.*field = kBlock;
    refused({full_group(), group});
  }
  kvc_group_config group = cross_group();
  group.num_sink_tokens = 1;
  refused({full_group(), group});
}

TEST(Cross, OptionsThatCannotBeAreRefused) {
  Decoder d({}, 0);
  uint64_t id = 0;
  EXPECT_EQ(d.try_allocate(hearing(1), &id), KVC_ERROR_UNSUPPORTED) << "no cross group";
  Decoder with;
  EXPECT_EQ(with.try_allocate(hearing(1, 0), &id), KVC_ERROR_INVALID_ARGUMENT) << "a digest of nothing";
  EXPECT_EQ(with.try_allocate(hearing(1, (1u << 24) + 1), &id), KVC_ERROR_INVALID_ARGUMENT);
  kvc_rebuild rebuild = {};
  rebuild.struct_size = sizeof rebuild;
  kvc_manager_config config = {};
  config.struct_size = sizeof config, config.num_blocks = 16;
  kvc_manager* rebuilt = nullptr;
  EXPECT_EQ(kvc_manager_rebuild(with.m, &config, &rebuild, &rebuilt), KVC_ERROR_UNSUPPORTED);
}

}  // namespace
}  // namespace kvc::test
