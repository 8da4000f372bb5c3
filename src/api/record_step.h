// SPDX-License-Identifier: Apache-2.0
// A step in a log: inputs that the step uses, and outputs that the caller asked for. The entries of block
// tables are not there: the list of changes says what was written.
#pragma once
#include <kvcache/step.h>

#include "api/record_codecs.h"

namespace kvc::codec {

struct Step {
  static constexpr size_t kParams = 1;

  template <typename Log>
  static void inputs(Log& log, kvc_step*& caller) {
    size_t stride = 0;
    if (!log.sound(caller, &stride)) return;
    kvc_step copy;
    kvc_step* const step = log.hold(caller, &copy);
    if (step == nullptr) return;
    log.number(step->flags), log.number(step->fill_id);
    log.number(step->retired_step), log.number(step->now_ns);
    named(log, step->frees, step->num_frees);
    named(log, step->preempts, step->num_preempts);
    named(log, step->truncates, step->num_truncates);
    log.elements(step->truncate_lengths, step->num_truncates);
    named(log, step->requests, step->num_requests);
    running(log, *step);
    log.number(step->num_admissions);
    admissions(log, *step, stride);
    outputs(log, *step);
  }

  template <typename Log>
  static void results(Log& log, const kvc_step* step) {
    log.result(step->step_id, "step_id");
    const size_t items = step->num_requests + step->num_admissions;
    const size_t all = step->num_frees + step->num_preempts + step->num_truncates + items;
    for (size_t i = 0; i < all; ++i) {
      if (step->status[i] == KVC_ERROR_OUT_OF_MEMORY) log.refuse();
      log.result(step->status[i], "a status of an item");
    }
    for (size_t i = 0; i < step->num_admissions; ++i) {
      log.new_id(step->admitted[i]);
      log.result(step->cached[i], "an entry of cached");
    }
    if (step->num_blocks != nullptr) log.list(step->num_blocks, items * log.shape().num_groups, "num_blocks");
    for (size_t g = 0; step->slots != nullptr && g < log.shape().num_groups; ++g)
      log.list(step->slots + g * step->slot_capacity, step->num_slots, "slots");
    log.result(step->num_copies, "num_copies");
    log.list(step->copies, step->num_copies, "copies");
    log.result(step->num_changes, "num_changes");
    log.list(step->changes, step->num_changes, "changes");
    log.result(step->num_refused, "num_refused");
    log.result(step->shortage_blocks, "shortage_blocks");
  }

 private:
  template <typename Log>
  static void named(Log& log, const uint64_t*& ids, size_t& count) {
    log.number(count);
    log.ids(ids, count);
  }

  template <typename Log>
  static void running(Log& log, kvc_step& step) {
    const uint64_t limit = most_tokens(log.shape());
    if (log.given(step.committed)) log.elements(step.committed, step.num_requests);
    if (log.given(step.commit_offsets))
      log.elements(step.commit_tokens, log.offsets(step.commit_offsets, step.num_requests, limit));
    if (!log.given(step.extend_offsets)) return;
    const uint64_t tokens = log.offsets(step.extend_offsets, step.num_requests, limit);
    if (log.given(step.extend_tokens)) log.elements(step.extend_tokens, tokens);
  }

  template <typename Log>
  static void admissions(Log& log, kvc_step& step, size_t stride) {
    const size_t count = step.num_admissions;
    if (log.given(step.admit_requests)) log.ids(step.admit_requests, count);
    if (log.given(step.admit_slots)) log.elements(step.admit_slots, count);
    if (log.refused()) return;
    const auto creates = [&](size_t i) {
      return step.admit_requests == nullptr || step.admit_requests[i] == 0;
    };
    size_t first = 0;
    while (first < count && !creates(first)) ++first;
    if (first == count) return;
    const uint64_t limit = most_tokens(log.shape());
    log.elements(step.admit_tokens, log.offsets(step.admit_offsets, count, limit));
    if (log.refused()) return;
    if (log.given(step.admit_namespaces)) log.ids(step.admit_namespaces, count);
    if (log.given(step.admit_configs)) {
      log.begin_configs(step.admit_configs, count);
      for (size_t i = 0; i < count && !log.refused(); ++i)
        if (creates(i)) log.configs(step.admit_configs, stride, i);
    }
    if (log.given(step.admit_key_offsets))
      log.elements(step.admit_keys,
                   log.offsets(step.admit_key_offsets, count, limit * KVC_MAX_KEYS_OF_TOKEN));
  }

  template <typename Log>
  static void outputs(Log& log, kvc_step& step) {
    if (log.given(step.block_tables)) {
      log.number(step.num_rows), log.number(step.row_stride);
      if (log.given(step.rows)) log.elements(step.rows, step.num_requests + step.num_admissions);
    }
    log.given(step.num_blocks);
    if (log.given(step.slots)) log.number(step.slot_capacity);
    if (log.given(step.copies)) log.number(step.copy_capacity);
    if (log.given(step.changes)) log.number(step.change_capacity);
    log.room_for_step(step);
  }
};

}  // namespace kvc::codec
