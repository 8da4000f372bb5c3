// SPDX-License-Identifier: Apache-2.0
// Readers of events beside a busy writer: what a batch has is without gaps and true, however fast the ring is
// overwritten while digests are worked out without the lock, and however long the chains are.
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/sha256.h"
#include "calls.h"
#include "event_calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

// Digests of the positions of a text, as kvcache.h defines them, in the default namespace.
std::vector<Digest256> digests_of(const std::vector<int32_t>& tokens, uint32_t block_size) {
  const char label[] = "kvcache namespace 1", absent[27] = {};
  Sha256 sha;
  sha.update(label, sizeof label);
  sha.update(absent, sizeof absent);
  std::vector<Digest256> digests = {sha.finish()};
  for (size_t i = 0; i + block_size <= tokens.size(); i += block_size) {
    sha.update(&tokens[i], block_size * 4);
    sha.update(digests.back().bytes, 32);
    sha.update(&block_size, 4);
    digests.push_back(sha.finish());
  }
  return digests;
}

class EventReaders : public ::testing::TestWithParam<uint64_t> {};

TEST_P(EventReaders, SeeWholeEventsInOrder) {
  constexpr uint32_t kBlockSize = 4;
  constexpr size_t kRoom = 200;
  kvc_manager_config config = {};
  config.num_blocks = 64;
  config.block_size = kBlockSize;
  config.event_capacity = GetParam();
  const ManagerOf manager(config);
  std::vector<std::vector<Digest256>> digests;
  for (int32_t i = 0; i < 7; ++i)
    digests.push_back(digests_of(tokens_from(1000 * i, 40 * kBlockSize), kBlockSize));
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
        const int32_t token = tokens[j * kBlockSize];
        const size_t depth = events[j].token_offset / kBlockSize;
        ASSERT_EQ(token % 1000, static_cast<int32_t>(events[j].token_offset));
        const std::vector<Digest256>& known = digests[static_cast<size_t>(token / 1000)];
        ASSERT_EQ(std::memcmp(known[depth].bytes, events[j].parent_digest, 32), 0);
        ASSERT_EQ(std::memcmp(known[depth + 1].bytes, events[j].digest, 32), 0);
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

// Chains of thousands of positions, most of them never read, that die from any end and whose places are used
// again, beside two readers and a list.
TEST(EventReadersOfLongChains, SeeTrueDigests) {
#ifdef __SANITIZE_THREAD__
  constexpr int kRounds = 12;
#else
  constexpr int kRounds = 60;
#endif
  constexpr int32_t kFamilies = 3, kLength = 6000;
  kvc_manager_config config = {};
  config.num_blocks = 2 * kLength;
  config.block_size = 1;
  config.event_capacity = 300;
  const ManagerOf manager(config);
  std::vector<std::vector<Digest256>> digests;
  for (int32_t i = 0; i < kFamilies; ++i) digests.push_back(digests_of(tokens_from(kLength * i, kLength), 1));
  const auto expect_true = [&](const kvc_event& event, int32_t token) {
    const auto depth = static_cast<size_t>(event.token_offset);
    const std::vector<Digest256>& known = digests.at(static_cast<size_t>(token / kLength));
    ASSERT_EQ(static_cast<size_t>(token % kLength), depth);
    ASSERT_EQ(std::memcmp(known[depth].bytes, event.parent_digest, 32), 0);
    ASSERT_EQ(std::memcmp(known[depth + 1].bytes, event.digest, 32), 0);
  };
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> seen{0}, listed{0};
  const auto read = [&] {
    std::vector<kvc_event> events(50);
    std::vector<int32_t> tokens(events.size());
    for (uint64_t cursor = 0; !ends;) {
      size_t count = 0;
      ASSERT_EQ(poll_events(manager.m, &cursor, events.data(), sizeof(kvc_event), events.size(), &count,
                            tokens.data(), tokens.size()),
                KVC_OK);
      for (size_t i = 0; i < count; ++i) expect_true(events[i], tokens[i]);
      seen += count;
    }
  };
  const auto list = [&] {
    std::vector<kvc_event> events(1000);
    std::vector<int32_t> tokens(events.size());
    for (uint64_t cursor = 0, at = 0; !ends;) {
      kvc_event_batch batch = {sizeof batch,  events.data(), sizeof(kvc_event), events.size(), 0,
                               tokens.data(), tokens.size()};
      ASSERT_EQ(kvc_manager_list_prefixes(manager.m, &cursor, &at, &batch), KVC_OK);
      for (size_t i = 0; i < batch.count; ++i) expect_true(events[i], tokens[i]);
      listed += batch.count;
    }
  };
  std::thread threads[] = {std::thread(read), std::thread(read), std::thread(list)};
  uint64_t seed = 1;
  for (int i = 0; i < kRounds || ((seen == 0 || listed == 0) && !testing::Test::HasFailure()); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto length = static_cast<size_t>(kLength / 2 + static_cast<int32_t>(seed >> 33) % (kLength / 2));
    const std::vector<int32_t> tokens = tokens_from(kLength * (i % kFamilies), length);
    uint64_t request = 0, count = 0;
    ASSERT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), length, nullptr, 0), nullptr,
                                           &request, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(manager.m, request, length), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(manager.m, request), KVC_OK);
    for (int32_t block = static_cast<int32_t>(seed >> 40) % 7; i % 3 == 1 && block < 2 * kLength; block += 7)
      ASSERT_EQ(kvc_manager_unpublish_blocks(manager.m, &block, 1, &count), KVC_OK);
    size_t evicted = 0;
    if (i % 5 == 4) {
      ASSERT_EQ(kvc_manager_evict_blocks(manager.m, -1, length, &evicted), KVC_OK);
    }
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
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
        EXPECT_EQ(kvc_manager_reset_all(manager.m), KVC_OK);
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
        if (events[i].kind == KVC_EVENT_ALL_CLEARED) state.clear();
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
