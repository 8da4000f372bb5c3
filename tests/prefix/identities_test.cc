// SPDX-License-Identifier: Apache-2.0
// Digests of positions: only readers hash, in parts; what dies keeps its place until its events have left the
// ring; a long chain that nobody has read takes a bounded part of the work per call and no more calls than
// that asks for, with one reader or two.
#include "prefix/identities.h"

#include "prefix/identities_world.h"

namespace kvc {
namespace {

class IdentitiesTest : public ::testing::Test {
 protected:
  Identities& identities() { return w_.tree.identities(); }
  Digest256 root() const { return w_.namespaces[kRoot].digest; }

  World w_{4096, 1, ~uint64_t{0}, 4096, 4096};
};

TEST_F(IdentitiesTest, NothingIsHashedBeforeAReaderComes) {
  w_.chain(root_of(kRoot), 100);
  EventReader reader(w_);
  EXPECT_TRUE(reader.read().empty());
  const std::vector<kvc_event> events = reader.work_and_read();
  ASSERT_EQ(events.size(), 100u);
  Digest256 parent = root();
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(digest_of(events[i].parent_digest), parent);
    EXPECT_EQ(digest_of(events[i].digest), parent = below(parent, static_cast<int32_t>(i))) << i;
  }
}

TEST_F(IdentitiesTest, WhatDiesIsNotHashedAndKeepsItsPlaceUntilItsEventsHaveLeft) {
  World small(16, 1, ~uint64_t{0}, 64, 8);
  EventReader reader(small);
  const NodeId a = small.publish(root_of(kRoot), 1), b = small.publish(a, 5);
  const BlockId of_a = small.attach(a), of_b = small.attach(b);
  small.tree.detach(of_a);  // the position lives on below another
  small.tree.detach(of_b);  // both die
  EXPECT_EQ(small.counters.nodes_used, 0u);
  EXPECT_FALSE(small.tree.identities().known(a));
  EXPECT_FALSE(small.tree.identities().known(b));
  std::vector<NodeId> others;
  for (int32_t i = 0; i < 2; ++i) {
    others.push_back(small.publish(root_of(kRoot), 100 + i));
    small.attach(others.back());
    EXPECT_TRUE(others.back() != a && others.back() != b);
  }
  const std::vector<kvc_event> events = reader.work_and_read();
  ASSERT_EQ(events.size(), 8u);
  const Digest256 first = below(root(), 1), second = below(first, 5);
  const auto expect = [&](size_t i, uint32_t kind, const Digest256& digest, BlockId block) {
    EXPECT_EQ(events[i].kind, kind) << i;
    EXPECT_EQ(digest_of(events[i].digest), digest) << i;
    EXPECT_EQ(events[i].block, raw(block)) << i;
  };
  expect(0, KVC_EVENT_STORED, first, of_a);
  expect(1, KVC_EVENT_STORED, second, of_b);
  expect(2, KVC_EVENT_REMOVED, first, of_a);
  expect(3, KVC_EVENT_STORED, first, kNoBlock);  // it leads to the other
  expect(4, KVC_EVENT_REMOVED, second, of_b);
  expect(5, KVC_EVENT_REMOVED, first, kNoBlock);
  EXPECT_EQ(digest_of(events[4].parent_digest), first);
  EXPECT_EQ(digest_of(events[7].digest), below(root(), 101));
  for (int32_t i = 0; i < 14; ++i) {  // the ring wraps, and all 16 positions live
    others.push_back(small.publish(root_of(kRoot), 200 + i));
    small.attach(others.back());
  }
  EXPECT_EQ(small.counters.nodes_used, 16u);
  EXPECT_EQ(raw(small.publish(root_of(kRoot), 999)), raw(kNoNode)) << "more places do not raise max_nodes";
  small.tree.detach(BlockId{raw(small.tree.block_of(others[0], 0))});
  EXPECT_TRUE(is_node(small.publish(root_of(kRoot), 999)));
}

// However the positions die: everyone can live, and no event leaves the ring early.
TEST_F(IdentitiesTest, TheDeadTakeNoPlaceFromTheLivingAndNoEventFromTheRing) {
  constexpr size_t kNodes = 40, kEvents = 24;
  World small(kNodes, 1, ~uint64_t{0}, 4096, kEvents);
  std::vector<NodeId> alive;
  std::vector<BlockId> blocks;
  uint64_t seed = 1;
  const auto random = [&seed](size_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(seed >> 33) % below;
  };
  for (int32_t i = 0; i < 20000; ++i) {
    const size_t wanted = i % 1000 < 500 ? kNodes : random(kNodes);
    while (blocks.size() > wanted) {  // in no order: positions without a block live on below others
      const size_t which = random(blocks.size());
      const BlockId block = blocks[which];
      blocks[which] = blocks.back();
      blocks.pop_back();
      small.tree.detach(block);
      small.pool.push_free(block);
    }
    const NodeId parent =
        random(3) == 0 || blocks.empty() ? root_of(kRoot) : small.pool[blocks[random(blocks.size())]].node;
    const size_t before = small.counters.nodes_used;
    const NodeId made = small.publish(parent, 10 * i);
    ASSERT_EQ(is_node(made), before < kNodes);
    if (is_node(made)) blocks.push_back(small.attach(made));
    const uint64_t next = small.ring.next_sequence();
    ASSERT_EQ(small.ring.oldest(), next > kEvents ? next - kEvents : 0);
  }
}

// What a check and a list look at.
TEST_F(IdentitiesTest, PlacesComeIntoUseAsTheyAreNeeded) {
  constexpr size_t kNodes = 100, kEvents = 5000, kAtOnce = 256;
  World w(kNodes, 1, ~uint64_t{0}, 256, kEvents);
  EXPECT_EQ(w.tree.places().used(), 0u);
  EXPECT_EQ(w.tree.places().size(), kNodes + kEvents);
  for (size_t born = 1; born < 20000; ++born) {
    const BlockId block = w.attach(w.publish(root_of(kRoot), 1));
    w.tree.detach(block);
    w.pool.push_free(block);
    ASSERT_LE(w.tree.places().used(), std::min(born, kEvents / 2) + kNodes + kAtOnce) << "two events each";
  }
}

TEST_F(IdentitiesTest, PositionsThatTellNoEventMayCostTheOldest) {
  World small(8, 1, ~uint64_t{0}, 64, 4);
  EventReader reader(small);
  for (int32_t i = 0; i < 4; ++i) small.attach(small.publish(root_of(kRoot), i));
  for (int32_t i = 0; i < 100; ++i) {  // die at once, without a block
    const NodeId silent = small.publish(root_of(kRoot), 100 + i);
    ASSERT_TRUE(is_node(silent));
    small.tree.hold(silent);
    small.tree.release(silent);
  }
  EXPECT_EQ(small.ring.oldest(), 4u);
  EXPECT_EQ(small.ring.dropped(), 4u);
  small.attach(small.publish(root_of(kRoot), 50));
  const std::vector<kvc_event> events = reader.work_and_read();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, 4u);
  EXPECT_EQ(digest_of(events[0].digest), below(root(), 50));
}

