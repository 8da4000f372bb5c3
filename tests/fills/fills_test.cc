// SPDX-License-Identifier: Apache-2.0
// Fills: who computes, shares and waits for equal tokens, and what happens if a step fails. Random sequences
// are compared with a model in tests/property.
#include <kvcache/fills.h>
#include <kvcache/prefix.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>

#include "base/counting_heap.h"
#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc::test {
namespace {

constexpr uint32_t kBlock = 4;
constexpr uint32_t kBoth = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;

kvc_manager_config following() {
  kvc_manager_config config = {};
  config.num_blocks = 256, config.block_size = kBlock, config.max_requests = 32;
  config.flags = KVC_MANAGER_FILLS;
  return config;
}

kvc_request_config options(uint32_t flags = kBoth, uint64_t wait_until_ns = 1000, uint64_t slots = 0) {
  kvc_request_config config = {};
  config.struct_size = sizeof config, config.flags = flags, config.slots = slots;
  config.wait_until_ns = wait_until_ns;
  return config;
}

// Ten blocks, of which a hit may have all, and three tokens.
const std::vector<int32_t>& prompt() {
  static const std::vector<int32_t> tokens = tokens_from(1, 10 * kBlock + 3);
  return tokens;
}

// An engine that runs steps of its own arrays.
class Engine {
 public:
  explicit Engine(const kvc_manager_config& config = following()) : of_(config), m(of_.m) {}

  struct Admitted {
    kvc_status status;
    uint64_t id, cached;
  };
  // Admits new requests with the prompt, and waiting ones.
  std::vector<Admitted> admit(const std::vector<kvc_request_config>& new_ones,
                              const std::vector<uint64_t>& waiting = {}) {
    const size_t count = new_ones.size() + waiting.size();
    std::vector<uint64_t> ids(new_ones.size()), offsets{0}, admitted(count), cached(count);
    ids.insert(ids.end(), waiting.begin(), waiting.end());
    std::vector<int32_t> tokens;
    std::vector<kvc_request_config> configs = new_ones;
    for (size_t i = 0; i < count; ++i) {
      if (i < new_ones.size()) tokens.insert(tokens.end(), prompt().begin(), prompt().end());
      offsets.push_back(tokens.size());
      if (i >= new_ones.size()) configs.push_back(options(0, 0));
    }
    std::vector<kvc_status> status(count);
    step_ = {};
    step_.num_admissions = count, step_.admit_requests = ids.data(), step_.admit_offsets = offsets.data();
    step_.admit_tokens = tokens.data(), step_.admit_configs = configs.data();
    step_.admitted = admitted.data(), step_.cached = cached.data(), step_.status = status.data();
    run();
    std::vector<Admitted> out;
    for (size_t i = 0; i < count; ++i) out.push_back({status[i], admitted[i], cached[i]});
    return out;
  }
  Admitted admit(const kvc_request_config& config) { return admit(std::vector{config})[0]; }
  // Commits what the last chunk computed, and gives the next one slots.
  void chunk(uint64_t id, uint64_t committed, uint64_t count) {
    const uint64_t offsets[] = {0, count};
    kvc_status status = -1;
    step_ = {};
    step_.num_requests = 1, step_.requests = &id, step_.committed = &committed;
    step_.extend_offsets = offsets, step_.status = &status;
    step_.copies = copies_, step_.copy_capacity = std::size(copies_);
    run();
    EXPECT_EQ(status, KVC_OK) << kvc_last_error();
  }
  void retire() { EXPECT_EQ(kvc_manager_retire_step(m, step_.step_id), KVC_OK); }
  void commit(uint64_t id, uint64_t count) {
    EXPECT_EQ(kvc_manager_commit_tokens(m, id, count), KVC_OK) << kvc_last_error();
  }
  // The preempted requests.
  std::vector<uint64_t> fail(uint64_t step_id) {
    std::vector<uint64_t> ids(32);
    size_t count = 0;
    EXPECT_EQ(kvc_manager_fail_step(m, step_id, ids.data(), ids.size(), &count), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
    ids.resize(count);
    return ids;
  }
  // What a request finds that does not share.
  uint64_t findable() const {
    kvc_probe_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_probe(m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0), &info), KVC_OK);
    return info.num_cached;
  }
  kvc_stats stats() const {
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_manager_read_stats(m, &stats), KVC_OK);
    return stats;
  }
  uint64_t digest() const {
    uint64_t digest = 0;
    EXPECT_EQ(kvc_manager_digest(m, &digest), KVC_OK);
    return digest;
  }
  uint64_t step_id() const { return step_.step_id; }
  size_t num_refused() const { return step_.num_refused; }

  uint64_t now = 1;

 private:
  void run() {
    step_.struct_size = sizeof step_, step_.now_ns = now;
    ASSERT_EQ(kvc_manager_step(m, &step_), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  }

  ManagerOf of_;
  kvc_step step_ = {};
  kvc_block_copy copies_[2];

 public:
  kvc_manager* const m;
};

