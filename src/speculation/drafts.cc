// SPDX-License-Identifier: Apache-2.0
#include "speculation/drafts.h"

namespace kvc {
namespace {

kvc_status check_draft(const Draft& draft, size_t request) {
  for (size_t i = 0; i < draft.size; ++i) {
    if (draft.tokens[i] < 0) {
      return invalid("request %zu: the token of node %zu is %d; tokens are at least 0", request, i,
                     draft.tokens[i]);
    }
    const int64_t parent = draft.parent(i);
    if (parent < -1 || parent >= static_cast<int64_t>(i)) {
      return invalid("request %zu: the parent of node %zu is %lld; give -1, or a node before it", request, i,
                     static_cast<long long>(parent));
    }
  }
  return KVC_OK;
}

}  // namespace

kvc_status check_drafts(const kvc_drafts& drafts) {
  if (drafts.num_requests == 0) return KVC_OK;
  if (drafts.offsets == nullptr) return invalid("offsets is NULL and num_requests is not 0");
  if (drafts.num_requests > INT32_MAX)
    return invalid("num_requests is %zu; give at most %d", drafts.num_requests, INT32_MAX);
  if (drafts.offsets[0] != 0) return invalid("offsets[0] is %llu; it must be 0", ull(drafts.offsets[0]));
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const uint64_t begin = drafts.offsets[r], end = drafts.offsets[r + 1];
    if (end < begin) {
      return invalid("offsets[%zu] is %llu after %llu; offsets never decrease", r + 1, ull(end), ull(begin));
    }
    if (end - begin > KVC_MAX_DRAFT_NODES) {
      return invalid("request %zu has %llu nodes; a draft has at most %d", r, ull(end - begin),
                     KVC_MAX_DRAFT_NODES);
    }
  }
  if (num_nodes(drafts) == 0) return KVC_OK;
  if (drafts.tokens == nullptr) return invalid("tokens is NULL and there are nodes");
  for (size_t r = 0; r < drafts.num_requests; ++r) KVC_TRY(check_draft(draft_of(drafts, r), r));
  return KVC_OK;
}

kvc_status check_path(const kvc_drafts& drafts, const kvc_verdict& verdict, size_t request) {
  const Draft draft = draft_of(drafts, request);
  const uint64_t accepted = verdict.num_accepted[request];
  if (accepted > draft.size) {
    return invalid("request %zu: num_accepted is %llu of %zu nodes", request, ull(accepted), draft.size);
  }
  int64_t at = -1;
  for (size_t i = 0; i < accepted; ++i) {
    const int64_t node = verdict.path[draft.first + i];
    if (node < 0 || node >= static_cast<int64_t>(draft.size) ||
        draft.parent(static_cast<size_t>(node)) != at) {
      return invalid(
          "request %zu: entry %zu of its path is node %lld, which is no child of node %lld; pass the "
          "verdict of these drafts",
          request, i, static_cast<long long>(node), static_cast<long long>(at));
    }
    at = node;
  }
  return KVC_OK;
}

}  // namespace kvc
