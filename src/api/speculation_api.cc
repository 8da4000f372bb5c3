// SPDX-License-Identifier: Apache-2.0
// C functions of kvcache/speculation.h.
#include <cmath>
#include <cstdlib>
#include <memory>

#include "api/locked.h"
#include "api/storage_handle.h"
#include "speculation/acceptance.h"
#include "speculation/draft_index.h"
#include "speculation/moves.h"
#include "speculation/verify.h"

using namespace kvc;

namespace {

constexpr uint32_t kMaxVocab = 1u << 24, kMaxBlockSize = 1u << 20;
constexpr size_t kMaxCosts = 1025;

kvc_status read_drafts(const kvc_drafts* drafts, kvc_drafts* own) {
  KVC_REQUIRE_POINTER(drafts);
  KVC_TRY(read_struct(drafts, own));
  return check_drafts(*own);
}

kvc_status read_verdict(const kvc_verdict* verdict, const kvc_drafts& drafts, bool has_tokens,
                        kvc_verdict* own) {
  KVC_REQUIRE_POINTER(verdict);
  KVC_TRY(read_struct(verdict, own));
  KVC_REQUIRE_ARRAY(own->path, num_nodes(drafts));
  KVC_REQUIRE_ARRAY(own->num_accepted, drafts.num_requests);
  if (has_tokens) KVC_REQUIRE_ARRAY(own->next_tokens, drafts.num_requests);
  return KVC_OK;
}

// Drafts and their verdict, as a verification has written it.
kvc_status read_verified(const kvc_drafts* drafts, const kvc_verdict* verdict, kvc_drafts* own,
                         kvc_verdict* result) {
  KVC_TRY(read_drafts(drafts, own));
  KVC_TRY(read_verdict(verdict, *own, false, result));
  for (size_t r = 0; r < own->num_requests; ++r) KVC_TRY(check_path(*own, *result, r));
  return KVC_OK;
}

kvc_status check_width(const char* name, const int32_t* ids, uint32_t vocab, size_t* width) {
  if (*width == 0) *width = vocab;
  if (*width > vocab || (ids == nullptr && *width != vocab)) {
    return invalid(
        "%s_width is %zu and vocab %u; %s", name, *width, vocab,
        ids != nullptr ? "a row has at most vocab entries" : "without ids a row has vocab entries");
  }
  return KVC_OK;
}

kvc_status check_q_rows(const kvc_probabilities& from, const kvc_drafts& drafts) {
  const size_t nodes = num_nodes(drafts);
  if (from.q_rows == nullptr) {
    if (from.q == nullptr || from.num_q_rows >= nodes) return KVC_OK;
    return invalid("num_q_rows is %zu and there are %zu nodes; give a row for each, or q_rows",
                   from.num_q_rows, nodes);
  }
  const size_t rows = from.q != nullptr ? from.num_q_rows : 0;
  for (size_t i = 0; i < nodes; ++i) {
    if (from.q_rows[i] >= -1 && from.q_rows[i] < static_cast<int64_t>(rows)) continue;
    return invalid("q_rows[%zu] is %lld; give -1 or a row below %zu", i,
                   static_cast<long long>(from.q_rows[i]), rows);
  }
  return KVC_OK;
}

// only_next: of the uniforms only those of the next tokens count.
kvc_status check_uniforms(const double* uniforms, const kvc_drafts& drafts, bool only_next) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    for (size_t i = 0; i <= (only_next ? 0 : draft.size); ++i) {
      const double u = uniforms[draft.first_row + i];
      if (u >= 0 && u < 1) continue;
      return invalid("uniforms[%zu] is %g; give numbers from 0 to below 1", draft.first_row + i, u);
    }
  }
  return KVC_OK;
}

