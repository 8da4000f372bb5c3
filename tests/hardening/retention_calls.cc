// SPDX-License-Identifier: Apache-2.0
// Rows of time, hints and registered prompts.
#include "hardening/every_call.h"
#include "hardening/prompt_calls.h"

namespace kvc::test {

void add_retention_calls(std::vector<Call>& calls) {
  const auto cached = [](Scene& s) { return s.cache(s.n); };
  const auto published = [](Scene& s) { return s.admit(s.n, s.n); };
  calls.push_back(KVC_CALL(kvc_manager_set_time, s.m, 5u));
  calls.push_back(
      KVC_CALL(kvc_manager_set_priority, s.m, s.request, 2u, UINT64_MAX, 90u, UINT64_MAX).after(published));
  calls.push_back(
      KVC_CALL(kvc_manager_set_priority, s.m, s.request, 0u, 20u, 0u, 0u).as("waiting").after([](Scene& s) {
        return s.wait(s.n);
      }));
  calls.push_back(KVC_CALL(kvc_manager_end_session, s.m, s.request, 4u).after(published));
  calls.push_back(KVC_CALL(set_prefix_priority, s.m, 0u, s.tokens.data(), s.n, nullptr, 0u, 4u, &s.number)
                      .of("kvc_manager_set_prefix_priority")
                      .allocating()
                      .after(cached));
  calls.push_back(KVC_CALL(demote_prefix, s.m, 0u, s.tokens.data(), s.n, nullptr, 0u, 4u, &s.number)
                      .of("kvc_manager_set_prefix_priority")
                      .as("demoted")
                      .allocating()
                      .after(cached));
  calls.push_back(KVC_CALL(register_prompt, s.m, s.prompt_name.c_str(), s.tokens.data(), s.n, s.keys.data(),
                           s.keys.size(), &s.number)
                      .of("kvc_manager_register_prompt")
                      .allocating()
                      .may_be_null({6})
                      .after(cached));
  calls.push_back(KVC_CALL(kvc_manager_allocate_from_prompt, s.m, s.prompt_name.c_str(), s.tokens.data(),
                           s.n / 2, &s.request_config, &s.request, &s.number)
                      .allocating()
                      .may_be_null({4, 6})
                      .after([](Scene& s) { return s.name(s.n / 2); }));
  calls.push_back(KVC_CALL(kvc_manager_unregister_prompt, s.m, s.prompt_name.c_str()).after([](Scene& s) {
    return s.cache(20) && s.name(20);
  }));
  calls.push_back(
      KVC_CALL(kvc_manager_list_prompts, s.m, s.names, sizeof s.names, &s.count).after([](Scene& s) {
        return s.name(20);
      }));
}

}  // namespace kvc::test
