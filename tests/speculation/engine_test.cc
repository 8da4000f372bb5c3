// SPDX-License-Identifier: Apache-2.0
// Speculation with a manager and a storage: a toy model whose state at a token is a hash of the state before
// and the token, kept as the token's key. It reads states from the cache alone, so that a token that was not
// moved, or moved wrongly, changes what follows. Texts and cached bytes equal those of a run without drafts.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/request.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <functional>
#include <string>

#include "seed.h"
#include "speculation/drafted.h"

namespace kvc::test {
namespace {

constexpr uint32_t kBlock = 4, kLayers = 2, kHeads = 2, kDim = 4, kLookahead = 12;
constexpr size_t kRow = kHeads * kDim;
constexpr int32_t kVocab = 50;

float state_after(float before, int32_t token) {
  const auto mixed =
      (static_cast<uint64_t>(before) * 31 + static_cast<uint64_t>(token) + 7) * 0x9e3779b97f4a7c15u;
  return static_cast<float>(mixed >> 56);  // few states, so that texts repeat
}
int32_t says(float state) { return static_cast<int32_t>(static_cast<uint64_t>(state) * 37 % kVocab); }

using Tokens = std::vector<int32_t>;
// Adds nodes to the draft of a text; may look at what the model will say.
using Drafter = std::function<void(const Tokens& text, Drafted& drafts)>;

class Engine {
 public:
  Engine() {
    kvc_manager_config config = {};
    config.struct_size = sizeof config, config.num_blocks = 400, config.block_size = kBlock;
    config.max_requests = 8;
    EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
    kvc_storage_config store = {};
    store.struct_size = sizeof store, store.num_blocks = 400, store.block_size = kBlock;
    store.num_layers = kLayers, store.num_heads = kHeads, store.head_dim = kDim;
    EXPECT_EQ(kvc_storage_create(&store, &storage), KVC_OK) << kvc_last_error();
  }
  ~Engine() {
    kvc_storage_destroy(storage);
    kvc_manager_destroy(m);
  }

  void start(const Tokens& prompt) {
    text = prompt;
    const kvc_prompt c = {sizeof c, 0, prompt.data(), prompt.size(), nullptr, 0};
    kvc_request_config config = {};
    config.struct_size = sizeof config, config.lookahead = kLookahead;
    uint64_t cached = 0;
    ASSERT_EQ(kvc_manager_allocate_request(m, &c, &config, &request, &cached), KVC_OK) << kvc_last_error();
    read_table();
    for (uint64_t i = cached; i + 1 < prompt.size(); ++i) write(i, i, i == 0 ? 0 : state(i - 1), prompt[i]);
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, prompt.size() - 1), KVC_OK) << kvc_last_error();
  }

