// SPDX-License-Identifier: Apache-2.0
// C functions about one request, and its tables.
#include "api/guard.h"

using kvc::Manager;

namespace {

kvc_status create(Manager& manager, const kvc::TokenSpan& prompt, const kvc_request_config* config,
                  bool admit, uint64_t* request, uint64_t* num_cached) {
  KVC_REQUIRE_ARRAY(prompt.tokens, prompt.num_tokens);
  KVC_REQUIRE_ARRAY(prompt.keys, prompt.num_keys);
  KVC_REQUIRE_POINTER(request);
  kvc_request_config own;
  const size_t size = config == nullptr ? 0 : config->struct_size;
  if (const kvc_status status = kvc::read_request_config(manager.shape(), config, size, &own);
      status != KVC_OK)
    return status;
  return manager.create_request(prompt, own, admit, request, num_cached);
}

kvc_status check_group(const Manager& manager, uint32_t group) {
  if (group < manager.shape().num_groups) return KVC_OK;
  return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "no group %u of %u", group, manager.shape().num_groups);
}

}  // namespace

extern "C" {

kvc_status kvc_manager_create_request(kvc_manager* m, const int32_t* tokens, size_t num_tokens,
                                      const kvc_extra_key* keys, size_t num_keys,
                                      const kvc_request_config* config, uint64_t* request) {
  return kvc::on_manager(m, [&](Manager& manager) {
    return create(manager, {tokens, num_tokens, keys, num_keys}, config, false, request, nullptr);
  });
}

kvc_status kvc_manager_admit_request(kvc_manager* m, uint64_t request, uint64_t* num_cached) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.admit_request(request, num_cached); });
}

kvc_status kvc_manager_allocate_request(kvc_manager* m, const int32_t* tokens, size_t num_tokens,
                                        const kvc_extra_key* keys, size_t num_keys,
                                        const kvc_request_config* config, uint64_t* request,
                                        uint64_t* num_cached) {
  return kvc::on_manager(m, [&](Manager& manager) {
    return create(manager, {tokens, num_tokens, keys, num_keys}, config, true, request, num_cached);
  });
}

kvc_status kvc_manager_reserve_tokens(kvc_manager* m, uint64_t request, uint64_t capacity) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.reserve_tokens(request, capacity); });
}

kvc_status kvc_manager_append_tokens(kvc_manager* m, uint64_t request, const int32_t* tokens,
                                     size_t num_tokens) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(tokens, num_tokens);
    if (num_tokens > manager.shape().max_request_tokens) {
      return kvc::fail(KVC_ERROR_LIMIT, "%zu tokens are more than max_request_tokens, %llu", num_tokens,
                       static_cast<unsigned long long>(manager.shape().max_request_tokens));
    }
    return manager.append_tokens(request, tokens, num_tokens);
  });
}

kvc_status kvc_manager_commit_tokens(kvc_manager* m, uint64_t request, uint64_t num_committed) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.commit_tokens(request, num_committed); });
}

kvc_status kvc_manager_truncate_request(kvc_manager* m, uint64_t request, uint64_t num_tokens) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.truncate_request(request, num_tokens); });
}

kvc_status kvc_manager_fork_request(kvc_manager* m, uint64_t request, uint64_t* child) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(child);
    return manager.fork_request(request, child);
  });
}

kvc_status kvc_manager_preempt_request(kvc_manager* m, uint64_t request) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.preempt_request(request); });
}

kvc_status kvc_manager_free_request(kvc_manager* m, uint64_t request) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.free_request(request); });
}

kvc_status kvc_manager_request_info(kvc_manager* m, uint64_t request, kvc_request_info* info) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(info);
    if (const kvc_status status = kvc::check_size<kvc_request_info>(info->struct_size, "kvc_request_info");
        status != KVC_OK)
      return status;
    kvc_request_info out = {};
    const kvc_status status = manager.request_info(request, &out);
    if (status == KVC_OK) kvc::write_struct(out, info);
    return status;
  });
}

kvc_status kvc_manager_list_requests(kvc_manager* m, uint64_t* requests, size_t capacity, size_t* count) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(requests, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.list_requests(requests, capacity, count);
  });
}

kvc_status kvc_manager_export_tables(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                     uint32_t group, int32_t fill_id, int32_t* tables, size_t row_stride) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(requests, num_requests);
    if (row_stride != 0) KVC_REQUIRE_ARRAY(tables, num_requests);
    if (const kvc_status status = check_group(manager, group); status != KVC_OK) return status;
    size_t bytes;
    if (!kvc::checked_mul(num_requests, row_stride, &bytes) ||
        !kvc::checked_mul(bytes, sizeof(int32_t), &bytes) || bytes > PTRDIFF_MAX) {
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                       "%zu rows of %zu entries are larger than the address space", num_requests, row_stride);
    }
    return manager.export_tables(requests, num_requests, group, fill_id, tables, row_stride);
  });
}

kvc_status kvc_manager_export_slots(kvc_manager* m, uint64_t request, uint32_t group, uint64_t first_token,
                                    uint64_t num_tokens, void* slots, size_t element_size) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(slots, num_tokens);
    if (const kvc_status status = check_group(manager, group); status != KVC_OK) return status;
    if (element_size != 4 && element_size != 8) {
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "element_size is %zu; 4 (int32) or 8 (int64)",
                       element_size);
    }
    return manager.export_slots(request, group, first_token, num_tokens, slots, element_size);
  });
}

kvc_status kvc_manager_take_copies(kvc_manager* m, kvc_block_copy* copies, size_t capacity, size_t* count) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(copies, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.take_copies(copies, capacity, count);
  });
}

kvc_status kvc_manager_take_zero_blocks(kvc_manager* m, int32_t* blocks, size_t capacity, size_t* count) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(blocks, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.take_zero_blocks(blocks, capacity, count);
  });
}

}  // extern "C"
