// SPDX-License-Identifier: Apache-2.0
// C functions about prefixes and raw blocks.
#include "api/guard.h"

using kvc::Manager;

namespace {

kvc_status check_span(const kvc::TokenSpan& span) {
  KVC_REQUIRE_ARRAY(span.tokens, span.num_tokens);
  KVC_REQUIRE_ARRAY(span.keys, span.num_keys);
  return KVC_OK;
}

kvc_status check_group(const Manager& manager, uint32_t group) {
  if (group < manager.shape().num_groups) return KVC_OK;
  return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "no group %u of %u", group, manager.shape().num_groups);
}

// Runs function(manager, span) on valid tokens.
template <typename Function>
kvc_status on_prefix(kvc_manager* m, const kvc::TokenSpan& span, Function&& function) noexcept {
  return kvc::on_manager(m, [&](Manager& manager) {
    if (const kvc_status status = check_span(span); status != KVC_OK) return status;
    return function(manager, span);
  });
}

}  // namespace

extern "C" {

kvc_status kvc_manager_probe(kvc_manager* m, uint64_t namespace_id, const int32_t* tokens, size_t num_tokens,
                             const kvc_extra_key* keys, size_t num_keys, kvc_probe_info* info) {
  return on_prefix(
      m, {tokens, num_tokens, keys, num_keys}, [&](Manager& manager, const kvc::TokenSpan& span) {
        KVC_REQUIRE_POINTER(info);
        if (const kvc_status status = kvc::check_size<kvc_probe_info>(info->struct_size, "kvc_probe_info");
            status != KVC_OK)
          return status;
        kvc_probe_info out = {};
        const kvc_status status = manager.probe(namespace_id, span, &out);
        if (status == KVC_OK) kvc::write_struct(out, info);
        return status;
      });
}

kvc_status kvc_manager_pin_prefix(kvc_manager* m, uint64_t namespace_id, const int32_t* tokens,
                                  size_t num_tokens, const kvc_extra_key* keys, size_t num_keys,
                                  uint64_t* pin, uint64_t* num_pinned) {
  return on_prefix(m, {tokens, num_tokens, keys, num_keys},
                   [&](Manager& manager, const kvc::TokenSpan& span) {
                     KVC_REQUIRE_POINTER(pin);
                     KVC_REQUIRE_POINTER(num_pinned);
                     return manager.pin_prefix(namespace_id, span, pin, num_pinned);
                   });
}

kvc_status kvc_manager_unpin_prefix(kvc_manager* m, uint64_t pin) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.unpin_prefix(pin); });
}

kvc_status kvc_manager_drop_prefix(kvc_manager* m, uint64_t namespace_id, const int32_t* tokens,
                                   size_t num_tokens, const kvc_extra_key* keys, size_t num_keys,
                                   uint64_t* num_dropped) {
  return on_prefix(m, {tokens, num_tokens, keys, num_keys},
                   [&](Manager& manager, const kvc::TokenSpan& span) {
                     KVC_REQUIRE_POINTER(num_dropped);
                     return manager.drop_prefix(namespace_id, span, num_dropped);
                   });
}

kvc_status kvc_manager_evict_blocks(kvc_manager* m, size_t max_blocks, size_t* num_evicted) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(num_evicted);
    return manager.evict_blocks(max_blocks, num_evicted);
  });
}

kvc_status kvc_manager_acquire_blocks(kvc_manager* m, uint32_t group, int32_t* blocks, size_t num_blocks) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(blocks, num_blocks);
    if (const kvc_status status = check_group(manager, group); status != KVC_OK) return status;
    return manager.acquire_blocks(group, blocks, num_blocks);
  });
}

kvc_status kvc_manager_acquire_prefix(kvc_manager* m, uint64_t namespace_id, uint32_t group,
                                      const int32_t* tokens, size_t num_tokens, const kvc_extra_key* keys,
                                      size_t num_keys, int32_t* blocks, size_t capacity, size_t* count) {
  return on_prefix(m, {tokens, num_tokens, keys, num_keys},
                   [&](Manager& manager, const kvc::TokenSpan& span) {
                     KVC_REQUIRE_ARRAY(blocks, capacity);
                     KVC_REQUIRE_POINTER(count);
                     if (const kvc_status status = check_group(manager, group); status != KVC_OK)
                       return status;
                     return manager.acquire_prefix(namespace_id, group, span, blocks, capacity, count);
                   });
}

kvc_status kvc_manager_publish_blocks(kvc_manager* m, uint64_t namespace_id, uint32_t group,
                                      const int32_t* tokens, size_t num_tokens, const kvc_extra_key* keys,
                                      size_t num_keys, const int32_t* blocks, size_t num_blocks) {
  return on_prefix(m, {tokens, num_tokens, keys, num_keys},
                   [&](Manager& manager, const kvc::TokenSpan& span) {
                     KVC_REQUIRE_MEMORY(blocks, num_blocks);
                     if (const kvc_status status = check_group(manager, group); status != KVC_OK)
                       return status;
                     return manager.publish_blocks(namespace_id, group, span, blocks, num_blocks);
                   });
}

kvc_status kvc_manager_release_blocks(kvc_manager* m, const int32_t* blocks, size_t num_blocks) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_MEMORY(blocks, num_blocks);
    return manager.release_blocks(blocks, num_blocks);
  });
}

kvc_status kvc_manager_unpublish_blocks(kvc_manager* m, const int32_t* blocks, size_t num_blocks,
                                        uint64_t* num_unpublished) {
  return kvc::on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_MEMORY(blocks, num_blocks);
    KVC_REQUIRE_POINTER(num_unpublished);
    return manager.unpublish_blocks(blocks, num_blocks, num_unpublished);
  });
}

}  // extern "C"
