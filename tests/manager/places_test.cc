// SPDX-License-Identifier: Apache-2.0
// Positions run out: a manager with events answers as one without, whatever its ring holds and whoever reads
// it, though dead positions keep their places for a while; and each event that is read is true. Positions
// that lead to no block tell no event.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include <array>
#include <map>
#include <vector>

#include "base/sha256.h"
#include "calls.h"
#include "event_calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

constexpr uint32_t kBlockSize = 2;
constexpr size_t kLength = 7, kFamilies = 5;  // positions of a text; texts

class Twins {
 public:
  // Of states alone, if there are no groups.
  Twins(uint64_t nodes, uint64_t events, size_t groups, uint64_t seed) : seed_(seed) {
    kvc_group_config of[] = {full_group(), window_group(4)};
    if (groups == 0) of[0].kind = KVC_GROUP_STATE, groups = 1;
    kvc_manager_config config = {};
    config.num_blocks = 24;
    config.max_nodes = nodes;
    config.block_size = kBlockSize;
    config.groups = of;
    config.num_groups = groups;
    for (size_t i = 0; i < 3; ++i) {  // without events, read now and then, never read
      config.event_capacity = i == 0 ? 0 : events;
      EXPECT_EQ(m_[i].create(config, default_env()), KVC_OK);
    }
    for (size_t f = 0; f < kFamilies; ++f) {
      texts_.push_back(tokens_from(1, kLength * kBlockSize + 1));
      for (size_t i = 2 * f; i < texts_[f].size(); ++i) texts_[f][i] += static_cast<int32_t>(100 * f);
      learn(texts_[f]);
    }
  }

  void step() {
    const auto& text = texts_[random(kFamilies)];
    const size_t length = random(kLength * kBlockSize) + 1;
    switch (random(8)) {
      case 0:
      case 1:
        compute(text, length);
        break;
      case 2:
        if (!requests_.empty()) {
          const std::array<uint64_t, 3> ids = requests_[random(requests_.size())];
          each([&](size_t i) { return kvc_manager_free_request(m_[i].m, ids[i]); });
          requests_.erase(std::find(requests_.begin(), requests_.end(), ids));
        }
        break;
      case 3:
        publish(text, length / kBlockSize);
        break;
      case 4: {
        uint64_t dropped = 0;
        const size_t most = random(6);
        each([&](size_t i) { return kvc_manager_evict_blocks(m_[i].m, -1, most, &dropped); });
        break;
      }
      case 5:
        if (random(10) == 0) each([&](size_t i) { return kvc_manager_reset_all(m_[i].m); });
        break;
      case 6: {
        uint64_t dropped = 0;
        each([&](size_t i) {
          return kvc_manager_drop_prefix(m_[i].m, PROMPT(0, text.data(), length, nullptr, 0), &dropped);
        });
        break;
      }
      case 7:
        read();
    }
    std::array<uint64_t, 3> digests = {};
    each([&](size_t i) {
      EXPECT_EQ(kvc_manager_check(m_[i].m), KVC_OK) << last_error();
      return kvc_manager_digest(m_[i].m, &digests[i]);
    });
    ASSERT_EQ(digests[0], digests[1]);
    ASSERT_EQ(digests[0], digests[2]);
  }
  void read() {
    std::vector<kvc_event> events(1 + random(9));
    std::vector<int32_t> tokens(events.size() * kBlockSize);
    size_t count = 0;
    ASSERT_EQ(poll_events(m_[1].m, &cursor_, events.data(), sizeof(kvc_event), events.size(), &count,
                          tokens.data(), tokens.size()),
              KVC_OK)
        << last_error();
    for (size_t i = 0, at = 0; i < count; at += events[i++].num_tokens) {
      if (events[i].kind == KVC_EVENT_ALL_CLEARED) continue;
      const std::vector<int32_t> of(&tokens[at], &tokens[at] + kBlockSize);
      Digest256 digest, parent;
      std::memcpy(digest.bytes, events[i].digest, 32);
      std::memcpy(parent.bytes, events[i].parent_digest, 32);
      const auto known = positions_.find({events[i].token_offset, of, parent_key(parent)});
      ASSERT_NE(known, positions_.end()) << "event " << events[i].sequence;
      ASSERT_EQ(known->second, digest) << "event " << events[i].sequence;
      ++compared_;
    }
  }
  size_t compared() const { return compared_; }
  size_t limits() const { return limits_; }

