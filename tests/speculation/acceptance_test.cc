// SPDX-License-Identifier: Apache-2.0
// Counts of verdicts by depth, and the length of drafts by cost.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "speculation/drafted.h"

namespace kvc::test {
namespace {

kvc_acceptance empty() {
  kvc_acceptance counts = {};
  counts.struct_size = sizeof counts;
  return counts;
}

uint32_t length(const kvc_acceptance& counts, const std::vector<double>& costs, double* tokens = nullptr) {
  uint32_t chosen = 99;
  EXPECT_EQ(kvc_acceptance_length(&counts, costs.data(), costs.size(), &chosen, tokens), KVC_OK)
      << kvc_last_error();
  return chosen;
}

TEST(Acceptance, CountsDepthsThatWereTried) {
  Drafted drafts;
  drafts.node(1, -1), drafts.node(2, 0), drafts.node(3, -1);  // accepted: 0; its child was tried
  drafts.end_request();
  drafts.end_request();                    // no draft
  drafts.node(1, -1), drafts.node(2, -1);  // accepted: 1, a leaf
  drafts.end_request();
  drafts.node(4, -1);  // nothing
  drafts.end_request();
  Verdict verdict(drafts);
  verdict.path = {0, -1, -1, 1, -1, -1}, verdict.num_accepted = {1, 0, 1, 0};
  const kvc_drafts c = drafts.c();
  const kvc_verdict of = verdict.c();
  kvc_acceptance counts = empty();
  ASSERT_EQ(kvc_acceptance_add(&counts, &c, &of), KVC_OK) << kvc_last_error();
  EXPECT_EQ(counts.num_drafts, 3u);
  EXPECT_EQ(counts.num_nodes, 6u);
  EXPECT_EQ(counts.num_accepted, 2u);
  EXPECT_EQ(counts.tried[0], 3u);
  EXPECT_EQ(counts.accepted[0], 2u);
  EXPECT_EQ(counts.tried[1], 1u);
  EXPECT_EQ(counts.accepted[1], 0u);
  EXPECT_EQ(counts.tried[2], 0u);
  ASSERT_EQ(kvc_acceptance_halve(&counts), KVC_OK);
  EXPECT_EQ(counts.tried[0], 1u);
  EXPECT_EQ(counts.num_nodes, 3u);

  const kvc_acceptance before = counts;
  verdict.path[0] = 1;
  EXPECT_EQ(kvc_acceptance_add(&counts, &c, &of), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::memcmp(&before, &counts, sizeof counts), 0) << "nothing is counted";
}

TEST(Acceptance, OfLongPathsStaysInItsArrays) {
  Drafted drafts;
  for (int32_t i = 0; i < 40; ++i) drafts.node(i, i - 1);
  drafts.end_request();
  Verdict verdict(drafts);
  for (int32_t i = 0; i < 40; ++i) verdict.path[static_cast<size_t>(i)] = i;
  verdict.num_accepted[0] = 40;
  const kvc_drafts c = drafts.c();
  const kvc_verdict of = verdict.c();
  kvc_acceptance counts = empty();
  ASSERT_EQ(kvc_acceptance_add(&counts, &c, &of), KVC_OK);
  EXPECT_EQ(counts.num_accepted, 40u);
  EXPECT_EQ(counts.accepted[KVC_MAX_DRAFT_DEPTHS - 1], 1u);
}

TEST(DraftLength, FollowsAcceptanceAndCosts) {
  kvc_acceptance counts = empty();
  for (size_t d = 0; d < 4; ++d) counts.tried[d] = 1000000, counts.accepted[d] = 900000;
  double tokens = 0;
  EXPECT_EQ(length(counts, {1, 1.01, 1.02, 1.03, 1.04}, &tokens), 4u);
  EXPECT_NEAR(tokens, 1 + 0.9 + 0.81 + 0.729 + 0.6561, 1e-4);
  EXPECT_EQ(length(counts, {1, 2, 3, 4, 5}, &tokens), 0u) << "drafts cost as much as steps";
  EXPECT_EQ(tokens, 1);
  EXPECT_EQ(length(counts, {1, 1.1, 1.2, 9, 9}), 2u);
  counts.accepted[2] = 0;
  EXPECT_EQ(length(counts, {1, 1.01, 1.02, 1.03, 1.04}), 2u) << "what is never accepted";
}

TEST(DraftLength, BeginsWithThePriorAndComesBackToIt) {
  kvc_acceptance counts = empty();
  double tokens = 0;
  EXPECT_EQ(length(counts, {1, 1.1}, &tokens), 1u);
  EXPECT_NEAR(tokens, 1.7, 1e-12);
  counts.tried[0] = 100;
  EXPECT_EQ(length(counts, {1, 1.1}), 0u);
  for (int i = 0; i < 7; ++i) ASSERT_EQ(kvc_acceptance_halve(&counts), KVC_OK);
  EXPECT_EQ(length(counts, {1, 1.1}), 1u);
}

TEST(DraftLength, OfEqualsIsTheShortest) {
  kvc_acceptance counts = empty();
  for (size_t d = 0; d < 2; ++d) counts.tried[d] = counts.accepted[d] = 0;
  EXPECT_EQ(length(counts, {1, 1.7}), 0u);
}

TEST(DraftLength, RefusesBadInput) {
  kvc_acceptance counts = empty();
  uint32_t chosen = 99;
  for (const double wrong : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const double costs[] = {1, wrong};
    EXPECT_EQ(kvc_acceptance_length(&counts, costs, 2, &chosen, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  }
  const double cost = 1;
  EXPECT_EQ(kvc_acceptance_length(&counts, &cost, 0, &chosen, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_acceptance_length(&counts, &cost, 1026, &chosen, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  counts.accepted[3] = 1;
  EXPECT_EQ(kvc_acceptance_length(&counts, &cost, 1, &chosen, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "accepted[3] is 1 and tried[3] 0; what is accepted was tried");
  EXPECT_EQ(chosen, 99u);
}

}  // namespace
}  // namespace kvc::test
