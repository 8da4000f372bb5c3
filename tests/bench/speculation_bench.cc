// SPDX-License-Identifier: Apache-2.0
//
// Verification of 256 chains of 5 nodes over a vocabulary of 128,256 tokens, one thread: rows of p take 788
// MB, those of q 657 MB. Each node is accepted with probability 0.7. `ReadRows` adds up, as fast as the
// memory allows, just the rows that the verification has to read: each row of p and of q on its walk, or of
// trusted rows those from which the next token is drawn. And drafts by n-grams: tokens that come one by one
// to a text of 32,768 tokens, each with a draft of 8.
#include <kvcache/speculation.h>

#include <algorithm>
#include <numeric>

#include "bench.h"

namespace {

constexpr size_t kRequests = 256, kNodes = 5, kVocab = 128256;

// Text that repeats itself now and then.
std::vector<int32_t> text(size_t size) {
  std::vector<int32_t> tokens;
  uint64_t state = 1;
  while (tokens.size() < size) {
    state = bench::mix(state);
    if (tokens.size() > 100 && state % 4 == 0) {
      const size_t from = state / 4 % (tokens.size() - 20);
      for (size_t i = 0; i < 12; ++i) tokens.push_back(tokens[from + i]);
    } else {
      tokens.push_back(static_cast<int32_t>(state / 4 % 5000));
    }
  }
  tokens.resize(size);
  return tokens;
}

class Drafts {
 public:
  Drafts()
      : offsets(kRequests + 1),
        tokens(kRequests * kNodes),
        path(tokens.size()),
        accepted(kRequests),
        next(kRequests) {
    for (size_t r = 0; r <= kRequests; ++r) offsets[r] = r * kNodes;
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(bench::mix(i) % kVocab);
    drafts = {sizeof drafts, kRequests, offsets.data(), tokens.data(), nullptr};
    verdict = {sizeof verdict, path.data(), accepted.data(), next.data()};
  }
  double tokens_of_a_step() const {
    return 1 +
           static_cast<double>(std::accumulate(accepted.begin(), accepted.end(), uint64_t{0})) / kRequests;
  }
  std::vector<uint64_t> offsets;
  std::vector<int32_t> tokens, path;
  std::vector<uint64_t> accepted;
  std::vector<int32_t> next;
  kvc_drafts drafts;
  kvc_verdict verdict;
};

class Rows : public Drafts {
 public:
  Rows() : uniforms(kRequests * (kNodes + 1)) {
    const float rest = 0.65f / (kVocab - 1), rest_q = 0.5f / (kVocab - 1);
    p.assign(uniforms.size() * kVocab, rest);
    q.assign(tokens.size() * kVocab, rest_q);
    for (size_t i = 0; i < tokens.size(); ++i) {  // p has the node's token in its parent's row
      p[(i + i / kNodes) * kVocab + static_cast<size_t>(tokens[i])] = 0.35f;
      q[i * kVocab + static_cast<size_t>(tokens[i])] = 0.5f;
    }
    for (size_t r = 0; r < kRequests; ++r) p[((r + 1) * (kNodes + 1) - 1) * kVocab] = 0.35f;
    for (size_t i = 0; i < uniforms.size(); ++i)
      uniforms[i] = static_cast<double>(bench::mix(i) >> 11) * 0x1p-53;
    workspace.resize(kVocab + 2 * tokens.size() + 2 * kRequests);
    from.struct_size = sizeof from, from.vocab = kVocab;
    from.p = p.data(), from.q = q.data(), from.num_q_rows = tokens.size(), from.uniforms = uniforms.data();
    from.workspace = workspace.data(), from.workspace_bytes = workspace.size() * 4;
  }
  std::vector<float> p, q;
  std::vector<double> uniforms;
  std::vector<int32_t> workspace;
  kvc_probabilities from = {};
};

Rows& rows() {
  static Rows all;
  return all;
}

void VerifySampling(benchmark::State& state) {
  Rows& r = rows();
  kvc_probabilities from = r.from;
  from.flags = state.range(0) != 0 ? KVC_PROBABILITIES_TRUSTED : 0;
  for (auto _ : state) BENCH_CHECK(kvc_verify_sampling(&r.drafts, &from, &r.verdict));
  state.counters["tokens_per_request"] = r.tokens_of_a_step();
  state.counters["per_request"] = benchmark::Counter(
      kRequests, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(VerifySampling)->ArgName("trusted")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// The rows that a verification reads, by its verdict.
std::vector<const float*> rows_read(const Rows& r, bool trusted) {
  std::vector<const float*> all;
  for (size_t request = 0; request < kRequests; ++request) {
    const size_t accepted = r.accepted[request];
    for (size_t depth = trusted ? accepted : 0; depth <= std::min(accepted, kNodes - 1); ++depth)
      all.push_back(r.q.data() + (request * kNodes + depth) * kVocab);
    for (size_t depth = trusted ? accepted : 0; depth <= accepted; ++depth)
      all.push_back(r.p.data() + (request * (kNodes + 1) + depth) * kVocab);
  }
  return all;
}

void ReadRows(benchmark::State& state) {
  Rows& r = rows();
  BENCH_CHECK(kvc_verify_sampling(&r.drafts, &r.from, &r.verdict));
  const std::vector<const float*> all = rows_read(r, state.range(0) != 0);
  for (auto _ : state) {
    for (const float* row : all) {
      float lanes[16] = {};
      for (size_t i = 0; i < kVocab; i += 16)
        for (size_t l = 0; l < 16; ++l) lanes[l] += row[i + l];
      benchmark::DoNotOptimize(std::accumulate(lanes, lanes + 16, 0.0f));
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(all.size() * kVocab * sizeof(float)) * state.iterations());
}
BENCHMARK(ReadRows)->ArgName("trusted")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// With the entropy of each row.
void VerifyTypical(benchmark::State& state) {
  Rows& r = rows();
  for (auto _ : state) BENCH_CHECK(kvc_verify_typical(&r.drafts, &r.from, 0.5, 0.3, &r.verdict));
  state.counters["tokens_per_request"] = r.tokens_of_a_step();
}
BENCHMARK(VerifyTypical)->Unit(benchmark::kMillisecond);

void VerifyGreedy(benchmark::State& state) {
  Drafts d;
  std::vector<int32_t> target(kRequests * (kNodes + 1));
  for (size_t i = 0; i < target.size(); ++i)
    target[i] = bench::mix(i) % 10 < 7 && i % (kNodes + 1) < kNodes ? d.tokens[i - i / (kNodes + 1)] : 0;
  for (auto _ : state) BENCH_CHECK(kvc_verify_greedy(&d.drafts, target.data(), &d.verdict));
  state.counters["tokens_per_request"] = d.tokens_of_a_step();
}
BENCHMARK(VerifyGreedy)->Unit(benchmark::kMicrosecond);

void DraftIndex(benchmark::State& state) {
  const std::vector<int32_t> all = text(32768);
  const size_t prompt = all.size() / 2;
  const kvc_draft_config config = {sizeof config, 1, 2, 4, 0, nullptr};
  kvc_draft* index = nullptr;
  BENCH_CHECK(kvc_draft_create(&config, &index));
  const int32_t row = 0;
  const uint32_t length = 8;
  size_t hits = 0, done = 0;
  for (auto _ : state) {
    state.PauseTiming();
    BENCH_CHECK(kvc_draft_truncate(index, 0, 0));
    const uint64_t first[] = {0, prompt};
    BENCH_CHECK(kvc_draft_append(index, &row, 1, first, all.data()));
    state.ResumeTiming();
    for (size_t i = prompt; i < all.size(); ++i, ++done) {
      const uint64_t one[] = {0, 1};
      uint64_t offsets[2];
      int32_t draft[8];
      size_t count = 0;
      BENCH_CHECK(kvc_draft_append(index, &row, 1, one, all.data() + i));
      BENCH_CHECK(kvc_draft_propose(index, &row, 1, &length, offsets, draft, 8, &count));
      hits += count != 0;
    }
  }
  kvc_draft_destroy(index);
  state.counters["drafted"] = static_cast<double>(hits) / static_cast<double>(done);
  state.counters["per_token"] =
      benchmark::Counter(static_cast<double>(all.size() - prompt),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(DraftIndex)->Unit(benchmark::kMillisecond);

void DraftLookup(benchmark::State& state) {
  const std::vector<int32_t> all = text(32768);
  size_t i = all.size() / 2;
  for (auto _ : state) {
    int32_t draft[8];
    size_t count = 0;
    BENCH_CHECK(kvc_draft_lookup(all.data(), i, 2, 4, draft, 8, &count));
    if (++i == all.size()) i = all.size() / 2;
  }
}
BENCHMARK(DraftLookup)->Unit(benchmark::kNanosecond);

}  // namespace
