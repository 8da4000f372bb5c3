// SPDX-License-Identifier: Apache-2.0
// kvc_manager_check finds what it is for: each corruption, made by hand in a manager with requests, pins,
// external holds, copies, fences and waiting requests, is reported with a text that names it; undone, the
// manager is whole again.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <cstring>
#include <vector>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

class CheckTest : public ::testing::Test {
 protected:
  // Blocks of 4 tokens, a full group and a window of 8. After setup: two requests with the same published
  // prompt (so copies), one of them forked; a pin; a external hold; LRU blocks; a waiting request; two FENCED
  // blocks of different steps.
  void SetUp() override {
    const kvc_group_config groups[] = {full_group(), window_group(8)};
    kvc_manager_config config = {};
    config.num_blocks = 120;
    config.max_requests = 16;
    config.block_size = 4;
    config.groups = groups;
    config.num_groups = 2;
    ASSERT_EQ(manager_.create(config, default_env()), KVC_OK);
    m_ = manager_.m;

    first_ = admit(1, 22);
    second_ = admit(1, 22);
    commit(first_, 22);
    commit(second_, 22);
    ASSERT_EQ(kvc_manager_fork_request(m_, first_, &fork_), KVC_OK);
    const uint64_t cached = admit(500, 17);
    commit(cached, 17);
    ASSERT_EQ(kvc_manager_free_request(m_, cached), KVC_OK);
    const auto pinned = tokens_from(500, 8);
    uint64_t length;
    const uint64_t pin_source = admit(500, 9);
    commit(pin_source, 9);
    ASSERT_EQ(kvc_manager_pin_prefix(m_, PROMPT(0, pinned.data(), 8, nullptr, 0), &pin_, &length), KVC_OK)
        << last_error();
    ASSERT_EQ(kvc_manager_free_request(m_, pin_source), KVC_OK);
    ASSERT_EQ(kvc_manager_acquire_blocks(m_, 0, &external_, 1), KVC_OK);
    const auto waiting = tokens_from(900, 10);
    ASSERT_EQ(kvc_manager_create_request(m_, PROMPT(0, waiting.data(), 10, nullptr, 0), nullptr, &waiting_),
              KVC_OK);
    for (int32_t i = 0; i < 2; ++i) {
      const uint64_t fenced = admit(700 + 50 * i, 4);
      kvc_step step = {};
      step.struct_size = sizeof step;
      ASSERT_EQ(kvc_manager_step(m_, &step), KVC_OK);
      ASSERT_EQ(kvc_manager_free_request(m_, fenced), KVC_OK);
    }
    ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << last_error();
  }

  uint64_t admit(int32_t first, size_t count) {
    uint64_t id = 0;
    const auto prompt = tokens_from(first, count);
    EXPECT_EQ(
        kvc_manager_allocate_request(m_, PROMPT(0, prompt.data(), count, nullptr, 0), nullptr, &id, nullptr),
        KVC_OK);
    return id;
  }
  void commit(uint64_t id, uint64_t count) { ASSERT_EQ(kvc_manager_commit_tokens(m_, id, count), KVC_OK); }

  ManagerPeer peer() { return ManagerPeer(m_); }
  Block& block(BlockId id) { return peer().pool()[id]; }
  BlockId entry(uint64_t id, size_t group, size_t position) {
    return peer().request(id).groups[group].blocks.data[position];
  }
  Node& node_of(BlockId id) { return peer().tree()[block(id).node]; }
  PoolCounts& counts() { return peer().pool().counts(0); }

  // Sets the field, expects the report, and puts the field right again.
  template <typename T, typename V>
  void expect_found(T& field, V value, const char* text) {
    const T before = field;
    field = static_cast<T>(value);
    ASSERT_TRUE(std::memcmp(&field, &before, sizeof field) != 0) << "not a corruption: " << text;
    EXPECT_EQ(kvc_manager_check(m_), KVC_ERROR_CORRUPT) << text;
    EXPECT_NE(std::strstr(last_error(), text), nullptr) << last_error();
    field = before;
    ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << last_error();
  }

