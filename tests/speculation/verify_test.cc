// SPDX-License-Identifier: Apache-2.0
// Verification case by case: greedy, rejection by given random numbers, typical acceptance; rows by ids,
// trusted rows, a caller's workspace; and bad input, which changes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "seed.h"
#include "speculation/drafted.h"

namespace kvc::test {
namespace {

// Two requests: a tree of five nodes, and a chain of two.
//   request 0: root -> 0 (token 5) -> 1 (6), 2 (7) -> 3 (8);  root -> 4 (9)
Drafted two() {
  Drafted d;
  d.node(5, -1), d.node(6, 0), d.node(7, 0), d.node(8, 2), d.node(9, -1);
  d.end_request();
  d.node(1, -1), d.node(2, 0);
  d.end_request();
  return d;
}

TEST(Greedy, WalksAsLongAsTheTargetAgrees) {
  const Drafted drafts = two();
  const kvc_drafts c = drafts.c();
  Verdict verdict(drafts);
  const kvc_verdict out = verdict.c();
  //                             root 0  1  2  3  4   root 0  1
  const std::vector<int32_t> target{5, 7, 1, 8, 3, 1, 1, 9, 4};
  ASSERT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_OK) << kvc_last_error();
  EXPECT_EQ(verdict.path, (std::vector<int32_t>{0, 2, 3, -1, -1, 0, -1}));
  EXPECT_EQ(verdict.num_accepted, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(verdict.next_tokens, (std::vector<int32_t>{3, 9}));
}

TEST(Greedy, TakesALaterSiblingAndDraftsWithoutNodes) {
  Drafted drafts;
  drafts.end_request();
  drafts.node(5, -1), drafts.node(6, 0), drafts.node(9, -1), drafts.node(6, 2);
  drafts.end_request();
  drafts.end_request();
  const kvc_drafts c = drafts.c();
  Verdict verdict(drafts);
  const kvc_verdict out = verdict.c();
  const std::vector<int32_t> target{11, 9, 0, 0, 6, 7, 12};
  ASSERT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_OK) << kvc_last_error();
  EXPECT_EQ(verdict.path, (std::vector<int32_t>{2, 3, -1, -1}));
  EXPECT_EQ(verdict.num_accepted, (std::vector<uint64_t>{0, 2, 0}));
  EXPECT_EQ(verdict.next_tokens, (std::vector<int32_t>{11, 7, 12}));
}

// A chain of two over four tokens, p and q given.
struct Case {
  Drafted drafts;
  std::vector<float> p, q;
  std::vector<double> uniforms;
  std::vector<int64_t> q_rows;
  kvc_probabilities from = {};

