// SPDX-License-Identifier: Apache-2.0
// C functions about what stays cached: time, hints, registered prompts.
#include <kvcache/retention.h>

#include "api/guard.h"
#include "api/recording.h"

using namespace kvc;

namespace {

kvc_status check_hints(const Manager& manager) {
  if (manager.shape().has_hints()) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED, "hints are off; create the manager with hints");
}

kvc_status check_name(const char* name) {
  KVC_REQUIRE_POINTER(name);
  const size_t size = strnlen(name, Prompts::kLongestName + 1);
  if (size == 0)
    return invalid("the name of the prompt is empty; give 1 to %zu bytes", Prompts::kLongestName);
  if (size <= Prompts::kLongestName) return KVC_OK;
  return invalid("the name of the prompt has more than %zu bytes: \"%.40s...\"; give 1 to %zu bytes",
                 Prompts::kLongestName, name, Prompts::kLongestName);
}

}  // namespace

extern "C" {

kvc_status kvc_manager_set_time(kvc_manager* m, uint64_t now_ns) {
  KVC_RECORD(kvc_manager_set_time, m, now_ns);
  return on_manager(m, [&](Manager& manager) { return manager.set_time(now_ns); });
}

kvc_status kvc_manager_set_priority(kvc_manager* m, uint64_t request, uint64_t first_token,
                                    uint64_t num_tokens, uint32_t priority, uint64_t until_ns) {
  KVC_RECORD(kvc_manager_set_priority, m, request, first_token, num_tokens, priority, until_ns);
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_hints(manager));
    const uint64_t end = num_tokens > UINT64_MAX - first_token ? UINT64_MAX : first_token + num_tokens;
    const Shape& shape = manager.shape();
    const HintRange range{shape.positions_within(first_token), shape.positions_within(end), until_ns,
                          priority};
    return manager.change(request, false, [&](Requests& requests, Request& found) {
      return requests.features.get<Hints>().set_priority(found, range);
    });
  });
}

kvc_status kvc_manager_end_session(kvc_manager* m, uint64_t request, uint64_t shared_tokens) {
  KVC_RECORD(kvc_manager_end_session, m, request, shared_tokens);
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_hints(manager));
    return manager.change(request, false, [&](Requests& requests, Request& found) {
      return requests.features.get<Hints>().end_session(found, shared_tokens);
    });
  });
}

kvc_status kvc_manager_set_prefix_priority(kvc_manager* m, const kvc_prompt* prompt, uint64_t first_token,
                                           uint32_t priority, uint64_t until_ns, uint64_t* num_tokens) {
  KVC_RECORD(kvc_manager_set_prefix_priority, m, prompt, first_token, priority, until_ns, num_tokens);
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_hints(manager));
    TokenSpan span;
    KVC_TRY(read_prompt(prompt, &span));
    KVC_REQUIRE_POINTER(num_tokens);
    if (priority == KVC_PRIORITY_DEMOTED) {
      if (until_ns != 0) return invalid("until_ns is %llu; a demotion has no end: give 0", ull(until_ns));
      return manager.demote_prefix(span, first_token, num_tokens);
    }
    const HintRange range{manager.shape().positions_within(first_token), UINT32_MAX, until_ns, priority};
    return manager.set_prefix_priority(span, range, num_tokens);
  });
}

kvc_status kvc_manager_register_prompt(kvc_manager* m, const char* name, const kvc_prompt* prompt,
                                       uint64_t* num_pinned) {
  KVC_RECORD(kvc_manager_register_prompt, m, name, prompt, num_pinned);
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_name(name));
    TokenSpan span;
    KVC_TRY(read_prompt(prompt, &span));
    uint64_t pinned = 0;
    KVC_TRY(manager.look_up(span, [&](const ManagerParts& parts, LookupScratch& scratch) {
      return parts.prompts.add(name, span, scratch, &pinned);
    }));
    if (num_pinned != nullptr) *num_pinned = pinned;
    return kvc_status{KVC_OK};
  });
}

kvc_status kvc_manager_allocate_from_prompt(kvc_manager* m, const char* name, const int32_t* tokens,
                                            size_t num_tokens, const kvc_request_config* config,
                                            uint64_t* request, uint64_t* num_cached) {
  KVC_RECORD(kvc_manager_allocate_from_prompt, m, name, tokens, num_tokens, config, request, num_cached);
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_name(name));
    KVC_REQUIRE_ARRAY(tokens, num_tokens);
    KVC_REQUIRE_POINTER(request);
    kvc_request_config own;
    const size_t size = config == nullptr ? 0 : config->struct_size;
    KVC_TRY(read_request_config(manager.shape(), config, size, &own));
    return manager.allocate_from_prompt(name, tokens, num_tokens, own, request, num_cached);
  });
}

kvc_status kvc_manager_unregister_prompt(kvc_manager* m, const char* name) {
  KVC_RECORD(kvc_manager_unregister_prompt, m, name);
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_TRY(check_name(name));
    return manager.change([&](const ManagerParts& parts) { return parts.prompts.remove(name); });
  });
}

kvc_status kvc_manager_list_prompts(kvc_manager* m, char* names, size_t capacity, size_t* size) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(names, capacity);
    KVC_REQUIRE_POINTER(size);
    return manager.read(&StateReader::list_prompts, names, capacity, size);
  });
}

}  // extern "C"