  ManagerOf manager_;
  kvc_manager* m_ = nullptr;
  uint64_t first_ = 0, second_ = 0, fork_ = 0, waiting_ = 0, pin_ = 0;
  int32_t external_ = -1;
};

TEST(CheckPlaces, OfDeadPositionsWhoseEventsAreKept) {
  kvc_manager_config config = {};
  config.num_blocks = 8;
  config.block_size = 4;
  config.event_capacity = 10;
  const ManagerOf manager(config);
  const auto prompt = tokens_from(1, 13);
  uint64_t id = 0, evicted = 0;
  ASSERT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, prompt.data(), 13, nullptr, 0), nullptr, &id,
                                         nullptr),
            KVC_OK);
  ASSERT_EQ(kvc_manager_commit_tokens(manager.m, id, 13), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(manager.m, id), KVC_OK);
  ASSERT_EQ(kvc_manager_evict_blocks(manager.m, 0, 8, &evicted), KVC_OK);
  ASSERT_EQ(evicted, 3u);
  ASSERT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
  uint64_t& waits_for = ManagerPeer(manager.m).tree()[NodeId{0}].key;
  ASSERT_EQ(waits_for, 6u) << "the first position died last";
  for (const uint64_t wrong : {uint64_t{7}, uint64_t{0}}) {
    waits_for = wrong;
    EXPECT_EQ(kvc_manager_check(manager.m), KVC_ERROR_CORRUPT);
    EXPECT_NE(std::strstr(last_error(), "places"), nullptr) << last_error();
  }
  waits_for = 6;
  EXPECT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
}

TEST_F(CheckTest, HoldsThatDoNotAddUp) {
  Block& shared = block(entry(first_, 0, 0));
  ASSERT_EQ(shared.refs, 2u);
  expect_found(shared.refs, 1u, "references");
  expect_found(shared.refs, 3u, "references");
  expect_found(shared.pins, uint16_t{1}, "pins");
  Block& idle = block(peer().pool().lru_head(0));
  expect_found(idle.external, uint16_t{1}, "external holds");
  expect_found(idle.refs, 1u, "references");
  expect_found(block(BlockId{external_}).external, uint16_t{0}, "external holds");
  Pin& pin = *peer().pins().find(pin_);
  expect_found(pin.blocks.data[0], entry(first_, 0, 0), "pins");
}

TEST_F(CheckTest, CountsOfAPool) {
  expect_found(counts().free, counts().free - 1, "FREE, ");
  expect_found(counts().free, counts().free + 1, "FREE, ");
  expect_found(counts().lru, counts().lru + 1, "LRU, ");
  expect_found(counts().fenced, counts().fenced + 1, "FENCED, ");
  expect_found(counts().stale, counts().stale + 1, "stale, ");
  expect_found(counts().filling, counts().filling + 1, "filling, ");
  expect_found(counts().reserved, counts().reserved + 1, "reserved");
  expect_found(counts().pinned, counts().pinned + 1, "pinned");
}

TEST_F(CheckTest, BlocksInWrongOrSeveralLists) {
  BlockPool& pool = peer().pool();
  const BlockId top = pool.free_top(0), lru = pool.lru_head(0);
  expect_found(block(top).next, lru, "FREE of pool 0");
  expect_found(block(top).next, top, "FREE of pool 0");
  expect_found(block(lru).list, List::kFree, "LRU of pool 0");
  expect_found(block(lru).next, entry(first_, 0, 0), "LRU of pool 0");
  expect_found(block(entry(first_, 0, 0)).list, List::kFree, "list");
  expect_found(block(pool.fenced_head(0)).list, List::kLru, "FENCED of pool 0");
}

TEST_F(CheckTest, FencesOutOfOrderOrPassed) {
  BlockPool& pool = peer().pool();
  const BlockId head = pool.fenced_head(0);
  expect_found(block(head).fence, block(head).fence + 5, "out of order");
  expect_found(block(head).fence, 0u, "retired step");
}

