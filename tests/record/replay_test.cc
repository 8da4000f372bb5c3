// SPDX-License-Identifier: Apache-2.0
// What a log has, and what it does not have.
#include <kvcache.h>

#include <thread>

#include "record/recorded_manager.h"

namespace kvc {
namespace {

TEST(Record, ReplaysTheSameCallsToTheSameState) {
  RecordedManager recorded;
  const uint64_t first = recorded.serve(0);
  recorded.serve(0);
  uint64_t child = 0;
  EXPECT_EQ(kvc_manager_fork_request(recorded.m, first, &child), KVC_OK);
  EXPECT_EQ(kvc_manager_free_request(recorded.m, first), KVC_OK);
  const uint64_t digest = recorded.digest();
  const Replayed replayed = replay(recorded.take());
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
  EXPECT_EQ(replayed.info.calls, 7u);
  EXPECT_EQ(replayed.info.digest, digest);
  EXPECT_EQ(replayed.info.library_version, kvc_version());
  EXPECT_EQ(replayed.info.lost_calls, 0u);
}

TEST(Record, ALogMayBeTakenInParts) {
  RecordedManager recorded;
  Log log = recorded.take();  // the configuration alone
  EXPECT_EQ(replay(log).info.calls, 0u);
  recorded.serve(0);
  const Log second = recorded.take();
  log = joined(log, second);
  EXPECT_EQ(replay(log).info.calls, 2u);  // a log may end after any part
  recorded.serve(7);
  log = joined(log, recorded.take());
  const Replayed replayed = replay(log);
  EXPECT_EQ(replayed.info.calls, 4u);
  EXPECT_EQ(replayed.info.digest, recorded.digest());
  recorded.take();
  EXPECT_TRUE(recorded.take().empty());  // nothing new
  EXPECT_EQ(recorded.info().bytes, 0u);
}

TEST(Record, HasCallsThatFailed) {
  RecordedManager recorded;
  RecordedManager other;
  const uint64_t id = recorded.serve(0), foreign = other.serve(0);
  EXPECT_EQ(kvc_manager_commit_tokens(recorded.m, id, 3), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_free_request(recorded.m, foreign), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_manager_free_request(recorded.m, id), KVC_OK);
  EXPECT_EQ(kvc_manager_free_request(recorded.m, id), KVC_ERROR_NOT_FOUND);  // stale
  EXPECT_EQ(kvc_manager_unpin_prefix(recorded.m, 0), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(recorded.info().calls, 7u);
  const Replayed replayed = replay(recorded.take());
  EXPECT_EQ(replayed.info.calls, 7u);
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
  EXPECT_EQ(replayed.info.digest, recorded.digest());
}

TEST(Record, LeavesOutCallsThatNobodyCanRepeat) {
  RecordedManager recorded;
  size_t count = 0;
  int32_t block = 0;
  uint64_t id = 0;
  kvc_prompt prompt = {};
  EXPECT_EQ(kvc_manager_create_request(recorded.m, nullptr, nullptr, &id), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_create_request(recorded.m, &prompt, nullptr, &id), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(kvc_manager_create_request(recorded.m, PROMPT(0, &block, SIZE_MAX, nullptr, 0), nullptr, &id),
            KVC_OK);
  EXPECT_EQ(kvc_manager_release_blocks(recorded.m, nullptr, 3), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_step(recorded.m, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  recorded.serve(0);
  int32_t tokens[8];
  for (int32_t i = 0; i < 8; ++i) tokens[i] = i;
  EXPECT_EQ(kvc_manager_acquire_prefix(recorded.m, PROMPT(0, tokens, 8, nullptr, 0), 0, &block, 1, &count),
            KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(recorded.info().calls, 2u);
  EXPECT_EQ(recorded.info().lost_calls, 0u);
  EXPECT_EQ(replay(recorded.take()).info.digest, recorded.digest());
}

TEST(Record, SaysWhatAFailedCallSays) {
  RecordedManager recorded;
  EXPECT_EQ(kvc_manager_free_request(recorded.m, 77), KVC_ERROR_NOT_FOUND);
  const std::string text = kvc_last_error();
  kvc_manager_config config = recorded_config(0);
  RecordedManager plain(config);
  EXPECT_EQ(kvc_manager_free_request(plain.m, 77), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(text, kvc_last_error());
}

// Ids that are nobody's, in two places of a step: those of another manager, and stale ones. Different ones
// must not share a row; one may have its row twice.
TEST(Record, IdsThatAreNobodysStayDifferent) {
  const int32_t tokens[] = {1, 2, 3};
  const auto make = [&](kvc_manager* m) {
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_create_request(m, PROMPT(0, tokens, 3, nullptr, 0), nullptr, &id), KVC_OK);
    return id;
  };
  for (const int which : {0, 1, 2}) {
    RecordedManager recorded, other(recorded_config(0));
    kvc_manager* const of = which == 0 ? other.m : recorded.m;
    uint64_t ids[] = {make(of), make(of)}, admitted[2], cached[2];
    if (which == 1) {
      for (const uint64_t id : ids) EXPECT_EQ(kvc_manager_free_request(of, id), KVC_OK);
      make(of), make(of);  // in their places
    }
    if (which == 2) ids[0] = ids[1] = other.serve(0);
    int32_t table[2 * 16];
    const int32_t rows[] = {0, 0};
    kvc_status status[2];
    kvc_step step = {};
    step.struct_size = sizeof step;
    step.num_admissions = 2, step.admit_requests = ids, step.rows = rows, step.num_rows = 2;
    step.row_stride = 16, step.block_tables = table, step.status = status;
    step.admitted = admitted, step.cached = cached;
    EXPECT_EQ(kvc_manager_step(recorded.m, &step), which == 2 ? KVC_OK : KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(kvc_manager_retire_step(recorded.m, 1), which == 2 ? KVC_OK : KVC_ERROR_INVALID_ARGUMENT);
    const Replayed replayed = replay(recorded.take());
    EXPECT_EQ(replayed.status, KVC_OK) << kvc_last_error();
    EXPECT_EQ(replayed.info.mismatches, 0u) << which << ": " << replayed.info.text;
    EXPECT_EQ(replayed.info.digest, recorded.digest());
  }
}

// An id that the step itself makes, and that the caller foresaw.
TEST(Record, AnInventedIdIsTheSameInAReplay) {
  RecordedManager recorded;
  const uint64_t first = recorded.serve(0);
  EXPECT_EQ(kvc_manager_free_request(recorded.m, first), KVC_OK);
  const int32_t tokens[] = {1, 2, 3};
  const uint64_t requests[] = {0, first + 1}, offsets[] = {0, 3, 3};
  uint64_t admitted[2], cached[2];
  kvc_status status[2];
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.num_admissions = 2, step.admit_requests = requests, step.admit_offsets = offsets;
  step.admit_tokens = tokens, step.status = status, step.admitted = admitted, step.cached = cached;
  ASSERT_EQ(kvc_manager_step(recorded.m, &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(admitted[0], first + 1);
  EXPECT_EQ(status[1], KVC_ERROR_BUSY);
  const Replayed replayed = replay(recorded.take());
  EXPECT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
}

// What was logged until then can be replayed; the manager goes on.
TEST(Record, AFullLogEndsTheRecording) {
  RecordedManager recorded(recorded_config(KVC_MIN_RECORD_BYTES));
  uint64_t calls = 0, digest = 0;
  while (recorded.info().lost_calls == 0) {
    calls = recorded.info().calls;
    digest = recorded.digest();
    EXPECT_EQ(kvc_manager_free_request(recorded.m, recorded.serve(0)), KVC_OK);
  }
  ASSERT_GT(calls, 100u);
  const Log log = recorded.take();
  EXPECT_LE(log.size(), KVC_MIN_RECORD_BYTES + 64u);
  const uint64_t lost = recorded.info().lost_calls, logged = recorded.info().calls;
  const Replayed replayed = replay(log);
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.lost_calls, lost);
  EXPECT_EQ(replayed.info.calls, logged);
  EXPECT_EQ(replayed.info.mismatches, 0u);
  EXPECT_EQ(digest, replayed.info.digest) << "the calls after it free what they took";
  recorded.serve(0);  // the log has room again, but it does not know the state
  EXPECT_EQ(recorded.info().calls, logged);
  EXPECT_EQ(recorded.info().lost_calls, lost + 2);
  const Replayed all = replay(joined(log, recorded.take()));
  EXPECT_EQ(all.info.lost_calls, lost + 2);
  EXPECT_EQ(all.info.calls, logged);
  EXPECT_EQ(kvc_manager_check(recorded.m), KVC_OK);
}

TEST(Record, IsOffByDefault) {
  RecordedManager plain(recorded_config(0));
  plain.serve(0);
  size_t size = 5;
  EXPECT_EQ(kvc_manager_take_log(plain.m, nullptr, 0, &size), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(kvc_last_error()).find("record_bytes"), std::string::npos);
  EXPECT_EQ(size, 5u);
  EXPECT_EQ(plain.info().capacity, 0u);
}

TEST(Record, NeedsSomeRoom) {
  kvc_manager_config config = recorded_config(KVC_MIN_RECORD_BYTES - 1);
  kvc_manager* m = nullptr;
  EXPECT_EQ(kvc_manager_create(&config, &m), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "record_bytes is 4095; give at least 4096, or 0 to record nothing");
  config.record_bytes = uint64_t{1} << 62;
  EXPECT_EQ(kvc_manager_create(&config, &m), KVC_ERROR_OUT_OF_MEMORY);
}

TEST(Record, ARebuiltManagerIsNotRecorded) {
  RecordedManager recorded;
  kvc_manager_config config = recorded_config();
  kvc_rebuild rebuild = {};
  rebuild.struct_size = sizeof rebuild;
  kvc_manager* made = nullptr;
  EXPECT_EQ(kvc_manager_rebuild(recorded.m, &config, &rebuild, &made), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(kvc_last_error()).find("record_bytes is 65536"), std::string::npos);
  config.record_bytes = 0;
  EXPECT_EQ(kvc_manager_rebuild(recorded.m, &config, &rebuild, &made), KVC_OK);
  kvc_manager_destroy(made);
  recorded.serve(0);
  EXPECT_EQ(replay(recorded.take()).info.digest, recorded.digest());
}

// The order of the log is the order in which the calls took effect.
TEST(Record, OfManyThreads) {
  kvc_manager_config config = recorded_config(1 << 24);
  config.max_requests = 16;
  config.num_blocks = 64;
  RecordedManager recorded(config);
  std::vector<std::thread> threads;
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < 500; ++i) {
        const uint64_t id = recorded.serve((t + i) % 5 * 3);
        const int32_t token = i;
        EXPECT_EQ(kvc_manager_append_tokens(recorded.m, id, &token, 1), KVC_OK);
        EXPECT_EQ(kvc_manager_free_request(recorded.m, id), KVC_OK);
      }
    });
  }
  std::vector<Log> parts;
  for (int i = 0; i < 20; ++i) parts.push_back(recorded.take());
  for (std::thread& thread : threads) thread.join();
  parts.push_back(recorded.take());
  Log log;
  for (const Log& part : parts) log = joined(log, part);
  const Replayed replayed = replay(log);
  ASSERT_EQ(replayed.status, KVC_OK) << kvc_last_error();
  EXPECT_EQ(replayed.info.mismatches, 0u) << replayed.info.text;
  EXPECT_EQ(replayed.info.calls, 4 * 500 * 4u);
  EXPECT_EQ(replayed.info.digest, recorded.digest());
}

}  // namespace
}  // namespace kvc