TEST(Fills, SamplesOfOnePromptAreOnePrefill) {
  Engine engine;
  const auto samples = engine.admit(std::vector(8, options()));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(samples[i].status, KVC_OK);
    EXPECT_EQ(samples[i].cached, i == 0 ? 0u : 10 * kBlock) << i;
  }
  EXPECT_EQ(engine.stats().filling_hits, 70u);
  EXPECT_EQ(engine.stats().blocks_filling, 10u);
  EXPECT_EQ(engine.stats().blocks_reserved, 8u) << "the last block of each";
}

TEST(Fills, ByDefaultEachRequestComputes) {
  Engine engine;
  for (const auto& sample : engine.admit(std::vector(8, options(0, 0)))) EXPECT_EQ(sample.cached, 0u);
  EXPECT_EQ(engine.stats().blocks_filling, 0u);
  EXPECT_EQ(engine.stats().filling_waits, 0u);
}

TEST(Fills, OthersWaitForTheLastChunk) {
  Engine engine;
  auto samples = engine.admit(std::vector(3, options(kBoth, 1000, 20)));
  EXPECT_EQ(samples[0].status, KVC_OK);
  EXPECT_EQ(samples[1].status, KVC_ERROR_FILLING);
  EXPECT_EQ(samples[1].id, 0u);
  EXPECT_EQ(samples[2].status, KVC_ERROR_FILLING) << "a wait does not stop later admissions";
  EXPECT_EQ(engine.num_refused(), 2u);
  EXPECT_EQ(engine.stats().filling_waits, 2u);
  EXPECT_EQ(engine.admit(options(KVC_REQUEST_SHARE_FILLING, 0, 20)).cached, 20u)
      << "who does not wait shares what is there";
  engine.chunk(samples[0].id, 20, 23);
  samples = engine.admit(std::vector(2, options(kBoth, 1000, 20)));
  for (const auto& sample : samples) EXPECT_EQ(sample.cached, 10 * kBlock);
}

TEST(Fills, AWaitNamesTheOtherRequestAndTakesNothing) {
  Engine engine;
  const uint64_t first = engine.admit(options(0, 0)).id;
  uint64_t waiting = 0;
  const kvc_request_config config = options(0, 1000);
  ASSERT_EQ(kvc_manager_create_request(engine.m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0),
                                       &config, &waiting),
            KVC_OK);
  const uint64_t before = engine.digest();
  EXPECT_EQ(kvc_manager_admit_request(engine.m, waiting, nullptr), KVC_ERROR_FILLING);
  EXPECT_NE(std::string(kvc_last_error()).find("request " + std::to_string(first) + " computes token 0"),
            std::string::npos)
      << kvc_last_error();
  EXPECT_EQ(engine.digest(), before);
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_probe_request(engine.m, waiting, &info), KVC_OK);
  EXPECT_EQ(info.filling_request, first);
  engine.commit(first, 20);
  EXPECT_EQ(kvc_manager_admit_request(engine.m, waiting, nullptr), KVC_ERROR_FILLING);
  engine.commit(first, prompt().size());
  EXPECT_EQ(kvc_manager_probe_request(engine.m, waiting, &info), KVC_OK);
  EXPECT_EQ(info.filling_request, 0u);
  uint64_t cached = 0;
  EXPECT_EQ(kvc_manager_admit_request(engine.m, waiting, &cached), KVC_OK);
  EXPECT_EQ(cached, 10 * kBlock);
}