TEST_F(CheckTest, PublicationsThatContradictTheirState) {
  BlockPool& pool = peer().pool();
  expect_found(block(pool.lru_head(0)).node, kNoNode, "LRU of pool 0");
  expect_found(block(pool.free_top(0)).node, peer().request(first_).cursor, "free and published");
  expect_found(block(entry(first_, 0, 0)).content, Content::kEmpty, "unwritten");
  const BlockId lru = pool.lru_head(0);
  expect_found(block(lru).content, Content::kEmpty, "published and empty");
  expect_found(block(entry(first_, 0, 5)).next_copy, lru, "has copies");
}

TEST_F(CheckTest, CopiesWithoutAFirstOneOrABrokenRing) {
  const BlockId low = entry(first_, 0, 0), high = entry(second_, 0, 0);
  ASSERT_LT(raw(low), raw(high));
  ASSERT_EQ(block(low).node, block(high).node);
  expect_found(node_of(low).block, entry(second_, 0, 1), "first copy");
  expect_found(block(high).next_copy, entry(second_, 0, 1), "broken");
  expect_found(node_of(low).block, kNoBlock, "first copy");
}

TEST_F(CheckTest, ResidentBitsWithoutBlocks) {
  Node& early = node_of(entry(first_, 0, 0));  // the window has dropped its block
  ASSERT_EQ(early.resident, 1u);
  expect_found(early.resident, 3u, "resident mask");
  expect_found(early.resident, 0u, "resident mask");
}

TEST_F(CheckTest, WrongPlaceInTheTree) {
  PrefixTree& tree = peer().tree();
  const NodeId cursor = peer().request(first_).cursor;
  Node& node = tree[cursor];
  expect_found(node.holds, 1u, "cursors");
  expect_found(node.depth, node.depth + 1, "cursor is wrong");
  // Which slot a wrong key leads to is drawn by the process. It may be the node's own.
  const uint64_t key = node.key;
  for (uint64_t change = 1; change != 0 && kvc_manager_check(m_) == KVC_OK; change <<= 1)
    node.key = key ^ change;
  EXPECT_EQ(kvc_manager_check(m_), KVC_ERROR_CORRUPT);
  EXPECT_NE(std::strstr(last_error(), "not found by its content"), nullptr) << last_error();
  node.key = key;
  ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << last_error();
  Node& parent = tree[node.parent];
  parent.epoch = 1;  // a bit-field
  EXPECT_EQ(kvc_manager_check(m_), KVC_ERROR_CORRUPT);
  parent.epoch = 0;
  expect_found(node.sibling_prev, node.parent, "children");
  expect_found(peer().counters().nodes_used, uint64_t{1}, "in use");
}

TEST_F(CheckTest, CursorsOnDeadOrWrongNodes) {
  PrefixTree& tree = peer().tree();
  Request& request = peer().request(first_);
  NodeId dead = kNoNode;
  for (int32_t i = 0; !is_node(dead); ++i) {
    if (!tree.alive(NodeId{i})) dead = NodeId{i};
  }
  expect_found(request.cursor, dead, "cursor is wrong");
  expect_found(request.cursor, tree[request.cursor].parent, "cursor is wrong");
  expect_found(request.cursor, root_of(0), "has no cursor");
}

TEST_F(CheckTest, TablesWithForeignOrMissingBlocks) {
  Request& request = peer().request(first_);
  expect_found(request.groups[0].blocks.data[5], entry(first_, 1, 5), "not of this group");
  expect_found(request.groups[0].blocks.data[1], kNoBlock, "group 0, position 1");
  expect_found(request.groups[0].blocks.data[1], entry(first_, 0, 2), "published elsewhere");
  expect_found(request.groups[1].blocks.data[0], entry(first_, 1, 5), "group 1, position 0");
  expect_found(request.groups[1].dropped, 0u, "group 1, position");
  expect_found(request.groups[0].blocks.data[5], BlockId{9999}, "not of this group");
}