// The work of one call is bounded, and all calls together walk the chain once.
TEST_F(IdentitiesTest, ALongChainThatNobodyHasReadIsClimbedOnceInParts) {
  constexpr size_t kLength = 40000, kPart = 64;
  World large(kLength, 1, ~uint64_t{0}, kLength, 1);  // a ring for one event
  large.chain(root_of(kRoot), kLength);
  EventReader reader(large);
  const std::vector<kvc_event> events = reader.work_and_read();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(digest_of(events[0].digest), chain_end(root(), kLength));
  EXPECT_GE(reader.rounds(), kLength / Identities::kSteps + kLength / kPart);
  EXPECT_LE(reader.rounds(), kLength / Identities::kSteps + kLength / kPart + 2);
  EXPECT_LE(reader.most(), kPart);
}

// As a list of prefixes does: the deepest first.
TEST_F(IdentitiesTest, ALongChainFromItsEndTakesAsManyParts) {
  constexpr size_t kLength = 20000;
  World large(kLength, 1, ~uint64_t{0}, kLength, 1);
  std::vector<NodeId> path;
  for (const BlockId block : large.chain(root_of(kRoot), kLength)) path.push_back(large.pool[block].node);
  Identities& identities = large.tree.identities();
  Identities::Work work;
  size_t rounds = 0;
  for (size_t i = kLength; i-- > 0;) {
    while (!identities.known(path[i])) {
      identities.gather(path[i], &work);
      work.compute();
      identities.learn(&work);
      ++rounds;
    }
  }
  EXPECT_LE(rounds, kLength / Identities::kSteps + kLength / 64 + 2);
}

