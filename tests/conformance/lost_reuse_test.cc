// SPDX-License-Identifier: Apache-2.0
// Lost reuse by group and reason. Blocks are published one by one, so that each group has what a test says.
#include "conformance/fixture.h"

namespace conformance {
namespace {

class LostReuse : public testing::Test {
 protected:
  void make(const std::vector<kvc_group_config>& groups) {
    c_ = std::make_unique<Cache>(shape(200, B), groups);
    tokens_ = text(1, 8 * B + 1);
  }
  // Positions of the prompt that a group has cached.
  void has(uint32_t group, const std::vector<size_t>& positions) {
    for (const size_t j : positions) {
      Ids blocks(j + 1, -1);
      blocks[j] = c_->acquire(1, group)[0];
      ASSERT_EQ(c_->publish(first(tokens_, (j + 1) * B), blocks, group), KVC_OK) << kvc_last_error();
      ASSERT_EQ(c_->release({blocks[j]}), KVC_OK);
    }
  }
  // {admissions, block, window, state, agreement}, in blocks.
  std::vector<uint64_t> lost(uint32_t group) const {
    kvc_lost_reuse info = sized<kvc_lost_reuse>();
    EXPECT_EQ(kvc_manager_lost_reuse(c_->get(), group, &info), KVC_OK);
    return {info.admissions, info.block_tokens / B, info.window_tokens / B, info.state_tokens / B,
            info.agreement_tokens / B};
  }
  kvc_request_info admitted(uint32_t flags = KVC_REQUEST_NO_WRITE) {
    return c_->request(c_->allocate(tokens_, request_config(flags)).id);
  }
  void expect_request(uint64_t hit, uint64_t lost, uint32_t group, uint32_t reason,
                      uint32_t flags = KVC_REQUEST_NO_WRITE) {
    const kvc_request_info info = admitted(flags);
    EXPECT_EQ(info.num_cached, hit * B);
    EXPECT_EQ(info.lost_reuse_tokens, lost * B);
    EXPECT_EQ(info.lost_group, group);
    EXPECT_EQ(info.lost_reason, reason);
  }

