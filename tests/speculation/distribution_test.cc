// SPDX-License-Identifier: Apache-2.0
// What comes out of rejection sampling has the distribution of the target: three tokens in a row, of a target
// whose distribution depends on the token before, against their exact probabilities. By chi-square and by
// total variation, over many samples of each kind of draft (fewer under sanitizers), always the same.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "rounds.h"
#include "speculation/drafted.h"

namespace kvc::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const size_t kSamples = rounds<size_t>(6000);
#else
const size_t kSamples = rounds<size_t>(200000);
#endif
constexpr size_t kVocabulary = 6, kContexts = kVocabulary + 1,
                 kCells = kVocabulary * kVocabulary * kVocabulary, kBatch = 1000;

using Row = std::vector<float>;
using Model = std::vector<Row>;  // [context]: 0 = the root, 1 + token

Row normalised(Row row) {
  float sum = 0;
  for (const float x : row) sum += x;
  for (float& x : row) x /= sum;
  return row;
}

// Weights that differ by `contrast`; zero_from, zero_to: tokens without probability.
Model model(uint64_t seed, double contrast, size_t zero_from = 0, size_t zero_to = 0) {
  Random random(seed);
  Model rows;
  for (size_t context = 0; context < kContexts; ++context) {
    Row row;
    for (size_t t = 0; t < kVocabulary; ++t)
      row.push_back(t >= zero_from && t < zero_to ? 0.0f
                                                  : static_cast<float>(std::exp(contrast * uniform(random))));
    rows.push_back(normalised(row));
  }
  return rows;
}

// Nodes of a batch and the rows that they were drawn from.
struct Batch {
  Drafted drafts;
  std::vector<int64_t> q_rows;
  std::vector<float> q;
  size_t num_q_rows() const { return q.size() / kVocabulary; }

  int64_t row(const Row& from) {
    q.insert(q.end(), from.begin(), from.end());
    return static_cast<int64_t>(num_q_rows()) - 1;
  }
  // A node that was drawn from a row, or a certain one.
  int32_t drawn(Random& random, const Row& from, int64_t q_row, int32_t parent) {
    q_rows.push_back(q_row);
    return drafts.node(draw_plainly(from, uniform(random)), parent);
  }
  int32_t certain(int32_t token, int32_t parent) {
    q_rows.push_back(-1);
    return drafts.node(token, parent);
  }
  const int32_t& token(int32_t node) const {
    return drafts.tokens[drafts.offsets.back() + static_cast<size_t>(node)];
  }
  size_t context(int32_t node) const { return node < 0 ? 0 : 1 + static_cast<size_t>(token(node)); }
};

using Drafter = std::function<void(Batch&, Random&, const Model& q)>;

// Samples of three tokens: what a step gave, completed by draws from the target itself.
std::vector<size_t> sample(const Model& p, const Model& q, const Drafter& drafter, uint64_t seed) {
  Random random(seed);
  std::vector<size_t> counts(kCells);
  for (size_t done = 0; done < kSamples; done += kBatch) {
    Batch batch;
    for (size_t r = 0; r < kBatch; ++r) {
      drafter(batch, random, q);
      batch.drafts.end_request();
    }
    const Drafted& drafts = batch.drafts;
    std::vector<float> rows;
    for (size_t r = 0; r < kBatch; ++r) {
      rows.insert(rows.end(), p[0].begin(), p[0].end());
      for (uint64_t i = drafts.offsets[r]; i < drafts.offsets[r + 1]; ++i) {
        const Row& row = p[1 + static_cast<size_t>(drafts.tokens[i])];
        rows.insert(rows.end(), row.begin(), row.end());
      }
    }
    std::vector<double> uniforms(drafts.rows());
    for (double& u : uniforms) u = uniform(random);
    kvc_probabilities from = {};
    from.struct_size = sizeof from, from.vocab = kVocabulary;
    from.p = rows.data(), from.uniforms = uniforms.data();
    from.q = batch.q.empty() ? nullptr : batch.q.data(), from.num_q_rows = batch.num_q_rows();
    from.q_rows = batch.q_rows.data();
    Verdict verdict(drafts);
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict.c();
    if (kvc_verify_sampling(&c, &from, &out) != KVC_OK) {
      ADD_FAILURE() << kvc_last_error();
      return counts;
    }
    for (size_t r = 0; r < kBatch; ++r) {
      std::vector<int32_t> text;
      for (size_t i = 0; i < verdict.num_accepted[r]; ++i)
        text.push_back(
            drafts.tokens[drafts.offsets[r] + static_cast<size_t>(verdict.path[drafts.offsets[r] + i])]);
      text.push_back(verdict.next_tokens[r]);
      while (text.size() < 3)
        text.push_back(draw_plainly(p[1 + static_cast<size_t>(text.back())], uniform(random)));
      ++counts[(static_cast<size_t>(text[0]) * kVocabulary + static_cast<size_t>(text[1])) * kVocabulary +
               static_cast<size_t>(text[2])];
    }
  }
  return counts;
}