 private:
  using Parent = std::array<uint8_t, 32>;
  static Parent parent_key(const Digest256& digest) {
    Parent key;
    std::memcpy(key.data(), digest.bytes, 32);
    return key;
  }
  size_t random(size_t below) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(seed_ >> 33) % below;
  }
  // All managers give the same status.
  template <typename Call>
  kvc_status each(Call&& call) {
    const kvc_status status = call(0);
    for (size_t i = 1; i < 3; ++i) EXPECT_EQ(call(i), status) << i << ": " << last_error();
    limits_ += status == KVC_ERROR_LIMIT;
    return status;
  }
  void compute(const std::vector<int32_t>& text, size_t length) {
    std::array<uint64_t, 3> ids = {};
    if (each([&](size_t i) {
          return kvc_manager_allocate_request(m_[i].m, PROMPT(0, text.data(), length, nullptr, 0), nullptr,
                                              &ids[i], nullptr);
        }) != KVC_OK)
      return;
    each([&](size_t i) { return kvc_manager_commit_tokens(m_[i].m, ids[i], length); });
    requests_.push_back(ids);
  }
  // The last of some positions alone, or some of them.
  void publish(const std::vector<int32_t>& text, size_t length) {
    if (length == 0) return;
    int32_t block = -1;
    if (each([&](size_t i) { return kvc_manager_acquire_blocks(m_[i].m, 0, &block, 1); }) != KVC_OK) return;
    std::vector<int32_t> blocks(length, -1);
    blocks.back() = block;
    each([&](size_t i) {
      return kvc_manager_publish_blocks(m_[i].m, PROMPT(0, text.data(), length * kBlockSize, nullptr, 0), 0,
                                        blocks.data(), length);
    });
    each([&](size_t i) { return kvc_manager_release_blocks(m_[i].m, &block, 1); });
  }
  void learn(const std::vector<int32_t>& text) {
    const char label[] = "kvcache namespace 1", absent[27] = {};
    Sha256 sha;
    sha.update(label, sizeof label);
    sha.update(absent, sizeof absent);
    Digest256 parent = sha.finish();
    for (size_t i = 0; i + kBlockSize <= text.size(); i += kBlockSize) {
      sha.update(&text[i], kBlockSize * 4);
      sha.update(parent.bytes, 32);
      sha.update(&kBlockSize, 4);
      const Digest256 digest = sha.finish();
      const std::vector<int32_t> of(&text[i], &text[i] + kBlockSize);
      positions_[{i, of, parent_key(parent)}] = digest;
      parent = digest;
    }
  }

  ManagerOf m_[3];
  uint64_t seed_, cursor_ = 0;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<std::array<uint64_t, 3>> requests_;
  std::map<std::tuple<uint64_t, std::vector<int32_t>, Parent>, Digest256> positions_;
  size_t compared_ = 0, limits_ = 0;
};

TEST(Places, AManagerWithEventsAnswersAsOneWithout) {
  size_t compared = 0, limits = 0;
  for (const uint64_t nodes : {3, 8, 20})
    for (const uint64_t events : {1, 2, 7, 40})
      for (const size_t groups : {0, 1, 2}) {
        Twins twins(nodes, events, groups, 1000 * nodes + 10 * events + groups);
        for (int i = 0; i < 1000 && !::testing::Test::HasFailure(); ++i) twins.step();
        compared += twins.compared(), limits += twins.limits();
      }
  EXPECT_GT(compared, 1000u);
  EXPECT_GT(limits, 100u);
}

// Positions that lead to no block tell nothing, but keep their places after their death: events leave the
// ring for them, at times all. A reader is told so at once.
TEST(Places, EventsLeaveTheRingForPositionsThatTellNothing) {
  kvc_group_config group = {};
  group.struct_size = sizeof group;
  group.kind = KVC_GROUP_STATE;
  kvc_manager_config config = {};
  config.num_blocks = 4, config.block_size = kBlockSize, config.max_nodes = 20, config.event_capacity = 8;
  config.groups = &group, config.num_groups = 1;
  const ManagerOf manager(config);
  const auto compute = [&](int32_t first, size_t length) {
    const std::vector<int32_t> tokens = tokens_from(first, length);
    uint64_t id = 0;
    ASSERT_EQ(kvc_manager_allocate_request(manager.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0),
                                           nullptr, &id, nullptr),
              KVC_OK);
    ASSERT_EQ(kvc_manager_commit_tokens(manager.m, id, tokens.size()), KVC_OK) << last_error();
    ASSERT_EQ(kvc_manager_free_request(manager.m, id), KVC_OK);
  };
  bool early = false, all = false;
  for (int32_t i = 0; i < 40; ++i) {
    compute(1000 * i, 2 * kBlockSize);  // a state at the second position
    size_t count = 0;
    ASSERT_EQ(kvc_manager_evict_blocks(manager.m, -1, 10, &count), KVC_OK);
    for (int32_t j = 1; j <= i % 7; ++j) compute(1000 * i + 100 * j, 7 * kBlockSize + 1);  // none at an end
    ASSERT_EQ(kvc_manager_check(manager.m), KVC_OK) << last_error();
    kvc_event events[8];
    int32_t tokens[8 * kBlockSize];
    for (const uint64_t from : {uint64_t{0}, uint64_t{4} * static_cast<uint64_t>(i)}) {
      uint64_t cursor = from;
      ASSERT_EQ(
          poll_events(manager.m, &cursor, events, sizeof events[0], 8, &count, tokens, std::size(tokens)),
          KVC_OK);
      ASSERT_EQ(cursor, 4 * static_cast<uint64_t>(i) + 4) << "two positions are told of, and two taken back";
      early |= count != 0 && count < std::min<uint64_t>(8, cursor - from);
      all |= count == 0;
      for (size_t j = 0; j < count; ++j) {
        ASSERT_EQ(events[j].sequence + count - j, cursor);
        ASSERT_EQ(static_cast<uint64_t>(tokens[j * kBlockSize]),
                  events[j].sequence / 4 * 1000 + events[j].token_offset);
      }
    }
  }
  EXPECT_TRUE(early);
  EXPECT_TRUE(all);
}

}  // namespace
}  // namespace kvc
