// SPDX-License-Identifier: Apache-2.0
// Readers of events beside a busy writer: what a batch has is without gaps and true, however fast the ring is
// overwritten while digests are worked out without the lock.
#include <atomic>
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

INSTANTIATE_TEST_SUITE_P(Capacities, EventReaders, ::testing::Values(1, 3, 100, 4096),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace kvc
