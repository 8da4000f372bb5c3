// SPDX-License-Identifier: Apache-2.0
// What a batch of events holds: all that fit, in order, over as many slices as it takes; tokens that fit or
// end it; each reader's own place; a gap that is seen.
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include "calls.h"
#include "event_calls.h"
#include "manager/event_writer.h"
#include "manager/manager_peer.h"
#include "prefix/tree_world.h"

namespace kvc {
namespace {

class EventBatch : public ::testing::Test {
 protected:
  void create(uint64_t num_blocks, uint32_t block_size, uint64_t event_capacity, uint64_t max_nodes = 0) {
    kvc_manager_config config = {};
    config.num_blocks = num_blocks;
    config.block_size = block_size;
    config.event_capacity = event_capacity;
    config.max_nodes = max_nodes;
    manager_ = std::make_unique<ManagerOf>(config);
    m_ = manager_->m;
  }
  // Tells a STORED event per block.
  void store(int32_t first_token, size_t num_tokens) {
    const std::vector<int32_t> tokens = tokens_from(first_token, num_tokens);
    uint64_t request = 0;
    ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &request, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(m_, request, tokens.size()), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(m_, request), KVC_OK);
  }
  size_t poll(uint64_t* cursor, std::vector<kvc_event>* events, int32_t* tokens = nullptr, size_t room = 0) {
    size_t count = SIZE_MAX;
    EXPECT_EQ(
        poll_events(m_, cursor, events->data(), sizeof(kvc_event), events->size(), &count, tokens, room),
        KVC_OK);
    return count;
  }

