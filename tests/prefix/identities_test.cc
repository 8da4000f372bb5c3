// SPDX-License-Identifier: Apache-2.0
// Digests of positions: nothing is hashed until somebody asks; what dies before that is completed in time;
// readers work digests out in parts, while positions die and their places are used again.
#include "prefix/identities.h"

#include "prefix/tree_world.h"

namespace kvc {
namespace {

struct Told {
  uint32_t kind;
  Digest256 digest, parent;
  int32_t token;
};

class IdentitiesTest : public ::testing::Test {
 protected:
  Identities& identities() { return w_.tree.identities(); }
  // What can be read now.
  std::vector<Told> read() {
    std::vector<kvc_event> events(4096);
    std::vector<int32_t> tokens(4096 * kBlockSize);
    size_t used = 0;
    const size_t count = w_.ring.read(&cursor_, events.data(), sizeof(kvc_event), events.size(),
                                      tokens.data(), tokens.size(), &used);
    std::vector<Told> told(count);
    for (size_t i = 0; i < count; ++i) {
      told[i].kind = events[i].kind;
      std::memcpy(told[i].digest.bytes, events[i].digest, 32);
      std::memcpy(told[i].parent.bytes, events[i].parent_digest, 32);
      told[i].token = tokens[i * kBlockSize];
    }
    return told;
  }
  // As a reader does.
  std::vector<Told> work_and_read() {
    std::vector<Told> all = read();
    while (w_.ring.holds(cursor_)) {
      identities().gather_events(cursor_, &work_);
      work_.compute();
      identities().learn(&work_);
      ++rounds_;
      for (const Told& told : read()) all.push_back(told);
    }
    return all;
  }
  static Digest256 below(const Digest256& parent, int32_t token) {
    const int32_t tokens[kBlockSize] = {token, token + 1};
    const Digest256 no_keys = {};
    Sha256 sha;
    sha.update(parent.bytes, 32);
    sha.update(no_keys.bytes, 32);
    sha.update(&kBlockSize, 4);
    sha.update(tokens, sizeof tokens);
    return sha.finish();
  }
  Digest256 root() const { return w_.namespaces[kRoot].digest; }

  World w_{4096, 1, ~uint64_t{0}, 4096, 4096};
  Identities::Work work_;
  uint64_t cursor_ = 0;
  size_t rounds_ = 0;
};

TEST_F(IdentitiesTest, NothingIsHashedBeforeAReaderComes) {
  w_.chain(root_of(kRoot), 100);
  EXPECT_TRUE(read().empty());
  EXPECT_TRUE(w_.ring.waits(0));
  const std::vector<Told> told = work_and_read();
  ASSERT_EQ(told.size(), 100u);
  Digest256 parent = root();
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].parent, parent);
    EXPECT_EQ(told[i].digest, parent = below(parent, static_cast<int32_t>(i))) << i;
  }
}

TEST_F(IdentitiesTest, WhatDiesCompletesItsEvents) {
  const NodeId a = w_.publish(root_of(kRoot), 1), b = w_.publish(a, 5);
  const BlockId of_a = w_.attach(a), of_b = w_.attach(b);
  w_.tree.detach(of_a);  // the position lives on below another
  EXPECT_TRUE(read().empty());
  w_.tree.detach(of_b);  // both die
  const NodeId other = w_.publish(root_of(kRoot), 9);
  EXPECT_TRUE(other == a || other == b);
  w_.attach(other);
  const std::vector<Told> told = read();
  ASSERT_EQ(told.size(), 4u) << "all but the last";
  const Digest256 first = below(root(), 1);
  EXPECT_EQ(told[0].digest, first);
  EXPECT_EQ(told[1].digest, below(first, 5));
  EXPECT_EQ(told[1].parent, first);
  EXPECT_EQ(told[2].digest, first);
  EXPECT_EQ(told[3].digest, below(first, 5));
  EXPECT_EQ(told[3].kind, static_cast<uint32_t>(KVC_EVENT_REMOVED));
  const std::vector<Told> last = work_and_read();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].digest, below(root(), 9));
}

TEST_F(IdentitiesTest, WhatNoEventInTheRingNeedsIsNotHashedAtAll) {
  World small(16, 1, ~uint64_t{0}, 16, 2);  // a ring for two events
  const NodeId a = small.publish(root_of(kRoot), 1), b = small.publish(root_of(kRoot), 5);
  const BlockId of_a = small.attach(a), of_b = small.attach(b);
  small.attach(small.publish(root_of(kRoot), 9));  // takes the place of the event of a
  small.namespaces.reset_all();                    // no more events of these
  small.tree.detach(of_a);
  small.tree.detach(of_b);
  EXPECT_FALSE(small.tree.identities().known(a));
  EXPECT_TRUE(small.tree.identities().known(b));
}

TEST_F(IdentitiesTest, ALongChainThatNobodyHasReadTakesFewRounds) {
  World small(4096, 1, ~uint64_t{0}, 4096, 1);  // a ring for one event
  small.chain(root_of(kRoot), 4000);
  Identities::Work work;
  kvc_event event;
  uint64_t cursor = 0;
  size_t used = 0, rounds = 0;
  while (small.ring.read(&cursor, &event, sizeof event, 1, nullptr, 0, &used) == 0) {
    small.tree.identities().gather_events(cursor, &work);
    work.compute();
    small.tree.identities().learn(&work);
    ASSERT_LT(++rounds, 8u);
  }
  Digest256 digest = root();
  for (int32_t i = 0; i < 4000; ++i) digest = below(digest, i);
  EXPECT_EQ(std::memcmp(event.digest, digest.bytes, 32), 0);
}

TEST_F(IdentitiesTest, PlacesThatAreUsedAgainMeanwhileKeepTheirOwnDigests) {
  const NodeId a = w_.publish(root_of(kRoot), 1), b = w_.publish(a, 5);
  const BlockId of_a = w_.attach(a), of_b = w_.attach(b);
  identities().gather_events(0, &work_);
  work_.compute();
  w_.tree.detach(of_b);
  w_.tree.detach(of_a);
  const NodeId c = w_.publish(root_of(kRoot), 20), d = w_.publish(c, 30);
  EXPECT_TRUE((c == a && d == b) || (c == b && d == a));
  w_.attach(c);
  w_.attach(d);
  identities().learn(&work_);  // of positions that are gone
  EXPECT_FALSE(identities().known(c));
  EXPECT_FALSE(identities().known(d));
  const std::vector<Told> told = work_and_read();
  ASSERT_EQ(told.size(), 6u);
  EXPECT_EQ(told[4].digest, below(root(), 20));
  EXPECT_EQ(told[5].digest, below(below(root(), 20), 30));
}

}  // namespace
}  // namespace kvc
