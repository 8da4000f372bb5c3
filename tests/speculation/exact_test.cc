// SPDX-License-Identifier: Apache-2.0
// The distribution of what a step gives, exactly: over a vocabulary of three tokens all drafts of a tree are
// enumerated with their probabilities, and for each the numbers at which a node is no longer accepted, and
// another token drawn, are found by bisection of its uniform. Nothing is assumed of how a verification works.
// The probability of every text must be the target's. Then the paths of greedy and of typical verification
// against plain searches of all paths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "seed.h"
#include "speculation/drafted.h"

namespace kvc::test {
namespace {

constexpr int32_t kVocab = 3;
constexpr double kLast = 1 - 0x1p-53;  // the largest number below 1

using Row = std::vector<float>;
using Text = std::vector<int32_t>;
using Probabilities = std::map<Text, double>;

Row random_row(Random& random, bool zeros) {
  Row row(kVocab);
  do {
    for (float& x : row) x = zeros && random.chance(30) ? 0.0f : 0.05f + static_cast<float>(uniform(random));
  } while (std::count(row.begin(), row.end(), 0.0f) == kVocab);
  float sum = 0;
  for (const float x : row) sum += x;
  for (float& x : row) x /= sum;
  return row;
}

// A row as the library takes it: divided by its sum.
double of(const Row& row, int32_t token) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x);
  return static_cast<double>(row[static_cast<size_t>(token)]) / sum;
}

// The target, and how nodes are drawn: both depend on the token before, at the root on none.
struct Models {
  std::vector<Row> p, q;  // [1 + token before]
};

enum class Kind { kDrawn, kDistinct, kCertain };  // kDistinct: without replacement

// Which tree, and how each node gets its token.
struct Shape {
  std::vector<int32_t> parents;
  std::vector<Kind> kinds;

  std::string text() const {
    std::string all;
    for (size_t i = 0; i < parents.size(); ++i)
      all += " " + std::to_string(parents[i]) + "dnc"[static_cast<size_t>(kinds[i])];
    return all;
  }
};

size_t context(const Text& tokens, int32_t node) {
  return node < 0 ? 0 : 1 + static_cast<size_t>(tokens[static_cast<size_t>(node)]);
}

// One draft: its tokens and what they were drawn from; a request with a verification at given numbers.
class Draw {
 public:
  Draw(const Shape& shape, const Models& models, const Text& tokens, const std::vector<Row>& q) {
    std::vector<Row> p{models.p[0]};
    for (size_t i = 0; i < tokens.size(); ++i) {
      drafts_.node(tokens[i], shape.parents[i]);
      p.push_back(models.p[1 + static_cast<size_t>(tokens[i])]);
      q_rows_.push_back(shape.kinds[i] == Kind::kCertain ? -1 : static_cast<int64_t>(i));
    }
    drafts_.end_request();
    for (const Row& row : p) p_.insert(p_.end(), row.begin(), row.end());
    for (const Row& row : q) q_.insert(q_.end(), row.begin(), row.end());
    uniforms.assign(tokens.size() + 1, 0);
    from_.struct_size = sizeof from_, from_.vocab = kVocab, from_.p = p_.data(), from_.q = q_.data();
    from_.num_q_rows = tokens.size(), from_.q_rows = q_rows_.data(), from_.uniforms = uniforms.data();
    from_.workspace = workspace_, from_.workspace_bytes = sizeof workspace_;
  }
  Draw(const Draw&) = delete;

  const Verdict& verify() {
    const kvc_drafts c = drafts_.c();
    const kvc_verdict out = verdict_.c();
    EXPECT_EQ(kvc_verify_sampling(&c, &from_, &out), KVC_OK) << kvc_last_error();
    return verdict_;
  }
  bool accepts(size_t node, double u) {
    uniforms[node + 1] = u;
    const Verdict& v = verify();
    return std::count(v.path.begin(), v.path.end(), static_cast<int32_t>(node)) != 0;
  }
  int32_t next(double u) {
    uniforms[0] = u;
    return verify().next_tokens[0];
  }
  std::vector<double> uniforms;

