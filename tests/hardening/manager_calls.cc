// SPDX-License-Identifier: Apache-2.0
// Rows of the manager, its requests, its step.
#include <kvcache/fills.h>
#include <kvcache/resize.h>

#include "calls.h"
#include "hardening/every_call.h"
#include "hardening/prompt_calls.h"

namespace kvc::test {
namespace {

// A step of one item with the retirement of the step, so that nothing is in flight afterwards; the item's
// status.
kvc_status step_and_retire(kvc_manager* m, kvc_step* step) {
  const kvc_status status = kvc_manager_step(m, step);
  if (status != KVC_OK) return status;
  const kvc_status item = step->status[0];
  const kvc_status retired = kvc_manager_retire_step(m, step->step_id);
  return retired != KVC_OK ? retired : item;
}

void add_life(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_manager_create, &s.manager_config, &s.made_manager).allocating());
  calls.push_back(KVC_CALL(kvc_manager_destroy, std::exchange(s.made_manager, nullptr)).after([](Scene& s) {
    return kvc_manager_create(&s.manager_config, &s.made_manager) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_manager_properties, s.m, &s.properties));
  calls.push_back(KVC_CALL(kvc_manager_check, s.m).allocating());
  calls.push_back(KVC_CALL(kvc_manager_digest, s.m, &s.number));
  calls.push_back(KVC_CALL(kvc_manager_read_stats, s.m, &s.stats));
  calls.push_back(KVC_CALL(kvc_manager_pool_info, s.m, 0u, &s.pool_info));
  calls.push_back(KVC_CALL(kvc_manager_lost_reuse, s.m, 0u, &s.lost_reuse));
  calls.push_back(KVC_CALL(kvc_manager_block_info, s.m, 1, &s.block_info));
  const auto with_quotas = [](Scene& s) {
    kvc_manager_config config = s.manager_config;
    config.max_quotas = 2;
    return kvc_manager_create(&config, &s.made_manager) == KVC_OK;
  };
  calls.push_back(KVC_CALL(kvc_manager_set_quota, s.made_manager, 0u, 0u, 10u, 20u).after(with_quotas));
  calls.push_back(KVC_CALL(kvc_manager_quota_info, s.made_manager, 0u, 0u, &s.quota_info).after(with_quotas));
  const auto with_room = [](Scene& s) {
    kvc_manager_config config = s.manager_config;
    config.max_blocks = 2 * config.num_blocks, config.flags |= KVC_MANAGER_HEADROOM;
    return kvc_manager_create(&config, &s.made_manager) == KVC_OK;
  };
  calls.push_back(KVC_CALL(kvc_manager_resize, s.made_manager, 0u, s.manager_config.num_blocks + 1,
                           s.copies.data(), s.copies.size(), &s.count)
                      .as("larger")
                      .after(with_room));
  calls.push_back(KVC_CALL(kvc_manager_resize, s.made_manager, 0u, s.manager_config.num_blocks / 2,
                           s.copies.data(), s.copies.size(), &s.count)
                      .as("smaller")
                      .after(with_room));
  calls.push_back(
      KVC_CALL(kvc_manager_expected_tokens, s.made_manager, uint32_t{KVC_HEADROOM_BALANCED}, 3u, &s.number)
          .after(with_room));
  const auto with_fill = [](Scene& s) {  // step 1 is in flight and fills blocks
    kvc_manager_config config = s.manager_config;
    config.flags |= KVC_MANAGER_FILLS;
    if (kvc_manager_create(&config, &s.made_manager) != KVC_OK) return false;
    kvc_request_config enqueued = {};
    enqueued.struct_size = sizeof enqueued, enqueued.flags = KVC_REQUEST_PUBLISH_ENQUEUED;
    const uint64_t offsets[] = {0, s.n};
    uint64_t cached = 0;
    kvc_status status = -1;
    kvc_step step = {};
    step.struct_size = sizeof step, step.num_admissions = 1;
    step.admit_offsets = offsets, step.admit_tokens = s.tokens.data(), step.admit_configs = &enqueued;
    step.admitted = &s.number, step.cached = &cached, step.status = &status;
    return kvc_manager_step(s.made_manager, &step) == KVC_OK && status == KVC_OK;
  };
  calls.push_back(
      KVC_CALL(kvc_manager_fail_step, s.made_manager, 1u, &s.number, 1u, &s.count).after(with_fill));
  calls.push_back(KVC_CALL(kvc_manager_open_namespace, s.m, &s.identity, &s.ns).allocating());
  calls.push_back(KVC_CALL(kvc_manager_close_namespace, s.m, std::exchange(s.ns, 0)).after([](Scene& s) {
    return kvc_manager_open_namespace(s.m, &s.identity, &s.ns) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_manager_reset_namespace, s.m, s.ns).after([](Scene& s) {
    return s.cache(20) && kvc_manager_open_namespace(s.m, &s.identity, &s.ns) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_manager_reset_all, s.m).after([](Scene& s) { return s.cache(20); }));
  calls.push_back(
      KVC_CALL(kvc_manager_set_prefix_caching, s.m, 0u).after([](Scene& s) { return s.admit(21, 20); }));
}

void add_requests(std::vector<Call>& calls) {
  const auto admitted = [](Scene& s) { return s.admit(21, 20); };
  const auto long_one = [](Scene& s) { return s.admit(s.n, 0); };
  const auto published = [](Scene& s) { return s.admit(s.n, s.n); };
  const auto waiting = [](Scene& s) { return s.wait(s.n); };
  calls.push_back(KVC_CALL(create_request, s.m, s.tokens.data(), s.n, s.keys.data(), s.keys.size(),
                           &s.request_config, &s.request)
                      .of("kvc_manager_create_request")
                      .allocating()
                      .may_be_null({5}));
  calls.push_back(KVC_CALL(allocate_request, s.m, s.tokens.data(), s.n, s.keys.data(), s.keys.size(),
                           &s.request_config, &s.request, &s.number)
                      .of("kvc_manager_allocate_request")
                      .allocating()
                      .may_be_null({5, 7}));
  calls.push_back(KVC_CALL(kvc_manager_admit_request, s.m, s.request, &s.number)
                      .allocating()
                      .may_be_null({2})
                      .after(waiting));
  calls.push_back(KVC_CALL(kvc_manager_admit_batch, s.m, &s.request, size_t{1}, &s.number, &s.done)
                      .allocating()
                      .may_be_null({3, 4})
                      .after(waiting));
  calls.push_back(KVC_CALL(kvc_manager_reserve_tokens, s.m, s.request, s.n).allocating().after(admitted));
  calls.push_back(
      KVC_CALL(kvc_manager_append_tokens, s.m, s.request, s.tokens.data(), s.n).allocating().after(admitted));
  calls.push_back(KVC_CALL(kvc_manager_append_tokens, s.m, s.request, s.tokens.data(), s.n)
                      .as("waiting")
                      .allocating()
                      .after(waiting));
  calls.push_back(KVC_CALL(kvc_manager_add_keys, s.m, s.request, s.later_keys.data(), s.later_keys.size())
                      .allocating()
                      .after([](Scene& s) { return s.admit(s.n, 0); }));
  calls.push_back(KVC_CALL(kvc_manager_add_keys, s.m, s.request, s.keys.data(), s.keys.size())
                      .as("waiting")
                      .allocating()
                      .after(waiting));
  calls.push_back(KVC_CALL(kvc_manager_truncate_request, s.m, s.request, s.n / 2 + 1)
                      .as("inside a key")
                      .allocating()
                      .after([](Scene& s) {
                        const kvc_extra_key key = {0, s.n, {1}};
                        return s.wait(s.n) && kvc_manager_add_keys(s.m, s.request, &key, 1) == KVC_OK;
                      }));
  calls.push_back(KVC_CALL(kvc_manager_commit_tokens, s.m, s.request, s.n).after(long_one));
  calls.push_back(KVC_CALL(kvc_manager_commit_ahead, s.m, s.request, s.n, s.n).after(long_one));
  calls.push_back(KVC_CALL(kvc_manager_commit_tokens, s.m, s.request, s.n)
                      .as("extra keys")
                      .allocating()
                      .after([](Scene& s) { return s.admit(s.n, 0, s.keys.size()); }));
  calls.push_back(
      KVC_CALL(kvc_manager_truncate_request, s.m, s.request, s.n / 2 + 1).allocating().after(published));
  calls.push_back(KVC_CALL(kvc_manager_fork_request, s.m, s.request, &s.child).allocating().after(published));
  calls.push_back(KVC_CALL(kvc_manager_preempt_request, s.m, s.request).allocating().after([](Scene& s) {
    // The child takes what the first request has left over.
    return s.admit(s.n, s.n) && kvc_manager_create_request(s.m, PROMPT(0, s.tokens.data(), s.n, nullptr, 0),
                                                           nullptr, &s.child) == KVC_OK;
  }));
  calls.push_back(KVC_CALL(kvc_manager_free_request, s.m, std::exchange(s.request, 0)).after(admitted));
  calls.push_back(KVC_CALL(kvc_manager_request_info, s.m, s.request, &s.request_info).after(admitted));
  calls.push_back(
      KVC_CALL(kvc_manager_list_requests, s.m, s.ids.data(), s.ids.size(), &s.count).after(admitted));
  calls.push_back(
      KVC_CALL(kvc_manager_export_tables, s.m, &s.request, size_t{1}, 0u, -1, s.row.data(), s.row.size())
          .after(admitted));
  calls.push_back(
      KVC_CALL(kvc_manager_common_prefix, s.m, &s.request, size_t{1}, 0u, &s.number).after(admitted));
  calls.push_back(KVC_CALL(kvc_manager_export_slots, s.m, s.request, 0u, 1u, 10u, s.slots.data(), size_t{8})
                      .after(admitted));
  calls.push_back(
      KVC_CALL(take_pending, s.m, s.copies.data(), s.copies.size(), s.row.data(), s.row.size(), &s.count)
          .of("kvc_manager_take_pending")
          .after([](Scene& s) { return s.fork(); }));
}

void add_step(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_step_create, s.m, &s.limits, &s.step).allocating());
  calls.push_back(KVC_CALL(kvc_step_destroy, std::exchange(s.step, nullptr)).after([](Scene& s) {
    return s.step_of(0, 0);
  }));
  calls.push_back(KVC_CALL(kvc_step_view, s.step, KVC_STEP_SLOTS, &s.view).after([](Scene& s) {
    return s.step_of(0, 0);
  }));
  Call extend = KVC_CALL(step_and_retire, s.m, s.step_with_ids()).as("extend").allocating();
  extend.prepare = [](Scene& s) { return s.step_of(1, 0); };
  Call admit = KVC_CALL(step_and_retire, s.m, s.step_with_ids()).as("admit").allocating();
  admit.prepare = [](Scene& s) { return s.step_of(0, 1); };
  for (Call* call : {&extend, &admit}) {
    call->function = "kvc_manager_step";
    calls.push_back(std::move(*call));
  }
  calls.push_back(KVC_CALL(kvc_manager_retire_step, s.m, s.step->step_id).after([](Scene& s) {
    return s.step_of(0, 0) && kvc_manager_step(s.m, s.step) == KVC_OK;
  }));
  calls.push_back(
      KVC_CALL(kvc_manager_compact, s.m, 0u, s.copies.data(), s.copies.size(), &s.count).after([](Scene& s) {
        return s.cache(20) && take_pending(s.m, s.copies.data(), s.copies.size(), s.row.data(), s.row.size(),
                                           &s.count) == KVC_OK;
      }));
  // Of a manager that no other thread uses.
  calls.push_back(
      KVC_CALL(kvc_manager_rebuild, s.made_manager, &s.manager_config, &s.rebuild, &s.rebuilt_manager)
          .allocating()
          .after([](Scene& s) {
            uint64_t id;
            return kvc_manager_create(&s.manager_config, &s.made_manager) == KVC_OK &&
                   kvc_manager_allocate_request(s.made_manager,
                                                PROMPT(0, s.tokens.data(), 20, s.keys.data(), 5), nullptr,
                                                &id, nullptr) == KVC_OK &&
                   kvc_manager_commit_tokens(s.made_manager, id, 20) == KVC_OK &&
                   kvc_manager_free_request(s.made_manager, id) == KVC_OK;
          }));
}

// Of a recorded manager that no other thread uses.
void add_log(std::vector<Call>& calls) {
  const auto recorded = [](Scene& s) {
    kvc_manager_config config = s.manager_config;
    config.record_bytes = 1 << 16;
    if (kvc_manager_create(&config, &s.made_manager) != KVC_OK) return false;
    s.log.resize((1 << 16) + 64);
    return kvc_manager_set_time(s.made_manager, 5) == KVC_OK;
  };
  calls.push_back(
      KVC_CALL(kvc_manager_take_log, s.made_manager, s.log.data(), s.log.size(), &s.count).after(recorded));
  calls.push_back(KVC_CALL(kvc_manager_log_info, s.made_manager, &s.log_info).after(recorded));
  calls.push_back(KVC_CALL(kvc_log_replay, s.log.data(), s.count, &s.replay_info)
                      .allocating()
                      .after([recorded](Scene& s) {
                        return recorded(s) && kvc_manager_take_log(s.made_manager, s.log.data(), s.log.size(),
                                                                   &s.count) == KVC_OK;
                      }));
}

}  // namespace

void add_manager_calls(std::vector<Call>& calls) {
  add_life(calls);
  add_requests(calls);
  add_step(calls);
  add_log(calls);
}

}  // namespace kvc::test