TEST(Fills, NobodyWaitsBeyondItsDeadline) {
  Engine engine;
  ASSERT_EQ(engine.admit(options(0, 0)).status, KVC_OK);
  engine.now = 999;
  EXPECT_EQ(engine.admit(options()).status, KVC_ERROR_FILLING);
  engine.now = 1000;
  const auto late = engine.admit(options());
  EXPECT_EQ(late.status, KVC_OK);
  EXPECT_EQ(late.cached, 0u);
}

TEST(Fills, WithoutATimeAWaitIsRefused) {
  Engine engine;
  engine.now = 0;
  EXPECT_EQ(engine.admit(options()).status, KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(engine.admit(options(kBoth, 0)).status, KVC_OK);
  EXPECT_EQ(kvc_manager_set_time(engine.m, 5), KVC_OK);
  EXPECT_EQ(engine.admit(options(kBoth, 5)).status, KVC_OK);
}

// Whatever ends a fill hands it on to the next admission.
TEST(Fills, AnEndedFillIsHandedOn) {
  for (const int how : {0, 1, 2, 3}) {
    Engine engine;
    const uint64_t first = engine.admit(options(0, 0, 20)).id;
    engine.commit(first, 8);
    EXPECT_EQ(engine.admit(options(0)).status, KVC_ERROR_FILLING);
    if (how == 0) {
      EXPECT_EQ(kvc_manager_free_request(engine.m, first), KVC_OK);
    }
    if (how == 1) {
      EXPECT_EQ(kvc_manager_preempt_request(engine.m, first), KVC_OK);
    }
    if (how == 2) {
      EXPECT_EQ(kvc_manager_truncate_request(engine.m, first, 8), KVC_OK);
    }
    if (how == 3) {
      EXPECT_EQ(kvc_manager_reset_all(engine.m), KVC_OK);
    }
    engine.retire();
    const auto next = engine.admit(options(0));
    EXPECT_EQ(next.status, KVC_OK) << how;
    EXPECT_EQ(next.cached, how == 3 ? 0u : 8u) << how;
    if (how != 3) {
      EXPECT_EQ(engine.admit(options(0)).status, KVC_ERROR_FILLING) << "which fills now";
    }
  }
}

TEST(Fills, OnlySharersFindWhatAStepWrites) {
  for (const int how : {0, 1, 2}) {
    Engine engine;
    const uint64_t first = engine.admit(options()).id;
    EXPECT_EQ(engine.findable(), 0u);
    EXPECT_EQ(engine.admit(options(0)).status, KVC_ERROR_FILLING);
    const auto sharer = engine.admit(options());
    EXPECT_EQ(sharer.cached, 10 * kBlock);
    engine.commit(sharer.id, sharer.cached);
    EXPECT_EQ(engine.findable(), 0u) << "it has computed nothing of its own";
    if (how == 0) engine.retire();
    if (how == 1) engine.commit(first, prompt().size());
    if (how == 2) engine.commit(sharer.id, prompt().size());
    EXPECT_EQ(engine.findable(), 10 * kBlock) << how;
    EXPECT_EQ(engine.stats().blocks_filling, 0u) << how;
  }
}

TEST(Fills, ABlockOfAnEndedRequestIsWrittenWhenItsStepIsRetired) {
  Engine engine;
  const uint64_t first = engine.admit(options()).id;
  EXPECT_EQ(kvc_manager_free_request(engine.m, first), KVC_OK);
  EXPECT_EQ(engine.stats().blocks_fenced, 11u);
  EXPECT_EQ(engine.findable(), 0u);
  EXPECT_EQ(engine.admit(options()).cached, 10 * kBlock);
  EXPECT_EQ(engine.stats().blocks_filling, 10u) << "they fill again";
  engine.retire();
  EXPECT_EQ(engine.findable(), 10 * kBlock);
}

TEST(Fills, SingleCallsPublishByCommits) {
  Engine engine;
  const kvc_request_config config = options();
  uint64_t id = 0;
  EXPECT_EQ(kvc_manager_set_time(engine.m, 1), KVC_OK);
  ASSERT_EQ(kvc_manager_allocate_request(engine.m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0),
                                         &config, &id, nullptr),
            KVC_OK);
  EXPECT_EQ(engine.stats().blocks_filling, 0u);
  EXPECT_EQ(engine.admit(options()).status, KVC_ERROR_FILLING);
}

