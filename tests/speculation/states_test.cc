// SPDX-License-Identifier: Apache-2.0
// Speculation of hybrid models: a toy model whose next token depends on a recurrent state alone. The state
// after each row of a draft goes to blocks of the engine's own, and kvc_verdict_states says which one becomes
// the request's. Texts equal those without drafts, and every state, hits on checkpoints included, is that of
// the tokens before it.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/manager.h>
#include <kvcache/request.h>

#include <string>

#include "seed.h"
#include "speculation/drafted.h"

namespace kvc::test {
namespace {

constexpr uint32_t kBlock = 4, kLookahead = 9, kStateBlocks = 120;
constexpr int32_t kVocab = 20;

using Tokens = std::vector<int32_t>;

uint64_t state_after(uint64_t state, int32_t token) {
  return (state + static_cast<uint64_t>(token) + 1) * 0x9e3779b97f4a7c15u ^ state >> 29;
}
uint64_t state_of(const Tokens& text, size_t size) {
  uint64_t state = 0;
  for (size_t i = 0; i < size; ++i) state = state_after(state, text[i]);
  return state;
}
int32_t says(uint64_t state) { return static_cast<int32_t>((state >> 40) % kVocab); }

class HybridEngine {
 public:
  HybridEngine() {
    kvc_group_config groups[2] = {};
    for (kvc_group_config& group : groups) group.struct_size = sizeof group;
    groups[1].kind = KVC_GROUP_STATE, groups[1].pool = 1, groups[1].retention_tokens = kBlock;
    kvc_pool_config pools[2] = {};
    for (kvc_pool_config& pool : pools) pool.struct_size = sizeof pool, pool.num_blocks = kStateBlocks;
    kvc_manager_config config = {};
    config.struct_size = sizeof config, config.block_size = kBlock, config.max_requests = 4;
    config.groups = groups, config.num_groups = 2, config.pools = pools, config.num_pools = 2;
    EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
    own.resize(kLookahead + 1);  // for all steps
    EXPECT_EQ(kvc_manager_acquire_blocks(m, 1, own.data(), own.size()), KVC_OK) << kvc_last_error();
    states.assign(2 * kStateBlocks, 0);
  }
  ~HybridEngine() { kvc_manager_destroy(m); }

  // Prefill, and the first token.
  void start(const Tokens& prompt) {
    text = prompt;
    const kvc_prompt c = {sizeof c, 0, prompt.data(), prompt.size(), nullptr, 0};
    kvc_request_config config = {};
    config.struct_size = sizeof config, config.lookahead = kLookahead;
    uint64_t cached = 0;
    ASSERT_EQ(kvc_manager_allocate_request(m, &c, &config, &request, &cached), KVC_OK) << kvc_last_error();
    read_table();
    uint64_t state = cached != 0 ? at(cached) : 0;
    ASSERT_EQ(state, state_of(text, cached)) << "a hit on another state";
    hits += cached != 0;
    for (size_t i = cached; i < text.size(); ++i) state = state_after(state, text[i]);
    at(text.size()) = state;
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, text.size()), KVC_OK) << kvc_last_error();
    text.push_back(says(state));
    ASSERT_EQ(kvc_manager_append_tokens(m, request, &text.back(), 1), KVC_OK) << kvc_last_error();
  }

