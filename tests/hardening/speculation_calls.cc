// SPDX-License-Identifier: Apache-2.0
// Rows of speculation.
#include "api/device.h"
#include "hardening/every_call.h"

namespace kvc::test {

void add_speculation_calls(std::vector<Call>& calls) {
  const auto filled = [](Scene& s) { return s.speculation.fill(); };
  calls.push_back(KVC_CALL(kvc_drafts_check, &s.speculation.drafts));
  calls.push_back(
      KVC_CALL(kvc_verify_greedy, &s.speculation.drafts, s.speculation.target, &s.speculation.verdict));
  calls.push_back(KVC_CALL(kvc_verify_sampling, &s.speculation.drafts, &s.speculation.probabilities,
                           &s.speculation.verdict));
  calls.push_back(KVC_CALL(kvc_verify_sampling, &s.speculation.drafts, &s.speculation.without_memory,
                           &s.speculation.verdict)
                      .as("in memory of its own")
                      .allocating());
  calls.push_back(KVC_CALL(kvc_verify_typical, &s.speculation.drafts, &s.speculation.probabilities, 0.09, 0.3,
                           &s.speculation.verdict));
  calls.push_back(KVC_CALL(kvc_verdict_moves, &s.speculation.drafts, &s.speculation.verdict_in,
                           &s.speculation.tables, s.speculation.moves, std::size(s.speculation.moves),
                           &s.count));
  calls.push_back(KVC_CALL(kvc_verdict_states, &s.speculation.drafts, &s.speculation.verdict_in,
                           &s.speculation.tables, s.speculation.states, s.speculation.copies));
  calls.push_back(KVC_CALL(kvc_storage_move_tokens, s.storage, &s.token_move, 1u)
                      .answering(device() == nullptr ? KVC_OK : KVC_ERROR_UNSUPPORTED));
  calls.push_back(KVC_CALL(kvc_draft_lookup, s.speculation.text, 5u, 1u, 3u, s.speculation.drafted,
                           std::size(s.speculation.drafted), &s.count));
  calls.push_back(KVC_CALL(kvc_draft_create, &s.speculation.config, &s.speculation.made).allocating());
  calls.push_back(KVC_CALL(kvc_draft_destroy, std::exchange(s.speculation.made, nullptr)).after([](Scene& s) {
    return kvc_draft_create(&s.speculation.config, &s.speculation.made) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_draft_append, s.speculation.draft, s.speculation.rows, 2u,
                           s.speculation.text_offsets, s.speculation.text)
                      .after([](Scene& s) { return s.speculation.empty(); }));
  calls.push_back(KVC_CALL(kvc_draft_truncate, s.speculation.draft, 0, 3u).after(filled));
  calls.push_back(KVC_CALL(kvc_draft_propose, s.speculation.draft, s.speculation.rows, 2u,
                           s.speculation.lengths, s.speculation.drafted_offsets, s.speculation.drafted,
                           std::size(s.speculation.drafted), &s.count)
                      .after(filled));
  calls.push_back(KVC_CALL(kvc_acceptance_add, &s.speculation.acceptance, &s.speculation.drafts,
                           &s.speculation.verdict_in));
  calls.push_back(KVC_CALL(kvc_acceptance_halve, &s.speculation.acceptance));
  calls.push_back(KVC_CALL(kvc_acceptance_length, &s.speculation.acceptance, s.speculation.costs,
                           std::size(s.speculation.costs), &s.speculation.length, &s.speculation.num_tokens)
                      .may_be_null({4}));
}

}  // namespace kvc::test
