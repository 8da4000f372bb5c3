/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a scenario about speculation, for the runners of C and C++. */
#ifndef KVC_TESTS_SCENARIO_SPECULATION_H
#define KVC_TESTS_SCENARIO_SPECULATION_H

#include <inttypes.h>
#include <kvcache/rebuild.h>
#include <kvcache/speculation.h>
#include <stdio.h>
#include <string.h>

enum { kTreeNodes = 32, kTreeVocab = 4 };

/* The draft of the scenario, its last verdict, counts and n-grams. */
static int32_t tree_tokens[kTreeNodes], tree_parents[kTreeNodes], tree_path[kTreeNodes], tree_next;
static uint64_t tree_offsets[2], tree_accepted;
static kvc_drafts tree_drafts;
static kvc_acceptance tree_counts;
static kvc_draft* tree_index;

static inline int is_speculation_line(const char* word) {
  static const char* const kWords[] = {"tree",  "greedy", "sampled", "drawn",   "typical",
                                       "moves", "states", "counted", "halved",  "length",
                                       "index", "learn",  "unlearn", "propose", "lookup"};
  for (size_t i = 0; i < sizeof kWords / sizeof *kWords; ++i)
    if (strcmp(word, kWords[i]) == 0) return 1;
  return 0;
}

static inline kvc_verdict tree_verdict(void) {
  kvc_verdict verdict;
  verdict.struct_size = sizeof verdict;
  verdict.path = tree_path, verdict.num_accepted = &tree_accepted, verdict.next_tokens = &tree_next;
  return verdict;
}

static inline kvc_status tree_line(const int64_t* a, size_t count) {
  int32_t tokens[kTreeNodes], parents[kTreeNodes];
  uint64_t offsets[2] = {0, count / 2};
  for (size_t i = 0; i < count / 2; ++i) parents[i] = (int32_t)a[2 * i], tokens[i] = (int32_t)a[2 * i + 1];
  kvc_drafts drafts;
  drafts.struct_size = sizeof drafts, drafts.num_requests = 1;
  drafts.offsets = offsets, drafts.tokens = tokens, drafts.parents = parents;
  const kvc_status status = kvc_drafts_check(&drafts);
  if (status != KVC_OK) return status;
  memcpy(tree_tokens, tokens, sizeof tokens), memcpy(tree_parents, parents, sizeof parents);
  memcpy(tree_offsets, offsets, sizeof offsets);
  tree_drafts = drafts;
  tree_drafts.offsets = tree_offsets, tree_drafts.tokens = tree_tokens, tree_drafts.parents = tree_parents;
  return KVC_OK;
}

/* Row i says tokens i, i + 1, i + 2 of the four with 1/2, 1/4, 1/4. Drawn nodes come from 1/4 for each. */
static inline kvc_status verify_line(const char* word, const int64_t* a, char* text) {
  static float p[(kTreeNodes + 1) * kTreeVocab], q[kTreeVocab];
  static double uniforms[kTreeNodes + 1];
  static int64_t q_rows[kTreeNodes];
  static int32_t target[kTreeNodes + 1];
  const int typical = strcmp(word, "typical") == 0;
  const size_t rows = (size_t)tree_offsets[1] + 1;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t t = 0; t < kTreeVocab; ++t)
      p[row * kTreeVocab + (row + t) % kTreeVocab] = t == 0 ? 0.5f : t < 3 ? 0.25f : 0.0f;
    uniforms[row] = (double)a[row + (typical ? 2 : 0)] / 100;
    target[row] = (int32_t)a[row];
  }
  for (size_t t = 0; t < kTreeVocab; ++t) q[t] = 0.25f;
  kvc_probabilities from;
  memset(&from, 0, sizeof from);
  from.struct_size = sizeof from, from.vocab = kTreeVocab, from.p = p, from.uniforms = uniforms;
  if (strcmp(word, "drawn") == 0) from.q = q, from.num_q_rows = 1, from.q_rows = q_rows;
  const kvc_verdict verdict = tree_verdict();
  const kvc_status status =
      typical ? kvc_verify_typical(&tree_drafts, &from, (double)a[0] / 100, (double)a[1] / 100, &verdict)
      : strcmp(word, "greedy") == 0 ? kvc_verify_greedy(&tree_drafts, target, &verdict)
                                    : kvc_verify_sampling(&tree_drafts, &from, &verdict);
  if (status != KVC_OK) return status;
  text += sprintf(text, " %" PRIu64, tree_accepted);
  for (uint64_t i = 0; i < tree_accepted; ++i) text += sprintf(text, " %d", tree_path[i]);
  sprintf(text, " %d", tree_next);
  return KVC_OK;
}

