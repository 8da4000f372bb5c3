// SPDX-License-Identifier: Apache-2.0
// C functions about prefixes and external holds.
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include "api/guard.h"
#include "api/recording.h"

using namespace kvc;

namespace {

// Runs function(manager, span) on the tokens of a prompt.
template <typename Function>
kvc_status on_prompt(kvc_manager* m, const kvc_prompt* prompt, Function&& function) noexcept {
  return on_manager(m, [&](Manager& manager) {
    TokenSpan span;
    KVC_TRY(read_prompt(prompt, &span));
    return function(manager, span);
  });
}

}  // namespace

extern "C" {

kvc_status kvc_manager_probe(kvc_manager* m, const kvc_prompt* prompt, kvc_probe_info* info) {
  return on_prompt(m, prompt, [&](Manager& manager, const TokenSpan& span) {
    return answer(info, [&](kvc_probe_info* out) { return manager.probe(span, out); });
  });
}

kvc_status kvc_manager_probe_request(kvc_manager* m, uint64_t request, kvc_probe_info* info) {
  return on_manager(m, [&](Manager& manager) {
    return answer(info, [&](kvc_probe_info* out) { return manager.probe_request(request, out); });
  });
}

kvc_status kvc_manager_lost_reuse(kvc_manager* m, uint32_t group, kvc_lost_reuse* info) {
  return on_manager(m, [&](Manager& manager) {
    KVC_TRY(check_group(manager.shape(), group));
    return answer(info,
                  [&](kvc_lost_reuse* out) { return manager.read(&StateReader::lost_reuse, group, out); });
  });
}

kvc_status kvc_manager_pin_prefix(kvc_manager* m, const kvc_prompt* prompt, uint64_t* pin,
                                  uint64_t* num_pinned) {
  KVC_RECORD(kvc_manager_pin_prefix, m, prompt, pin, num_pinned);
  return on_prompt(m, prompt, [&](Manager& manager, const TokenSpan& span) {
    KVC_REQUIRE_POINTER(pin);
    KVC_REQUIRE_POINTER(num_pinned);
    return manager.look_up(span, [&](const ManagerParts& parts, LookupScratch& scratch) {
      return parts.pins.pin(scratch, pin, num_pinned);
    });
  });
}

kvc_status kvc_manager_unpin_prefix(kvc_manager* m, uint64_t pin) {
  KVC_RECORD(kvc_manager_unpin_prefix, m, pin);
  return on_manager(m, [&](Manager& manager) {
    return manager.change([&](const ManagerParts& parts) { return parts.pins.unpin(pin); });
  });
}

kvc_status kvc_manager_list_pins(kvc_manager* m, uint64_t* pins, size_t capacity, size_t* count) {
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(pins, capacity);
    KVC_REQUIRE_POINTER(count);
    return manager.read(&StateReader::list_pins, pins, capacity, count);
  });
}

kvc_status kvc_manager_drop_prefix(kvc_manager* m, const kvc_prompt* prompt, uint64_t* num_dropped) {
  KVC_RECORD(kvc_manager_drop_prefix, m, prompt, num_dropped);
  return on_prompt(m, prompt, [&](Manager& manager, const TokenSpan& span) {
    KVC_REQUIRE_POINTER(num_dropped);
    return manager.drop_prefix(span, num_dropped);
  });
}

kvc_status kvc_manager_evict_blocks(kvc_manager* m, int32_t pool, uint64_t max_blocks,
                                    uint64_t* num_evicted) {
  KVC_RECORD(kvc_manager_evict_blocks, m, pool, max_blocks, num_evicted);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_POINTER(num_evicted);
    const auto evict = [&](size_t first, size_t end) {
      return manager.change([&](const ManagerParts& parts) {
        *num_evicted = parts.blocks.cached.evict_oldest(first, end, max_blocks);
        return KVC_OK;
      });
    };
    if (pool == -1) return evict(0, manager.shape().num_pools);
    const auto index = static_cast<uint32_t>(pool);
    KVC_TRY(check_pool(manager.shape(), index));
    return evict(index, index + 1);
  });
}

kvc_status kvc_manager_acquire_blocks(kvc_manager* m, uint32_t group, int32_t* blocks, size_t num_blocks) {
  KVC_RECORD(kvc_manager_acquire_blocks, m, group, blocks, num_blocks);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_ARRAY(blocks, num_blocks);
    KVC_TRY(check_group(manager.shape(), group));
    return manager.change(
        [&](const ManagerParts& parts) { return parts.external.acquire(group, blocks, num_blocks); });
  });
}

kvc_status kvc_manager_acquire_prefix(kvc_manager* m, const kvc_prompt* prompt, uint32_t group,
                                      int32_t* blocks, size_t capacity, size_t* count) {
  KVC_RECORD(kvc_manager_acquire_prefix, m, prompt, group, blocks, capacity, count);
  return on_prompt(m, prompt, [&](Manager& manager, const TokenSpan& span) {
    KVC_REQUIRE_ARRAY(blocks, capacity);
    KVC_REQUIRE_POINTER(count);
    KVC_TRY(check_group(manager.shape(), group));
    return manager.look_up(span, [&](const ManagerParts& parts, LookupScratch& scratch) {
      return parts.external.acquire_prefix(scratch, group, blocks, capacity, count);
    });
  });
}

kvc_status kvc_manager_publish_blocks(kvc_manager* m, const kvc_prompt* prompt, uint32_t group,
                                      const int32_t* blocks, size_t num_blocks) {
  KVC_RECORD(kvc_manager_publish_blocks, m, prompt, group, blocks, num_blocks);
  return on_prompt(m, prompt, [&](Manager& manager, const TokenSpan& span) {
    KVC_REQUIRE_MEMORY(blocks, num_blocks);
    KVC_TRY(check_group(manager.shape(), group));
    const uint32_t block_size = manager.shape().block_size;
    if (num_blocks > span.num_tokens / block_size) {
      return invalid("%zu blocks need %zu tokens, only %zu are given", num_blocks, num_blocks * block_size,
                     span.num_tokens);
    }
    return manager.look_up(span, [&](const ManagerParts& parts, LookupScratch& scratch) {
      return parts.external.publish(scratch, group, blocks, num_blocks);
    });
  });
}

kvc_status kvc_manager_release_blocks(kvc_manager* m, const int32_t* blocks, size_t num_blocks) {
  KVC_RECORD(kvc_manager_release_blocks, m, blocks, num_blocks);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_MEMORY(blocks, num_blocks);
    return manager.change(
        [&](const ManagerParts& parts) { return parts.external.release(blocks, num_blocks); });
  });
}

kvc_status kvc_manager_unpublish_blocks(kvc_manager* m, const int32_t* blocks, size_t num_blocks,
                                        uint64_t* num_unpublished) {
  KVC_RECORD(kvc_manager_unpublish_blocks, m, blocks, num_blocks, num_unpublished);
  return on_manager(m, [&](Manager& manager) {
    KVC_REQUIRE_MEMORY(blocks, num_blocks);
    KVC_REQUIRE_POINTER(num_unpublished);
    return manager.change([&](const ManagerParts& parts) {
      return parts.external.unpublish(blocks, num_blocks, num_unpublished);
    });
  });
}

}  // extern "C"
