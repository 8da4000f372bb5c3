// SPDX-License-Identifier: Apache-2.0
// Readers of events beside a busy writer: what a batch has is without gaps and true, however fast the ring is
// overwritten while digests are worked out without the lock.
#include <atomic>
#include <map>
#include <thread>

#include "base/sha256.h"
#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

class EventReaders : public ::testing::TestWithParam<uint64_t> {};

TEST_P(EventReaders, SeeWholeEventsInOrder) {
  constexpr uint32_t kBlockSize = 4;
  constexpr size_t kRoom = 200;
  kvc_manager_config config = {};
  config.num_blocks = 64;
  config.block_size = kBlockSize;
  config.event_capacity = GetParam();
  const ManagerOf manager(config);
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (int32_t i = 0; !ends; ++i) {
      const std::vector<int32_t> tokens = tokens_from(1000 * (i % 7), 40 * kBlockSize);
      uint64_t request = 0;
      EXPECT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                             nullptr, &request, nullptr),
                KVC_OK);
      EXPECT_EQ(kvc_manager_commit_tokens(manager.m, request, tokens.size()), KVC_OK);
      EXPECT_EQ(kvc_manager_free_request(manager.m, request), KVC_OK);
    }
  });
  const auto read = [&] {
    std::vector<kvc_event> events(kRoom);
    std::vector<int32_t> tokens(kRoom * kBlockSize);
    uint64_t cursor = 0, total = 0;
    for (int i = 0; i < 300 || total == 0; ++i) {
      const uint64_t from = cursor;
      size_t count = 0;
      ASSERT_EQ(poll_events(manager.m, &cursor, events.data(), sizeof(kvc_event), kRoom, &count,
                            tokens.data(), tokens.size()),
                KVC_OK);
      total += count;
      for (size_t j = 0; j < count; ++j) {
        ASSERT_GE(events[j].sequence, from);
        ASSERT_EQ(events[j].sequence, events[0].sequence + j) << "a gap inside a batch";
        const Digest256 none = {};
        Sha256 sha;
        sha.update(events[j].parent_digest, 32);
        sha.update(none.bytes, 32);
        sha.update(&kBlockSize, 4);
        sha.update(&tokens[j * kBlockSize], kBlockSize * 4);
        const Digest256 digest = sha.finish();
        ASSERT_EQ(std::memcmp(digest.bytes, events[j].digest, 32), 0);
      }
      if (count != 0) {
        ASSERT_EQ(cursor, events[count - 1].sequence + 1);
      }
    }
  };
  std::thread other(read);
  read();
  other.join();
  ends = true;
  writer.join();
}

// A list of what is cached, taken beside the writer, and the events since its first part are the state.
TEST(PrefixList, WithTheEventsSinceIsTheState) {
  kvc_manager_config config = {};
  config.num_blocks = 200;
  config.block_size = 4;
  config.event_capacity = 1 << 20;
  const ManagerOf manager(config);
  using State = std::map<uint64_t, uint64_t>;  // node -> token_offset
  std::vector<kvc_event> events(7);
  const auto list = [&](State* state, uint64_t* event_cursor) {
    uint64_t cursor = 0;
    do {
      kvc_event_batch batch = {sizeof batch, events.data(), sizeof(kvc_event), events.size(), 0, nullptr, 0};
      ASSERT_EQ(kvc_manager_list_prefixes(manager.m, &cursor, event_cursor, &batch), KVC_OK);
      for (size_t i = 0; i < batch.count; ++i) (*state)[events[i].node] = events[i].token_offset;
    } while (cursor != 0);
  };
  const auto churn = [&](int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) {
      const std::vector<int32_t> tokens = tokens_from(1000 * (i % 13), 4 * (20 + i % 60));
      uint64_t request = 0;
      EXPECT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                             nullptr, &request, nullptr),
                KVC_OK);
      EXPECT_EQ(kvc_manager_commit_tokens(manager.m, request, tokens.size()), KVC_OK);
      EXPECT_EQ(kvc_manager_free_request(manager.m, request), KVC_OK);
      if (i % 100 == 70) {
        EXPECT_EQ(kvc_manager_reset(manager.m, 0), KVC_OK);
      }
    }
  };
  churn(0, 150);
  for (int round = 0; round < 20; ++round) {
    std::thread writer(churn, 150 + 50 * round, 200 + 50 * round);
    State state, now;
    uint64_t cursor = 0, unused = 0;
    list(&state, &cursor);
    writer.join();
    for (size_t count = 1; count != 0;) {
      ASSERT_EQ(poll_events(manager.m, &cursor, events.data(), sizeof(kvc_event), events.size(), &count,
                            nullptr, 0),
                KVC_OK);
      for (size_t i = 0; i < count; ++i) {
        if (events[i].kind == KVC_EVENT_CLEARED) state.clear();
        if (events[i].kind == KVC_EVENT_STORED) state[events[i].node] = events[i].token_offset;
        if (events[i].kind == KVC_EVENT_REMOVED) state.erase(events[i].node);
      }
    }
    list(&now, &unused);
    EXPECT_EQ(state, now);
    EXPECT_FALSE(now.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Capacities, EventReaders, ::testing::Values(1, 3, 100, 4096),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace kvc