  void step(const Drafted& drafts) {
    read_table();
    const uint64_t start = text.size();
    std::vector<int32_t> target;
    for (size_t row = 0; row < drafts.rows(); ++row) {
      const int32_t parent = row == 0 ? -1 : drafts.parents[row - 1];
      const uint64_t before = row == 0 ? at(start - 1) : states[own_block(parent + 1)];
      states[own_block(static_cast<int32_t>(row))] =
          state_after(before, row == 0 ? text.back() : drafts.tokens[row - 1]);
      target.push_back(says(states[own_block(static_cast<int32_t>(row))]));
    }
    Verdict verdict(drafts);
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict.c();
    ASSERT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_OK) << kvc_last_error();
    const kvc_draft_tables tables = {sizeof tables, 1, kBlock, &start, table.data(), table.size()};
    kvc_block_copy copy = {};
    ASSERT_EQ(kvc_verdict_states(&c, &out, &tables, own.data(), &copy), KVC_OK) << kvc_last_error();
    states[static_cast<size_t>(copy.destination)] = states[static_cast<size_t>(copy.source)];
    Tokens gained;
    for (size_t i = 0; i < verdict.num_accepted[0]; ++i)
      gained.push_back(drafts.tokens[static_cast<size_t>(verdict.path[i])]);
    gained.push_back(verdict.next_tokens[0]);
    text.insert(text.end(), gained.begin(), gained.end());
    ASSERT_EQ(kvc_manager_append_tokens(m, request, gained.data(), gained.size()), KVC_OK)
        << kvc_last_error();
    const uint64_t committed = start + verdict.num_accepted[0];
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, committed), KVC_OK) << kvc_last_error();
    read_table();
    ASSERT_EQ(at(committed), state_of(text, committed));
    ASSERT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
    ++steps, accepted += verdict.num_accepted[0];
  }

  void end() { ASSERT_EQ(kvc_manager_free_request(m, request), KVC_OK) << kvc_last_error(); }

  Tokens text;
  size_t steps = 0, hits = 0, accepted = 0;

 private:
  void read_table() {
    table.resize(40);
    ASSERT_EQ(kvc_manager_export_tables(m, &request, 1, 1, -1, table.data(), table.size()), KVC_OK);
  }
  uint64_t& at(uint64_t tokens) {  // the state after so many tokens
    const int32_t block = table[(tokens - 1) / kBlock];
    EXPECT_GE(block, 0) << "no block for the state after " << tokens << " tokens";
    return states[static_cast<size_t>(block)];
  }
  size_t own_block(int32_t row) const { return static_cast<size_t>(own[static_cast<size_t>(row)]); }

  kvc_manager* m = nullptr;
  uint64_t request = 0;
  std::vector<int32_t> table, own;
  std::vector<uint64_t> states;  // of the state pool's blocks, by id
};

// Mostly what the model will say.
Drafted guess(Random& random, const Tokens& text, bool chain) {
  Drafted drafts;
  std::vector<Tokens> paths;
  for (uint64_t n = random.below(kLookahead + 1); n-- > 0;) {
    const int32_t parent = chain ? static_cast<int32_t>(paths.size()) - 1
                                 : static_cast<int32_t>(random.below(paths.size() + 1)) - 1;
    Tokens path = parent < 0 ? text : paths[static_cast<size_t>(parent)];
    path.push_back(random.chance(70) ? says(state_of(path, path.size()))
                                     : static_cast<int32_t>(random.below(kVocab)));
    drafts.node(path.back(), parent);
    paths.push_back(path);
  }
  drafts.end_request();
  return drafts;
}

void compare(bool chain) {
  Random random(test_seed());
  HybridEngine engine;
  Tokens prompt;
  size_t plain_steps = 0;
  for (int i = 0; i < 60; ++i) {
    if (i % 3 != 0 && !prompt.empty()) {
      prompt = engine.text;  // goes on where the last one ended, or before
      prompt.resize(random.between(1, prompt.size()));
    } else {
      prompt.assign(random.between(1, 12), static_cast<int32_t>(random.below(kVocab)));
    }
    if (prompt.size() > 60) prompt.resize(60);
    engine.start(prompt);
    const size_t wanted = prompt.size() + 40;
    while (engine.text.size() < wanted && !testing::Test::HasFatalFailure())
      engine.step(guess(random, engine.text, chain));
    if (testing::Test::HasFatalFailure()) return;
    Tokens plain = prompt;
    while (plain.size() < engine.text.size()) plain.push_back(says(state_of(plain, plain.size())));
    ASSERT_EQ(engine.text, plain);
    plain_steps += plain.size() - prompt.size();
    engine.end();
  }
  EXPECT_LT(engine.steps * 3, plain_steps * 2);
  EXPECT_GT(engine.hits, 10u);
}

