/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_SPECULATION_H
#define KVCACHE_SPECULATION_H

/** @file kvcache/speculation.h
 *  @brief Speculative decoding: drafts, their verification, the accepted path moved into place, and how long
 *  the next draft should be.
 *
 *  A draft is a tree of guessed tokens that follow the known tokens of a request. One run of the model over
 *  all nodes gives, for each node, what the model would say after it. Verification walks from the root and
 *  accepts nodes as long as they agree; the token after the last accepted one is the model's own. So each
 *  step gives at least one token, and with kvc_verify_greedy and kvc_verify_sampling the text is that of the
 *  model without a draft: the same tokens, or the same distribution.
 *
 *  One step of an engine. The request has `start` known tokens, whose last one has no KV yet, and lookahead
 *  slots (kvc_request_config.lookahead) for at least as many tokens as its draft has nodes. The model runs
 *  over that last token and the nodes; node i is at position start + i, its rotary position is
 *  start + depths[i] and its mask is that of kvc_tree_mask. Then:
 *
 *      kvc_verify_greedy(&drafts, target_tokens, &verdict);
 *      kvc_verdict_moves(&drafts, &verdict, &tables, moves, room, &n);    // a chain has none
 *      kvc_storage_move_tokens(storage, moves, n);
 *      kvc_manager_append_tokens(m, r, accepted tokens and next token, num_accepted + 1);
 *      kvc_manager_commit_tokens(m, r, start + num_accepted);
 *
 *  Nothing is truncated: tokens that were rejected were never known, and their slots are the lookahead of the
 *  next step. With kvc_manager_step the last two calls are part of the next step: commit_tokens (the accepted
 *  tokens), committed, and extend_tokens (the next token, which also renews the lookahead).
 *
 *  Rows. The results of the model for request r begin at row offsets[r] + r: first the row after the last
 *  known token (the root), then a row for each of its nodes in order. There are num_nodes + num_requests
 *  rows; num_nodes is offsets[num_requests].
 *
 *  docs/SPECULATION.md has examples, state groups, and parallel branches. */

#include <kvcache/rebuild.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** Nodes of one draft, and tokens that one proposal may have. */
#define KVC_MAX_DRAFT_NODES 65536
/** Depths that kvc_acceptance counts one by one. */
#define KVC_MAX_DRAFT_DEPTHS 32

/* ---------------------------------------------------------------- drafts and verdicts */

/** Drafts of many requests. Request r has nodes offsets[r] .. offsets[r + 1] - 1, possibly none. Siblings are
 *  tried in the order of their numbers. */
typedef struct kvc_drafts {
  size_t struct_size;      /**< sizeof(kvc_drafts) */
  size_t num_requests;     /**< Number of requests. */
  const uint64_t* offsets; /**< [num_requests + 1] from 0, never decreasing. */
  const int32_t* tokens;   /**< [num_nodes] at least 0. */
  /** [num_nodes] parent of each node, counted within its draft and less than the node; -1 = the root. NULL =
   *  chains: each node is the child of the one before. */
  const int32_t* parents;
} kvc_drafts;

/** What a verification says. The caller sets the arrays; none may be NULL unless it has no entries. */
typedef struct kvc_verdict {
  size_t struct_size; /**< sizeof(kvc_verdict) */
  /** Out [num_nodes] from offsets[r] on: the accepted nodes of request r from the root on, counted within its
   *  draft, num_accepted[r] of them; then -1. */
  int32_t* path;
  uint64_t* num_accepted; /**< Out [num_requests] */
  int32_t* next_tokens;   /**< Out [num_requests] the token after the accepted ones. */
} kvc_verdict;

/** Checks drafts: offsets, tokens, parents. The other calls check them as well.
 *  @return KVC_OK; INVALID_ARGUMENT (the text has the request, the node and what is wrong). Thread-safe.
 *  Since 0.3. */