 private:
  Drafted drafts_;
  std::vector<float> p_, q_;
  std::vector<int64_t> q_rows_;
  int32_t workspace_[64];
  kvc_probabilities from_ = {};
  Verdict verdict_{[] {
    Drafted most;
    for (int i = 0; i < 8; ++i) most.node(0, -1);
    most.end_request();
    return most;
  }()};
};

// Where `below` turns from true to false within [0, 1).
double edge(const std::function<bool(double)>& below) {
  if (!below(0)) return 0;
  if (below(kLast)) return 1;
  double low = 0, high = kLast;
  for (int i = 0; i < 44; ++i) {
    const double middle = (low + high) / 2;
    (below(middle) ? low : high) = middle;
  }
  return high;
}

// Adds what a draft of some probability comes to: its decisions node by node, then the next token.
void add_outcomes(Draw& draw, const Text& tokens, size_t node, double probability, Probabilities& texts) {
  if (probability == 0) return;
  if (node < tokens.size()) {
    const double accepted = edge([&](double u) { return draw.accepts(node, u); });
    draw.uniforms[node + 1] = accepted / 2;
    add_outcomes(draw, tokens, node + 1, probability * accepted, texts);
    draw.uniforms[node + 1] = std::min((1 + accepted) / 2, kLast);
    add_outcomes(draw, tokens, node + 1, probability * (1 - accepted), texts);
    return;
  }
  const Verdict v = draw.verify();
  Text text;
  for (size_t i = 0; i < v.num_accepted[0]; ++i) text.push_back(tokens[static_cast<size_t>(v.path[i])]);
  double before = 0;
  for (int32_t token = 0; token < kVocab; ++token) {
    const double end = token + 1 < kVocab ? edge([&](double u) { return draw.next(u) <= token; }) : 1;
    text.push_back(token);
    if (end > before) texts[text] += probability * (end - before);
    text.pop_back();
    before = std::max(before, end);
  }
}

// All drafts of a shape with their probabilities.
void add_drafts(const Shape& shape, const Models& models, Text& tokens, std::vector<Row>& q,
                double probability, Probabilities& texts) {
  const size_t node = tokens.size();
  if (node == shape.parents.size()) {
    Draw draw(shape, models, tokens, q);
    add_outcomes(draw, tokens, 0, probability, texts);
    return;
  }
  const int32_t parent = shape.parents[node];
  Row row = models.q[context(tokens, parent)];
  size_t rank = 0;  // siblings before it
  for (size_t i = 0; i < node; ++i) {
    if (shape.parents[i] != parent) continue;
    ++rank;
    if (shape.kinds[node] == Kind::kDistinct) row[static_cast<size_t>(tokens[i])] = 0;
  }
  float left = 0;
  for (const float x : row) left += x;
  for (float& x : row) x /= left;
  q.push_back(row);
  for (int32_t token = 0; token < kVocab; ++token) {
    const bool certain = shape.kinds[node] == Kind::kCertain;
    // A certain node may be chosen by whatever is known: the row, the place.
    const double share = certain ? (static_cast<size_t>(token) == (rank + (row[0] > row[1])) % kVocab ? 1 : 0)
                                 : of(row, token);
    if (share == 0) continue;
    tokens.push_back(token);
    add_drafts(shape, models, tokens, q, probability * share, texts);
    tokens.pop_back();
  }
  q.pop_back();
}

// Continues texts by the target until all have the same length.
Probabilities continued(const Probabilities& texts, const Models& models, size_t length) {
  Probabilities all;
  const std::function<void(Text, double)> grow = [&](Text text, double probability) {
    if (text.size() >= length) {
      text.resize(length);
      all[text] += probability;
      return;
    }
    const Row& row = models.p[text.empty() ? 0 : 1 + static_cast<size_t>(text.back())];
    for (int32_t token = 0; token < kVocab; ++token) {
      text.push_back(token);
      grow(text, probability * of(row, token));
      text.pop_back();
    }
  };
  for (const auto& [text, probability] : texts) grow(text, probability);
  return all;
}