TEST(SpeculatingHybrid, GivesTheSameTextAndStatesWithChains) { compare(true); }
TEST(SpeculatingHybrid, GivesTheSameTextAndStatesWithTrees) { compare(false); }

// ---- kvc_verdict_states alone: two requests, a tree of three nodes and none

struct StatesCase {
  Drafted drafts;
  std::vector<int32_t> path{1, 2, -1}, states{20, 21, 22, 23, 24}, table{8, 9, -1, 5, 6, 7};
  std::vector<uint64_t> accepted{2, 0}, starts{3, 9};
  std::vector<kvc_block_copy> copies{{-5, -5}, {-5, -5}};
  kvc_draft_tables tables = {sizeof tables, 0, kBlock, nullptr, nullptr, 3};

  StatesCase() {
    drafts.node(1, -1), drafts.node(2, -1), drafts.node(3, 1);
    drafts.end_request();
    drafts.end_request();
  }
  kvc_status run() {
    const kvc_drafts c = drafts.c();
    const kvc_verdict verdict = {sizeof verdict, path.data(), accepted.data(), nullptr};
    tables.starts = starts.data(), tables.block_tables = table.data();
    return kvc_verdict_states(&c, &verdict, &tables, states.data(), copies.data());
  }
};

TEST(VerdictStates, CopiesTheStateOfTheLastAcceptedNodeOrOfTheRoot) {
  StatesCase c;
  ASSERT_EQ(c.run(), KVC_OK) << kvc_last_error();
  EXPECT_EQ(c.copies[0].source, 23) << "node 2";
  EXPECT_EQ(c.copies[0].destination, 9) << "after 5 tokens";
  EXPECT_EQ(c.copies[1].source, 24) << "the first row of request 1";
  EXPECT_EQ(c.copies[1].destination, 7) << "after 9 tokens";
  c.accepted = {1, 0};
  ASSERT_EQ(c.run(), KVC_OK) << kvc_last_error();
  EXPECT_EQ(c.copies[0].source, 22) << "node 1";
  EXPECT_EQ(c.copies[0].destination, 8) << "after 4 tokens";
}

TEST(VerdictStates, RefusesBadInputAndChangesNothing) {
  const struct {
    const char* text;
    void (*spoil)(StatesCase&);
  } bad[] = {
      {"states[4] is -1; give the block with the state after node -1 of request 1",
       [](StatesCase& c) { c.states[4] = -1; }},
      {"starts[1] is 0; a draft follows at least one known token, whose state is row 0",
       [](StatesCase& c) { c.starts[1] = 0; }},
      {"request 1: position 12 is past the 3 blocks of its table", [](StatesCase& c) { c.starts[1] = 13; }},
      {"request 0: its table has no block for position 8; give it lookahead slots for all nodes",
       [](StatesCase& c) { c.starts[0] = 7; }},
      {"request 0: entry 0 of its path is node 2, which is no child of node -1; pass the verdict of these "
       "drafts",
       [](StatesCase& c) {
         c.path = {2, 1, -1};
       }},
      {"block_size is 0; give 1 .. 1048576", [](StatesCase& c) { c.tables.block_size = 0; }},
  };
  for (const auto& one : bad) {
    StatesCase c;
    one.spoil(c);
    EXPECT_EQ(c.run(), KVC_ERROR_INVALID_ARGUMENT) << one.text;
    EXPECT_STREQ(kvc_last_error(), one.text);
    EXPECT_EQ(c.copies[0].source, -5);
    EXPECT_EQ(c.copies[1].destination, -5);
  }
}

}  // namespace
}  // namespace kvc::test