// What the two verifications by probabilities have in common. uses_q: they look at q.
template <typename Verify>
kvc_status verify(const kvc_drafts* drafts, const kvc_probabilities* probabilities,
                  const kvc_verdict* verdict, bool uses_q, Verify&& run) {
  kvc_drafts own;
  KVC_TRY(read_drafts(drafts, &own));
  kvc_verdict result;
  KVC_TRY(read_verdict(verdict, own, true, &result));
  KVC_REQUIRE_POINTER(probabilities);
  kvc_probabilities from;
  KVC_TRY(read_struct(probabilities, &from));
  if ((from.flags & ~uint32_t{KVC_PROBABILITIES_TRUSTED}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "flags has unknown bits: %#x", from.flags);
  if (from.vocab == 0 || from.vocab > kMaxVocab)
    return invalid("vocab is %u; give 1 .. %u", from.vocab, kMaxVocab);
  KVC_TRY(check_width("p", from.p_ids, from.vocab, &from.p_width));
  const size_t rows = num_rows(own);
  KVC_REQUIRE_MEMORY(from.p, product(rows, from.p_width));
  KVC_REQUIRE_ARRAY(from.uniforms, rows);
  for (size_t i = 0; i < num_nodes(own); ++i) {
    if (static_cast<uint32_t>(own.tokens[i]) >= from.vocab)
      return invalid("the token of node %zu is %d; vocab is %u", i, own.tokens[i], from.vocab);
  }
  if (uses_q) {
    KVC_TRY(check_width("q", from.q_ids, from.vocab, &from.q_width));
    if (from.num_q_rows != 0 && from.q == nullptr) return invalid("q is NULL and num_q_rows is not 0");
    KVC_REQUIRE_MEMORY(from.q, product(from.num_q_rows, from.q_width));
    KVC_TRY(check_q_rows(from, own));
  }
  KVC_TRY(check_uniforms(from.uniforms, own, !uses_q));

  size_t units;
  if (!VerifyWork::count(own, from.p_width, &units))
    return invalid("drafts: more nodes than memory can have");
  const size_t bytes = units * VerifyWork::kUnit;
  std::unique_ptr<void, decltype(&std::free)> taken(nullptr, &std::free);
  if (from.workspace == nullptr) {
    taken.reset(std::malloc(bytes));
    if (taken == nullptr)
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", bytes);
    from.workspace = taken.get();
  } else if (from.workspace_bytes < bytes ||
             reinterpret_cast<uintptr_t>(from.workspace) % VerifyWork::kUnit != 0) {
    return invalid("workspace has %zu bytes at %p; give %zu, aligned to %zu", from.workspace_bytes,
                   from.workspace, bytes, VerifyWork::kUnit);
  }
  const bool trusted = (from.flags & KVC_PROBABILITIES_TRUSTED) != 0;
  const Targets targets = {{"p", from.p, from.p_ids, from.p_width, from.vocab, trusted},
                           {"q", from.q, from.q_ids, from.q_width, from.vocab, trusted},
                           from.q_rows,
                           from.uniforms};
  return run(own, targets, VerifyWork(own, from.p_width, from.workspace), result);
}

kvc_status read_tables(const kvc_draft_tables* tables, const kvc_drafts& drafts, kvc_draft_tables* own) {
  KVC_REQUIRE_POINTER(tables);
  KVC_TRY(read_struct(tables, own));
  if (own->block_size == 0 || own->block_size > kMaxBlockSize)
    return invalid("block_size is %u; give 1 .. %u", own->block_size, kMaxBlockSize);
  KVC_REQUIRE_ARRAY(own->starts, drafts.num_requests);
  KVC_REQUIRE_MEMORY(own->block_tables, product(drafts.num_requests, own->table_stride));
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    if (own->starts[r] > uint64_t{1} << 31)
      return invalid("starts[%zu] is %llu; give at most 2^31", r, ull(own->starts[r]));
  }
  return KVC_OK;
}

kvc_status check_place(const Layout& layout, size_t move, const char* which, int32_t block, uint32_t offset,
                       uint32_t num_tokens) {
  if (block < 0 || static_cast<uint64_t>(block) >= layout.num_blocks)
    return invalid("move %zu: the %s is block %d of %llu", move, which, block, ull(layout.num_blocks));
  if (offset <= layout.block_size && num_tokens <= layout.block_size - offset) return KVC_OK;
  return invalid("move %zu: tokens %u + %u of the %s are past the %u of a block", move, offset, num_tokens,
                 which, layout.block_size);
}

void move_rows(const kvc_storage& s, int plane, uint32_t layer, const kvc_token_copy& move) {
  const Plane& rows = s.layout.plane(plane);
  for (uint32_t head = 0; head < s.layout.num_heads; ++head) {
    for (uint32_t t = 0; t < move.num_tokens; ++t) {
      std::memmove(
          s.slab() + rows.offset(layer, static_cast<uint64_t>(move.destination), head, move.new_offset + t),
          s.slab() + rows.offset(layer, static_cast<uint64_t>(move.source), head, move.offset + t),
          rows.row_bytes);
    }
  }
}