KVC_API kvc_status kvc_drafts_check(const kvc_drafts* drafts);

/** Accepts what greedy decoding would say. From the root on: the child whose token is the target's of the
 *  present node is accepted; without such a child the walk ends, and that token is the next one.
 *  @param[in]  target_tokens [num_nodes + num_requests] the most likely token of each row.
 *  @param[out] verdict       Unchanged on failure.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_verify_greedy(const kvc_drafts* drafts, const int32_t* target_tokens,
                                     const kvc_verdict* verdict);

/** kvc_probabilities.flags. */
enum {
  /** Trust that rows sum to 1. Without it each row that the walk comes to is read and summed. With it a row
   *  is read only where a token must be drawn from it: faster for large vocabularies if rows come from a
   *  softmax of this process. A row that is not normalised then gives another distribution. */
  KVC_PROBABILITIES_TRUSTED = 1
};

/** Distributions of the target (p) and of what drew the draft (q), and random numbers. A row has a float for
 *  each token of the vocabulary, or with ids the tokens that have a probability above 0 (top-k, top-p).
 *  Rows sum to 1 within 0.001, and are taken as divided by their sum. */
typedef struct kvc_probabilities {
  size_t struct_size; /**< sizeof(kvc_probabilities) */
  uint32_t flags;     /**< KVC_PROBABILITIES_* */
  uint32_t vocab;     /**< Tokens are 0 .. vocab - 1; at most 2^24. */
  /** [num_nodes + num_requests][p_width] The softmax that the engine would sample from: temperature, top-k
   *  and penalties are applied. */
  const float* p;
  /** [num_nodes + num_requests][p_width] token of each entry of p, rising; -1 from the row's end on. NULL =
   *  entry i is token i, and p_width is vocab. */
  const int32_t* p_ids;
  size_t p_width; /**< Entries of a row of p; 0 = vocab. */
  /** [num_q_rows][q_width] Distributions that nodes were drawn from. NULL = all nodes are certain. */
  const float* q;
  const int32_t* q_ids; /**< [num_q_rows][q_width] as p_ids. */
  size_t q_width;       /**< Entries of a row of q; 0 = vocab. */
  size_t num_q_rows;    /**< Rows of q. */
  /** [num_nodes] the row of q that a node was drawn from, given its parent and the siblings before it; -1 =
   *  certain: the drafter does not draw (n-grams, argmax, top-k trees). NULL = node i has row i. Siblings
   *  drawn independently share a row; for those drawn without replacement give each the row that is
   *  left. */
  const int64_t* q_rows;
  /** [num_nodes + num_requests] independent numbers, uniform in [0, 1), new for each call. One for each row
   *  of p: that of a request's root draws the next token, that of a node decides on the node. */
  const double* uniforms;
  /** Memory for intermediate results: at least 4 * (p_width + 2 * num_nodes + 2 * num_requests) bytes,
   *  aligned to 4. NULL = the call takes and frees memory. */
  void* workspace;
  size_t workspace_bytes; /**< Bytes of workspace. */
} kvc_probabilities;

/** Accepts so that the tokens have exactly the distribution of the target: rejection sampling (Leviathan et
 *  al., arXiv:2211.17192), for trees with several tries per position (SpecInfer, arXiv:2305.09781). A child x
 *  is accepted with probability min(1, p(x) / q(x)); if it is not, p becomes max(0, p - q) divided by its
 *  sum, and the next sibling is tried. Without a further sibling the next token is drawn from p. A node is
 *  judged by `uniforms[row of the node] * q(x) < p(x)`; the next token is the first whose cumulated
 *  probability in the order of tokens is above its uniform.
 *
 *  Drawn siblings must be in the draft in the order in which they were drawn, all of them: do not sort them
 *  by their probability, and do not drop unlikely or equal ones. Nodes that are certain may be chosen freely.
 *  @param[out] verdict Unchanged on failure.
 *  @return KVC_OK; INVALID_ARGUMENT (NaN, negative, a row whose sum is not 1, ids that do not rise, a uniform
 *  out of range, a drawn node whose q is 0: the text has the row or the node, and the value), OUT_OF_MEMORY.
 *  Without KVC_PROBABILITIES_TRUSTED all rows that the result depends on were checked. Thread-safe. Since
 *  0.3. */