TEST(ExactDistribution, IsTheTargetsForEveryTreeOfAFewNodes) {
  Random random(test_seed());
  for (int i = 0; i < 200; ++i) {
    Shape shape;
    const size_t nodes = random.between(1, 5);
    for (size_t node = 0; node < nodes; ++node) {
      shape.parents.push_back(static_cast<int32_t>(random.below(node + 1)) - 1);
      const auto siblings = std::count(shape.parents.begin(), shape.parents.end() - 1, shape.parents.back());
      const auto kind = static_cast<Kind>(random.below(3));
      shape.kinds.push_back(kind == Kind::kDistinct && siblings >= kVocab ? Kind::kDrawn : kind);
    }
    const bool distinct = std::count(shape.kinds.begin(), shape.kinds.end(), Kind::kDistinct) != 0;
    Models models;
    for (int32_t c = 0; c <= kVocab; ++c) {
      models.p.push_back(random_row(random, true));
      models.q.push_back(random_row(random, !distinct));
    }
    Probabilities texts;
    Text tokens;
    std::vector<Row> q;
    add_drafts(shape, models, tokens, q, 1, texts);
    const Probabilities found = continued(texts, models, nodes + 1);
    const Probabilities wanted = continued({{{}, 1.0}}, models, nodes + 1);
    double total = 0;
    for (const auto& [text, probability] : wanted) {
      const auto at = found.find(text);
      // Rows are floats, and what is left after a rejection is rounded to floats.
      ASSERT_NEAR(at == found.end() ? 0 : at->second, probability, 1e-6) << i << ":" << shape.text();
    }
    for (const auto& [text, probability] : found) total += probability;
    ASSERT_NEAR(total, 1, 1e-9) << i << ":" << shape.text();
  }
}

// ---- paths, against searches of all of them

struct Trees {
  Drafted drafts;
  std::vector<int32_t> target;
  std::vector<float> p;
  std::vector<double> uniforms;

  explicit Trees(Random& random) {
    for (uint64_t n = random.between(1, 4); n-- > 0;) {
      for (uint64_t nodes = random.below(10), i = 0; i < nodes; ++i)
        drafts.node(static_cast<int32_t>(random.below(kVocab)),
                    static_cast<int32_t>(random.below(i + 1)) - 1);
      drafts.end_request();
    }
    for (size_t row = 0; row < drafts.rows(); ++row) {
      target.push_back(static_cast<int32_t>(random.below(kVocab)));
      const Row made = random_row(random, true);
      p.insert(p.end(), made.begin(), made.end());
      uniforms.push_back(uniform(random));
    }
  }
  // Calls visit(path, row behind it) for each path from a root, the empty one too.
  void each_path(size_t request, const std::function<void(const Text&, size_t)>& visit) const {
    const size_t first = drafts.offsets[request], size = drafts.offsets[request + 1] - first;
    const std::function<void(Text&)> go = [&](Text& path) {
      const int32_t at = path.empty() ? -1 : path.back();
      visit(path, first + request + static_cast<size_t>(at + 1));
      for (size_t i = 0; i < size; ++i) {
        if (drafts.parents[first + i] != at) continue;
        path.push_back(static_cast<int32_t>(i));
        go(path);
        path.pop_back();
      }
    };
    Text path;
    go(path);
  }
  // Whether each node of a path is good behind the row before it.
  bool all(size_t request, const Text& path,
           const std::function<bool(size_t row, int32_t token)>& good) const {
    const size_t first = drafts.offsets[request];
    size_t row = first + request;
    for (const int32_t node : path) {
      if (!good(row, drafts.tokens[first + static_cast<size_t>(node)])) return false;
      row = first + request + 1 + static_cast<size_t>(node);
    }
    return true;
  }
};