TEST(Fills, WhatATransferFillsIsNotPublishedBeforeItsCommit) {
  Engine engine;
  kvc_request_config config = options();
  config.external_tokens = 20;
  const uint64_t first = engine.admit(config).id;
  EXPECT_EQ(engine.stats().blocks_filling, 0u);
  EXPECT_EQ(engine.admit(options()).status, KVC_ERROR_FILLING);
  engine.commit(first, 20);
  EXPECT_EQ(engine.findable(), 20u);
}

TEST(Fills, AFailedStepPreemptsWhoHoldsItsBlocks) {
  Engine engine;
  const uint64_t first = engine.admit(options(kBoth, 1000, 20)).id;
  engine.retire();
  engine.chunk(first, 20, 23);
  const uint64_t failed = engine.step_id();
  const auto sharer = engine.admit(options());
  EXPECT_EQ(sharer.cached, 10 * kBlock);
  const uint64_t apart = engine.admit(options(0, 0)).id;
  EXPECT_EQ(engine.fail(failed), (std::vector<uint64_t>{first, sharer.id}));
  EXPECT_EQ(engine.stats().blocks_filling, 0u);
  EXPECT_EQ(engine.stats().preemptions, 2u);
  EXPECT_EQ(engine.findable(), 20u) << "what was committed stays";
  engine.commit(apart, prompt().size());
  engine.retire();
  EXPECT_EQ(engine.findable(), 10 * kBlock) << "who did not share goes on";
  const auto again = engine.admit({}, {first, sharer.id});
  for (const auto& request : again) EXPECT_EQ(request.cached, 10 * kBlock);
}

TEST(Fills, AFailureTakesBackBlocksOfEndedRequests) {
  Engine engine;
  const uint64_t first = engine.admit(options()).id;
  EXPECT_EQ(kvc_manager_free_request(engine.m, first), KVC_OK);
  EXPECT_TRUE(engine.fail(engine.step_id()).empty());
  EXPECT_EQ(engine.admit(options()).cached, 0u);
  engine.retire();
  EXPECT_EQ(engine.findable(), 10 * kBlock) << "of the second request";
}

