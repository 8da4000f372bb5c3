// SPDX-License-Identifier: Apache-2.0
// Rows of prefixes, external blocks and events.
#include "event_calls.h"
#include "hardening/every_call.h"
#include "hardening/prompt_calls.h"

namespace kvc::test {

void add_prefix_calls(std::vector<Call>& calls) {
  const auto cached = [](Scene& s) { return s.cache(s.n); };
  calls.push_back(KVC_CALL(probe, s.m, 0u, s.tokens.data(), s.n, s.keys.data(), s.keys.size(), &s.probe_info)
                      .of("kvc_manager_probe")
                      .allocating()
                      .after(cached));
  calls.push_back(KVC_CALL(pin_prefix, s.m, 0u, s.tokens.data(), s.n, nullptr, 0u, &s.pin, &s.number)
                      .of("kvc_manager_pin_prefix")
                      .allocating()
                      .after(cached));
  calls.push_back(
      KVC_CALL(kvc_manager_probe_request, s.m, s.request, &s.probe_info).allocating().after([](Scene& s) {
        return s.wait(s.n);
      }));
  calls.push_back(KVC_CALL(kvc_manager_list_pins, s.m, s.ids.data(), s.ids.size(), &s.count));
  calls.push_back(KVC_CALL(kvc_manager_list_namespaces, s.m, s.ids.data(), s.ids.size(), &s.count));
  calls.push_back(KVC_CALL(kvc_manager_unpin_prefix, s.m, std::exchange(s.pin, 0)).after([](Scene& s) {
    return s.cache(20) && kvc_manager_pin_prefix(s.m, PROMPT(0, s.tokens.data(), 20, nullptr, 0), &s.pin,
                                                 &s.number) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(drop_prefix, s.m, 0u, s.tokens.data(), s.n, nullptr, 0u, &s.number)
                      .of("kvc_manager_drop_prefix")
                      .allocating()
                      .after(cached));
  calls.push_back(KVC_CALL(kvc_manager_evict_blocks, s.m, -1, size_t{3}, &s.count).after(cached));
  calls.push_back(KVC_CALL(kvc_manager_acquire_blocks, s.m, 0u, s.external.data(), size_t{4}));
  calls.push_back(KVC_CALL(acquire_prefix, s.m, 0u, 0u, s.tokens.data(), s.n, nullptr, 0u, s.external.data(),
                           s.external.size(), &s.count)
                      .of("kvc_manager_acquire_prefix")
                      .allocating()
                      .after(cached));
  calls.push_back(KVC_CALL(publish_blocks, s.m, 0u, 0u, s.tokens.data() + 1, s.n, nullptr, 0u, s.held.data(),
                           s.held.size())
                      .of("kvc_manager_publish_blocks")
                      .allocating()
                      .after([](Scene& s) { return s.hold(s.n / 2); }));
  calls.push_back(KVC_CALL(publish_blocks, s.m, 0u, 0u, s.tokens.data() + 1, s.n, s.keys.data(),
                           s.keys.size(), s.held.data(), s.held.size())
                      .of("kvc_manager_publish_blocks")
                      .as("with keys")
                      .allocating()
                      .after([](Scene& s) { return s.hold(s.n / 2); }));
  calls.push_back(KVC_CALL(kvc_manager_release_blocks, s.m, s.external.data(), s.count).after([](Scene& s) {
    if (!s.hold(4)) return false;
    s.external = s.held, s.external.resize(Scene::kRoom, -1);
    s.count = s.held.size();
    s.held.clear();
    return true;
  }));
  calls.push_back(
      KVC_CALL(kvc_manager_unpublish_blocks, s.m, s.unpublished, size_t{3}, &s.number).after(cached));
  calls.push_back(KVC_CALL(poll_events, s.m, &s.cursor, s.events.data(), sizeof(kvc_event), s.events.size(),
                           &s.count, s.row.data(), s.row.size())
                      .of("kvc_manager_poll_events")
                      .may_be_null({6})
                      .after(cached));
  calls.push_back(KVC_CALL(list_prefixes, s.m, &s.cursor, &s.number, s.events.data(), sizeof(kvc_event),
                           s.events.size(), &s.count, s.row.data(), s.row.size())
                      .of("kvc_manager_list_prefixes")
                      .may_be_null({7})
                      .after(cached));
}

}  // namespace kvc::test
