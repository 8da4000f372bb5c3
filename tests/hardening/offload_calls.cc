// SPDX-License-Identifier: Apache-2.0
// Rows of offload.
#include "calls.h"
#include "hardening/every_call.h"

namespace kvc::test {
namespace {

bool opened(Scene& s) { return s.offload.open(); }
bool waiting(Scene& s) { return s.wait(20) && s.offload.open(); }
// Jobs of both kinds are under way.
bool busy(Scene& s) {
  uint64_t num_blocks = 0;
  if (!s.admit(20, 20) || !s.offload.open()) return false;
  if (kvc_offload_store_request(s.offload.offload, s.request, &num_blocks) != KVC_OK) return false;
  if (kvc_manager_create_request(s.m, PROMPT(0, s.tokens.data(), s.n, nullptr, 0), nullptr, &s.child) !=
      KVC_OK)
    return false;
  return kvc_offload_lookup(s.offload.offload, s.child, 1) == KVC_OK;
}

}  // namespace

void add_offload_calls(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_offload_create, &s.offload.config, &s.offload.made).allocating());
  calls.push_back(KVC_CALL(kvc_offload_destroy, std::exchange(s.offload.offload, nullptr)).after(busy));
  calls.push_back(KVC_CALL(kvc_offload_event_fd, s.offload.offload, &s.offload.fd).after(opened));
  calls.push_back(KVC_CALL(kvc_offload_poll, s.offload.offload, 1u, nullptr).after(busy));
  calls.push_back(
      KVC_CALL(kvc_offload_flush, s.offload.offload, 1u, 0u, nullptr, &s.offload.num_left).after(busy));
  calls.push_back(KVC_CALL(kvc_offload_lookup, s.offload.offload, s.request, 1u).after(waiting));
  calls.push_back(KVC_CALL(kvc_offload_load, s.offload.offload, s.request, 64u, 1u).after(waiting));
  calls.push_back(KVC_CALL(kvc_offload_query, s.offload.offload, s.child, &s.offload.info).after(busy));
  calls.push_back(KVC_CALL(kvc_offload_cancel, s.offload.offload, s.child).after(busy));
  calls.push_back(KVC_CALL(kvc_offload_store_request, s.offload.offload, s.request, &s.offload.num_blocks)
                      .after([](Scene& s) { return s.admit(20, 20) && s.offload.open(); }));
  calls.push_back(KVC_CALL(kvc_offload_read_stats, s.offload.offload, &s.offload.stats).after(busy));
  calls.push_back(
      KVC_CALL(kvc_offload_read_tier_stats, s.offload.offload, 0u, &s.offload.tier_stats).after(busy));
}

}  // namespace kvc::test
