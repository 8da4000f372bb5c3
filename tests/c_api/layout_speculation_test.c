/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the structs of speculation. See layout.h. */
#include <kvcache/speculation.h>
#include <stdio.h>

#include "layout.h"

VALUE(KVC_MAX_DRAFT_NODES, 65536);
VALUE(KVC_MAX_DRAFT_DEPTHS, 32);
VALUE(KVC_PROBABILITIES_TRUSTED, 1);

SIZE(kvc_drafts, 40);
AT(kvc_drafts, struct_size, 0);
AT(kvc_drafts, num_requests, 8);
AT(kvc_drafts, offsets, 16);
AT(kvc_drafts, tokens, 24);
AT(kvc_drafts, parents, 32);

SIZE(kvc_verdict, 32);
AT(kvc_verdict, struct_size, 0);
AT(kvc_verdict, path, 8);
AT(kvc_verdict, num_accepted, 16);
AT(kvc_verdict, next_tokens, 24);

SIZE(kvc_probabilities, 104);
AT(kvc_probabilities, struct_size, 0);
AT(kvc_probabilities, flags, 8);
AT(kvc_probabilities, vocab, 12);
AT(kvc_probabilities, p, 16);
AT(kvc_probabilities, p_ids, 24);
AT(kvc_probabilities, p_width, 32);
AT(kvc_probabilities, q, 40);
AT(kvc_probabilities, q_ids, 48);
AT(kvc_probabilities, q_width, 56);
AT(kvc_probabilities, num_q_rows, 64);
AT(kvc_probabilities, q_rows, 72);
AT(kvc_probabilities, uniforms, 80);
AT(kvc_probabilities, workspace, 88);
AT(kvc_probabilities, workspace_bytes, 96);

SIZE(kvc_draft_tables, 40);
AT(kvc_draft_tables, struct_size, 0);
AT(kvc_draft_tables, group, 8);
AT(kvc_draft_tables, block_size, 12);
AT(kvc_draft_tables, starts, 16);
AT(kvc_draft_tables, block_tables, 24);
AT(kvc_draft_tables, table_stride, 32);

SIZE(kvc_draft_config, 32);
AT(kvc_draft_config, struct_size, 0);
AT(kvc_draft_config, max_rows, 8);
AT(kvc_draft_config, min_ngram, 12);
AT(kvc_draft_config, max_ngram, 16);
AT(kvc_draft_config, row_capacity, 20);
AT(kvc_draft_config, allocator, 24);

SIZE(kvc_acceptance, 544);
AT(kvc_acceptance, struct_size, 0);
AT(kvc_acceptance, num_drafts, 8);
AT(kvc_acceptance, num_nodes, 16);
AT(kvc_acceptance, num_accepted, 24);
AT(kvc_acceptance, tried, 32);
AT(kvc_acceptance, accepted, 288);

int main(void) {
  puts("the layout is as frozen");
  return 0;
}
