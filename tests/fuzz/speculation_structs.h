// SPDX-License-Identifier: Apache-2.0
// Structs of kvcache/speculation.h for structs_fuzz.cc. What is not claimed by the input is right: one
// request with a root, its child, and another root.
#pragma once
#include <kvcache/rebuild.h>
#include <kvcache/speculation.h>

#include "fuzz/claimed.h"
#include "fuzz/target.h"

namespace kvc_fuzz {

constexpr size_t kDraftNodes = 3, kDraftRows = 4, kMostDraftRequests = 8;

inline const uint64_t draft_offsets_[2] = {0, kDraftNodes};
inline const int32_t draft_tokens_[kDraftNodes] = {1, 2, 0}, draft_parents_[kDraftNodes] = {-1, 0, -1};
inline const kvc_drafts kRightDrafts = {sizeof kRightDrafts, 1, draft_offsets_, draft_tokens_,
                                        draft_parents_};

// Room for the verdicts of what is accepted as drafts.
struct VerdictRoom {
  int32_t path[kMostDraftRequests * 8], next[kMostDraftRequests];
  uint64_t accepted[kMostDraftRequests];
  kvc_verdict verdict = {sizeof verdict, path, accepted, next};
};

// A path from the root of the right drafts, or none.
inline void require_path(const VerdictRoom& v) {
  FUZZ_REQUIRE(v.accepted[0] <= 2, "more accepted nodes than the tree is deep");
  for (uint64_t i = 0; i < kDraftNodes; ++i)
    FUZZ_REQUIRE((v.path[i] >= 0) == (i < v.accepted[0]), "a path and its length differ");
}

// Any number of requests, of at most 7 nodes each or refused ones.
inline kvc_status drafts(Claimed& s) {
  static uint64_t offsets[kMostDraftRequests + 1];
  offsets[0] = array_[0] < 250 ? 0 : array_[0];
  for (size_t r = 0; r < kMostDraftRequests; ++r) {
    const uint64_t step = array_[r + 1];
    offsets[r + 1] = offsets[r] + (step < 240 ? step % 8 : step << 40);
  }
  s.cut(&kvc_drafts::num_requests, kMostDraftRequests);
  s.point(&kvc_drafts::offsets, offsets), s.point(&kvc_drafts::tokens), s.point(&kvc_drafts::parents);
  VerdictRoom v;
  const auto* target = static_cast<const int32_t*>(static_cast<const void*>(array_ + 64));
  const kvc_status status = kvc_verify_greedy(s.as<kvc_drafts>(), target, &v.verdict);
  const kvc_status good = kvc_drafts_check(s.as<kvc_drafts>());
  FUZZ_REQUIRE(status != KVC_OK || good == KVC_OK, kvc_last_error());
  kvc_acceptance counts = {};
  counts.struct_size = sizeof counts;
  if (status == KVC_OK)
    FUZZ_REQUIRE(kvc_acceptance_add(&counts, s.as<kvc_drafts>(), &v.verdict) == KVC_OK, kvc_last_error());
  return status;
}

// A verdict of anybody, read and written.
inline kvc_status verdict(Claimed& s) {
  VerdictRoom v;
  std::memcpy(v.path, array_, sizeof v.path);
  v.accepted[0] = array_[0] % 5;
  s.point(&kvc_verdict::path, v.path), s.point(&kvc_verdict::num_accepted, v.accepted);
  s.point(&kvc_verdict::next_tokens, v.next);
  const uint64_t start = 5;
  const int32_t table[3] = {3, 1, 2}, states[kDraftRows] = {4, 5, 6, 7};
  const kvc_draft_tables tables = {sizeof tables, 0, 4, &start, table, 3};
  kvc_token_copy moves[kDraftNodes];
  kvc_block_copy copy;
  size_t count = 0;
  const kvc_status read =
      kvc_verdict_moves(&kRightDrafts, s.as<kvc_verdict>(), &tables, moves, kDraftNodes, &count);
  FUZZ_REQUIRE(kvc_verdict_states(&kRightDrafts, s.as<kvc_verdict>(), &tables, states, &copy) == read,
               "moves and states differ about a verdict");
  const int32_t target[kDraftRows] = {1, 2, 2, 2};
  const kvc_status status = kvc_verify_greedy(&kRightDrafts, target, s.as<kvc_verdict>());
  if (status == KVC_OK) FUZZ_REQUIRE(v.accepted[0] == 2 && v.path[1] == 1, "another path");
  return status;
}

inline kvc_status probabilities(Claimed& s) {
  using P = kvc_probabilities;
  static float p[kArray / 4], q[kArray / 4];
  static double uniforms[kDraftRows];
  static int64_t q_rows[kDraftNodes];
  static int32_t workspace[1 << 15];
  constexpr uint32_t kMost = kArray / 4 / kDraftRows;  // entries of a row
  if (uint32_t* const vocab = s.field(&P::vocab); vocab != nullptr && *vocab <= 1u << 24) *vocab %= kMost + 1;
  if (size_t* const width = s.field(&P::p_width); width != nullptr && *width <= 1u << 24) *width %= kMost + 1;
  s.cut(&P::num_q_rows, kDraftRows);
  s.cut(&P::workspace_bytes, sizeof workspace);
  const uint32_t* const vocab = s.field(&P::vocab);
  const size_t* const width = s.field(&P::p_width);
  // Rows that are right for two of three inputs: all that there is at one token.
  const size_t entries = width != nullptr && *width != 0 && *width <= kMost ? *width
                         : vocab != nullptr && *vocab <= kMost              ? *vocab
                                                                            : 0;
  std::memcpy(p, array_, sizeof p), std::memcpy(q, array_, sizeof q);
  if (array_[1] % 3 != 0 && entries > 2) {
    std::memset(p, 0, sizeof p), std::memset(q, 0, sizeof q);
    for (size_t row = 0; row < kDraftRows; ++row) {
      p[row * entries + array_[row] % 3] = 1;
      q[row * entries] = q[row * entries + 2] = 0.25f, q[row * entries + 1] = 0.5f;
    }
  }
  for (size_t row = 0; row < kDraftRows; ++row) uniforms[row] = array_[8 + row] / 255.0;
  for (size_t node = 0; node < kDraftNodes; ++node) q_rows[node] = array_[16 + node] % 6 - 1;
  s.point(&P::p, p), s.point(&P::q, q), s.point(&P::p_ids), s.point(&P::q_ids), s.point(&P::q_rows, q_rows);
  s.point(&P::uniforms, uniforms);
  s.set(&P::workspace, (array_[20] & 1) != 0 ? static_cast<void*>(workspace) : nullptr);
  VerdictRoom v;
  const kvc_status status = kvc_verify_sampling(&kRightDrafts, s.as<P>(), &v.verdict);
  if (status == KVC_OK) require_path(v);
  if (kvc_verify_typical(&kRightDrafts, s.as<P>(), 0.3, 0.5, &v.verdict) == KVC_OK) require_path(v);
  return status;
}

inline kvc_status draft_tables(Claimed& s) {
  static uint64_t start;
  std::memcpy(&start, array_, sizeof start);
  if (array_[7] == 0) start %= 1 << 12;
  s.point(&kvc_draft_tables::starts, &start), s.point(&kvc_draft_tables::block_tables);
  s.cut(&kvc_draft_tables::table_stride, kArray / 4);
  VerdictRoom v;
  v.path[0] = 2, v.accepted[0] = 1;
  kvc_token_copy move;
  kvc_block_copy copy;
  size_t count = 0;
  const int32_t states[kDraftRows] = {4, 5, 6, 7};
  const kvc_status status =
      kvc_verdict_moves(&kRightDrafts, &v.verdict, s.as<kvc_draft_tables>(), &move, 1, &count);
  if (status == KVC_OK) {
    FUZZ_REQUIRE(count == 1 && move.source >= 0 && move.destination >= 0 && move.num_tokens == 1, "a move");
  }
  if (kvc_verdict_states(&kRightDrafts, &v.verdict, s.as<kvc_draft_tables>(), states, &copy) == KVC_OK)
    FUZZ_REQUIRE(copy.source == 7 && copy.destination >= 0, "a copy of a state");
  return status;
}

inline kvc_status draft_config(Claimed& s, const kvc_allocator* allocator) {
  s.set(&kvc_draft_config::allocator, allocator);
  // The allocator refuses what is large; of many rows each is small.
  if (uint32_t* const rows = s.field(&kvc_draft_config::max_rows); rows != nullptr && *rows <= 65536)
    *rows %= 65;
  kvc_draft* index = nullptr;
  const kvc_status status = kvc_draft_create(s.as<kvc_draft_config>(), &index);
  if (status != KVC_OK) return status;
  const int32_t row = 0, tokens[6] = {1, 2, 3, 1, 2, 3};
  const uint32_t length = 4;
  uint64_t offsets[2] = {0, 6};
  int32_t draft[4];
  size_t count = 0;
  if (kvc_draft_append(index, &row, 1, offsets, tokens) == KVC_OK) {
    FUZZ_REQUIRE(kvc_draft_propose(index, &row, 1, &length, offsets, draft, 4, &count) == KVC_OK,
                 kvc_last_error());
    if (count != 0) FUZZ_REQUIRE(count == 4 && draft[0] == 1 && draft[3] == 1, "another draft");
  }
  kvc_draft_destroy(index);
  return status;
}

inline kvc_status acceptance(Claimed& s) {
  VerdictRoom v;
  v.path[0] = 0, v.path[1] = 1, v.accepted[0] = 2;
  auto* counts = s.as<kvc_acceptance>();
  const kvc_status status = kvc_acceptance_add(counts, &kRightDrafts, &v.verdict);
  uint32_t length = 0;
  double expected = 0;
  const double costs[4] = {1, 1.1, 1.2, 1.3};
  if (kvc_acceptance_length(counts, costs, 4, &length, &expected) == KVC_OK)
    FUZZ_REQUIRE(length <= 3 && expected >= 1 && expected <= 1 + length, "a length");
  kvc_acceptance_halve(counts);
  return status;
}

}  // namespace kvc_fuzz
