// SPDX-License-Identifier: Apache-2.0
// Calls about what stays cached: time, and hints of prefixes.
#include "manager/manager.h"

namespace kvc {

kvc_status Manager::set_time(uint64_t now_ns) {
  return change([&](const ManagerParts&) -> kvc_status {
    KVC_TRY(blocks_.levels().check_time(now_ns));
    blocks_.levels().pass_time(now_ns);
    return KVC_OK;
  });
}

kvc_status Manager::set_prefix_priority(const TokenSpan& tokens, const HintRange& range,
                                        uint64_t* num_tokens) {
  return look_up(tokens, [&](const ManagerParts&, LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(requests_.features().get<Hints>().check_range(range.priority, range.until));
    KVC_TRY(prefix.look(&prompt));
    size_t hinted = 0;
    for (size_t j = blocks_.tree().walk(prompt, prefix.num_blocks(), 0, prefix.path()); j-- > range.begin;) {
      const NodeId node = prefix.path()[j];
      hinted += blocks_.tree()[node].resident != 0;
      blocks_.levels().hint(node, range.priority, range.until);
    }
    *num_tokens = hinted * shape_.block_size;
    return KVC_OK;
  });
}

kvc_status Manager::demote_prefix(const TokenSpan& tokens, uint64_t first_token, uint64_t* num_tokens) {
  return look_up(tokens, [&](const ManagerParts&, LookupScratch& prefix) -> kvc_status {
    Prompt prompt;
    KVC_TRY(prefix.look(&prompt));
    const NodeId last = blocks_.tree().last_known(prompt, prefix.num_blocks());
    *num_tokens = blocks_.levels().demote(last, shape_.positions_within(first_token), 0) * shape_.block_size;
    return KVC_OK;
  });
}

}  // namespace kvc