kvc_status check_ngrams(uint32_t min_ngram, uint32_t max_ngram) {
  if (min_ngram != 0 && min_ngram <= max_ngram && max_ngram <= kMaxNgram) return KVC_OK;
  return invalid("min_ngram is %u and max_ngram %u; give 1 <= min_ngram <= max_ngram <= %u", min_ngram,
                 max_ngram, kMaxNgram);
}

kvc_status read_draft_config(const kvc_draft_config* config, kvc_draft_config* own) {
  constexpr uint32_t kMaxRows = 65536;
  KVC_REQUIRE_POINTER(config);
  KVC_TRY(read_struct(config, own));
  if (own->max_rows == 0 || own->max_rows > kMaxRows)
    return invalid("max_rows is %u; give 1 .. %u", own->max_rows, kMaxRows);
  if (own->min_ngram == 0) own->min_ngram = own->max_ngram == 1 ? 1 : 2;
  if (own->max_ngram == 0) own->max_ngram = own->min_ngram > 4 ? own->min_ngram : 4;
  if (own->row_capacity > INT32_MAX)
    return invalid("row_capacity is %u; give at most %d tokens", own->row_capacity, INT32_MAX);
  return check_ngrams(own->min_ngram, own->max_ngram);
}

kvc_status check_offsets(const uint64_t* offsets, size_t num_rows) {
  if (offsets[0] != 0) return invalid("offsets[0] is %llu; it must be 0", ull(offsets[0]));
  for (size_t i = 0; i < num_rows; ++i) {
    if (offsets[i + 1] < offsets[i]) {
      return invalid("offsets[%zu] is %llu after %llu; offsets never decrease", i + 1, ull(offsets[i + 1]),
                     ull(offsets[i]));
    }
  }
  return KVC_OK;
}

// Calls change(counts) on a copy, and writes it back if that succeeds.
template <typename Change>
kvc_status change_counts(kvc_acceptance* acceptance, Change&& change) {
  KVC_REQUIRE_POINTER(acceptance);
  kvc_acceptance own;
  KVC_TRY(read_struct(acceptance, &own));
  KVC_TRY(change(&own));
  write_struct(own, acceptance);
  return KVC_OK;
}

}  // namespace

struct kvc_draft : Locked<DraftIndex> {
  using Locked::Locked;
};

extern "C" {

kvc_status kvc_drafts_check(const kvc_drafts* drafts) {
  return guarded([&]() -> kvc_status {
    kvc_drafts own;
    return read_drafts(drafts, &own);
  });
}

kvc_status kvc_verify_greedy(const kvc_drafts* drafts, const int32_t* target_tokens,
                             const kvc_verdict* verdict) {
  return guarded([&]() -> kvc_status {
    kvc_drafts own;
    KVC_TRY(read_drafts(drafts, &own));
    kvc_verdict result;
    KVC_TRY(read_verdict(verdict, own, true, &result));
    const size_t rows = num_rows(own);
    KVC_REQUIRE_ARRAY(target_tokens, rows);
    for (size_t i = 0; i < rows; ++i) {
      if (target_tokens[i] < 0)
        return invalid("target_tokens[%zu] is %d; tokens are at least 0", i, target_tokens[i]);
    }
    verify_greedy(own, target_tokens, result);
    return KVC_OK;
  });
}

kvc_status kvc_verify_sampling(const kvc_drafts* drafts, const kvc_probabilities* probabilities,
                               const kvc_verdict* verdict) {
  return guarded([&] { return verify(drafts, probabilities, verdict, true, verify_sampling); });
}

kvc_status kvc_verify_typical(const kvc_drafts* drafts, const kvc_probabilities* probabilities,
                              double epsilon, double delta, const kvc_verdict* verdict) {
  return guarded([&]() -> kvc_status {
    if (!(epsilon > 0 && epsilon <= 1)) return invalid("epsilon is %g; give above 0, at most 1", epsilon);
    if (!(delta > 0 && std::isfinite(delta))) return invalid("delta is %g; give a number above 0", delta);
    return verify(
        drafts, probabilities, verdict, false,
        [&](const kvc_drafts& own, const Targets& targets, VerifyWork work, const kvc_verdict& result) {
          return verify_typical(own, targets, epsilon, delta, work, result);
        });
  });
}

kvc_status kvc_verdict_moves(const kvc_drafts* drafts, const kvc_verdict* verdict,
                             const kvc_draft_tables* tables, kvc_token_copy* moves, size_t capacity,
                             size_t* count) {
  return guarded([&]() -> kvc_status {
    kvc_drafts own;
    kvc_verdict result;
    kvc_draft_tables where;
    KVC_TRY(read_verified(drafts, verdict, &own, &result));
    KVC_TRY(read_tables(tables, own, &where));
    KVC_REQUIRE_MEMORY(moves, capacity);
    KVC_REQUIRE_POINTER(count);
    size_t needed;
    KVC_TRY(list_moves(own, result, where, nullptr, 0, &needed));
    *count = needed;
    if (needed > capacity)
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "capacity is %zu; there are %zu moves", capacity, needed);
    return list_moves(own, result, where, moves, capacity, count);
  });
}

