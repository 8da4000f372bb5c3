// SPDX-License-Identifier: Apache-2.0
// C functions about one request, and its tables.
#include <kvcache/metrics.h>

#include "api/guard.h"
#include "api/recording.h"

using namespace kvc;

namespace {

kvc_status create(Manager& manager, const kvc_prompt* prompt, const kvc_request_config* config, bool admit,
                  uint64_t* request, uint64_t* num_cached) {
  TokenSpan span;
  KVC_TRY(read_prompt(prompt, &span));
  KVC_REQUIRE_POINTER(request);
  kvc_request_config own;
  const size_t size = config == nullptr ? 0 : config->struct_size;
  KVC_TRY(read_request_config(manager.shape(), config, size, &own));
  return manager.scheduler_view().create(span, own, admit, request, num_cached);
}

}  // namespace

extern "C" {

kvc_status kvc_manager_create_request(kvc_manager* m, const kvc_prompt* prompt,
                                      const kvc_request_config* config, uint64_t* request) {
  KVC_RECORD(kvc_manager_create_request, m, prompt, config, request);
  return on_manager(
      m, [&](Manager& manager) { return create(manager, prompt, config, false, request, nullptr); });
}

kvc_status kvc_manager_admit_request(kvc_manager* m, uint64_t request, uint64_t* num_cached) {
  KVC_RECORD(kvc_manager_admit_request, m, request, num_cached);
  const Timed timed(latency_of(m, KVC_LATENCY_ADMIT));
  return on_manager(m, [&](Manager& manager) { return manager.scheduler_view().admit(request, num_cached); });
}

kvc_status kvc_manager_admit_batch(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                   uint64_t* cached, kvc_status* statuses) {
  KVC_RECORD(kvc_manager_admit_batch, m, requests, num_requests, cached, statuses);
  const Timed timed(latency_of(m, KVC_LATENCY_ADMIT));
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(requests, num_requests);
    return manager.admit_batch(requests, num_requests, cached, statuses);
  });
}

kvc_status kvc_manager_allocate_request(kvc_manager* m, const kvc_prompt* prompt,
                                        const kvc_request_config* config, uint64_t* request,
                                        uint64_t* num_cached) {
  KVC_RECORD(kvc_manager_allocate_request, m, prompt, config, request, num_cached);
  const Timed timed(latency_of(m, KVC_LATENCY_ADMIT));
  return on_manager(
      m, [&](Manager& manager) { return create(manager, prompt, config, true, request, num_cached); });
}

kvc_status kvc_manager_reserve_tokens(kvc_manager* m, uint64_t request, uint64_t capacity) {
  KVC_RECORD(kvc_manager_reserve_tokens, m, request, capacity);
  return on_manager(m, [&](Manager& manager) {
    return manager.change(request, true, [&](Requests& requests, Request& found) {
      return requests.extend(found, capacity, nullptr);
    });
  });
}

kvc_status kvc_manager_append_tokens(kvc_manager* m, uint64_t request, const int32_t* tokens,
                                     size_t num_tokens) {
  KVC_RECORD(kvc_manager_append_tokens, m, request, tokens, num_tokens);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(tokens, num_tokens);
    if (num_tokens > manager.shape().max_request_tokens) {
      return fail(KVC_ERROR_LIMIT, "%zu tokens are more than max_request_tokens, %llu", num_tokens,
                  ull(manager.shape().max_request_tokens));
    }
    return manager.append_tokens(request, tokens, num_tokens);
  });
}

kvc_status kvc_manager_add_keys(kvc_manager* m, uint64_t request, const kvc_extra_key* keys,
                                size_t num_keys) {
  KVC_RECORD(kvc_manager_add_keys, m, request, keys, num_keys);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(keys, num_keys);
    return manager.change(request, false, [&](Requests& requests, Request& found) {
      return requests.add_keys(found, keys, num_keys);
    });
  });
}

kvc_status kvc_manager_commit_tokens(kvc_manager* m, uint64_t request, uint64_t num_committed) {
  KVC_RECORD(kvc_manager_commit_tokens, m, request, num_committed);
  return on_manager(m, [&](Manager& manager) { return manager.commit_tokens(request, num_committed); });
}