TEST_F(IdentitiesTest, TwoReadersOfOneChainDoNotSendEachOtherBack) {
  constexpr size_t kLength = 50000;
  World large(kLength, 1, ~uint64_t{0}, kLength, 1);
  large.chain(root_of(kRoot), kLength);
  for (const size_t lead : {0, 1, 30, 700}) {
    World again(kLength, 1, ~uint64_t{0}, kLength, 1);
    again.chain(root_of(kRoot), kLength);
    EventReader one(again), two(again);
    for (size_t i = 0; i < lead; ++i) one.round();
    while (one.events().empty() || two.events().empty()) {
      one.round();
      two.round();
    }
    const Digest256 wanted = chain_end(root(), kLength);
    EXPECT_EQ(digest_of(one.events()[0].digest), wanted);
    EXPECT_EQ(digest_of(two.events()[0].digest), wanted);
    EXPECT_LE(one.rounds(), kLength / Identities::kSteps + kLength / 64 + 4) << lead;
  }
}

// Two readers on their way to the ends of two branches meet on the stem.
TEST_F(IdentitiesTest, TwoReadersOfTwoBranchesBothArrive) {
  constexpr size_t kStem = 20000, kBranch = 5000;
  for (const size_t lead : {0, 5, 30, 200}) {
    World large(kStem + 2 * kBranch, 1, ~uint64_t{0}, kStem + 2 * kBranch, 1);
    const NodeId fork = large.pool[large.chain(root_of(kRoot), kStem).back()].node;
    NodeId ends[2];
    Digest256 wanted[2];
    for (int32_t branch = 0; branch < 2; ++branch) {
      NodeId at = fork;
      wanted[branch] = chain_end(root(), kStem);
      for (int32_t i = 0; i < static_cast<int32_t>(kBranch); ++i) {
        at = large.publish(at, 2 * i + branch);
        large.attach(at);
        wanted[branch] = below(wanted[branch], 2 * i + branch);
      }
      ends[branch] = at;
    }
    Identities& identities = large.tree.identities();
    Identities::Work works[2];
    size_t rounds[2] = {};
    const auto round = [&](size_t r) {
      if (identities.known(ends[r])) return;
      identities.learn(&works[r]);
      identities.gather(ends[r], &works[r]);
      works[r].compute();
      ++rounds[r];
    };
    for (size_t i = 0; i < lead; ++i) round(0);
    while (!identities.known(ends[0]) || !identities.known(ends[1])) round(0), round(1);
    for (size_t r = 0; r < 2; ++r) {
      kvc_event event;
      identities.describe({0, 0, ends[r], BlockId{0}, KVC_EVENT_STORED, 0}, &event);
      EXPECT_EQ(digest_of(event.digest), wanted[r]);
      EXPECT_LE(rounds[r], 2 * (kStem + 2 * kBranch) / Identities::kSteps + (kStem + 2 * kBranch) / 64 + 4);
    }
  }
}

TEST_F(IdentitiesTest, PlacesThatAreUsedAgainMeanwhileKeepTheirOwnDigests) {
  World small(2, 1, ~uint64_t{0}, 4096, 2);
  EventReader reader(small);
  const NodeId a = small.publish(root_of(kRoot), 1), b = small.publish(a, 5);
  const BlockId of_a = small.attach(a), of_b = small.attach(b);
  reader.gather();
  small.tree.detach(of_b);
  small.tree.detach(of_a);
  NodeId c = kNoNode, d = kNoNode;
  for (int32_t i = 20; (c != a || d != b) && i < 1000; i += 10) {  // places go round
    c = small.publish(root_of(kRoot), i), d = small.publish(c, i + 5);
    const BlockId of_c = small.attach(c), of_d = small.attach(d);
    if (c == a && d == b) break;
    small.tree.detach(of_d);
    small.tree.detach(of_c);
  }
  ASSERT_EQ(c, a);
  ASSERT_EQ(d, b);
  reader.learn();  // of positions that are gone
  EXPECT_FALSE(small.tree.identities().known(c));
  EXPECT_FALSE(small.tree.identities().known(d));
  const int32_t token = small.tree.tokens(c)[0];
  const std::vector<kvc_event> events = reader.work_and_read();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(digest_of(events[0].digest), below(root(), token));
  EXPECT_EQ(digest_of(events[1].digest), below(below(root(), token), small.tree.tokens(d)[0]));
}

}  // namespace
}  // namespace kvc