TEST(Fills, AFailureIsRefusedWithTheReason) {
  Engine engine;
  engine.admit(std::vector(3, options()));
  uint64_t ids[3] = {};
  size_t count = 77;
  const uint64_t before = engine.digest();
  const auto fail = [&](uint64_t step, size_t capacity) {
    return kvc_manager_fail_step(engine.m, step, ids, capacity, &count);
  };
  EXPECT_EQ(fail(0, 3), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fail(2, 3), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("step 2 is not in flight"), std::string::npos);
  EXPECT_EQ(fail(1, 2), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(engine.digest(), before);
  engine.retire();
  EXPECT_EQ(fail(1, 3), KVC_ERROR_INVALID_ARGUMENT);

  kvc_manager_config config = following();
  config.flags = 0;
  const ManagerOf plain(config);
  EXPECT_EQ(kvc_manager_fail_step(plain.m, 1, ids, 3, &count), KVC_ERROR_UNSUPPORTED);
  uint64_t id = 0;
  for (const kvc_request_config& wrong : {options(16, 0), options(32, 0), options(0, 1)}) {
    EXPECT_EQ(kvc_manager_create_request(plain.m, PROMPT(0, prompt().data(), prompt().size(), nullptr, 0),
                                         &wrong, &id),
              KVC_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(kvc_last_error()).find("KVC_MANAGER_FILLS"), std::string::npos) << kvc_last_error();
  }
}

TEST(Fills, WithoutMemoryAFailureChangesNothing) {
  CountingHeap heap;
  kvc_manager_config config = following();
  config.struct_size = sizeof config, config.num_blocks = 60000, config.seed = 1;
  kvc_manager* m = nullptr;
  ASSERT_EQ(create_manager(&config, heap.env(), &m), KVC_OK);
  const std::vector<int32_t> tokens = tokens_from(0, 200000);
  const uint64_t offsets[] = {0, tokens.size()};
  const kvc_request_config both = options(kBoth, 0);
  kvc_status status = -1;
  uint64_t id = 0, cached = 0, before = 0, after = 0;
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.num_admissions = 1, step.admit_offsets = offsets, step.admit_tokens = tokens.data();
  step.admit_configs = &both, step.status = &status, step.admitted = &id, step.cached = &cached;
  ASSERT_EQ(kvc_manager_step(m, &step), KVC_OK);
  uint64_t waiting = 0;  // takes the memory that the first one does not need any more
  ASSERT_EQ(
      kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr, &waiting),
      KVC_OK);
  ASSERT_EQ(kvc_manager_digest(m, &before), KVC_OK);
  size_t count = 0;
  uint64_t ids[32];
  kvc_status result = KVC_ERROR_OUT_OF_MEMORY;
  int failures = 0;
  for (uint64_t k = 0; k < 16 && result != KVC_OK; ++k) {
    heap.fail_after(k);
    result = kvc_manager_fail_step(m, 1, ids, 32, &count);
    if (result == KVC_OK) break;
    ++failures;
    EXPECT_EQ(result, KVC_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(kvc_manager_digest(m, &after), KVC_OK);
    EXPECT_EQ(after, before);
    EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  }
  EXPECT_EQ(result, KVC_OK);
  EXPECT_GT(failures, 0);
  kvc_manager_destroy(m);
}

// A fork that is preempted comes back in chunks, as its parent does.
TEST(Fills, ForksAreAdmittedAgainInChunks) {
  Engine engine;
  const uint64_t first = engine.admit(options(kBoth, 0, 8)).id;
  engine.chunk(first, 8, 35);
  engine.commit(first, prompt().size());
  uint64_t fork = 0;
  ASSERT_EQ(kvc_manager_fork_request(engine.m, first, &fork), KVC_OK);
  for (const uint64_t id : {fork, first}) {
    ASSERT_EQ(kvc_manager_preempt_request(engine.m, id), KVC_OK);
  }
  ASSERT_EQ(kvc_manager_reset_all(engine.m), KVC_OK);
  ASSERT_EQ(kvc_manager_admit_request(engine.m, fork, nullptr), KVC_OK);
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_request_info(engine.m, fork, &info), KVC_OK);
  EXPECT_EQ(info.capacity, 8u);
}

// A fork of a request whose next chunk is enqueued has what is committed.
TEST(Fills, AForkHasTheCommittedPart) {
  Engine engine;
  const uint64_t first = engine.admit(options(kBoth, 0, 8)).id;
  engine.chunk(first, 6, 35);
  uint64_t fork = 0;
  ASSERT_EQ(kvc_manager_fork_request(engine.m, first, &fork), KVC_OK);
  EXPECT_EQ(kvc_manager_check(engine.m), KVC_OK) << kvc_last_error();
  const int32_t token = 3;
  EXPECT_EQ(kvc_manager_append_tokens(engine.m, fork, &token, 1), KVC_OK) << kvc_last_error();
  EXPECT_EQ(engine.stats().copies, 1u);
  EXPECT_EQ(kvc_manager_check(engine.m), KVC_OK) << kvc_last_error();
}

