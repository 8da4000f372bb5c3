// SPDX-License-Identifier: Apache-2.0
// kvcache/speculation.hpp: a text by n-grams comes out as without drafts, trees move, an index ends once and
// moves, errors carry status and text, and arrays that do not fit together are refused.
#include <gtest/gtest.h>

#include <cstring>
#include <kvcache/speculation.hpp>
#include <kvcache/storage.hpp>
#include <vector>

namespace {

kvc_draft_config index_config() {
  auto config = kvc::make<kvc_draft_config>();
  config.max_rows = 2, config.min_ngram = 1, config.max_ngram = 3;
  return config;
}

// Says 0 1 2 3 4 0 1 2 3 4 ...
int32_t next_of(int32_t token) { return (token + 1) % 5; }

TEST(HppSpeculation, DraftsByNgramsGiveTheSameText) {
  kvc::Draft first(index_config());
  kvc::Draft index = std::move(first);
  EXPECT_EQ(first.get(), nullptr);
  std::vector<int32_t> text{0, 1, 2, 3, 4, 0}, tokens(4), target, room(5);
  std::vector<uint64_t> offsets(2);
  index.append(1, text);
  const std::vector<int32_t> rows{1};
  const std::vector<uint32_t> lengths{4};
  kvc::Verdict verdict;
  kvc::Acceptance acceptance;
  for (int step = 0; step < 3; ++step) {
    const kvc::Drafts drafts = index.propose(rows, lengths, offsets, tokens);
    drafts.check();
    target = {next_of(text.back())};
    for (uint64_t i = 0; i < offsets[1]; ++i) target.push_back(next_of(tokens[i]));
    verdict.verify_greedy(drafts, target);
    const auto gained = verdict.gained(drafts, 0, room);
    EXPECT_EQ(gained.size(), 5u);
    text.insert(text.end(), gained.begin(), gained.end());
    const std::vector<uint64_t> ends{0, gained.size()};
    index.append(rows, ends, gained);
    acceptance.add(drafts, verdict);
  }
  for (size_t i = 0; i + 1 < text.size(); ++i) EXPECT_EQ(text[i + 1], next_of(text[i]));
  EXPECT_EQ(text.size(), 21u);
  EXPECT_EQ(acceptance.num_accepted, 12u);
  const std::vector<double> costs{1, 1.1, 1.2};
  EXPECT_EQ(acceptance.length(costs).nodes, 2u);
  EXPECT_GT(acceptance.length(costs).tokens, 2);
  acceptance.halve();
  EXPECT_EQ(acceptance.num_accepted, 6u);
  index.truncate(1);
  EXPECT_EQ(index.propose(rows, lengths, offsets, tokens).offsets[1], 0u);
  EXPECT_EQ(kvc::draft_lookup(text, 1, 3, tokens).size(), 4u);
}

TEST(HppSpeculation, TreesMoveTokensAndStates) {
  const std::vector<uint64_t> offsets{0, 3}, starts{3};
  const std::vector<int32_t> tokens{5, 6, 7}, parents{-1, -1, 1}, target{6, 0, 7, 9}, table{2, 1},
      own{3, 4, 5, 6};
  const kvc::Drafts drafts(offsets, tokens, parents);
  kvc::Verdict verdict;
  verdict.verify_greedy(drafts, target);
  EXPECT_EQ(verdict.path(drafts, 0).size(), 2u);
  EXPECT_EQ(verdict.path(drafts, 0)[1], 2);
  EXPECT_EQ(verdict.next_token(0), 9);
  auto tables = kvc::make<kvc_draft_tables>();
  tables.block_size = 4, tables.starts = starts.data(), tables.block_tables = table.data();
  tables.table_stride = table.size();
  kvc_token_copy room[3];
  const auto moves = verdict.moves(drafts, tables, room);
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].source, 1);
  EXPECT_EQ(moves[0].destination, 2);
  auto config = kvc::make<kvc_storage_config>();
  config.num_blocks = 4, config.num_layers = 1, config.num_heads = 1, config.head_dim = 8,
  config.block_size = 4;
  kvc::Storage storage(config);
  storage.move_tokens(moves);
  kvc_block_copy copies[1];
  verdict.states(drafts, tables, own, copies);
  EXPECT_EQ(copies[0].source, 6);
  EXPECT_EQ(copies[0].destination, 1);
  const int32_t few[2] = {};
  EXPECT_THROW(verdict.states(drafts, tables, few, copies), std::invalid_argument);

  auto from = kvc::make<kvc_probabilities>();
  std::vector<float> p(4 * 10);
  for (size_t row = 0; row < 4; ++row) p[10 * row + static_cast<size_t>(target[row])] = 1;
  const std::vector<double> uniforms(4, 0.5);
  from.vocab = 10, from.p = p.data(), from.uniforms = uniforms.data();
  verdict.verify_sampling(drafts, from);
  EXPECT_EQ(verdict.path(drafts, 0).size(), 2u);
  verdict.verify_typical(drafts, from);
  EXPECT_EQ(verdict.path(drafts, 0).size(), 2u);
  EXPECT_EQ(verdict.next_token(0), 9);
}

TEST(HppSpeculation, ThrowsErrors) {
  const std::vector<uint64_t> offsets{0, 2};
  const std::vector<int32_t> tokens{5, 6}, parents{-1, 1}, one{1}, three{1, 2, 3};
  try {
    kvc::Drafts(offsets, tokens, parents).check();
    FAIL() << "no error";
  } catch (const kvc::Error& error) {
    EXPECT_EQ(error.status(), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(error.what(), "the parent of node 1 is 1"), nullptr) << error.what();
  }
  EXPECT_THROW(kvc::Drafts(offsets, one), std::invalid_argument);
  EXPECT_THROW(kvc::Drafts(offsets, tokens, one), std::invalid_argument);
  const kvc::Drafts chain(offsets, tokens);
  kvc::Verdict verdict;
  EXPECT_THROW(verdict.verify_greedy(chain, tokens), std::invalid_argument);
  verdict.verify_greedy(chain, std::vector<int32_t>{5, 6, 7});
  std::vector<int32_t> room(2);
  EXPECT_THROW(verdict.gained(chain, 0, room), std::invalid_argument);
  auto from = kvc::make<kvc_probabilities>();
  EXPECT_THROW(verdict.verify_sampling(chain, from), kvc::Error);
  EXPECT_THROW(kvc::Draft(kvc::make<kvc_draft_config>()), kvc::Error);
  kvc::Draft index(index_config());
  EXPECT_THROW(index.append(2, tokens), kvc::Error);
  EXPECT_THROW(index.append(one, offsets, three), std::invalid_argument);
  EXPECT_THROW(kvc::Acceptance().length({}), kvc::Error);
}

}  // namespace
