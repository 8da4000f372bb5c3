// SPDX-License-Identifier: Apache-2.0
// Rows of tiers, pages and plug-ins.
#include <kvcache/plugin.h>

#include "api/device.h"
#include "hardening/every_call.h"
#include "hardening/prompt_calls.h"

namespace kvc::test {
namespace {

bool waits(Scene& s) { return s.store(); }

void add_jobs(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_tier_create, &s.tier_config, &s.made_tier).allocating());
  calls.push_back(KVC_CALL(kvc_tier_create, &s.threads_tier_config, &s.made_tier).as("threads").allocating());
  calls.push_back(KVC_CALL(kvc_tier_destroy, std::exchange(s.made_tier, nullptr)).after([](Scene& s) {
    return kvc_tier_create(&s.tier_config, &s.made_tier) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_tier_submit, s.tier, &s.tier_job, &s.number));
  calls.push_back(KVC_CALL(kvc_tier_cancel, s.tier, s.number).after(waits));
  calls.push_back(
      KVC_CALL(kvc_tier_poll, s.tier, s.completions, std::size(s.completions), &s.count).after(waits));
  calls.push_back(KVC_CALL(kvc_tier_event_fd, s.tier, &s.done));
  calls.push_back(KVC_CALL(kvc_tier_run_one, s.tier, &s.done).after(waits));
  calls.push_back(KVC_CALL(kvc_tier_drain, s.tier).after(waits));
  calls.push_back(KVC_CALL(kvc_tier_read_stats, s.tier, &s.tier_stats));
  calls.push_back(KVC_CALL(kvc_tier_read_counts, s.tier, uint32_t{KVC_TIER_PUT}, &s.tier_counts));
  calls.push_back(KVC_CALL(kvc_plugin_open, "nowhere", "/nowhere")
                      .answering(KVC_ERROR_NOT_FOUND)
                      .allocating()
                      .may_be_null({1}));
}

void add_pages(std::vector<Call>& calls) {
  const kvc_status copied = device() == nullptr ? KVC_OK : KVC_ERROR_UNSUPPORTED;
  calls.push_back(KVC_CALL(kvc_storage_page_properties, s.storage, &s.page_config, &s.page_info));
  calls.push_back(
      KVC_CALL(kvc_storage_page_runs, s.storage, &s.page_config, s.runs.data(), s.runs.size(), &s.count));
  calls.push_back(KVC_CALL(kvc_storage_pack_pages, s.storage, s.blocks_in.data(), s.blocks_in.size(), s.pages,
                           sizeof s.pages, 0u)
                      .answering(copied));
  calls.push_back(KVC_CALL(kvc_storage_unpack_pages, s.storage, s.blocks_in.data(), s.blocks_in.size(),
                           s.pages, sizeof s.pages, 0u)
                      .answering(copied));
  calls.push_back(KVC_CALL(position_digests, s.m, s.tokens.data(), s.n, s.keys.data(), s.n / 2,
                           s.digests.data(), s.digests.size() / 32, &s.count)
                      .of("kvc_manager_position_digests")
                      .allocating());
  calls.push_back(KVC_CALL(kvc_page_key, s.digests.data(), 0u, s.digests.data(), s.digests.data() + 32));
}

}  // namespace

void add_tier_calls(std::vector<Call>& calls) {
  add_jobs(calls);
  add_pages(calls);
}

}  // namespace kvc::test