void expect_target(const std::vector<size_t>& counts, const Model& p) {
  double chi = 0, variation = 0, cells = 0;
  size_t samples = 0;
  for (const size_t count : counts) samples += count;
  ASSERT_EQ(samples, kSamples);
  for (size_t cell = 0; cell < kCells; ++cell) {
    const size_t a = cell / kVocabulary / kVocabulary, b = cell / kVocabulary % kVocabulary,
                 c = cell % kVocabulary;
    const double exact = static_cast<double>(p[0][a]) * static_cast<double>(p[1 + a][b]) *
                         static_cast<double>(p[1 + b][c]) * static_cast<double>(kSamples);
    const double off = static_cast<double>(counts[cell]) - exact;
    variation += std::abs(off) / 2 / static_cast<double>(kSamples);
    if (exact == 0) {
      EXPECT_EQ(counts[cell], 0u) << "a text that the target never gives";
      continue;
    }
    chi += off * off / exact;
    ++cells;
  }
  const double freedom = cells - 1;
  EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom));
  // The mean of |off| is at most sqrt(2 exact / pi).
  EXPECT_LT(variation, 1.3 * std::sqrt(cells / (2 * M_PI * static_cast<double>(kSamples))));
}

// A chain of two that is drawn.
void chain(Batch& batch, Random& random, const Model& q) {
  int32_t node = -1;
  for (int depth = 0; depth < 2; ++depth) {
    const Row& row = q[batch.context(node)];
    node = batch.drawn(random, row, batch.row(row), node);
  }
}

// Three siblings drawn from the same row, and two below each.
void drawn_tree(Batch& batch, Random& random, const Model& q) {
  const int64_t shared = batch.row(q[0]);
  int32_t top[3];
  for (int32_t& node : top) node = batch.drawn(random, q[0], shared, -1);
  for (const int32_t node : top) {
    const Row& row = q[batch.context(node)];
    const int64_t below = batch.row(row);
    for (int i = 0; i < 2; ++i) batch.drawn(random, row, below, node);
  }
}

// The same without replacement: each sibling has the row that is left.
void distinct_tree(Batch& batch, Random& random, const Model& q) {
  const auto siblings = [&](int32_t parent, int count) {
    Row row = q[batch.context(parent)];
    std::vector<int32_t> nodes;
    for (int i = 0; i < count; ++i) {
      nodes.push_back(batch.drawn(random, row, batch.row(row), parent));
      row[static_cast<size_t>(batch.token(nodes.back()))] = 0;
      row = normalised(row);
    }
    return nodes;
  };
  for (const int32_t node : siblings(-1, 3)) siblings(node, 2);
}

int32_t likeliest(const Row& row, size_t rank) {
  std::vector<std::pair<float, int32_t>> sorted;
  for (size_t i = 0; i < row.size(); ++i) sorted.push_back({-row[i], static_cast<int32_t>(i)});
  std::sort(sorted.begin(), sorted.end());
  return sorted[rank].second;
}

void certain_chain(Batch& batch, Random&, const Model& q) {
  batch.certain(likeliest(q[batch.context(batch.certain(likeliest(q[0], 0), -1))], 0), 0);
}

void certain_tree(Batch& batch, Random&, const Model& q) {
  for (size_t i = 0; i < 3; ++i) {
    const int32_t node = batch.certain(likeliest(q[0], i), -1);
    for (size_t j = 0; j < 2; ++j) batch.certain(likeliest(q[batch.context(node)], j), node);
  }
}

// A certain sibling, then one that is drawn; a draft without nodes now and then.
void mixed(Batch& batch, Random& random, const Model& q) {
  if (random.chance(10)) return;
  batch.certain(likeliest(q[0], 0), -1);
  const int32_t node = batch.drawn(random, q[0], batch.row(q[0]), -1);
  batch.certain(likeliest(q[batch.context(node)], 1), node);
}

const Model& target() {
  static const Model p = model(1, 2.5);
  return p;
}

TEST(Distribution, IsTheTargetsForChainsDrawnFromAnotherOne) {
  expect_target(sample(target(), model(2, 2.5), chain, 1), target());
}
TEST(Distribution, IsTheTargetsForChainsDrawnFromItself) {
  expect_target(sample(target(), target(), chain, 2), target());
}
TEST(Distribution, IsTheTargetsForChainsDrawnFromAFlatOne) {
  expect_target(sample(target(), model(3, 0), chain, 3), target());
}
TEST(Distribution, IsTheTargetsIfTheDraftNeverAgrees) {
  const Model p = model(4, 2, 0, 3);
  expect_target(sample(p, model(5, 2, 3, 6), chain, 4), p);
}
TEST(Distribution, IsTheTargetsIfItHasTokensThatTheDraftLacksAndViceVersa) {
  const Model p = model(6, 2, 0, 2);
  expect_target(sample(p, model(7, 2, 4, 6), drawn_tree, 5), p);
}
TEST(Distribution, IsTheTargetsForCertainChains) {
  expect_target(sample(target(), model(8, 2.5), certain_chain, 6), target());
}
TEST(Distribution, IsTheTargetsForTreesOfIndependentSiblings) {
  expect_target(sample(target(), model(9, 2.5), drawn_tree, 7), target());
}
TEST(Distribution, IsTheTargetsForTreesOfSiblingsWithoutReplacement) {
  expect_target(sample(target(), model(10, 2.5), distinct_tree, 8), target());
}
TEST(Distribution, IsTheTargetsForTreesOfTheLikeliestTokens) {
  expect_target(sample(target(), model(11, 2.5), certain_tree, 9), target());
}
TEST(Distribution, IsTheTargetsForDraftsOfBothKinds) {
  expect_target(sample(target(), model(12, 2.5), mixed, 10), target());
}

}  // namespace
}  // namespace kvc::test