  std::unique_ptr<Cache> c_;
  Tokens tokens_;
};
using Lost = std::vector<uint64_t>;

TEST_F(LostReuse, NothingIsLostWhereAllGroupsHaveTheSame) {
  make({full_group(), window_group(2 * B)});
  has(0, {0, 1, 2});
  has(1, {0, 1, 2});
  expect_request(3, 0, 0, 0);
  EXPECT_EQ(lost(0), (Lost{0, 0, 0, 0, 0}));
  EXPECT_EQ(lost(1), (Lost{0, 0, 0, 0, 0}));
}

TEST_F(LostReuse, AGroupOfFullAttentionLacksABlock) {
  make({full_group(), full_group(), full_group()});
  has(0, {0, 1, 2, 3, 4});
  has(1, {0, 1});
  has(2, {0, 1, 3, 4});
  expect_request(2, 3, 1, KVC_LOST_BLOCK);
  EXPECT_EQ(lost(0), (Lost{0, 0, 0, 0, 0}));
  EXPECT_EQ(lost(1), (Lost{1, 3, 0, 0, 0}));
  EXPECT_EQ(lost(2), (Lost{1, 3, 0, 0, 0}));
}

TEST_F(LostReuse, AWindowOrAChunkHasReturnedItsBlocks) {
  make({full_group(), window_group(B + 1), chunk_group(4 * B)});
  has(0, {0, 1, 2, 3, 4, 5});
  has(1, {0, 1, 2, 4});  // the window at 5 or 6 positions needs position 4 or 5
  has(2, {0, 1, 2, 3, 4});
  expect_request(5, 1, 1, KVC_LOST_WINDOW);
  EXPECT_EQ(lost(1), (Lost{1, 0, 1, 0, 0}));
  EXPECT_EQ(lost(2), (Lost{1, 0, 1, 0, 0}));
}

TEST_F(LostReuse, AMissingSinkIsABlockAndNotTheWindow) {
  make({full_group(), window_group(B + 1, 2 * B)});
  has(0, {0, 1, 2, 3, 4, 5});
  has(1, {0, 5});
  expect_request(1, 5, 1, KVC_LOST_BLOCK);
  EXPECT_EQ(lost(1), (Lost{1, 5, 0, 0, 0}));
  has(1, {1, 2});
  expect_request(6, 0, 0, 0);
  ASSERT_EQ(c_->verify(), KVC_OK);
  EXPECT_EQ(lost(1), (Lost{1, 5, 0, 0, 0}));
}

TEST_F(LostReuse, NoCheckpointOfAState) {
  make({state_group(), full_group()});
  has(1, {0, 1, 2, 3, 4});
  has(0, {1});
  expect_request(2, 3, 0, KVC_LOST_STATE);
  EXPECT_EQ(lost(0), (Lost{1, 0, 0, 3, 0}));
  EXPECT_EQ(lost(1), (Lost{0, 0, 0, 0, 0}));
}

TEST_F(LostReuse, GroupsThatDoNotAgreeOnAnEnd) {
  make({window_group(2), window_group(2), full_group()});
  has(0, {4});     // alone 5
  has(1, {1, 3});  // alone 4
  has(2, {0, 1, 2, 3, 4, 5});
  expect_request(0, 6, 1, KVC_LOST_AGREEMENT);
  EXPECT_EQ(lost(0), (Lost{1, 0, 1, 0, 0}));
  EXPECT_EQ(lost(1), (Lost{1, 0, 2, 0, 4}));
  EXPECT_EQ(lost(2), (Lost{0, 0, 0, 0, 0}));
  has(0, {1});  // two positions together: half and half, so the group is to blame
  expect_request(2, 4, 1, KVC_LOST_WINDOW);
  EXPECT_EQ(lost(1), (Lost{2, 0, 4, 0, 6}));
  const kvc_stats stats = c_->stats();
  EXPECT_EQ(stats.lost_reuse_tokens, 10u * B);
}

TEST_F(LostReuse, OfEqualGroupsTheFirstCountsWhatTheyDoNotAgreeOn) {
  make({window_group(2), full_group(), state_group(), window_group(2)});
  has(1, {0, 1, 2, 3});
  has(0, {1});
  has(2, {1});
  has(3, {0, 2});
  expect_request(0, 4, 0, KVC_LOST_WINDOW);
  EXPECT_EQ(lost(0), (Lost{1, 0, 2, 0, 2}));
  EXPECT_EQ(lost(2), (Lost{1, 0, 0, 2, 0}));
  EXPECT_EQ(lost(3), (Lost{1, 0, 1, 0, 0}));
}

TEST_F(LostReuse, OnlyFirstAdmissionsCount) {
  make({full_group(), window_group(2)});
  has(0, {0, 1, 2});
  expect_request(0, 3, 1, KVC_LOST_WINDOW, KVC_REQUEST_NO_WRITE | KVC_REQUEST_RESUMED);
  EXPECT_EQ(lost(1), (Lost{0, 0, 0, 0, 0}));
  const Admitted r = c_->allocate(tokens_, request_config(KVC_REQUEST_NO_WRITE));
  EXPECT_EQ(lost(1), (Lost{1, 0, 3, 0, 0}));
  c_->commit(r.id, 5);
  const uint64_t child = c_->fork(r.id);
  EXPECT_EQ(c_->request(child).lost_reason, 0u);
  c_->preempt(r.id);
  EXPECT_EQ(c_->request(r.id).lost_reason, uint32_t{KVC_LOST_WINDOW});  // of the last admission
  has(1, {2});
  c_->admit(r.id);
  EXPECT_EQ(c_->request(r.id).lost_group, 0u);
  EXPECT_EQ(c_->request(r.id).lost_reason, 0u);
  EXPECT_EQ(lost(1), (Lost{1, 0, 3, 0, 0}));
}

// A request of 20 positions with nodes for 8: what it knew behind them.
TEST_F(LostReuse, NodesThatRanOut) {
  kvc_manager_config config = shape(200, B);
  config.max_nodes = 8;
  c_ = std::make_unique<Cache>(config, std::vector{window_group(2 * B), window_group(2)});
  const auto node_tokens = [&](uint32_t group) {
    kvc_lost_reuse info = sized<kvc_lost_reuse>();
    EXPECT_EQ(kvc_manager_lost_reuse(c_->get(), group, &info), KVC_OK);
    return info.node_tokens;
  };
  const Admitted r = c_->allocate(text(1, 20 * B + 1));
  c_->commit(r.id, 8 * B);
  EXPECT_EQ(node_tokens(0), 0u);
  c_->commit(r.id, 9 * B);
  EXPECT_EQ(node_tokens(0), 12u * B);
  EXPECT_EQ(node_tokens(1), 12u * B);
  c_->commit(r.id, 20 * B + 1);
  EXPECT_EQ(node_tokens(0), 12u * B) << "counted once";
  EXPECT_EQ(lost(0), (Lost{0, 0, 0, 0, 0})) << "no admission could tell";
  EXPECT_EQ(c_->stats().unpublished_blocks, 1u);
  EXPECT_EQ(c_->stats().lost_reuse_tokens, 0u);
}

TEST_F(LostReuse, AProbeARefusedAdmissionAndOptionsChangeNothing) {
  make({full_group(), window_group(2)});
  has(0, {0, 1, 2});
  EXPECT_EQ(c_->probe(tokens_).lost_reuse_tokens, 3u * B);
  Admitted r;
  EXPECT_EQ(c_->try_allocate(text(1, 150 * B), &r), KVC_ERROR_NO_SPACE);
  EXPECT_EQ(lost(1), (Lost{0, 0, 0, 0, 0}));
  RequestOptions options = request_config(KVC_REQUEST_NO_WRITE);
  options.drop_tail_blocks = 2;  // the loss is counted before
  const kvc_request_info info = c_->request(c_->allocate(tokens_, options).id);
  EXPECT_EQ(info.lost_reuse_tokens, 3u * B);
  EXPECT_EQ(lost(1), (Lost{1, 0, 3, 0, 0}));
}

TEST_F(LostReuse, AGroupThatDoesNotExist) {
  make({full_group(), window_group(2)});
  kvc_lost_reuse info = sized<kvc_lost_reuse>();
  EXPECT_EQ(kvc_manager_lost_reuse(c_->get(), 2, &info), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvc_last_error()), "group 2 does not exist; the manager has 2 groups, from 0 on");
  make({});
  EXPECT_EQ(lost(0), (Lost{0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace conformance