kvc_status kvc_verdict_states(const kvc_drafts* drafts, const kvc_verdict* verdict,
                              const kvc_draft_tables* tables, const int32_t* states, kvc_block_copy* copies) {
  return guarded([&]() -> kvc_status {
    kvc_drafts own;
    kvc_verdict result;
    kvc_draft_tables where;
    KVC_TRY(read_verified(drafts, verdict, &own, &result));
    KVC_TRY(read_tables(tables, own, &where));
    for (size_t r = 0; r < own.num_requests; ++r) {
      if (where.starts[r] == 0)
        return invalid("starts[%zu] is 0; a draft follows at least one known token, whose state is row 0", r);
    }
    KVC_REQUIRE_ARRAY(states, num_rows(own));
    KVC_REQUIRE_ARRAY(copies, own.num_requests);
    KVC_TRY(list_states(own, result, where, states, nullptr));
    return list_states(own, result, where, states, copies);
  });
}

kvc_status kvc_storage_move_tokens(kvc_storage* s, const kvc_token_copy* moves, size_t num_moves) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    KVC_REQUIRE_MEMORY(moves, num_moves);
    const Layout& layout = storage.layout;
    if (std::strcmp(storage.backend->name, "cpu") != 0) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "a storage of %s: tokens are moved in host memory only; gather and store the accepted ones",
                  storage.backend->name);
    }
    if (layout.k.tiled() || layout.channel_tokens != 0) {
      return fail(
          KVC_ERROR_UNSUPPORTED,
          "tokens of %s share bytes and cannot be moved one by one; gather and store the accepted ones",
          layout.k.tiled() ? "tiled keys" : "channel keys");
    }
    for (size_t i = 0; i < num_moves; ++i) {
      KVC_TRY(check_place(layout, i, "source", moves[i].source, moves[i].offset, moves[i].num_tokens));
      KVC_TRY(check_place(layout, i, "destination", moves[i].destination, moves[i].new_offset,
                          moves[i].num_tokens));
    }
    for (int plane = 0; plane < kNumPlanes; ++plane) {
      if (!layout.plane(plane).exists()) continue;
      for (uint32_t layer = 0; layer < layout.num_layers; ++layer)
        for (size_t i = 0; i < num_moves; ++i) move_rows(storage, plane, layer, moves[i]);
    }
    return KVC_OK;
  });
}

kvc_status kvc_draft_lookup(const int32_t* tokens, size_t num_tokens, uint32_t min_ngram, uint32_t max_ngram,
                            int32_t* draft, size_t max_length, size_t* count) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_MEMORY(tokens, num_tokens);
    KVC_REQUIRE_MEMORY(draft, max_length);
    KVC_REQUIRE_POINTER(count);
    KVC_TRY(check_ngrams(min_ngram, max_ngram));
    if (max_length > KVC_MAX_DRAFT_NODES)
      return invalid("max_length is %zu; give at most %d", max_length, KVC_MAX_DRAFT_NODES);
    const size_t at = max_length != 0 ? find_suffix(tokens, num_tokens, min_ngram, max_ngram) : 0;
    if (at != 0) continue_from(tokens, num_tokens, at, draft, max_length);
    *count = at != 0 ? max_length : 0;
    return KVC_OK;
  });
}

