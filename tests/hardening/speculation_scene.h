// SPDX-License-Identifier: Apache-2.0
// Inputs and results of the calls of kvcache/speculation.h: one request with a tree of three nodes, of which
// the second root and its child are what the target says, and an index with a text that repeats.
#pragma once
#include <kvcache/rebuild.h>
#include <kvcache/speculation.h>

namespace kvc::test {

struct SpeculationScene {
  static constexpr uint32_t kVocab = 4;

  uint64_t offsets[2] = {0, 3};
  int32_t tokens[3] = {1, 2, 3}, parents[3] = {-1, -1, 1}, target[4] = {2, 0, 3, 1};
  float p[4 * kVocab] = {0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0};
  double uniforms[4] = {0.5, 0.5, 0.5, 0.5};
  int32_t workspace[kVocab + 2 * 3 + 2] = {};
  int32_t path[3] = {}, path_in[3] = {1, 2, -1}, next_tokens[1] = {};
  uint64_t num_accepted[1] = {}, num_accepted_in[1] = {2}, starts[1] = {5};
  int32_t table[4] = {0, 1, 2, 3}, states[4] = {7, 7, 7, 7};
  kvc_drafts drafts = {sizeof drafts, 1, offsets, tokens, parents};
  kvc_verdict verdict = {sizeof verdict, path, num_accepted, next_tokens};
  kvc_verdict verdict_in = {sizeof verdict_in, path_in, num_accepted_in, nullptr};
  kvc_probabilities probabilities = {
      sizeof probabilities, 0, kVocab, p, nullptr, 0, nullptr, nullptr, 0, 0, nullptr, uniforms, workspace,
      sizeof workspace};
  kvc_probabilities without_memory = probabilities;
  kvc_draft_tables tables = {sizeof tables, 0, 4, starts, table, 4};
  kvc_token_copy moves[8] = {};
  kvc_block_copy copies[1] = {};
  kvc_acceptance acceptance = {sizeof acceptance, 0, 0, 0, {}, {}};
  double costs[3] = {1, 1.5, 2}, num_tokens = 0;
  uint32_t length = 0;

  kvc_draft_config config = {sizeof config, 2, 1, 3, 16, nullptr};
  kvc_draft *draft = nullptr, *made = nullptr;
  int32_t rows[2] = {0, 1}, text[6] = {1, 2, 1, 2, 1, 3}, drafted[8] = {};
  uint64_t text_offsets[3] = {0, 5, 6}, drafted_offsets[3] = {};
  uint32_t lengths[2] = {4, 4};

  SpeculationScene() { without_memory.workspace = nullptr, without_memory.workspace_bytes = 0; }
  SpeculationScene(const SpeculationScene&) = delete;
  ~SpeculationScene() {
    clean();
    kvc_draft_destroy(draft);
  }
  void clean() {
    kvc_draft_destroy(made);
    made = nullptr;
  }
  // The index with empty rows.
  bool empty() {
    if (draft == nullptr && kvc_draft_create(&config, &draft) != KVC_OK) return false;
    return kvc_draft_truncate(draft, 0, 0) == KVC_OK && kvc_draft_truncate(draft, 1, 0) == KVC_OK;
  }
  bool fill() { return empty() && kvc_draft_append(draft, rows, 2, text_offsets, text) == KVC_OK; }
};

}  // namespace kvc::test