kvc_status kvc_manager_commit_ahead(kvc_manager* m, uint64_t request, uint64_t num_committed,
                                    uint64_t num_computed) {
  KVC_RECORD(kvc_manager_commit_ahead, m, request, num_committed, num_computed);
  return on_manager(m, [&](Manager& manager) {
    return manager.change(request, true, [&](Requests& requests, Request& found) {
      const kvc_status status = requests.commit(found, num_committed, num_computed);
      requests.open_lane(found);
      return status;
    });
  });
}

kvc_status kvc_manager_truncate_request(kvc_manager* m, uint64_t request, uint64_t num_tokens) {
  KVC_RECORD(kvc_manager_truncate_request, m, request, num_tokens);
  return on_manager(m, [&](Manager& manager) {
    return manager.change(request, false, [&](Requests& requests, Request& found) {
      return requests.truncate(found, num_tokens);
    });
  });
}

kvc_status kvc_manager_fork_request(kvc_manager* m, uint64_t request, uint64_t* child) {
  KVC_RECORD(kvc_manager_fork_request, m, request, child);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(child);
    return manager.change(request, true,
                          [&](Requests& requests, Request& found) { return requests.fork(found, child); });
  });
}

kvc_status kvc_manager_preempt_request(kvc_manager* m, uint64_t request) {
  KVC_RECORD(kvc_manager_preempt_request, m, request);
  return on_manager(m, [&](Manager& manager) {
    return manager.change(request, false,
                          [&](Requests& requests, Request& found) { return requests.preempt(found); });
  });
}

kvc_status kvc_manager_free_request(kvc_manager* m, uint64_t request) {
  KVC_RECORD(kvc_manager_free_request, m, request);
  return on_manager(m, [&](Manager& manager) {
    return manager.change(request, false,
                          [&](Requests& requests, Request& found) { return requests.end(found); });
  });
}

kvc_status kvc_manager_request_info(kvc_manager* m, uint64_t request, kvc_request_info* info) {
  return on_manager(m, [&](Manager& manager) {
    return answer(
        info, [&](kvc_request_info* out) { return manager.read(&StateReader::request_info, request, out); });
  });
}

kvc_status kvc_manager_list_requests(kvc_manager* m, uint64_t* requests, size_t capacity, size_t* count) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(requests, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.read(&StateReader::list_requests, requests, capacity, count);
  });
}

kvc_status kvc_manager_export_tables(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                     uint32_t group, int32_t fill_id, int32_t* tables, size_t row_stride) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(requests, num_requests);
    if (row_stride != 0) KVC_REQUIRE_ARRAY(tables, num_requests);
    KVC_TRY(check_group(manager.shape(), group));
    size_t bytes;
    if (!checked_mul(num_requests, row_stride, &bytes) || !checked_mul(bytes, sizeof(int32_t), &bytes) ||
        bytes > PTRDIFF_MAX) {
      return invalid("%zu rows of %zu entries are larger than the address space", num_requests, row_stride);
    }
    return manager.read(&StateReader::export_tables, requests, num_requests, group, fill_id, tables,
                        row_stride);
  });
}

kvc_status kvc_manager_common_prefix(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                     uint32_t group, uint64_t* num_common) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(requests, num_requests);
    KVC_REQUIRE_POINTER(num_common);
    KVC_TRY(check_group(manager.shape(), group));
    return manager.read(&StateReader::common_prefix, requests, num_requests, group, num_common);
  });
}

kvc_status kvc_manager_export_slots(kvc_manager* m, uint64_t request, uint32_t group, uint64_t first_token,
                                    uint64_t num_tokens, void* slots, size_t element_size) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(slots, num_tokens);
    KVC_TRY(check_group(manager.shape(), group));
    if (element_size != 4 && element_size != 8)
      return invalid("element_size is %zu; 4 (int32) or 8 (int64)", element_size);
    return manager.read(&StateReader::export_slots, request, group, first_token, num_tokens, slots,
                        element_size);
  });
}

kvc_status kvc_manager_take_pending(kvc_manager* m, kvc_pending_work* work) {
  KVC_RECORD(kvc_manager_take_pending, m, work);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(work);
    kvc_pending_work own;
    KVC_TRY(read_struct(work, &own));
    KVC_REQUIRE_ARRAY(own.copies, own.copy_capacity);
    KVC_REQUIRE_ARRAY(own.zero_blocks, own.zero_capacity);
    const kvc_status status = manager.take_pending(&own);
    if (status == KVC_OK || status == KVC_ERROR_BUFFER_TOO_SMALL) write_struct(own, work);
    return status;
  });
}

}  // extern "C"
