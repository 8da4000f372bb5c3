// SPDX-License-Identifier: Apache-2.0
#include "hardening/abuser.h"

#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/quota.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>

#include <algorithm>
#include <string>

#include "calls.h"
#include "event_calls.h"

namespace kvc::test {

kvc_status Abuser::call(int kind) {
  size_t n = 0, k = 0;
  kvc_status status = KVC_OK;
  switch (kind) {
    case 0: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      uint64_t* const out = id_out();
      status = kvc_manager_create_request(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, spans, k), config(), out);
      if (status == KVC_OK) learn(live_, id_);
      return status;
    }
    case 1:
    case 2: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      uint64_t* const out = id_out();
      status = kvc_manager_allocate_request(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, spans, k), config(), out,
          &number_);
      if (status == KVC_OK) learn(live_, id_);
      return status;
    }
    case 3:
      if (random_.chance(30)) {
        kvc_status statuses[3];
        uint64_t cached[3];
        for (n = 0; n < 3; ++n) ids_[n] = any(live_);
        return kvc_manager_admit_batch(m_, random_.chance(95) ? ids_ : nullptr, random_.below(4),
                                       random_.chance(80) ? cached : nullptr,
                                       random_.chance(80) ? statuses : nullptr);
      }
      return kvc_manager_admit_request(m_, any(live_), &number_);
    case 4:
      return kvc_manager_reserve_tokens(m_, any(live_), number());
    case 5: {
      const int32_t* const more = tokens(&n);
      return kvc_manager_append_tokens(m_, any(live_), more, n);
    }
    case 6:
      return random_.chance(20) ? kvc_manager_commit_ahead(m_, any(live_), number(), number())
                                : kvc_manager_commit_tokens(m_, any(live_), number());
    case 7:
      return kvc_manager_truncate_request(m_, any(live_), number());
    case 8:
      status = kvc_manager_fork_request(m_, any(live_), id_out());
      if (status == KVC_OK) learn(live_, id_);
      return status;
    case 9:
      return kvc_manager_preempt_request(m_, any(live_));
    case 10:
      return kvc_manager_free_request(m_, any(live_));
    case 11: {
      const uint64_t id = any(live_);  // what an engine does
      kvc_request_info info = {};
      info.struct_size = sizeof info;
      status = kvc_manager_request_info(m_, id, &info);
      return status != KVC_OK ? status
                              : kvc_manager_commit_tokens(m_, id, std::min(info.num_tokens, info.capacity));
    }
    case 12:
      if (random_.chance(20)) return kvc_manager_list_pins(m_, ids_, room(), count_out());
      if (random_.chance(20)) return kvc_manager_list_namespaces(m_, ids_, room(), count_out());
      status = kvc_manager_list_requests(m_, ids_, room(), count_out());
      if (status == KVC_OK) live_.assign(ids_, ids_ + count_);
      return status;
    case 13: {
      ids_[0] = any(live_), ids_[1] = any(live_);
      n = random_.below(3);
      return kvc_manager_export_tables(m_, ids_, n, group(), -1, blocks_out(),
                                       random_.chance(90) ? kRoom / 2 : SIZE_MAX / (1 + random_.below(3)));
    }
    case 14:
      return kvc_manager_export_slots(m_, any(live_), group(), random_.below(8),
                                      random_.chance(40) ? random_.below(4) : number(), slots_,
                                      random_.chance(90) ? 8 : random_.below(20));
    case 15:
      return take_copies(m_, copies_, room(), count_out());
    case 16:
      return take_zero_blocks(m_, blocks_, room(), count_out());
    case 17: {
      kvc_probe_info info = {};
      info.struct_size = random_.chance(95) ? sizeof info : random_.below(sizeof info);
      if (random_.chance(30)) return kvc_manager_probe_request(m_, any(live_), &info);
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      return kvc_manager_probe(m_, PROMPT(any(namespaces_), prompt, n, spans, k), &info);
    }
    case 18: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      uint64_t* const out = id_out();
      status = kvc_manager_pin_prefix(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, spans, k), out, &number_);
      if (status == KVC_OK) learn(pins_, id_);
      return status;
    }
    case 19:
      return kvc_manager_unpin_prefix(m_, any(pins_));
    case 20: {
      const int32_t* const prompt = tokens(&n);
      return kvc_manager_drop_prefix(m_, PROMPT(any(namespaces_), prompt, n, nullptr, random_.below(2)),
                                     &number_);
    }
    case 21: {
      n = random_.chance(80) ? random_.below(4) : SIZE_MAX >> random_.below(56);
      if (n > kRoom) n |= kBlocks;  // more than there are
      status = kvc_manager_acquire_blocks(m_, group(), blocks_, n);
      if (status == KVC_OK) external_.insert(external_.end(), blocks_, blocks_ + n);
      if (external_.size() > 32) external_.erase(external_.begin(), external_.begin() + 8);
      return status;
    }
    case 22: {
      const int32_t* const prompt = tokens(&n);
      status = kvc_manager_acquire_prefix(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, nullptr, 0), group(), blocks_,
          room(), count_out());
      if (status == KVC_OK) external_.insert(external_.end(), blocks_, blocks_ + count_);
      if (external_.size() > 64) external_.erase(external_.begin(), external_.begin() + 32);
      return status;
    }
    case 23: {
      const int32_t* const prompt = tokens(&n);
      const size_t count = some_blocks();
      return kvc_manager_publish_blocks(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, nullptr, 0), group(), blocks_,
          count);
    }
    case 24:
      return kvc_manager_release_blocks(m_, blocks_, some_blocks());
    case 25:
      switch (random_.below(11)) {
        case 0:
          status = kvc_manager_open_namespace(m_, identity(4 + random_.below(4)), id_out());
          if (status == KVC_OK && id_ != 0) learn(namespaces_, id_);
          return status;
        case 1:
          return kvc_manager_close_namespace(m_, any(namespaces_));
        case 2:
          return random_.chance(10)   ? (random_.chance(20) ? kvc_manager_reset_all(m_)
                                                            : kvc_manager_reset_namespace(m_, any(namespaces_)))
                 : random_.chance(10) ? kvc_manager_set_prefix_caching(m_, random_.chance(70))
                 : random_.chance(20) ? kvc_manager_fail_step(m_, number(), ids_, room(), count_out())
                                      : kvc_manager_retire_step(m_, number());
        case 3:
          return kvc_manager_compact(m_, group(), copies_, room(), count_out());
        case 4:
          return kvc_manager_evict_blocks(m_, static_cast<int32_t>(random_.below(6)) - 2, random_.below(3),
                                          count_out());
        case 5: {
          if (random_.chance(10)) cursor_ = random_.next();
          if (random_.chance(30)) {
            kvc_event_batch batch = {sizeof batch, events_, sizeof *events_, random_.below(64), 0,
                                     nullptr,      0};
            uint64_t at = random_.chance(50) ? 0 : random_.below(100);
            return kvc_manager_list_prefixes(m_, &at, &number_, &batch);
          }
          status = poll_events(m_, &cursor_, events_, random_.chance(90) ? sizeof *events_ : number(), 64,
                               count_out(), nullptr, 0);
          if (status != KVC_OK) cursor_ = 0;
          return status;
        }
        case 6: {
          const uint64_t min = number(), max = random_.chance(60) ? 0 : number();
          return kvc_manager_set_quota(m_, random_.chance(30) ? 0 : any(namespaces_), group(),
                                       random_.chance(70) ? min % 6 : min, max);
        }
        case 7: {
          kvc_quota_info info = {};
          info.struct_size = random_.chance(95) ? sizeof info : random_.below(sizeof info);
          return kvc_manager_quota_info(m_, any(namespaces_), group(), &info);
        }
        case 8:  // seldom so small that nothing else works any more
          return kvc_manager_resize(m_, group(),
                                    random_.chance(80) ? kBlocks - 4 + random_.below(14) : number(), copies_,
                                    room(), count_out());
        case 9:
          return kvc_manager_expected_tokens(m_, static_cast<uint32_t>(random_.below(5)), number(), id_out());
        default: {
          kvc_block_info info = {};
          info.struct_size = sizeof info;
          return kvc_manager_block_info(m_, static_cast<int32_t>(random_.below(40)) - 8, &info);
        }
      }
    case 26:
      return call_hint();
    case 27:
      return call_prompt();
    default:
      return call_step();
  }
}

