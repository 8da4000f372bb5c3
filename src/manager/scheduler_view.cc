// SPDX-License-Identifier: Apache-2.0
#include "manager/scheduler_view.h"

namespace kvc {

kvc_status SchedulerView::create(const TokenSpan& prompt, const kvc_request_config& config, bool admit_now,
                                 uint64_t* id, uint64_t* num_cached, size_t max_positions, uint64_t step_id,
                                 CopyList* copies) const {
  Request* request = nullptr;
  KVC_TRY(build(prompt, config, &request));
  const Guard guard(monitor_);
  if (admit_now) {
    if (const kvc_status status = requests_.admissions.admit(*request, max_positions, step_id, copies);
        status != KVC_OK) {
      requests_.discard(*request);
      return status;
    }
  }
  requests_.publish(*request);
  if (admit_now) requests_.enqueue(*request, step_id);
  *id = request->id;
  if (num_cached != nullptr) *num_cached = request->num_cached;
  return KVC_OK;
}

kvc_status SchedulerView::build(const TokenSpan& prompt, const kvc_request_config& config,
                                Request** request) const {
  KVC_TRY(check_span(prompt, requests_.shape()));
  {
    const std::lock_guard lock(monitor_.mutex());
    KVC_TRY(requests_.begin(prompt, config, request));
  }
  const kvc_status status = requests_.fill(**request, prompt);  // long
  if (status == KVC_OK) return KVC_OK;
  const Guard guard(monitor_);
  requests_.discard(**request);
  return status;
}

uint64_t SchedulerView::locked_share_of(uint64_t waiting, uint64_t namespace_id) const {
  NamespaceId ns = kNoNamespace;
  if (const Request* request = requests_.peek(waiting); request != nullptr)
    ns = request->ns;
  else if (waiting == 0 && blocks_.namespaces().is_open(namespace_id))
    ns = namespace_id == 0 ? 0 : handle_index(namespace_id);
  return uint64_t{1} << blocks_.shares.class_of(ns);
}

kvc_status SchedulerView::admit(uint64_t id, uint64_t* num_cached, size_t max_positions, uint64_t step_id,
                                CopyList* copies, uint64_t slots) const {
  const Guard guard(monitor_);
  Request* request = nullptr;
  KVC_TRY(requests_.find(id, false, &request));
  if (request->admitted) return Requests::already_admitted(id);
  const uint32_t own_slots = request->slots;
  if (slots != 0) request->slots = static_cast<uint32_t>(slots);
  if (const kvc_status status = requests_.admissions.admit(*request, max_positions, step_id, copies);
      status != KVC_OK) {
    request->slots = own_slots;
    return status;
  }
  requests_.enqueue(*request, step_id);
  if (num_cached != nullptr) *num_cached = request->num_cached;
  return KVC_OK;
}

}  // namespace kvc