kvc_status kvc_draft_create(const kvc_draft_config* config, kvc_draft** draft) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(draft);
    kvc_draft_config own;
    KVC_TRY(read_draft_config(config, &own));
    return make_locked(own.allocator, "max_rows or row_capacity", draft,
                       [&](DraftIndex& impl, Memory& memory) { return impl.create(memory, own); });
  });
}

void kvc_draft_destroy(kvc_draft* draft) { destroy_locked(draft); }

kvc_status kvc_draft_append(kvc_draft* draft, const int32_t* rows, size_t num_rows, const uint64_t* offsets,
                            const int32_t* tokens) {
  return on_locked(draft, "index of drafts", [&](DraftIndex& impl) -> kvc_status {
    if (num_rows == 0) return KVC_OK;
    KVC_REQUIRE_MEMORY(rows, num_rows);
    KVC_REQUIRE_MEMORY(offsets, num_rows);
    KVC_TRY(check_offsets(offsets, num_rows));
    KVC_REQUIRE_MEMORY(tokens, offsets[num_rows]);
    return impl.append(rows, num_rows, offsets, tokens);
  });
}

kvc_status kvc_draft_truncate(kvc_draft* draft, int32_t row, uint64_t num_tokens) {
  return on_locked(draft, "index of drafts",
                   [&](DraftIndex& impl) { return impl.truncate(row, num_tokens); });
}

kvc_status kvc_draft_propose(kvc_draft* draft, const int32_t* rows, size_t num_rows,
                             const uint32_t* max_lengths, uint64_t* offsets, int32_t* tokens, size_t capacity,
                             size_t* count) {
  return on_locked(draft, "index of drafts", [&](DraftIndex& impl) -> kvc_status {
    KVC_REQUIRE_MEMORY(rows, num_rows);
    KVC_REQUIRE_MEMORY(max_lengths, num_rows);
    KVC_REQUIRE_POINTER(offsets);
    KVC_REQUIRE_MEMORY(tokens, capacity);
    KVC_REQUIRE_POINTER(count);
    return impl.propose(rows, num_rows, max_lengths, offsets, tokens, capacity, count);
  });
}

kvc_status kvc_acceptance_add(kvc_acceptance* acceptance, const kvc_drafts* drafts,
                              const kvc_verdict* verdict) {
  return guarded([&] {
    return change_counts(acceptance, [&](kvc_acceptance* counts) {
      kvc_drafts own;
      kvc_verdict result;
      KVC_TRY(read_verified(drafts, verdict, &own, &result));
      count_verdict(own, result, counts);
      return kvc_status{KVC_OK};
    });
  });
}

kvc_status kvc_acceptance_halve(kvc_acceptance* acceptance) {
  return guarded([&] {
    return change_counts(acceptance,
                         [](kvc_acceptance* counts) { return halve(counts), kvc_status{KVC_OK}; });
  });
}

kvc_status kvc_acceptance_length(const kvc_acceptance* acceptance, const double* costs, size_t num_costs,
                                 uint32_t* length, double* num_tokens) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(acceptance);
    KVC_REQUIRE_POINTER(costs);
    KVC_REQUIRE_POINTER(length);
    kvc_acceptance own;
    KVC_TRY(read_struct(acceptance, &own));
    if (num_costs == 0 || num_costs > kMaxCosts)
      return invalid("num_costs is %zu; give 1 .. %zu, for drafts of 0 nodes on", num_costs, kMaxCosts);
    for (size_t i = 0; i < num_costs; ++i) {
      if (!(costs[i] > 0 && std::isfinite(costs[i])))
        return invalid("costs[%zu] is %g; give a number above 0", i, costs[i]);
    }
    for (size_t d = 0; d < KVC_MAX_DRAFT_DEPTHS; ++d) {
      if (own.accepted[d] <= own.tried[d]) continue;
      return invalid("accepted[%zu] is %llu and tried[%zu] %llu; what is accepted was tried", d,
                     ull(own.accepted[d]), d, ull(own.tried[d]));
    }
    double expected;
    *length = best_length(own, costs, num_costs, &expected);
    if (num_tokens != nullptr) *num_tokens = expected;
    return KVC_OK;
  });
}

}  // extern "C"