kvc_status Abuser::call_hint() {
  size_t n = 0, k = 0;
  const uint64_t until = random_.chance(40) ? 0 : time_ + random_.below(6) - (random_.chance(5) ? 3 : 0);
  const auto priority = static_cast<uint32_t>(random_.chance(95) ? random_.below(101) : random_.next());
  switch (random_.below(5)) {
    case 0: {
      const uint64_t now = random_.chance(90) ? time_ + random_.below(3) : time_ - random_.below(4);
      const kvc_status status = kvc_manager_set_time(m_, now);
      if (status == KVC_OK) time_ = now;
      return status;
    }
    case 1:
      return kvc_manager_set_priority(m_, any(live_), number(), number(), priority, until);
    case 2:
      return kvc_manager_end_session(m_, any(live_), number());
    case 3: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      return kvc_manager_set_prefix_priority(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, spans, k), number(), priority,
          until, id_out());
    }
    default: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      return kvc_manager_set_prefix_priority(
          m_, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, spans, k), number(),
          KVC_PRIORITY_DEMOTED, random_.chance(90) ? 0 : until, id_out());
    }
  }
}

kvc_status Abuser::call_prompt() {
  static const std::string names[] = {"a",    "a prompt", std::string(255, 'n'),
                                      "\xff", "",         std::string(256, 'n')};
  const std::string& name = names[random_.below(random_.chance(90) ? 4 : 6)];
  const char* const text = static_cast<const char*>(maybe(const_cast<char*>(name.c_str())));
  size_t n = 0, k = 0;
  switch (random_.below(5)) {
    case 0: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      return kvc_manager_register_prompt(
          m_, text, PROMPT(random_.chance(80) ? 0 : any(namespaces_), prompt, n, spans, k), id_out());
    }
    case 1:
    case 2: {
      const int32_t* const more = tokens(&n);
      const kvc_status status =
          kvc_manager_allocate_from_prompt(m_, text, more, n, config(), id_out(), &number_);
      if (status == KVC_OK) learn(live_, id_);
      return status;
    }
    case 3:
      return kvc_manager_unregister_prompt(m_, text);
    default: {
      char room[kRoom];
      return kvc_manager_list_prompts(m_, room, random_.chance(90) ? kRoom : random_.below(8), count_out());
    }
  }
}

