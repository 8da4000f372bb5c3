// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_SPECULATION_HPP
#define KVCACHE_SPECULATION_HPP

/// @file kvcache/speculation.hpp
/// Speculative decoding. Parameters are the structs of kvcache/speculation.h, which says what they mean.
///
///     kvc::Draft index(config);                                // drafts by n-grams; or your own kvc::Drafts
///     kvc::Verdict verdict;                                    // keeps its memory from step to step
///     kvc::Drafts drafts = index.propose(rows, lengths, offsets, tokens);
///     verdict.verify_greedy(drafts, target_tokens);
///     storage.move_tokens(verdict.moves(drafts, tables, room));    // trees alone
///     m.append(request, verdict.gained(drafts, 0, text));
///
/// Failures throw kvc::Error; arrays that do not fit together, std::invalid_argument. A Verdict is not to be
/// read after a verification that threw.

#include <kvcache/speculation.h>

#include <kvcache/types.hpp>
#include <stdexcept>
#include <vector>

namespace kvc {
inline namespace cpp {

/// Drafts of many requests (kvc_drafts). Refers to the arrays.
class Drafts : public kvc_drafts {
 public:
  /// offsets: [requests + 1]. Without parents all drafts are chains.
  Drafts(Span<const uint64_t> draft_offsets, Span<const int32_t> draft_tokens,
         Span<const int32_t> draft_parents = {})
      : kvc_drafts(make<kvc_drafts>()) {
    num_requests = draft_offsets.size() != 0 ? draft_offsets.size() - 1 : 0;
    offsets = draft_offsets.data(), tokens = draft_tokens.data(), parents = draft_parents.data();
    if (num_requests != 0 && (draft_tokens.size() != offsets[num_requests] ||
                              (parents != nullptr && draft_parents.size() != draft_tokens.size())))
      throw std::invalid_argument("kvc::Drafts: the last offset, tokens and parents differ in the nodes");
  }
  /// Throws unless offsets, tokens and parents are drafts.
  void check() const { cpp::check(kvc_drafts_check(this)); }
};

/// What a verification says, in memory of its own, which it keeps. One thread at a time.
class Verdict {
 public:
  /// As kvc_verify_greedy, and so on. Probabilities have the arrays that the header asks for.
  ///@{
  void verify_greedy(const kvc_drafts& drafts, Span<const int32_t> target_tokens) {
    run(drafts, [&](const kvc_verdict& v) {
      if (target_tokens.size() != path_.size() + num_accepted_.size())
        throw std::invalid_argument("kvc::Verdict: target_tokens has not a token for each row");
      return kvc_verify_greedy(&drafts, target_tokens.data(), &v);
    });
  }
  void verify_sampling(const kvc_drafts& drafts, const kvc_probabilities& p) {
    run(drafts, [&](const kvc_verdict& v) { return kvc_verify_sampling(&drafts, &p, &v); });
  }
  void verify_typical(const kvc_drafts& drafts, const kvc_probabilities& p, double epsilon = 0.09,
                      double delta = 0.3) {
    run(drafts, [&](const kvc_verdict& v) { return kvc_verify_typical(&drafts, &p, epsilon, delta, &v); });
  }
  ///@}

  /// The accepted nodes of a request, counted within its draft.
  Span<const int32_t> path(const kvc_drafts& drafts, size_t request) const {
    return {path_.data() + drafts.offsets[request], static_cast<size_t>(num_accepted_[request])};
  }
  /// The token after them.
  int32_t next_token(size_t request) const { return next_tokens_[request]; }
  /// Writes what a request gains to `room`: its accepted tokens and the next one. Returns the used part.
  Span<int32_t> gained(const kvc_drafts& drafts, size_t request, Span<int32_t> room) const {
    const auto nodes = path(drafts, request);
    if (room.size() <= nodes.size()) throw std::invalid_argument("kvc::Verdict: room for too few tokens");
    for (size_t i = 0; i < nodes.size(); ++i)
      room[i] = drafts.tokens[drafts.offsets[request] + static_cast<size_t>(nodes[i])];
    room[nodes.size()] = next_token(request);
    return {room.data(), nodes.size() + 1};
  }
  /// As kvc_verdict_moves; returns the used part of `room`, which never needs more entries than nodes.
  Span<kvc_token_copy> moves(const kvc_drafts& drafts, const kvc_draft_tables& tables,
                             Span<kvc_token_copy> room) const {
    const kvc_verdict v = get();
    return {room.data(), ask<size_t>(kvc_verdict_moves, &drafts, &v, &tables, room.data(), room.size())};
  }
  /// As kvc_verdict_states. blocks: [rows]. copies: [requests].
  void states(const kvc_drafts& drafts, const kvc_draft_tables& tables, Span<const int32_t> blocks,
              Span<kvc_block_copy> copies) const {
    if (blocks.size() != path_.size() + num_accepted_.size() || copies.size() != num_accepted_.size())
      throw std::invalid_argument(
          "kvc::Verdict: blocks has not one for each row, or copies not one for each request");
    const kvc_verdict v = get();
    check(kvc_verdict_states(&drafts, &v, &tables, blocks.data(), copies.data()));
  }
  /// For C functions. Refers to this verdict.
  kvc_verdict get() const noexcept {
    auto v = make<kvc_verdict>();
    v.path = const_cast<int32_t*>(path_.data());
    v.num_accepted = const_cast<uint64_t*>(num_accepted_.data());
    v.next_tokens = const_cast<int32_t*>(next_tokens_.data());
    return v;
  }

 private:
  template <class Verify>
  void run(const kvc_drafts& drafts, Verify&& verify) {
    check(kvc_drafts_check(&drafts));
    path_.resize(drafts.num_requests != 0 ? drafts.offsets[drafts.num_requests] : 0);
    num_accepted_.resize(drafts.num_requests), next_tokens_.resize(drafts.num_requests);
    check(verify(get()));
  }
  std::vector<int32_t> path_, next_tokens_;
  std::vector<uint64_t> num_accepted_;
};

/// Drafts by n-grams: an index of many sequences, each in a row; move-only. Any thread may call any function.
class Draft {
 public:
  /// Creates an index of empty rows.
  explicit Draft(const kvc_draft_config& config) : d_(ask<kvc_draft*>(kvc_draft_create, &config)) {}
  kvc_draft* get() const noexcept { return d_.get(); }  ///< For C functions.

  /// Appends tokens to a row: the prompt, and after each step what it gave.
  void append(int32_t row, Span<const int32_t> tokens) {
    const uint64_t offsets[2] = {0, tokens.size()};
    check(kvc_draft_append(get(), &row, 1, offsets, tokens.data()));
  }
  /// Appends tokens to many rows. offsets: [rows + 1] into tokens.
  void append(Span<const int32_t> rows, Span<const uint64_t> offsets, Span<const int32_t> tokens) {
    if (offsets.size() != rows.size() + 1 || tokens.size() != offsets[rows.size()])
      throw std::invalid_argument("kvc::Draft: rows, offsets and tokens do not fit together");
    check(kvc_draft_append(get(), rows.data(), rows.size(), offsets.data(), tokens.data()));
  }
  /// Keeps the first tokens of a row; 0 = empty, for another request.
  void truncate(int32_t row, uint64_t num_tokens = 0) { check(kvc_draft_truncate(get(), row, num_tokens)); }
  /// Drafts for rows: chains, in the arrays given. offsets: [rows + 1]. tokens: room for all of max_lengths.
  Drafts propose(Span<const int32_t> rows, Span<const uint32_t> max_lengths, Span<uint64_t> offsets,
                 Span<int32_t> tokens) {
    if (max_lengths.size() != rows.size() || offsets.size() != rows.size() + 1)
      throw std::invalid_argument("kvc::Draft: rows, max_lengths and offsets do not fit together");
    const auto count = ask<size_t>(kvc_draft_propose, get(), rows.data(), rows.size(), max_lengths.data(),
                                   offsets.data(), tokens.data(), tokens.size());
    return {{offsets.data(), offsets.size()}, {tokens.data(), count}};
  }

 private:
  Owner<kvc_draft, kvc_draft_destroy> d_;
};

/// As kvc_draft_lookup; returns the used part of `draft`.
inline Span<int32_t> draft_lookup(Span<const int32_t> tokens, uint32_t min_ngram, uint32_t max_ngram,
                                  Span<int32_t> draft) {
  return {draft.data(), ask<size_t>(kvc_draft_lookup, tokens.data(), tokens.size(), min_ngram, max_ngram,
                                    draft.data(), draft.size())};
}

/// Counts of verdicts by depth (kvc_acceptance), empty at first. One thread at a time.
class Acceptance : public kvc_acceptance {
 public:
  Acceptance() : kvc_acceptance(make<kvc_acceptance>()) {}  ///< Empty.
  /// Adds the verdict of drafts.
  void add(const kvc_drafts& drafts, const Verdict& verdict) {
    const kvc_verdict v = verdict.get();
    check(kvc_acceptance_add(this, &drafts, &v));
  }
  void halve() { check(kvc_acceptance_halve(this)); }  ///< As kvc_acceptance_halve.

  /// The length of drafts that gives the most tokens per cost, and the tokens of a step with it.
  struct Length {
    uint32_t nodes;  ///< 0 .. the number of costs - 1.
    double tokens;   ///< Expected.
  };
  /// As kvc_acceptance_length. costs: of steps with drafts of 0, 1, 2, ... nodes.
  Length length(Span<const double> costs) const {
    Length best{};
    check(kvc_acceptance_length(this, costs.data(), costs.size(), &best.nodes, &best.tokens));
    return best;
  }
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_SPECULATION_HPP