// What a step writes is not there before it, also not in a copy, for a chunk that was computed earlier, or
// because a transfer is over.
TEST(Fills, ACopyOfWhatAStepWritesFailsWithTheStep) {
  Engine engine;
  const uint64_t first = engine.admit(options()).id;
  const auto sharer = engine.admit(options());
  ASSERT_EQ(kvc_manager_truncate_request(engine.m, sharer.id, 2), KVC_OK);
  const int32_t tokens[] = {7, 7, 7, 7};
  ASSERT_EQ(kvc_manager_append_tokens(engine.m, sharer.id, tokens, 4), KVC_OK);
  EXPECT_EQ(engine.stats().copies, 1u);
  EXPECT_EQ(engine.stats().blocks_filling, 11u) << "the copy too";
  EXPECT_EQ(engine.fail(1), (std::vector<uint64_t>{first, sharer.id}));
}

TEST(Fills, AnEarlierChunkDoesNotWriteABlockThatIsShared) {
  Engine engine;
  const uint64_t first = engine.admit(options(kBoth, 1000, 6)).id;
  engine.chunk(first, 0, 37);
  const uint64_t second_chunk = engine.step_id();
  const auto sharer = engine.admit(options());
  EXPECT_EQ(sharer.cached, 10 * kBlock);
  ASSERT_EQ(kvc_manager_truncate_request(engine.m, first, 7), KVC_OK);
  engine.commit(first, 6);  // the first chunk
  EXPECT_EQ(engine.findable(), 4u);
  EXPECT_EQ(engine.fail(second_chunk), (std::vector<uint64_t>{first, sharer.id}));
  EXPECT_EQ(engine.findable(), 4u);
}

// Groups need not fill the same blocks of a position: the one that a request shares has ended FILLING in the
// full group, and its window does not hold the position any more.
TEST(Fills, APartIsWrittenInTheGroupsThatDoNotFillIt) {
  kvc_group_config groups[2] = {};
  groups[0].struct_size = groups[1].struct_size = sizeof groups[0];
  groups[1].kind = KVC_GROUP_SLIDING_WINDOW, groups[1].window_tokens = kBlock;
  kvc_manager_config config = following();
  config.groups = groups, config.num_groups = 2;
  Engine engine(config);
  const uint64_t first = engine.admit(options(kBoth, 0)).id, sharer = engine.admit(options(kBoth, 0)).id;
  ASSERT_EQ(kvc_manager_truncate_request(engine.m, first, 2), KVC_OK);
  engine.commit(sharer, prompt().size());
  const uint64_t before = engine.stats().blocks_filling;
  EXPECT_EQ(before, 1u) << "the window's block of the first position";
  engine.chunk(first, 0, 1);
  EXPECT_EQ(engine.stats().copies, 2u);
  EXPECT_EQ(engine.stats().blocks_filling, 1u) << "its copy";
  engine.commit(first, 2);
  EXPECT_EQ(kvc_manager_check(engine.m), KVC_OK) << kvc_last_error();
  EXPECT_EQ(engine.stats().blocks_reserved, 0u);
  EXPECT_EQ(engine.fail(1), std::vector<uint64_t>{first});
}

TEST(Fills, ATransferSaysNothingOfTheHit) {
  Engine engine;
  const uint64_t first = engine.admit(options(kBoth, 1000, 20)).id;
  kvc_request_config config = options(KVC_REQUEST_SHARE_FILLING, 0);
  config.external_tokens = 12;
  const auto sharer = engine.admit(config);
  EXPECT_EQ(sharer.cached, 20u);
  engine.commit(sharer.id, 32);
  EXPECT_EQ(engine.findable(), 0u);
  EXPECT_EQ(engine.fail(1), (std::vector<uint64_t>{first, sharer.id}));
}