TEST_F(CheckTest, RequestsWithImpossibleCounts) {
  Request& request = peer().request(first_);
  expect_found(request.committed, 23u, "committed");
  expect_found(request.capacity, 26u, "positions for a capacity");
  expect_found(request.published, 4u, "cursor is wrong");
  expect_found(request.published, 6u, "published");
  expect_found(request.tail_base, 21u, "tail");
  Request& waiting = peer().request(waiting_);
  expect_found(waiting.positions, 1u, "waits");
  expect_found(waiting.num_hashes, 1u, "hashes");
  expect_found(peer().live_requests(), peer().live_requests() + 1, "admitted");
  expect_found(peer().num_requests(), peer().num_requests() - 1, "admitted");
}

TEST_F(CheckTest, ExtraKeysThatAreNoList) {
  constexpr size_t kMost = KVC_MAX_KEYS_OF_TOKEN;  // over the last token that is kept, and the next
  std::vector<kvc_extra_key> keys;
  for (size_t i = 0; i < kMost; ++i) keys.push_back(key_over(i, kMost + 1));
  const auto prompt = tokens_from(2000, 3 * kMost);
  uint64_t id = 0;
  ASSERT_EQ(kvc_manager_create_request(m_, PROMPT(0, prompt.data(), prompt.size(), keys.data(), keys.size()),
                                       nullptr, &id),
            KVC_OK)
      << last_error();
  ASSERT_EQ(kvc_manager_truncate_request(m_, id, kMost), KVC_OK);
  ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << last_error();
  Request& request = peer().request(id);
  ASSERT_EQ(request.num_keys, kMost + 1) << "and one of the library's own, where the request was cut";
  ExtraKey* const list = request.keys.data;
  expect_found(list[0].num_tokens, 0u, "extra key 0");
  expect_found(list[2].first_token, uint64_t{5}, "extra key 3");
  expect_found(list[4].outer, 4u, "extra key 4");
  const std::string last = "extra key " + std::to_string(kMost);
  expect_found(list[kMost].first_token, uint64_t{1} << 20, last.c_str());
  expect_found(list[kMost].outer, 0u, last.c_str());
  expect_found(list[kMost].digest[0], uint8_t{1}, last.c_str());  // now it is a caller's, and one too many
}

TEST_F(CheckTest, LanesThatPromiseTooMuch) {
  const uint64_t id = admit(1000, 5);
  const int32_t token = 7;
  ASSERT_EQ(kvc_manager_append_tokens(m_, id, &token, 1), KVC_OK);
  Request& request = peer().request(id);
  ASSERT_LT(request.known, request.append_limit) << "its lane is open";
  expect_found(request.append_limit, 9u, "its lane goes to");
  expect_found(request.commit_limit, request.next_full, "its lane commits");
  expect_found(request.next_token, request.next_token + 1, "its lane commits");
  expect_found(request.slot_base, request.slot_base + 4, "its lane leads to other slots");
  expect_found(block(entry(id, 0, 1)).pins, uint16_t{1}, "its lane goes on in a shared block");
  request.close_lane();
  EXPECT_EQ(kvc_manager_check(m_), KVC_OK) << last_error();
}

TEST_F(CheckTest, NamespacesWithWrongCounts) {
  NamespaceTable& namespaces = peer().namespaces();
  expect_found(namespaces[0].users, namespaces[0].users + 1, "users");
  expect_found(namespaces[0].num_nodes, namespaces[0].num_nodes + 1, "nodes, ");
  uint64_t& cached = namespaces.cached(0, 0);
  ASSERT_GT(cached, 0u);
  expect_found(cached, cached - 1, "cached blocks");
}

TEST_F(CheckTest, SourcesOfCopiesThatNobodyHolds) {
  const int32_t token = 7;
  ASSERT_EQ(kvc_manager_append_tokens(m_, fork_, &token, 1), KVC_OK);
  ASSERT_EQ(peer().num_copies(), 2u) << "one per group";
  ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << last_error();
  expect_found(peer().num_copies(), size_t{1}, "references");
  expect_found(peer().copies()[0].source, raw(peer().pool().lru_head(0)), "references");
}

}  // namespace
}  // namespace kvc