  // One step: the last token and a draft, verified and put into place.
  void step(const Drafter& drafter) {
    Drafted drafts;
    if (drafter) drafter(text, drafts);
    drafts.end_request();
    read_table();
    const uint64_t start = text.size();
    const size_t nodes = drafts.tokens.size();
    std::vector<int32_t> target;
    write(start - 1, start - 1, start == 1 ? 0 : state(start - 2), text.back());
    target.push_back(says(state(start - 1)));
    for (size_t i = 0; i < nodes; ++i) {
      const int32_t parent = drafts.parents[i];
      const uint64_t above = parent < 0 ? start - 1 : start + static_cast<uint64_t>(parent);
      write(start + i, start + depth(drafts, i), state(above), drafts.tokens[i]);
      target.push_back(says(state(start + i)));
    }
    Verdict verdict(drafts);
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict.c();
    ASSERT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_OK) << kvc_last_error();
    const kvc_draft_tables tables = {sizeof tables, 0, kBlock, &start, table.data(), table.size()};
    std::vector<kvc_token_copy> moves(nodes);
    size_t count = 0;
    ASSERT_EQ(kvc_verdict_moves(&c, &out, &tables, moves.data(), moves.size(), &count), KVC_OK)
        << kvc_last_error();
    ASSERT_EQ(kvc_storage_move_tokens(storage, moves.data(), count), KVC_OK) << kvc_last_error();
    num_moves += count;
    Tokens gained;
    for (size_t i = 0; i < verdict.num_accepted[0]; ++i)
      gained.push_back(drafts.tokens[static_cast<size_t>(verdict.path[i])]);
    gained.push_back(verdict.next_tokens[0]);
    text.insert(text.end(), gained.begin(), gained.end());
    ASSERT_EQ(kvc_manager_append_tokens(m, request, gained.data(), gained.size()), KVC_OK)
        << kvc_last_error();
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, start + verdict.num_accepted[0]), KVC_OK)
        << kvc_last_error();
    ASSERT_EQ(kvc_acceptance_add(&acceptance, &c, &out), KVC_OK) << kvc_last_error();
    ++steps;
  }

  // Keys and values of the first tokens of the request.
  std::vector<float> contents(uint64_t tokens) {
    read_table();
    std::vector<float> k(kLayers * tokens * kRow), v(k.size());
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      kvc_rows rows = rows_at(0, layer);
      rows.k = k.data() + layer * tokens * kRow, rows.v = v.data() + layer * tokens * kRow;
      rows.num_tokens = tokens;
      EXPECT_EQ(kvc_storage_gather(storage, &rows, nullptr), KVC_OK) << kvc_last_error();
    }
    k.insert(k.end(), v.begin(), v.end());
    return k;
  }

  void end() {
    ASSERT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_free_request(m, request), KVC_OK);
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(kvc_manager_read_stats(m, &stats), KVC_OK);
    EXPECT_EQ(stats.blocks_live + stats.blocks_reserved, 0u);
  }

  kvc_manager* m = nullptr;
  kvc_storage* storage = nullptr;
  uint64_t request = 0;
  Tokens text, table;
  size_t steps = 0, num_moves = 0;
  kvc_acceptance acceptance = {sizeof(kvc_acceptance), 0, 0, 0, {}, {}};

 private:
  static uint64_t depth(const Drafted& drafts, size_t node) {
    uint64_t depth = 0;
    for (int32_t at = drafts.parents[node]; at >= 0; at = drafts.parents[static_cast<size_t>(at)]) ++depth;
    return depth;
  }
  void read_table() {
    table.resize(60);
    ASSERT_EQ(kvc_manager_export_tables(m, &request, 1, 0, -1, table.data(), table.size()), KVC_OK);
  }
  kvc_rows rows_at(uint64_t position, uint32_t layer) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows, rows.first_layer = layer, rows.num_layers = 1, rows.num_tokens = 1;
    rows.first_token = position, rows.block_table = table.data(), rows.block_table_size = table.size();
    return rows;
  }
  // At `place` in the cache; its rotary position goes into the value.
  void write(uint64_t place, uint64_t position, float before, int32_t token) {
    const float after = state_after(before, token);
    float k[kRow], v[kRow];
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (size_t i = 0; i < kRow; ++i) {
        k[i] = after + static_cast<float>(i * 1000 + layer * 100000);
        v[i] = static_cast<float>(position * 100 + static_cast<uint64_t>(token)) + k[i] / 1024;
      }
      kvc_rows rows = rows_at(place, layer);
      rows.k = k, rows.v = v;
      ASSERT_EQ(kvc_storage_store(storage, &rows, nullptr), KVC_OK) << kvc_last_error();
    }
  }
  float state(uint64_t place) {
    float k[kRow] = {}, v[kRow] = {};
    kvc_rows rows = rows_at(place, 0);
    rows.k = k, rows.v = v;
    EXPECT_EQ(kvc_storage_gather(storage, &rows, nullptr), KVC_OK) << kvc_last_error();
    return k[0];
  }
};

// What the model says after a text, without any cache.
int32_t next_of(const Tokens& text) {
  float state = 0;
  for (const int32_t token : text) state = state_after(state, token);
  return says(state);
}

std::vector<Tokens> prompts() {
  Random random(test_seed());
  std::vector<Tokens> all;
  for (int i = 0; i < 40; ++i) {
    Tokens prompt;
    if (i % 3 == 1) prompt = Tokens(all.back().begin(), all.back().end() - 1);  // shares a prefix
    for (uint64_t n = random.between(1, 9); n-- > 0;)
      prompt.push_back(static_cast<int32_t>(random.below(kVocab)));
    all.push_back(prompt);
  }
  return all;
}

// Each prompt with and without drafts, one after the other in one cache.
void compare(const Drafter& drafter, const std::function<void(const Tokens&)>& begin, Engine& engine) {
  Engine plain;
  constexpr size_t kNew = 60;
  for (const Tokens& prompt : prompts()) {
    plain.start(prompt);
    while (plain.text.size() < prompt.size() + kNew + kLookahead) plain.step(nullptr);
    engine.start(prompt);
    if (begin) begin(prompt);
    while (engine.text.size() < prompt.size() + kNew) {
      engine.step(drafter);
      if (testing::Test::HasFatalFailure()) return;
    }
    const size_t size = engine.text.size();
    ASSERT_EQ(engine.text, Tokens(plain.text.begin(), plain.text.begin() + static_cast<ptrdiff_t>(size)));
    ASSERT_EQ(engine.contents(size - 1), plain.contents(size - 1));
    engine.end(), plain.end();
  }
  EXPECT_LT(engine.steps, plain.steps);
}