TEST(Fills, OnlySlotsOfStepsAreEnqueued) {
  Engine engine;
  const uint64_t first = engine.admit(options(kBoth, 1000, 8)).id;
  EXPECT_EQ(engine.stats().blocks_filling, 2u);
  ASSERT_EQ(kvc_manager_reserve_tokens(engine.m, first, 40), KVC_OK);
  engine.chunk(first, 8, 1);
  EXPECT_EQ(engine.stats().blocks_filling, 0u) << "nobody has said who computes what was reserved";
  engine.commit(first, prompt().size() - 3);
  EXPECT_EQ(engine.findable(), 10 * kBlock);
}

TEST(Fills, HeadroomIsNotEnqueued) {
  kvc_manager_config config = following();
  config.flags |= KVC_MANAGER_HEADROOM;
  Engine engine(config);
  const uint64_t before = engine.admit(options(0, 0)).id;  // its length is remembered
  const int32_t tokens[] = {5, 5, 5, 5};
  ASSERT_EQ(kvc_manager_append_tokens(engine.m, before, tokens, 4), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(engine.m, before), KVC_OK);
  kvc_request_config with_headroom = options(kBoth, 0, 8);
  with_headroom.headroom = KVC_HEADROOM_BALANCED;
  EXPECT_EQ(engine.admit(with_headroom).status, KVC_OK);
  EXPECT_EQ(engine.stats().blocks_filling, 2u);
}

// Requests with other extra keys compute other content.
// What was truncated out of a block that a step writes for others too is not called something else.
TEST(Fills, AKeyThatComesLaterSaysNothingOfWhatOthersShare) {
  for (const bool shared : {true, false}) {
    Engine engine;
    const Engine::Admitted own = engine.admit(options(kBoth, 0));
    if (shared) {
      EXPECT_EQ(engine.admit(options(kBoth, 0)).cached, 10 * kBlock);
    }
    ASSERT_EQ(kvc_manager_truncate_request(engine.m, own.id, 10 * kBlock - 1), KVC_OK) << kvc_last_error();
    const auto add = [&](uint64_t first) {
      const kvc_extra_key key = key_over(first, 8);
      return kvc_manager_add_keys(engine.m, own.id, &key, 1);
    };
    const kvc_status answer = shared ? KVC_ERROR_INVALID_ARGUMENT : KVC_OK;
    EXPECT_EQ(add(9 * kBlock), answer);
    EXPECT_EQ(add(10 * kBlock - 2), answer);
    EXPECT_EQ(add(10 * kBlock - 1), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_manager_check(engine.m), KVC_OK) << kvc_last_error();
  }
}

TEST(Fills, ExtraKeysTellFillsApart) {
  Engine engine;
  kvc_extra_key key = {};
  key.first_token = 1, key.num_tokens = 2, key.digest[0] = 1;
  uint64_t id = 0;
  EXPECT_EQ(kvc_manager_set_time(engine.m, 1), KVC_OK);
  const kvc_request_config wait = options(0);
  ASSERT_EQ(kvc_manager_allocate_request(engine.m, PROMPT(0, prompt().data(), prompt().size(), &key, 1),
                                         &wait, &id, nullptr),
            KVC_OK);
  EXPECT_EQ(kvc_manager_allocate_request(engine.m, PROMPT(0, prompt().data(), prompt().size(), &key, 1),
                                         &wait, &id, nullptr),
            KVC_ERROR_FILLING);
  key.digest[0] = 2;
  EXPECT_EQ(kvc_manager_allocate_request(engine.m, PROMPT(0, prompt().data(), prompt().size(), &key, 1),
                                         &wait, &id, nullptr),
            KVC_OK);
}

}  // namespace
}  // namespace kvc::test