KVC_API kvc_status kvc_verify_sampling(const kvc_drafts* drafts, const kvc_probabilities* probabilities,
                                       const kvc_verdict* verdict);

/** Accepts what is likely enough (Medusa, arXiv:2401.10774): a node x whose parent is accepted and p(x) >
 *  min(epsilon, delta * exp(-entropy of p)). The longest accepted path counts; of equally long ones, the one
 *  whose last node comes first. The next token is drawn from p at its end. The tokens do NOT have the
 *  distribution of the target: unlikely ones are rarer. Not used: q, q_rows, and all uniforms but those of
 *  the next tokens.
 *  @param[in] epsilon Above 0, at most 1. Medusa: 0.09. @param[in] delta Above 0. Medusa: 0.3.
 *  @return As kvc_verify_sampling. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_verify_typical(const kvc_drafts* drafts, const kvc_probabilities* probabilities,
                                      double epsilon, double delta, const kvc_verdict* verdict);

/* ---------------------------------------------------------------- the accepted path in place */

/** Where the drafts of requests lie. */
typedef struct kvc_draft_tables {
  size_t struct_size;          /**< sizeof(kvc_draft_tables) */
  uint32_t group;              /**< Written to the copies. */
  uint32_t block_size;         /**< Tokens per block, 1 .. 1,048,576. */
  const uint64_t* starts;      /**< [num_requests] position of the first node, at most 2^31. */
  const int32_t* block_tables; /**< [num_requests][table_stride] of one group. */
  size_t table_stride;         /**< Entries from one request's table to the next. */
} kvc_draft_tables;

/** Lists the moves that bring the accepted nodes of each request to positions start, start + 1, ... Do them
 *  in order, token by token: a destination may be the source of an earlier move. Chains have no moves. For
 *  each group with its own table call it again; for groups of recurrent state call kvc_verdict_states.
 *  @param[in]  verdict Of a verification of the same drafts. next_tokens are not read.
 *  @param[out] moves   [capacity] by request, then by position.
 *  @param[out] count   Number of moves.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed; never more than num_nodes); INVALID_ARGUMENT (a
 *  path that is none, a table without a block where a move needs one). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_verdict_moves(const kvc_drafts* drafts, const kvc_verdict* verdict,
                                     const kvc_draft_tables* tables, kvc_token_copy* moves, size_t capacity,
                                     size_t* count);

/** Lists the copies that bring groups of recurrent state (KVC_GROUP_STATE) to the end of the accepted tokens.
 *  In a step with drafts the model reads a request's state and does not write it. It writes the state after
 *  each row's token to a block of the engine's own (kvc_manager_acquire_blocks, once for all steps). A node's
 *  state follows from that of its parent. The source of request r's copy is the block of its last accepted
 *  node, or of its first row if none is accepted. The destination is the block at position (starts[r] +
 *  num_accepted[r] - 1) / block_size of its table. Do the copies (kvc_storage_copy_blocks) before the commit.
 *  @param[in]  verdict Of a verification of the same drafts. next_tokens are not read.
 *  @param[in]  tables  Of the group; `group` is not read, starts are at least 1.
 *  @param[in]  states  [num_nodes + num_requests] block of each row; -1 = none.
 *  @param[out] copies  [num_requests] Unchanged on failure.
 *  @return KVC_OK; INVALID_ARGUMENT (a path that is none, a row or a position without a block). Thread-safe.
 *  Since 0.3. */