  std::unique_ptr<ManagerOf> manager_;
  kvc_manager* m_ = nullptr;
};

TEST_F(EventBatch, HoldsAllThatFitInOrderWithTheirTokens) {
  constexpr size_t kEvents = 3000;  // more than a slice
  create(kEvents, 4, 4096);
  store(7, 4 * kEvents);
  std::vector<kvc_event> events(kEvents + 1);
  std::vector<int32_t> tokens(4 * kEvents);
  for (int reader = 0; reader < 2; ++reader) {  // the second finds all digests known
    uint64_t cursor = 0;
    ASSERT_EQ(poll(&cursor, &events, tokens.data(), tokens.size()), kEvents);
    EXPECT_EQ(cursor, kEvents);
    EXPECT_EQ(tokens, tokens_from(7, 4 * kEvents));
    for (size_t i = 0; i < kEvents; ++i) {
      ASSERT_EQ(events[i].sequence, i);
      ASSERT_EQ(events[i].token_offset, 4 * i);
      ASSERT_EQ(events[i].time_ns, events[0].time_ns) << "one call";
    }
    EXPECT_EQ(poll(&cursor, &events), 0u) << "nothing new";
    EXPECT_EQ(cursor, kEvents);
  }
}

// The work under one hold of the lock.
TEST_F(EventBatch, ASliceEndsAfterSomeEventsOrTokens) {
  for (const uint32_t block_size : {1u, 16u, 100u, 1024u, 8192u}) {
    World w(4, 1, ~uint64_t{0});
    std::vector<kvc_event> events(10000);
    kvc_event_batch batch = {sizeof batch, events.data(), sizeof(kvc_event), events.size(), 0, nullptr, 0};
    EventWriter out(batch, w.tree.identities(), w.tree, block_size);
    for (int slice = 1; slice < 4; ++slice) {
      size_t length = 0;
      for (out.begin_slice(); !out.slice_ended(); ++length)
        out.write({0, 0, kNoNode, kNoBlock, KVC_EVENT_ALL_CLEARED, 0}, 0);
      EXPECT_EQ(length, std::min<size_t>(256, (4095 + block_size) / block_size));
      EXPECT_EQ(batch.count, length * static_cast<size_t>(slice));
    }
  }
}

TEST_F(EventBatch, TokensThatDoNotFitEndIt) {
  create(8, 3, 16);
  store(10, 3);
  ASSERT_EQ(kvc_manager_reset_all(m_), KVC_OK);
  store(20, 3);
  store(30, 3);
  std::vector<kvc_event> events(8);
  int32_t tokens[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
  uint64_t cursor = 0;
  ASSERT_EQ(poll(&cursor, &events, tokens, 3), 2u) << "the second has no tokens";
  EXPECT_EQ(cursor, 2u);
  EXPECT_EQ(events[1].kind, static_cast<uint32_t>(KVC_EVENT_ALL_CLEARED));
  EXPECT_EQ(tokens[2], 12);
  EXPECT_EQ(tokens[3], -7);
  cursor = 0;
  ASSERT_EQ(poll(&cursor, &events, tokens, 8), 3u) << "two events of 3 tokens and one without";
  EXPECT_EQ(cursor, 3u);
  EXPECT_EQ(tokens[3], 20);
  EXPECT_EQ(tokens[6], -7) << "nothing was written behind";
  ASSERT_EQ(poll(&cursor, &events, tokens, 3), 1u);
  EXPECT_EQ(tokens[0], 30);
  EXPECT_EQ(cursor, 4u);
}

TEST_F(EventBatch, WithoutRoomForAnEventIsRefused) {
  create(8, 4, 4);
  store(0, 4);
  std::vector<kvc_event> events(2);
  int32_t tokens[4];
  struct {
    size_t capacity, token_capacity;
    int32_t* tokens;
    const char* text;
  } const cases[] = {{0, 0, nullptr, "capacity is 0; make room for 1 event at least"},
                     {2, 3, tokens, "token_capacity is 3; an event has up to 4 tokens: make room for these"},
                     {2, 0, tokens, "token_capacity is 0"}};
  for (const auto& bad : cases) {
    kvc_event_batch batch = {sizeof batch, events.data(),     sizeof(kvc_event), bad.capacity, 0,
                             bad.tokens,   bad.token_capacity};
    uint64_t cursor = 0, at = 77;
    EXPECT_EQ(kvc_manager_poll_events(m_, &cursor, &batch), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(bad.text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(kvc_manager_list_prefixes(m_, &cursor, &at, &batch), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(bad.text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(cursor, 0u);
    EXPECT_EQ(at, 77u);
  }
}

TEST_F(EventBatch, ReadersHaveTheirOwnCursors) {
  create(8, 2, 4);
  store(0, 4);
  uint64_t fast = 0, slow = 0;
  std::vector<kvc_event> one(1), many(4);
  EXPECT_EQ(poll(&fast, &many), 2u);
  EXPECT_EQ(poll(&slow, &one), 1u);
  EXPECT_EQ(one[0].sequence, 0u);
  store(10, 2);
  EXPECT_EQ(poll(&slow, &one), 1u);
  EXPECT_EQ(one[0].sequence, 1u);
  EXPECT_EQ(poll(&fast, &many), 1u);
  EXPECT_EQ(many[0].sequence, 2u);
}

TEST_F(EventBatch, AReaderThatFallsBehindSeesTheGap) {
  create(16, 2, 4);
  store(0, 20);
  std::vector<kvc_event> events(8);
  int32_t tokens[16];
  uint64_t cursor = 0;
  ASSERT_EQ(poll(&cursor, &events, tokens, 16), 4u);
  EXPECT_EQ(events[0].sequence, 6u);
  EXPECT_EQ(events[3].sequence, 9u);
  EXPECT_EQ(tokens[0], 12) << "the tokens belong to the events that are left";
  EXPECT_EQ(tokens[7], 19);
  EXPECT_EQ(cursor, 10u);
}

TEST_F(EventBatch, LargerElementsAreZeroedBehindTheKnownEvent) {
  create(8, 2, 4);
  store(10, 4);
  constexpr size_t kSize = sizeof(kvc_event) + 24;
  std::vector<unsigned char> raw_bytes(2 * kSize, 0xee);
  uint64_t cursor = 0;
  size_t count = 0;
  ASSERT_EQ(
      poll_events(m_, &cursor, reinterpret_cast<kvc_event*>(raw_bytes.data()), kSize, 2, &count, nullptr, 0),
      KVC_OK);
  ASSERT_EQ(count, 2u);
  for (size_t i = 0; i < 2; ++i) {
    kvc_event event;
    std::memcpy(&event, raw_bytes.data() + i * kSize, sizeof event);
    EXPECT_EQ(event.sequence, i);
    EXPECT_EQ(event.token_offset, 2 * i);
    for (size_t b = sizeof event; b < kSize; ++b) ASSERT_EQ(raw_bytes[i * kSize + b], 0);
  }
}

// A slot of a namespace and a place of a position are used again only when no event names them.
TEST_F(EventBatch, EventsOfAClosedNamespaceKeepItsIdAndDigest) {
  create(4, 2, 64, 4);
  const auto open = [&](const char* tenant) {
    const kvc_namespace_config config = {sizeof config, nullptr, nullptr, tenant, 0, 0, 1};
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_open_namespace(m_, &config, &id), KVC_OK);
    return id;
  };
  std::vector<uint64_t> ids;
  for (const char* tenant : {"a", "b", "c", "a"}) {
    const uint64_t id = open(tenant);
    ids.push_back(id);
    const std::vector<int32_t> tokens = tokens_from(5, 4);
    uint64_t request = 0;
    size_t evicted = 0;
    ASSERT_EQ(kvc_manager_allocate_request(m_, PROMPT(id, tokens.data(), 4, nullptr, 0), nullptr, &request,
                                           nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(m_, request, 4), KVC_OK);
    ASSERT_EQ(kvc_manager_free_request(m_, request), KVC_OK);
    ASSERT_EQ(kvc_manager_evict_blocks(m_, -1, 4, &evicted), KVC_OK);
    ASSERT_EQ(kvc_manager_close_namespace(m_, id), KVC_OK);
  }
  std::vector<kvc_event> events(64);
  uint64_t cursor = 0;
  ASSERT_EQ(poll(&cursor, &events), 20u);  // each: two STORED, two REMOVED, CLEARED
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 5; ++j) EXPECT_EQ(events[5 * i + j].namespace_id, ids[i]);
    const kvc_event *first = &events[5 * i], *of_a = &events[0];
    EXPECT_EQ(std::memcmp(first[1].parent_digest, first[0].digest, 32), 0);
    EXPECT_EQ(std::memcmp(first->parent_digest, of_a->parent_digest, 32) == 0, i == 0 || i == 3);
    EXPECT_EQ(std::memcmp(first->digest, of_a->digest, 32) == 0, i == 0 || i == 3);
    EXPECT_EQ(std::memcmp(first[2].digest, first[1].digest, 32), 0) << "the last goes first";
  }
}

}  // namespace
}  // namespace kvc