/* moves START BLOCK_SIZE BLOCKS..., states START BLOCK_SIZE N BLOCKS... STATES... */
static inline kvc_status place_line(const char* word, const int64_t* a, size_t count, char* text) {
  const int states = strcmp(word, "states") == 0;
  const uint64_t start = (uint64_t)a[0];
  int32_t ids[2 * kTreeNodes];
  for (size_t i = states ? 3 : 2; i < count; ++i) ids[i - (states ? 3 : 2)] = (int32_t)a[i];
  kvc_draft_tables tables;
  memset(&tables, 0, sizeof tables);
  tables.struct_size = sizeof tables, tables.block_size = (uint32_t)a[1], tables.starts = &start;
  tables.block_tables = ids, tables.table_stride = states ? (size_t)a[2] : count - 2;
  const kvc_verdict verdict = tree_verdict();
  kvc_token_copy moves[kTreeNodes];
  kvc_block_copy copy;
  size_t num_moves = 0;
  const kvc_status status =
      states ? kvc_verdict_states(&tree_drafts, &verdict, &tables, ids + a[2], &copy)
             : kvc_verdict_moves(&tree_drafts, &verdict, &tables, moves, kTreeNodes, &num_moves);
  if (status == KVC_OK && states) sprintf(text, " %d>%d", copy.source, copy.destination);
  for (size_t i = 0; status == KVC_OK && i < num_moves; ++i)
    text += sprintf(text, " %d+%u>%d+%u*%u", moves[i].source, moves[i].offset, moves[i].destination,
                    moves[i].new_offset, moves[i].num_tokens);
  return status;
}

static inline kvc_status ngram_line(const char* word, const int64_t* a, size_t count, char* text) {
  static int32_t tokens[4096];
  int32_t draft[64];
  size_t length = 0;
  kvc_status status;
  if (strcmp(word, "index") == 0) {
    kvc_draft_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config, config.max_rows = 2;
    config.min_ngram = (uint32_t)a[0], config.max_ngram = (uint32_t)a[1];
    kvc_draft* made = NULL;
    status = kvc_draft_create(&config, &made);
    if (status != KVC_OK) return status;
    kvc_draft_destroy(tree_index);
    tree_index = made;
    return KVC_OK;
  }
  const int lookup = strcmp(word, "lookup") == 0, learn = strcmp(word, "learn") == 0;
  const size_t first = lookup ? 3 : 1;
  for (size_t i = first; i < count; ++i) tokens[i - first] = (int32_t)a[i];
  const int32_t row = (int32_t)a[0];
  uint64_t offsets[2] = {0, count - first};
  if (learn) return kvc_draft_append(tree_index, &row, 1, offsets, tokens);
  if (strcmp(word, "unlearn") == 0) return kvc_draft_truncate(tree_index, row, (uint64_t)a[1]);
  const uint32_t most = (uint32_t)a[1];
  status = lookup ? kvc_draft_lookup(tokens, count - 3, (uint32_t)a[0], (uint32_t)a[1], draft, (size_t)a[2],
                                     &length)
                  : kvc_draft_propose(tree_index, &row, 1, &most, offsets, draft, 64, &length);
  for (size_t i = 0; status == KVC_OK && i < length; ++i) text += sprintf(text, " %d", draft[i]);
  return status;
}

/* Executes a line. text: results, with a space before each. */
static inline kvc_status speculation_line(const char* word, const int64_t* a, size_t count, char* text) {
  const kvc_verdict verdict = tree_verdict();
  tree_counts.struct_size = sizeof tree_counts;
  *text = '\0';
  if (strcmp(word, "tree") == 0) return tree_line(a, count);
  if (strcmp(word, "moves") == 0 || strcmp(word, "states") == 0) return place_line(word, a, count, text);
  if (strcmp(word, "halved") == 0) return kvc_acceptance_halve(&tree_counts);
  if (strcmp(word, "counted") == 0) {
    const kvc_acceptance* c = &tree_counts;
    const kvc_status status = kvc_acceptance_add(&tree_counts, &tree_drafts, &verdict);
    sprintf(text, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
            c->num_drafts, c->num_nodes, c->num_accepted, c->tried[0], c->accepted[0], c->tried[1],
            c->accepted[1]);
    return status;
  }
  if (strcmp(word, "length") == 0) {
    double costs[64], expected;
    uint32_t best;
    for (size_t i = 0; i < count; ++i) costs[i] = (double)a[i] / 100;
    const kvc_status status = kvc_acceptance_length(&tree_counts, costs, count, &best, &expected);
    if (status == KVC_OK) sprintf(text, " %u %d", best, (int)(expected * 1e6 + 0.5));
    return status;
  }
  if (strcmp(word, "greedy") == 0 || strcmp(word, "sampled") == 0 || strcmp(word, "drawn") == 0 ||
      strcmp(word, "typical") == 0)
    return verify_line(word, a, text);
  return ngram_line(word, a, count, text);
}

#endif /* KVC_TESTS_SCENARIO_SPECULATION_H */