KVC_API kvc_status kvc_verdict_states(const kvc_drafts* drafts, const kvc_verdict* verdict,
                                      const kvc_draft_tables* tables, const int32_t* states,
                                      kvc_block_copy* copies);

/** Moves keys and values of tokens inside a storage, in all layers, bit by bit, scales included; in order,
 *  token by token. Its memory is that of the host. Not for tiled keys and channel keys, whose tokens share
 *  bytes, nor on a device: kvc_storage_gather the accepted tokens and kvc_storage_store them.
 *  @param[in] moves [num_moves] `group` is ignored.
 *  @return KVC_OK; INVALID_ARGUMENT (a block or token out of range; nothing is moved), UNSUPPORTED. Since
 *  0.3. */
KVC_API kvc_status kvc_storage_move_tokens(kvc_storage* s, const kvc_token_copy* moves, size_t num_moves);

/* ---------------------------------------------------------------- drafts by n-grams */

/** Drafts by prompt lookup: looks up the last tokens of the sequence in the sequence itself. Takes the
 *  longest suffix of min_ngram .. max_ngram tokens that occurred before, and its most recent earlier
 *  occurrence. What followed that is the draft. If fewer tokens than max_length follow, the draft goes on as
 *  if they repeated: after a b a b the draft is a b a b ... A plain function, which reads the sequence from
 *  its end on; kvc_draft does the same with an index.
 *  @param[in]  min_ngram 1 .. max_ngram. @param[in] max_ngram At most 32.
 *  @param[out] draft     [max_length] @param[in] max_length At most KVC_MAX_DRAFT_NODES.
 *  @param[out] count     Tokens of the draft: max_length, or 0 without an occurrence.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_draft_lookup(const int32_t* tokens, size_t num_tokens, uint32_t min_ngram,
                                    uint32_t max_ngram, int32_t* draft, size_t max_length, size_t* count);

/** An index of the n-grams of many sequences. Opaque; created by kvc_draft_create. Any thread may use it; it
 *  locks. */
typedef struct kvc_draft kvc_draft;

/** Sizes of a kvc_draft. */
typedef struct kvc_draft_config {
  size_t struct_size;    /**< sizeof(kvc_draft_config) */
  uint32_t max_rows;     /**< Rows, each with a sequence; 1 .. 65536. */
  uint32_t min_ngram;    /**< Shortest suffix to look up; 0 = 2, or 1 with max_ngram 1. */
  uint32_t max_ngram;    /**< Longest, at most 32; 0 = the larger of min_ngram and 4. */
  uint32_t row_capacity; /**< Tokens of each row that memory is taken for at creation. A longer row grows. */
  const kvc_allocator* allocator; /**< NULL = the library's. It is called under the index's lock. */
} kvc_draft_config;

/** Creates an index whose rows are empty. A token of a row takes 4 to 8 bytes, and 8 to 16 more for
 *  each length min_ngram .. max_ngram.
 *  @return KVC_OK; INVALID_ARGUMENT, OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_draft_create(const kvc_draft_config* config, kvc_draft** draft);

/** Frees an index. NULL is ignored. Since 0.3. */
KVC_API void kvc_draft_destroy(kvc_draft* draft);

/** Appends tokens to rows: the prompt, and after each step the tokens that it gave. O(max_ngram) for each
 *  token, amortised where a row grows.
 *  @param[in] rows    [num_rows] below max_rows, each once; for example the request's row in
 *  kvc_step.block_tables.
 *  @param[in] offsets [num_rows + 1] into tokens, from 0, never decreasing.
 *  @param[in] tokens  [offsets[num_rows]] at least 0.
 *  @return KVC_OK; INVALID_ARGUMENT, LIMIT (2^31 - 1 tokens in a row), OUT_OF_MEMORY; then no row has
 *  changed. Since 0.3. */
KVC_API kvc_status kvc_draft_append(kvc_draft* draft, const int32_t* rows, size_t num_rows,
                                    const uint64_t* offsets, const int32_t* tokens);

