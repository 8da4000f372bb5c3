// SPDX-License-Identifier: Apache-2.0
#include "manager/hints.h"

namespace kvc {

kvc_status Hints::check_range(uint32_t priority, uint64_t until) const {
  if (priority > kMaxPriority)
    return invalid("priority is %u; priorities go from 0 to %u", priority, kMaxPriority);
  if (until == 0 || until > blocks_.cached.now()) return KVC_OK;
  return invalid(
      "until_ns is %llu, which is not after the present time, %llu; give a later time, or 0 for no end",
      ull(until), ull(blocks_.cached.now()));
}

kvc_status Hints::set_priority(const Request& request, const HintRange& range) {
  KVC_TRY(check_range(range.priority, range.until));
  if (range.begin >= range.end) return KVC_OK;  // no position has its last token there
  RequestHints& hints = of_[index_of(request)];
  if (!hints.has_room(range)) {
    return fail(
        KVC_ERROR_LIMIT,
        "request %llu has %u hinted ranges, the most that it can have; set one that covers some of them",
        ull(request.id), RequestHints::kMaxRanges);
  }
  hints.add(range);
  if (request.admitted) apply(request, range.begin, range.end);
  return KVC_OK;
}

// To the published positions [begin, end) of an admitted request, the last first.
void Hints::apply(const Request& request, size_t begin, size_t end) {
  const RequestHints& hints = of_[index_of(request)];
  if (hints.count == 0 || stale(request)) return;
  NodeId node = request.cursor;
  for (size_t j = request.published; j-- > begin; node = blocks_.tree()[node].parent) {
    if (j >= end) continue;
    if (const HintRange* range = hints.of(j); range != nullptr)
      blocks_.cached.hint(node, range->priority, range->until);
  }
}

void Hints::ended(const Request& request, bool over) {
  const RequestHints& hints = of_[index_of(request)];
  if (!over || !hints.session_over) return;
  if (request.admitted) {
    if (!stale(request)) blocks_.cached.demote(request.cursor, hints.shared_positions, 1);
    return;
  }
  if (request.cross_private()) return;  // equal tokens are other content
  const Prompt prompt{request.tail.data, request.hashes.data, request.key_list(), request.ns,
                      blocks_.namespaces().epoch(request.ns)};
  blocks_.cached.demote(blocks_.tree().last_known(prompt, request.num_hashes), hints.shared_positions, 0);
}

void Hints::digest(const Request& request, DigestHash* out) const {
  const RequestHints& hints = of_[index_of(request)];
  out->add(hints.count | uint64_t{hints.session_over} << 32);
  if (hints.session_over) out->add(hints.shared_positions);
  for (uint32_t i = 0; i < hints.count; ++i) {
    const HintRange& range = hints.ranges[i];
    out->add(range.begin | uint64_t{range.end} << 32);
    out->add(range.until);
    out->add(range.priority);
  }
}

}  // namespace kvc