  Case() {
    drafts.chains = true;
    drafts.node(1, -1), drafts.node(2, 0);
    drafts.end_request();
    p = {0.1f, 0.2f, 0.3f, 0.4f, 0.25f, 0.25f, 0.25f, 0.25f, 0, 0, 1, 0};
    q = {0, 0.4f, 0.6f, 0, 0.5f, 0, 0.5f, 0};
    uniforms = {0.5, 0.49, 0.49};
    from.struct_size = sizeof from, from.vocab = 4, from.num_q_rows = 2;
  }
  kvc_status verify(Verdict* verdict) {
    from.p = p.data(), from.q = q.empty() ? nullptr : q.data(), from.uniforms = uniforms.data();
    if (!q_rows.empty()) from.q_rows = q_rows.data();
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict->c();
    return kvc_verify_sampling(&c, &from, &out);
  }
  Verdict verified() {
    Verdict verdict(drafts);
    EXPECT_EQ(verify(&verdict), KVC_OK) << kvc_last_error();
    return verdict;
  }
};

TEST(Sampling, AcceptsByTheRatioOfProbabilities) {
  Case c;  // p / q is 0.5 and 0.5
  Verdict verdict = c.verified();
  EXPECT_EQ(verdict.num_accepted[0], 2u);
  EXPECT_EQ(verdict.next_tokens[0], 2) << "the last row says so";
  c.uniforms = {0.5, 0.49, 0.51};
  verdict = c.verified();
  EXPECT_EQ(verdict.num_accepted[0], 1u);
  EXPECT_EQ(verdict.path, (std::vector<int32_t>{0, -1}));
}

TEST(Sampling, DrawsWhatIsLeftAfterARejection) {
  Case c;
  c.uniforms = {0.19, 0.51, 0};  // left: 0.1, 0, 0, 0.4
  EXPECT_EQ(c.verified().next_tokens[0], 0);
  c.uniforms[0] = 0.21;
  EXPECT_EQ(c.verified().next_tokens[0], 3);
  EXPECT_EQ(c.verified().num_accepted[0], 0u);
}

TEST(Sampling, TakesNodesWithoutARowAsCertain) {
  Case c;
  c.q.clear(), c.from.num_q_rows = 0;
  c.uniforms = {0.2, 0.21, 0};  // left of 0.1, 0.2, 0.3, 0.4 without token 1: 0.125, 0, 0.375, 0.5
  EXPECT_EQ(c.verified().next_tokens[0], 2);
  c.uniforms[1] = 0.19;
  EXPECT_EQ(c.verified().num_accepted[0], 2u);
}

// q has a little at a token that p lacks, so little that p - q is all zero in floats.
TEST(Sampling, NeverAcceptsWhatTheTargetLacks) {
  for (const bool sibling : {false, true}) {
    Case c;
    c.p = {0.5f, 0.5f, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    c.q = {0.5f, 0.5f, 1e-10f, 0, 0.5f, 0.5f, 1e-10f, 0};
    c.drafts.tokens = {2, 2};
    if (sibling) c.drafts.chains = false, c.drafts.parents = {-1, -1};
    for (const double u : {0.0, 0.5, 0.999}) {
      c.uniforms = {u, u, u};
      const Verdict verdict = c.verified();
      EXPECT_EQ(verdict.num_accepted[0], 0u);
      EXPECT_EQ(verdict.next_tokens[0], u < 0.5 ? 0 : 1);
    }
  }
}

TEST(Sampling, DividesRowsByTheirSums) {
  Case c;
  for (float& x : c.p) x *= 1.0009f;
  for (float& x : c.q) x *= 0.9991f;
  c.uniforms = {0.5, 0.4999, 0.4999};
  EXPECT_EQ(c.verified().num_accepted[0], 2u);
  c.uniforms = {0.5, 0.5001, 0.4999};
  EXPECT_EQ(c.verified().num_accepted[0], 0u);
}

TEST(Sampling, ReadsOnlyTheRowsOfTheWalk) {
  Case c;
  c.uniforms = {0.5, 0.9, 0};  // nothing is accepted
  for (size_t i = 4; i < c.p.size(); ++i) c.p[i] = std::nanf("");
  EXPECT_EQ(c.verified().num_accepted[0], 0u);
}

TEST(Typical, AcceptsTheLongestLikelyPath) {
  Drafted drafts;
  drafts.node(0, -1), drafts.node(1, 0), drafts.node(1, -1), drafts.node(2, 2), drafts.node(3, 3);
  drafts.end_request();
  const std::vector<float> p = {
      0.5f, 0.4f,  0.05f, 0.05f,  // root: 0 and 1 are likely
      0.9f, 0.02f, 0.04f, 0.04f,  // after 0: token 1 is not
      1,    0,     0,     0,      // not reached
      0,    0,     1,     0,      // after 1: token 2 is
      0.3f, 0.3f,  0.3f,  0.1f,   // after 1 2: token 3 is below 0.3 * exp(-entropy) = 0.081?
      0,    0,     0,     1};
  std::vector<double> uniforms(6, 0.95);
  kvc_probabilities from = {};
  from.struct_size = sizeof from, from.vocab = 4, from.p = p.data(), from.uniforms = uniforms.data();
  const kvc_drafts c = drafts.c();
  Verdict verdict(drafts);
  const kvc_verdict out = verdict.c();
  ASSERT_EQ(kvc_verify_typical(&c, &from, 0.09, 0.3, &out), KVC_OK) << kvc_last_error();
  EXPECT_EQ(verdict.path, (std::vector<int32_t>{2, 3, 4, -1, -1}));
  EXPECT_EQ(verdict.next_tokens[0], 3);
  // The entropy of 0.3, 0.3, 0.3, 0.1 is 1.314: with delta 0.5 the bound is 0.134.
  ASSERT_EQ(kvc_verify_typical(&c, &from, 0.5, 0.5, &out), KVC_OK) << kvc_last_error();
  EXPECT_EQ(verdict.path, (std::vector<int32_t>{2, 3, -1, -1, -1}));
  EXPECT_EQ(verdict.next_tokens[0], 3) << "drawn at 0.95";
}

// Random drafts with drawn and certain nodes over a small vocabulary, with many zeroes.
struct RandomCase {
  Drafted drafts;
  std::vector<float> p, q, p_some, q_some;
  std::vector<int32_t> p_ids, q_ids;
  std::vector<int64_t> q_rows;
  std::vector<double> uniforms;
  kvc_probabilities from = {};
  static constexpr size_t kVocabSize = 9, kWidth = 7;

  explicit RandomCase(Random& random) {
    const auto row = [&](std::vector<float>* dense, std::vector<float>* some, std::vector<int32_t>* ids,
                         int32_t with) {
      std::vector<float> made(kVocabSize);
      size_t count = 0;
      float sum = 0;
      const auto put = [&](size_t t) {
        if (made[t] == 0 && count < kWidth)
          made[t] = 0.1f + static_cast<float>(uniform(random)), ++count, sum += made[t];
      };
      if (with >= 0) put(static_cast<size_t>(with));
      for (uint64_t n = random.between(1, kWidth); n-- > 0;) put(random.below(kVocabSize));
      size_t entries = 0;
      for (size_t t = 0; t < kVocabSize; ++t) {
        dense->push_back(made[t] / sum);
        if (made[t] != 0) some->push_back(made[t] / sum), ids->push_back(static_cast<int32_t>(t)), ++entries;
      }
      for (; entries < kWidth; ++entries) some->push_back(std::nanf("")), ids->push_back(-1);
    };
    for (uint64_t n = random.between(1, 5); n-- > 0;) {
      for (uint64_t nodes = random.below(9), i = 0; i < nodes; ++i) {
        const auto token = static_cast<int32_t>(random.below(kVocabSize));
        drafts.node(token, static_cast<int32_t>(random.below(i + 1)) - 1);
        if (random.chance(30)) {
          q_rows.push_back(-1);
        } else {
          q_rows.push_back(static_cast<int64_t>(q.size() / kVocabSize));
          row(&q, &q_some, &q_ids, token);
        }
      }
      drafts.end_request();
    }
    for (size_t i = 0; i < drafts.rows(); ++i) {
      row(&p, &p_some, &p_ids, -1);
      uniforms.push_back(uniform(random));
    }
    from.struct_size = sizeof from, from.vocab = kVocabSize;
    from.p = p.data(), from.q = q.empty() ? nullptr : q.data(), from.num_q_rows = q.size() / kVocabSize;
    from.q_rows = q_rows.data(), from.uniforms = uniforms.data();
  }
  kvc_status verify(const kvc_probabilities& how, bool typical, Verdict* verdict) const {
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict->c();
    return typical ? kvc_verify_typical(&c, &how, 0.3, 0.8, &out) : kvc_verify_sampling(&c, &how, &out);
  }
  Verdict verified(const kvc_probabilities& how, bool typical) const {
    Verdict verdict(drafts);
    EXPECT_EQ(verify(how, typical, &verdict), KVC_OK) << kvc_last_error();
    return verdict;
  }
};

TEST(Sampling, IsTheSameByIdsAndByRowsOfTheVocabulary) {
  Random random(test_seed());
  for (int i = 0; i < 3000; ++i) {
    const RandomCase c(random);
    for (const bool typical : {false, true}) {
      const Verdict dense = c.verified(c.from, typical);
      for (int ids = 1; ids < 4; ++ids) {
        kvc_probabilities how = c.from;
        if (ids & 1) how.p = c.p_some.data(), how.p_ids = c.p_ids.data(), how.p_width = RandomCase::kWidth;
        if ((ids & 2) && !c.q.empty())
          how.q = c.q_some.data(), how.q_ids = c.q_ids.data(), how.q_width = RandomCase::kWidth;
        ASSERT_TRUE(c.verified(how, typical) == dense) << i << " " << ids;
      }
    }
  }
}

TEST(Sampling, IsTheSameForTrustedRowsAndInAWorkspace) {
  Random random(test_seed() + 1);
  for (int i = 0; i < 3000; ++i) {
    const RandomCase c(random);
    const Verdict checked = c.verified(c.from, false);
    kvc_probabilities how = c.from;
    how.flags = KVC_PROBABILITIES_TRUSTED;
    ASSERT_TRUE(c.verified(how, false) == checked);
    const size_t bytes = 4 * (RandomCase::kVocabSize + 2 * c.drafts.tokens.size() + 2 * c.drafts.requests());
    std::vector<int32_t> memory(bytes / 4);
    how = c.from;
    how.workspace = memory.data(), how.workspace_bytes = bytes;
    ASSERT_TRUE(c.verified(how, false) == checked);
    how.workspace_bytes = bytes - 1;
    Verdict none(c.drafts);
    ASSERT_EQ(c.verify(how, false, &none), KVC_ERROR_INVALID_ARGUMENT);
  }
}

TEST(Sampling, DrawsFromEachPieceOfALongRow) {
  constexpr size_t kVocabSize = 5000;
  Drafted drafts;
  drafts.end_request();
  std::vector<float> p(kVocabSize, 1.0f / kVocabSize);
  kvc_probabilities from = {};
  from.struct_size = sizeof from, from.vocab = kVocabSize, from.p = p.data();
  for (const double u : {0.0, 0.1, 0.20479, 0.2049, 0.5, 0.99, std::nextafter(1.0, 0.0)}) {
    from.uniforms = &u;
    Verdict verdict(drafts);
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict.c();
    ASSERT_EQ(kvc_verify_sampling(&c, &from, &out), KVC_OK) << kvc_last_error();
    EXPECT_NEAR(verdict.next_tokens[0], u * kVocabSize, 1);
  }
  // The last token that has a probability, not one behind it.
  std::fill(p.begin() + 10, p.end(), 0.0f);
  std::fill(p.begin(), p.begin() + 10, 0.1f);
  const double most = std::nextafter(1.0, 0.0);
  from.uniforms = &most;
  Verdict verdict(drafts);
  const kvc_drafts c = drafts.c();
  const kvc_verdict out = verdict.c();
  ASSERT_EQ(kvc_verify_sampling(&c, &from, &out), KVC_OK) << kvc_last_error();
  EXPECT_EQ(verdict.next_tokens[0], 9);
}

// Long rows are summed many values at a time.
struct LongRow {
  static constexpr size_t kVocabSize = 3000;
  Drafted drafts;
  std::vector<float> p = std::vector<float>(2 * kVocabSize, 1.0f / kVocabSize);
  std::vector<double> uniforms{0.5, 0.5};
  kvc_probabilities from = {};

  LongRow() {
    drafts.node(7, -1);
    drafts.end_request();
    from.struct_size = sizeof from, from.vocab = kVocabSize, from.p = p.data(),
    from.uniforms = uniforms.data();
  }
  kvc_status typical(double delta, Verdict* verdict) {
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict->c();
    return kvc_verify_typical(&c, &from, 1, delta, &out);
  }
  kvc_status sampling(Verdict* verdict) {
    const kvc_drafts c = drafts.c();
    const kvc_verdict out = verdict->c();
    return kvc_verify_sampling(&c, &from, &out);
  }
};

TEST(Sampling, FindsOneBadValueAnywhereInALongRow) {
  for (const size_t at : {0u, 6u, 127u, 128u, 1023u, 1024u, 2943u, 2944u, 2999u}) {
    const auto refuses = [&](float value, float other, const std::string& text) {
      LongRow row;
      row.p[at] = value, row.p[(at + 50) % LongRow::kVocabSize] += other;
      Verdict verdict(row.drafts);
      EXPECT_EQ(row.sampling(&verdict), KVC_ERROR_INVALID_ARGUMENT) << at;
      EXPECT_EQ(kvc_last_error(), text);
      EXPECT_TRUE(verdict == Verdict(row.drafts));
    };
    const std::string begin = "row 0 of p: the probability of token " + std::to_string(at) + " is ";
    refuses(-0.25f, 0.25f, begin + "-0.25; probabilities are 0 .. 1");
    refuses(std::nanf(""), 0, begin + "nan; probabilities are 0 .. 1");
    refuses(-std::nanf(""), 0, begin + "-nan; probabilities are 0 .. 1");
    refuses(0.25f, 0,
            "row 0 of p sums to 1.24967; the probabilities of a row sum to 1 within 0.001: pass the softmax");
    LongRow zero;
    zero.p[at] = -0.0f;
    Verdict verdict(zero.drafts);
    EXPECT_EQ(zero.sampling(&verdict), KVC_OK) << kvc_last_error();
  }
}

TEST(Typical, HasTheEntropyOfALongRow) {
  Random random(test_seed());
  for (int i = 0; i < 200; ++i) {
    LongRow row;
    double sum = 0, entropy = 0;
    for (size_t t = 0; t < LongRow::kVocabSize; ++t) {
      // From 1e-12 on, a denormal and zeros of both signs among them.
      const double zero = random.chance(50) ? 0.0 : -0.0;
      const double weight = t == 99 ? 1e-40 : random.chance(20) ? zero : std::exp(-27 * uniform(random));
      row.p[t] = static_cast<float>(weight);
    }
    row.p[7] = 0.5f;
    for (size_t t = 0; t < LongRow::kVocabSize; ++t) sum += static_cast<double>(row.p[t]);
    for (size_t t = 0; t < LongRow::kVocabSize; ++t)
      row.p[t] = static_cast<float>(static_cast<double>(row.p[t]) / sum);
    for (size_t t = 0; t < LongRow::kVocabSize; ++t)
      if (row.p[t] > 0) entropy -= static_cast<double>(row.p[t]) * std::log(static_cast<double>(row.p[t]));
    const double delta = static_cast<double>(row.p[7]) * std::exp(entropy);
    Verdict verdict(row.drafts);
    ASSERT_EQ(row.typical(delta * (1 - 2e-5), &verdict), KVC_OK) << kvc_last_error();
    EXPECT_EQ(verdict.num_accepted[0], 1u) << i;
    ASSERT_EQ(row.typical(delta * (1 + 2e-5), &verdict), KVC_OK) << kvc_last_error();
    EXPECT_EQ(verdict.num_accepted[0], 0u) << i;
  }
}

// ---- bad input

struct Bad {
  const char* text;
  std::function<void(Case&)> spoil;
};

TEST(Sampling, RefusesBadInputAndChangesNothing) {
  const Bad bad[] = {
      {"row 0 of p: the probability of token 2 is nan; probabilities are 0 .. 1",
       [](Case& c) { c.p[2] = std::nanf(""); }},
      {"row 0 of p: the probability of token 0 is -0.1; probabilities are 0 .. 1",
       [](Case& c) { c.p[0] = -0.1f, c.p[3] = 0.6f; }},
      {"row 0 of p: the probability of token 3 is inf; probabilities are 0 .. 1",
       [](Case& c) { c.p[3] = std::numeric_limits<float>::infinity(); }},
      {"row 0 of p sums to 0.9; the probabilities of a row sum to 1 within 0.001: pass the softmax",
       [](Case& c) { c.p[0] = 0; }},
      {"row 2 of p sums to 0; the probabilities of a row sum to 1 within 0.001: pass the softmax",
       [](Case& c) { c.p[10] = 0; }},
      {"row 1 of q sums to 1.1; the probabilities of a row sum to 1 within 0.001: pass the softmax",
       [](Case& c) { c.q[7] = 0.1f; }},
      {"node 0 has token 1, whose probability in row 0 of q is 0: it cannot have been drawn from that row",
       [](Case& c) { c.q[1] = 0, c.q[0] = 0.4f; }},
      {"uniforms[1] is 1; give numbers from 0 to below 1", [](Case& c) { c.uniforms[1] = 1; }},
      {"uniforms[0] is nan; give numbers from 0 to below 1", [](Case& c) { c.uniforms[0] = std::nan(""); }},
      {"uniforms[2] is -0.5; give numbers from 0 to below 1", [](Case& c) { c.uniforms[2] = -0.5; }},
      {"num_q_rows is 1 and there are 2 nodes; give a row for each, or q_rows",
       [](Case& c) { c.from.num_q_rows = 1; }},
      {"q_rows[1] is 2; give -1 or a row below 2",
       [](Case& c) {
         c.q_rows = {0, 2};
       }},
      {"q_rows[0] is -2; give -1 or a row below 2",
       [](Case& c) {
         c.q_rows = {-2, 0};
       }},
      {"the token of node 0 is 4; vocab is 4", [](Case& c) { c.drafts.tokens[0] = 4; }},
      {"request 0: the token of node 1 is -1; tokens are at least 0",
       [](Case& c) { c.drafts.tokens[1] = -1; }},
      {"request 0: the parent of node 1 is 1; give -1, or a node before it",
       [](Case& c) { c.drafts.chains = false, c.drafts.parents[1] = 1; }},
      {"request 0: the parent of node 0 is -2; give -1, or a node before it",
       [](Case& c) { c.drafts.chains = false, c.drafts.parents[0] = -2; }},
      {"offsets[0] is 1; it must be 0", [](Case& c) { c.drafts.offsets[0] = 1; }},
      {"vocab is 0; give 1 .. 16777216", [](Case& c) { c.from.vocab = 0; }},
      {"p_width is 3 and vocab 4; without ids a row has vocab entries", [](Case& c) { c.from.p_width = 3; }},
      {"row 0 of p_ids: entry 1 is 1 after 1; ids rise and are below vocab, 4",
       [](Case& c) {
         static const int32_t ids[] = {1, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
         c.from.p_ids = ids;
       }},
      {"row 0 of q_ids: entry 0 is 4 after -1; ids rise and are below vocab, 4",
       [](Case& c) {
         static const int32_t ids[] = {4, 1, 2, 3, 0, 1, 2, 3};
         c.from.q_ids = ids;
       }},
  };
  for (const Bad& one : bad) {
    Case c;
    one.spoil(c);
    Verdict verdict(c.drafts);
    EXPECT_EQ(c.verify(&verdict), KVC_ERROR_INVALID_ARGUMENT) << one.text;
    EXPECT_STREQ(kvc_last_error(), one.text);
    EXPECT_TRUE(verdict == Verdict(c.drafts)) << one.text;
  }
  Case c;
  c.from.flags = 2;
  Verdict verdict(c.drafts);
  EXPECT_EQ(c.verify(&verdict), KVC_ERROR_UNSUPPORTED);
}

// One wrong entry in a row that the walk comes to is never overlooked, whatever the request.
TEST(Sampling, EitherRefusesASpoiledRowOrDoesNotDependOnIt) {
  Random random(test_seed() + 2);
  size_t refused = 0;
  for (int i = 0; i < 4000; ++i) {
    RandomCase c(random);
    const Verdict good = c.verified(c.from, false);
    const float wrong[] = {std::nanf(""), -0.5f, 7.0f, std::numeric_limits<float>::infinity()};
    std::vector<float>& rows = random.chance(50) || c.q.empty() ? c.p : c.q;
    rows[random.below(rows.size())] = wrong[random.below(4)];
    Verdict verdict(c.drafts);
    if (c.verify(c.from, false, &verdict) == KVC_OK) {
      ASSERT_TRUE(verdict == good);
    } else {
      ASSERT_TRUE(verdict == Verdict(c.drafts)) << "a failed call changes nothing";
      ++refused;
    }
  }
  EXPECT_GT(refused, 500u);
}

TEST(Greedy, RefusesBadInputAndChangesNothing) {
  Drafted drafts = two();
  Verdict verdict(drafts);
  const kvc_verdict out = verdict.c();
  std::vector<int32_t> target(drafts.rows(), 1);
  target[8] = -1;
  kvc_drafts c = drafts.c();
  EXPECT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "target_tokens[8] is -1; tokens are at least 0");
  target[8] = 1;
  drafts.offsets[1] = 8;
  EXPECT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "offsets[2] is 7 after 8; offsets never decrease");
  drafts.offsets[1] = 70000, drafts.offsets[2] = 70001;
  EXPECT_EQ(kvc_verify_greedy(&c, target.data(), &out), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(kvc_last_error(), "request 0 has 70000 nodes; a draft has at most 65536");
  EXPECT_TRUE(verdict == Verdict(drafts));
}

}  // namespace
}  // namespace kvc::test