/** Keeps the first num_tokens tokens of a row; 0 = empty, for another request. O(tokens kept) and O(memory of
 *  the row). @return KVC_OK; INVALID_ARGUMENT (no such row; more than it has). Since 0.3. */
KVC_API kvc_status kvc_draft_truncate(kvc_draft* draft, int32_t row, uint64_t num_tokens);

/** Drafts for many rows: chains, as kvc_draft_lookup finds them, in the form of kvc_drafts without parents.
 *  O(max_ngram + length) for each row.
 *  @param[in]  max_lengths [num_rows] each at most KVC_MAX_DRAFT_NODES; 0 = no draft for this row.
 *  @param[out] offsets     [num_rows + 1]
 *  @param[out] tokens      [capacity]
 *  @param[out] count       Number of tokens, offsets[num_rows].
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed); INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_draft_propose(kvc_draft* draft, const int32_t* rows, size_t num_rows,
                                     const uint32_t* max_lengths, uint64_t* offsets, int32_t* tokens,
                                     size_t capacity, size_t* count);

/* ---------------------------------------------------------------- acceptance and length */

/** Counts of verdicts. The caller's own, one for each class of requests that should be judged alike; clear it
 *  to begin. One thread at a time. A depth is tried if all nodes above were accepted and the draft has a
 *  node there. Depths from KVC_MAX_DRAFT_DEPTHS on are in the totals only. */
typedef struct kvc_acceptance {
  size_t struct_size;                      /**< sizeof(kvc_acceptance) */
  uint64_t num_drafts;                     /**< Drafts with at least one node. */
  uint64_t num_nodes;                      /**< Their nodes. */
  uint64_t num_accepted;                   /**< Accepted nodes. */
  uint64_t tried[KVC_MAX_DRAFT_DEPTHS];    /**< Drafts in which this depth was tried. */
  uint64_t accepted[KVC_MAX_DRAFT_DEPTHS]; /**< Drafts in which a node of this depth was accepted. */
} kvc_acceptance;

/** Adds the verdict of drafts. Counters stop at 2^64 - 1. @return KVC_OK; INVALID_ARGUMENT (drafts, a path
 *  that is none; nothing is counted). Since 0.3. */
KVC_API kvc_status kvc_acceptance_add(kvc_acceptance* acceptance, const kvc_drafts* drafts,
                                      const kvc_verdict* verdict);

/** Halves all counts, so that older verdicts count less: call it after every so many drafts. It is also what
 *  makes drafts come back after kvc_acceptance_length has said 0: without verdicts the estimate returns to
 *  its prior. @return KVC_OK; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_acceptance_halve(kvc_acceptance* acceptance);

/** Chooses the length of drafts that gives the most tokens per cost. Let a[d] be the estimated probability
 *  that depth d is accepted when it is tried. Then a draft of length n gives 1 + a[0] + a[0] a[1] + ... (n
 *  terms) tokens. The length with the largest tokens / costs[n] is chosen, the shortest of equals. a[d] is
 *  (accepted[d] + 4 * a[d - 1]) / (tried[d] + 4); a[-1] is 0.7. Depths that are not counted have the a of the
 *  last one that is. So few verdicts change little. Deterministic.
 *  @param[in]  costs      [num_costs] cost of a step with a draft of n nodes, n = 0 .. num_costs - 1,
 *  drafting included, in any unit; positive and finite, such as measured times.
 *  @param[in]  num_costs  1 .. 1025.
 *  @param[out] length     0 .. num_costs - 1.
 *  @param[out] num_tokens Expected tokens of a step at that length. NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT (a cost, accepted above tried). Since 0.3. */
KVC_API kvc_status kvc_acceptance_length(const kvc_acceptance* acceptance, const double* costs,
                                         size_t num_costs, uint32_t* length, double* num_tokens);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_SPECULATION_H */