// A tree whose nodes are mostly what the model says, in random order.
Drafter guesses(Random& random, bool chain) {
  return [&random, chain](const Tokens& text, Drafted& drafts) {
    std::vector<Tokens> paths;
    for (uint64_t n = random.below(kLookahead + 1); n-- > 0;) {
      const int32_t parent = chain ? static_cast<int32_t>(paths.size()) - 1
                                   : static_cast<int32_t>(random.below(paths.size() + 1)) - 1;
      Tokens path = parent < 0 ? text : paths[static_cast<size_t>(parent)];
      path.push_back(random.chance(60) ? next_of(path) : static_cast<int32_t>(random.below(kVocab)));
      drafts.node(path.back(), parent);
      paths.push_back(path);
    }
  };
}

TEST(SpeculatingEngine, GivesTheSameTextAndCacheWithChains) {
  Random random(test_seed());
  Engine engine;
  compare(guesses(random, true), nullptr, engine);
  EXPECT_EQ(engine.num_moves, 0u);
}

TEST(SpeculatingEngine, GivesTheSameTextAndCacheWithTrees) {
  Random random(test_seed() + 1);
  Engine engine;
  compare(guesses(random, false), nullptr, engine);
  EXPECT_GT(engine.num_moves, 100u);
}

TEST(SpeculatingEngine, GivesTheSameTextAndCacheWithNgrams) {
  const kvc_draft_config config = {sizeof config, 1, 1, 4, 0, nullptr};
  kvc_draft* index = nullptr;
  ASSERT_EQ(kvc_draft_create(&config, &index), KVC_OK);
  Engine engine;
  size_t known = 0;
  const auto drafter = [&](const Tokens& text, Drafted& drafts) {
    const int32_t row = 0;
    const uint64_t more[] = {0, text.size() - known};
    ASSERT_EQ(kvc_draft_append(index, &row, 1, more, text.data() + known), KVC_OK);
    known = text.size();
    int32_t tokens[kLookahead];
    const uint32_t length = kLookahead;
    uint64_t offsets[2];
    size_t count = 0;
    ASSERT_EQ(kvc_draft_propose(index, &row, 1, &length, offsets, tokens, kLookahead, &count), KVC_OK);
    for (size_t i = 0; i < count; ++i) drafts.node(tokens[i], static_cast<int32_t>(i) - 1);
  };
  compare(
      drafter,
      [&](const Tokens&) {
        known = 0;
        ASSERT_EQ(kvc_draft_truncate(index, 0, 0), KVC_OK);
      },
      engine);
  EXPECT_GT(engine.acceptance.num_accepted, engine.acceptance.num_nodes / 10);
  kvc_draft_destroy(index);
}

// In kvc_manager_step, accepted tokens are the commit of the next step, and the token after them its
// extension.
TEST(SpeculatingEngine, StepsCommitAcceptedTokensAndGrowTheLookahead) {
  Engine engine;
  engine.start({1, 2, 3});
  const kvc_step_limits limits = {sizeof limits, 0, 1, 0, kLookahead + 1, 0, 1, 60, 0};
  kvc_step* step = nullptr;
  ASSERT_EQ(kvc_step_create(engine.m, &limits, &step), KVC_OK) << kvc_last_error();
  const auto data = [&](int32_t array) {
    kvc_view view;
    EXPECT_EQ(kvc_step_view(step, array, &view), KVC_OK);
    return view.data;
  };
  // Two of a draft were accepted, and one token follows: known 3 -> 6, committed 2 -> 5.
  const int32_t accepted[] = {4, 5};
  step->num_requests = 1, step->fill_id = -1;
  static_cast<int32_t*>(data(KVC_STEP_ROWS))[0] = 0;
  static_cast<uint64_t*>(data(KVC_STEP_REQUESTS))[0] = engine.request;
  static_cast<uint64_t*>(data(KVC_STEP_COMMITTED))[0] = 5;
  static_cast<uint64_t*>(data(KVC_STEP_COMMIT_OFFSETS))[1] = 2;
  std::copy(accepted, accepted + 2, static_cast<int32_t*>(data(KVC_STEP_COMMIT_TOKENS)));
  static_cast<uint64_t*>(data(KVC_STEP_EXTEND_OFFSETS))[1] = 1;
  static_cast<int32_t*>(data(KVC_STEP_EXTEND_TOKENS))[0] = 6;
  ASSERT_EQ(kvc_manager_step(engine.m, step), KVC_OK) << kvc_last_error();
  ASSERT_EQ(static_cast<kvc_status*>(data(KVC_STEP_STATUS))[0], KVC_OK) << kvc_last_error();
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_request_info(engine.m, engine.request, &info), KVC_OK);
  EXPECT_EQ(info.num_tokens, 6u);
  EXPECT_EQ(info.num_committed, 5u);
  EXPECT_EQ(info.capacity, 6u + kLookahead);
  kvc_step_destroy(step);
}

