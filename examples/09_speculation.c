/* SPDX-License-Identifier: Apache-2.0 */
/* Speculative decoding with a toy model: what it says after a token depends on that token and on the key of
 * the token before, which it reads from the cache. Drafts are trees: a chain by n-grams, and beside it a
 * second guess of the next token. Prints how many steps a text takes, and what is accepted at each depth;
 * the text must be that of decoding without drafts. */
#include <kvcache.h>
#include <kvcache/speculation.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kB = 4,
  kBlocks = 64,
  kDim = 8,
  kLength = 4,
  kNodes = kLength + 1,
  kPrompt = 4,
  kEnd = 160,
  kVocab = 9
};

static kvc_storage* storage;
static int32_t table[kBlocks];

static void check(kvc_status status) {
  if (status == KVC_OK) return;
  fprintf(stderr, "%s: %s\n", kvc_status_name(status), kvc_last_error());
  exit(1);
}

static int32_t says(int32_t before, int32_t token) { return (before * 5 + token * 7 + 3) % kVocab; }

static void row_at(uint64_t position, float* k, kvc_rows* rows) {
  static float v[kDim];
  *rows = (kvc_rows){.struct_size = sizeof *rows, .k = k, .v = v, .num_tokens = 1, .first_token = position};
  rows->block_table = table, rows->block_table_size = kBlocks;
}

/* Runs the model over a token at a position, which follows the one at `parent`; returns what it says. */
static int32_t run(int32_t token, uint64_t position, uint64_t parent) {
  kvc_rows rows;
  float own[kDim] = {(float)token}, before[kDim];
  row_at(position, own, &rows);
  check(kvc_storage_store(storage, &rows, NULL));
  row_at(parent, before, &rows);
  check(kvc_storage_gather(storage, &rows, NULL));
  return says((int32_t)before[0], token);
}

int main(void) {
  const kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = kBlocks, .block_size = kB};
  kvc_storage_config shape = {.struct_size = sizeof shape, .num_blocks = kBlocks, .num_layers = 1};
  shape.num_heads = 1, shape.head_dim = kDim, shape.block_size = kB;
  const kvc_draft_config rows = {.struct_size = sizeof rows, .max_rows = 1};
  kvc_manager* m;
  kvc_draft* index;
  check(kvc_manager_create(&config, &m));
  check(kvc_storage_create(&shape, &storage));
  check(kvc_draft_create(&rows, &index));

  int32_t text[kEnd + kNodes + 1] = {1, 2, 3, 4}; /* the prompt */
  uint64_t request, cached, length = kPrompt, known = 0, steps = 0;
  const kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = text, .num_tokens = kPrompt};
  const kvc_request_config options = {.struct_size = sizeof options, .lookahead = kNodes};
  check(kvc_manager_allocate_request(m, &prompt, &options, &request, &cached));
  check(kvc_manager_export_tables(m, &request, 1, 0, -1, table, kBlocks));
  for (uint64_t i = 0; i + 1 < kPrompt; ++i) run(text[i], i, i == 0 ? 0 : i - 1);
  check(kvc_manager_commit_tokens(m, request, kPrompt - 1));

  kvc_acceptance acceptance = {.struct_size = sizeof acceptance};
  const double costs[kLength + 1] = {1, 1.05, 1.1, 1.15, 1.2}; /* measured, in an engine */
  while (length < kEnd) {
    /* Draft: as long as pays, and a second root. */
    const int32_t row = 0;
    const uint64_t more[2] = {0, length - known};
    uint64_t offsets[2];
    int32_t tokens[kNodes], parents[kNodes];
    size_t nodes;
    uint32_t most;
    check(kvc_draft_append(index, &row, 1, more, text + known));
    known = length;
    check(kvc_acceptance_length(&acceptance, costs, kLength + 1, &most, NULL));
    check(kvc_draft_propose(index, &row, 1, &most, offsets, tokens, kLength, &nodes));
    for (size_t i = 0; i < nodes; ++i) parents[i] = (int32_t)i - 1;
    tokens[nodes] = (text[length - 1] + 1) % kVocab, parents[nodes] = -1;
    offsets[1] = ++nodes;
    const kvc_drafts drafts = {sizeof drafts, 1, offsets, tokens, parents};

    /* One run of the model: the last known token, then all nodes. */
    check(kvc_manager_export_tables(m, &request, 1, 0, -1, table, kBlocks));
    int32_t target[kNodes + 1] = {run(text[length - 1], length - 1, length - 2)};
    for (size_t i = 0; i < nodes; ++i)
      target[i + 1] = run(tokens[i], length + i, length + (uint64_t)(int64_t)parents[i]);

    /* Verify; the accepted path goes to its place; the request gains its tokens and one more. */
    int32_t path[kNodes], next;
    uint64_t accepted;
    const kvc_verdict verdict = {sizeof verdict, path, &accepted, &next};
    const kvc_draft_tables tables = {sizeof tables, 0, kB, &length, table, kBlocks};
    kvc_token_copy moves[kNodes];
    size_t num_moves;
    check(kvc_verify_greedy(&drafts, target, &verdict));
    check(kvc_verdict_moves(&drafts, &verdict, &tables, moves, kNodes, &num_moves));
    check(kvc_storage_move_tokens(storage, moves, num_moves));
    check(kvc_acceptance_add(&acceptance, &drafts, &verdict));
    for (uint64_t i = 0; i < accepted; ++i) text[length + i] = tokens[path[i]];
    text[length + accepted] = next;
    check(kvc_manager_append_tokens(m, request, text + length, accepted + 1));
    check(kvc_manager_commit_tokens(m, request, length + accepted));
    length += accepted + 1;
    ++steps;
  }

  int wrong = 0;
  for (uint64_t i = kPrompt; i < length; ++i) wrong += text[i] != says(text[i - 2], text[i - 1]);
  printf("%d tokens in %d steps, %d of them wrong\n", (int)(length - kPrompt), (int)steps, wrong);
  for (int d = 0; d < kLength && acceptance.tried[d] != 0; ++d)
    printf("depth %d: %d of %d accepted\n", d, (int)acceptance.accepted[d], (int)acceptance.tried[d]);
  kvc_draft_destroy(index);
  kvc_storage_destroy(storage);
  kvc_manager_destroy(m);
  return wrong != 0 || steps > (kEnd - kPrompt) / 2;
}