Text accepted(const Verdict& verdict, const Drafted& drafts, size_t request) {
  const auto* begin = verdict.path.data() + drafts.offsets[request];
  return Text(begin, begin + verdict.num_accepted[request]);
}

// Greedy: the text is that of the target's tokens, as far as any path goes on without a choice.
TEST(Paths, OfGreedyVerificationHaveTheTargetsTokensAndCannotBeLonger) {
  Random random(test_seed() + 1);
  for (int i = 0; i < 3000; ++i) {
    const Trees trees(random);
    Verdict verdict(trees.drafts);
    const kvc_drafts c = trees.drafts.c();
    const kvc_verdict out = verdict.c();
    ASSERT_EQ(kvc_verify_greedy(&c, trees.target.data(), &out), KVC_OK) << kvc_last_error();
    for (size_t r = 0; r < trees.drafts.requests(); ++r) {
      const Text path = accepted(verdict, trees.drafts, r);
      const auto agrees = [&](size_t row, int32_t token) { return trees.target[row] == token; };
      size_t found = 0;
      trees.each_path(r, [&](const Text& other, size_t row) {
        if (!trees.all(r, other, agrees)) return;
        if (other == path) {
          ++found;
          ASSERT_EQ(verdict.next_tokens[r], trees.target[row]);
        }
        // Of equal siblings the first is taken; nothing that it leads to is left out.
        if (other.size() == path.size() + 1) {
          ASSERT_FALSE(std::equal(path.begin(), path.end(), other.begin()));
        }
      });
      ASSERT_EQ(found, 1u);
    }
  }
}

TEST(Paths, OfTypicalVerificationAreTheLongestOfLikelyNodes) {
  Random random(test_seed() + 2);
  constexpr double kEpsilon = 0.35, kDelta = 0.8;
  size_t longer = 0;
  for (int i = 0; i < 3000; ++i) {
    const Trees trees(random);
    Verdict verdict(trees.drafts);
    kvc_probabilities from = {};
    from.struct_size = sizeof from, from.vocab = kVocab, from.p = trees.p.data();
    from.uniforms = trees.uniforms.data();
    const kvc_drafts c = trees.drafts.c();
    const kvc_verdict out = verdict.c();
    ASSERT_EQ(kvc_verify_typical(&c, &from, kEpsilon, kDelta, &out), KVC_OK) << kvc_last_error();
    const auto row_of = [&](size_t row) {
      return Row(trees.p.begin() + static_cast<ptrdiff_t>(row * kVocab),
                 trees.p.begin() + static_cast<ptrdiff_t>((row + 1) * kVocab));
    };
    bool near = false;  // the library's logarithm is right to 1e-6
    const auto likely = [&](size_t row, int32_t token) {
      const Row p = row_of(row);
      double entropy = 0;
      for (int32_t t = 0; t < kVocab; ++t)
        if (of(p, t) > 0) entropy -= of(p, t) * std::log(of(p, t));
      const double bound = std::min(kEpsilon, kDelta * std::exp(-entropy));
      near |= std::abs(of(p, token) - bound) < 1e-5;
      return of(p, token) > bound;
    };
    for (size_t r = 0; r < trees.drafts.requests(); ++r) {
      Text best;
      size_t behind = trees.drafts.offsets[r] + r;
      trees.each_path(r, [&](const Text& path, size_t row) {
        const bool better = path.size() > best.size() ||
                            (!path.empty() && path.size() == best.size() && path.back() < best.back());
        if (better && trees.all(r, path, likely)) best = path, behind = row;
      });
      if (near) break;
      ASSERT_EQ(accepted(verdict, trees.drafts, r), best) << i;
      ASSERT_EQ(verdict.next_tokens[r],
                draw_plainly(row_of(behind), trees.uniforms[trees.drafts.offsets[r] + r]));
      longer += best.size() > 1;
    }
  }
  EXPECT_GT(longer, 500u);
}

}  // namespace
}  // namespace kvc::test