// A state has one block, at the end of a step: accepted tokens are appended and committed before the next
// token.
TEST(SpeculatingEngine, CommitsStatesAtTheEndOfTheAcceptedTokens) {
  kvc_group_config groups[2] = {};
  for (kvc_group_config& group : groups) group.struct_size = sizeof group;
  groups[1].kind = KVC_GROUP_STATE, groups[1].pool = 1;
  kvc_pool_config pools[2] = {};
  for (kvc_pool_config& pool : pools) pool.struct_size = sizeof pool, pool.num_blocks = 40;
  kvc_manager_config config = {};
  config.struct_size = sizeof config, config.block_size = kBlock, config.max_requests = 2;
  config.groups = groups, config.num_groups = 2, config.pools = pools, config.num_pools = 2;
  kvc_manager* m = nullptr;
  ASSERT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
  for (uint64_t accepted = 0; accepted <= kLookahead; ++accepted) {
    const Tokens prompt = {1, 2, 3, static_cast<int32_t>(accepted)};
    const kvc_prompt c = {sizeof c, 0, prompt.data(), prompt.size(), nullptr, 0};
    kvc_request_config options = {};
    options.struct_size = sizeof options, options.lookahead = kLookahead;
    uint64_t request = 0, cached = 0;
    ASSERT_EQ(kvc_manager_allocate_request(m, &c, &options, &request, &cached), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, 4), KVC_OK) << kvc_last_error();
    const int32_t last = 9;
    ASSERT_EQ(kvc_manager_append_tokens(m, request, &last, 1), KVC_OK);
    const Tokens gained(accepted + 1, 7);
    ASSERT_EQ(kvc_manager_append_tokens(m, request, gained.data(), gained.size()), KVC_OK)
        << kvc_last_error();
    ASSERT_EQ(kvc_manager_commit_tokens(m, request, 5 + accepted), KVC_OK) << accepted << kvc_last_error();
    ASSERT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_free_request(m, request), KVC_OK);
  }
  kvc_manager_destroy(m);
}

// Branches: N forks of a request go on by themselves; the best is kept, the others are freed.
TEST(Branches, TheBestIsKeptAndNothingLeaks) {
  constexpr size_t kBranches = 5;
  Engine engine;
  Random random(test_seed());
  engine.start({1, 2, 3, 4, 5, 6, 7});
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> branches;
    std::vector<Tokens> texts;
    const Tokens text(engine.text.begin(), engine.text.end() - 1);  // the committed ones
    for (size_t i = 0; i < kBranches; ++i) {
      uint64_t child = 0;
      ASSERT_EQ(kvc_manager_fork_request(engine.m, engine.request, &child), KVC_OK) << kvc_last_error();
      branches.push_back(child);
      texts.push_back(text);
    }
    for (size_t i = 0; i < kBranches; ++i) {
      Tokens more;
      for (uint64_t n = random.between(1, 9); n-- > 0;)
        more.push_back(static_cast<int32_t>(random.below(kVocab)));
      ASSERT_EQ(kvc_manager_append_tokens(engine.m, branches[i], more.data(), more.size()), KVC_OK);
      texts[i].insert(texts[i].end(), more.begin(), more.end());
      ASSERT_EQ(kvc_manager_commit_tokens(engine.m, branches[i], texts[i].size()), KVC_OK);
    }
    kvc_block_copy copies[2 * kBranches];
    kvc_pending_work work = {sizeof work, copies, 2 * kBranches, 0, nullptr, 0, 0};
    ASSERT_EQ(kvc_manager_take_pending(engine.m, &work), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_storage_copy_blocks(engine.storage, copies, work.num_copies, nullptr), KVC_OK);
    const size_t best = random.below(kBranches);
    ASSERT_EQ(kvc_manager_free_request(engine.m, engine.request), KVC_OK);
    for (size_t i = 0; i < kBranches; ++i)
      if (i != best) {
        ASSERT_EQ(kvc_manager_free_request(engine.m, branches[i]), KVC_OK);
      }
    ASSERT_EQ(kvc_manager_check(engine.m), KVC_OK) << kvc_last_error();
    engine.request = branches[best];
    engine.text = texts[best];
    engine.text.push_back(0);
    if (engine.text.size() > 120) {
      ASSERT_EQ(kvc_manager_truncate_request(engine.m, engine.request, 7), KVC_OK);
      engine.text.resize(8);
    }
    kvc_stats now = {};
    now.struct_size = sizeof now;
    ASSERT_EQ(kvc_manager_read_stats(engine.m, &now), KVC_OK);
    EXPECT_LE(now.blocks_live + now.blocks_reserved, (engine.text.size() + kLookahead) / kBlock + 1)
        << "of one branch alone";
  }
  engine.end();
}

}  // namespace
}  // namespace kvc::test
