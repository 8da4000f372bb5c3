// SPDX-License-Identifier: Apache-2.0
// Three readers and a list beside random changes: chains that are long, branch and are buried from any end,
// places that are used again, a ring that wraps while somebody hashes. Each digest that a reader sees is
// compared with one that was computed from tokens when the event was told.
#include <map>

#include "prefix/identities_world.h"

namespace kvc {
namespace {

struct Told {
  Digest256 digest, parent;
  uint32_t kind;
};

class Churn {
 public:
  Churn(size_t nodes, size_t events, uint64_t seed)
      : w_(nodes, 1, ~uint64_t{0}, 2 * nodes, events), events_(events), seed_(seed) {
    for (size_t r = 0; r < 3; ++r) readers_.emplace_back(w_);
  }

  size_t random(size_t below) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(seed_ >> 33) % below;
  }

  void step() {
    switch (random(8)) {
      case 0:
        grow(1 + random(random(4) == 0 ? 2500 : 20));
        break;
      case 1:
        shrink(random(40), true);
        break;
      case 2:
        shrink(random(random(4) == 0 ? 3000 : 40), false);
        break;
      case 3:
        if (random(100) == 0) w_.namespaces.reset_all(), ++epoch_;
        break;
      default:
        read(readers_[random(3)]);
        list();
    }
    note();
  }
  void end() {
    for (EventReader& reader : readers_) {
      reader.learn();
      reader.work_and_read();
      compare(reader);
    }
  }
  size_t compared() const { return compared_; }
  size_t listed() const { return listed_; }

 private:
  // A chain below a position, or from the root.
  void grow(size_t length) {
    NodeId at = root_of(kRoot);
    if (!blocks_.empty() && random(3) != 0) at = w_.pool[blocks_[random(blocks_.size())]].node;
    if (is_node(at) && w_.tree.stale(w_.tree[at])) at = root_of(kRoot);
    const auto first = static_cast<int32_t>(random(5));
    for (size_t i = 0; i < length && w_.counters.nodes_used < w_.tree.places().size() - events_; ++i) {
      const Digest256 parent = is_node(at) ? digests_.at(raw(at)) : w_.namespaces[kRoot].digest;
      const int32_t token = first + static_cast<int32_t>(i);
      at = w_.publish(at, token, {}, epoch_);
      ASSERT_TRUE(is_node(at));
      digests_[raw(at)] = below(parent, token);
      if ((w_.tree[at].resident & 1) != 0) continue;
      blocks_.push_back(w_.attach(at));
    }
  }
  // From the youngest on, or at random.
  void shrink(size_t count, bool youngest) {
    for (size_t i = 0; i < count && !blocks_.empty(); ++i) {
      const size_t which = youngest ? blocks_.size() - 1 : random(blocks_.size());
      const BlockId block = blocks_[which];
      blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(which));
      note();
      w_.tree.detach(block);
      w_.pool.push_free(block);
      note();
    }
  }
  // What was told since the last time, of positions that were alive then.
  void note() {
    for (; told_.size() < w_.ring.next_sequence();) {
      const EventRecord* record = w_.ring.holds(told_.size()) ? &w_.ring[told_.size()] : nullptr;
      if (record == nullptr) {
        told_.push_back({});
        continue;
      }
      const NodeId parent = w_.tree[record->position].parent;
      told_.push_back({digests_.at(raw(record->position)),
                       is_node(parent) ? digests_.at(raw(parent)) : w_.namespaces[kRoot].digest,
                       record->kind});
    }
    const uint64_t next = w_.ring.next_sequence();
    ASSERT_EQ(w_.ring.oldest(), next > events_ ? next - events_ : 0) << "an event left early";
  }
  // A part of a round, so that changes come between all parts.
  void read(EventReader& reader) {
    switch (random(3)) {
      case 0:
        reader.learn();
        break;
      case 1:
        reader.learn();
        reader.gather();
        break;
      case 2:
        reader.round();
    }
    compare(reader);
  }
  void compare(EventReader& reader) {
    for (size_t i = 0; i < reader.events().size(); ++i) {
      const kvc_event& event = reader.events()[i];
      const Told& told = told_.at(event.sequence);
      ASSERT_EQ(event.kind, told.kind);
      ASSERT_EQ(digest_of(event.digest), told.digest) << "event " << event.sequence;
      ASSERT_EQ(digest_of(event.parent_digest), told.parent) << "event " << event.sequence;
      ++compared_;
    }
    reader.forget_events();
  }
  // As Manager::list_prefixes: from any position on.
  void list() {
    Identities& identities = w_.tree.identities();
    identities.learn(&list_work_);
    for (size_t i = 0; i < 50; ++i) {
      const NodeId id{static_cast<int32_t>(place_)};
      if (w_.tree.alive(id)) {
        if (!identities.known(id)) {
          identities.gather(id, &list_work_);
          list_work_.compute();
          return;
        }
        kvc_event event;
        identities.describe({0, 0, id, kNoBlock, KVC_EVENT_STORED, 0}, &event);
        ASSERT_EQ(digest_of(event.digest), digests_.at(raw(id)));
        ++listed_;
      }
      if (++place_ >= w_.tree.places().used()) place_ = 0;  // none at first
    }
  }

  World w_;
  const size_t events_;
  uint64_t seed_;
  uint32_t epoch_ = 0;
  size_t place_ = 0, compared_ = 0, listed_ = 0;
  std::vector<BlockId> blocks_;
  std::map<int32_t, Digest256> digests_;  // of a place, as it was last used
  std::vector<Told> told_;
  std::vector<EventReader> readers_;
  Identities::Work list_work_;
};

class IdentitiesStress : public ::testing::TestWithParam<std::pair<size_t, size_t>> {};

TEST_P(IdentitiesStress, EachDigestIsThatOfItsTokens) {
  const auto [nodes, events] = GetParam();
  constexpr uint64_t kSeeds = 4;
  size_t compared = 0, listed = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !HasFatalFailure(); ++seed) {
    Churn churn(nodes, events, seed);
    for (int i = 0; i < 1500 && !HasFatalFailure(); ++i) churn.step();
    churn.end();
    compared += churn.compared(), listed += churn.listed();
  }
  EXPECT_GT(compared, kSeeds * 20);
  EXPECT_GT(listed, kSeeds * 20);
}

INSTANTIATE_TEST_SUITE_P(NodesAndEvents, IdentitiesStress,
                         ::testing::Values(std::pair<size_t, size_t>{3000, 1},
                                           std::pair<size_t, size_t>{3000, 90},
                                           std::pair<size_t, size_t>{2500, 3000},
                                           std::pair<size_t, size_t>{100, 20000},
                                           std::pair<size_t, size_t>{3000, 20000}),
                         [](const auto& test) {
                           return std::to_string(test.param.first) + "_" + std::to_string(test.param.second);
                         });

}  // namespace
}  // namespace kvc