// A step of few items; a refused item leaves the state alone, so a step of refused items changes nothing but
// its number, whose retirement follows at once.
kvc_status Abuser::call_step() {
  kvc_step step = {};
  step.struct_size = random_.chance(97) ? sizeof step : random_.below(6000) / 8 * 8;
  if (step.struct_size > sizeof step) step.struct_size = 8;
  uint64_t frees[2] = {any(live_), any(live_)}, requests[2] = {any(live_), any(live_)},
           committed[2] = {number(), 0};
  uint64_t lengths[2] = {number(), number()}, offsets[3] = {0, random_.below(3), 3}, made[2] = {},
           cached[2] = {};
  uint64_t admits[2] = {any(live_), 0}, admit_offsets[3] = {0, random_.below(5), 8};
  int32_t prompt[8] = {1, 1, 2, 2, 1, 1, 2, random_.chance(95) ? 2 : -1}, rows[4] = {0, 1, 2, 3};
  kvc_status status[16] = {};
  if (random_.chance(5)) offsets[1] = random_.next();
  if (random_.chance(5)) admit_offsets[random_.below(3)] = random_.next();
  if (random_.chance(5)) rows[random_.below(4)] = static_cast<int32_t>(random_.next());
  step.fill_id = -1, step.flags = static_cast<uint32_t>(random_.below(random_.chance(98) ? 4 : 64));
  step.num_frees = random_.below(3), step.num_preempts = random_.below(2),
  step.num_truncates = random_.below(2);
  step.num_requests = random_.below(3), step.num_admissions = random_.below(3);
  if (random_.chance(2)) step.num_requests = SIZE_MAX >> random_.below(32);
  step.frees = frees, step.preempts = frees + 1, step.truncates = requests + 1,
  step.truncate_lengths = lengths;
  step.requests = requests, step.committed = random_.chance(50) ? committed : nullptr;
  step.extend_offsets = random_.chance(70) ? offsets : nullptr, step.extend_tokens = prompt;
  step.admit_requests = random_.chance(50) ? admits : nullptr, step.admit_offsets = admit_offsets;
  step.admit_tokens = prompt, step.status = status, step.admitted = made, step.cached = cached;
  step.block_tables = random_.chance(70) ? blocks_ : nullptr, step.num_rows = 4, step.row_stride = kRoom / 8;
  step.rows = rows, step.slots = random_.chance(70) ? slots_ : nullptr, step.slot_capacity = kRoom / 2;
  step.copies = copies_, step.copy_capacity = random_.chance(95) ? kRoom : 0;
  step.now_ns = random_.chance(80) ? 0 : random_.chance(80) ? time_ : time_ - 1;
  step.retired_step = random_.chance(95) ? 0 : random_.next();
  const kvc_status whole = kvc_manager_step(m_, static_cast<kvc_step*>(maybe(&step)));
  if (whole != KVC_OK) return whole;
  for (size_t i = 0; i < step.num_admissions; ++i)
    if (made[i] != 0) learn(live_, made[i]);
  EXPECT_EQ(kvc_manager_retire_step(m_, step.step_id), KVC_OK) << kvc_last_error();
  return KVC_OK;
}

}  // namespace kvc::test
