// SPDX-License-Identifier: Apache-2.0
// What callers give to many functions: indices, prompts, namespaces, allocators and options of requests.
#include "api/guard.h"
#include "manager/cross.h"

namespace kvc {
namespace {

constexpr uint32_t kFillFlags = KVC_REQUEST_PUBLISH_ENQUEUED | KVC_REQUEST_SHARE_FILLING;
constexpr uint32_t kRequestFlags =
    KVC_REQUEST_NO_READ | KVC_REQUEST_NO_WRITE | KVC_REQUEST_FULL_MUST_FIT | KVC_REQUEST_RESUMED | kFillFlags;

}  // namespace

kvc_status check_group(const Shape& shape, GroupIndex group) {
  if (group < shape.num_groups) return KVC_OK;
  return invalid("group %u does not exist; the manager has %u groups, from 0 on", raw(group),
                 shape.num_groups);
}

kvc_status check_pool(const Shape& shape, PoolIndex pool) {
  if (pool < shape.num_pools) return KVC_OK;
  return invalid("pool %d does not exist; the manager has %u pools, from 0 on", static_cast<int32_t>(pool),
                 shape.num_pools);
}

kvc_status check_layer(uint32_t layer, uint32_t num_layers) {
  if (layer < num_layers) return KVC_OK;
  return invalid("layer is %u; the storage has %u layers, from 0 on", layer, num_layers);
}

kvc_status check_headroom(const Shape& shape, uint32_t headroom) {
  if (headroom > KVC_HEADROOM_AGGRESSIVE)
    return invalid("headroom is %u; KVC_HEADROOM_NONE (0) to KVC_HEADROOM_AGGRESSIVE (3)", headroom);
  if (headroom == KVC_HEADROOM_NONE || shape.has_headroom()) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED,
              "headroom is %u; create the manager with KVC_MANAGER_HEADROOM, so that it remembers lengths",
              headroom);
}

kvc_status read_prompt(const kvc_prompt* prompt, TokenSpan* out) {
  KVC_REQUIRE_POINTER(prompt);
  kvc_prompt own;
  KVC_TRY(read_struct(prompt, &own));
  KVC_REQUIRE_ARRAY(own.tokens, own.num_tokens);
  KVC_REQUIRE_ARRAY(own.keys, own.num_keys);
  *out = {own.tokens, own.num_tokens, own.keys, own.num_keys, own.namespace_id};
  return KVC_OK;
}

kvc_status read_namespace_config(const kvc_namespace_config* config, kvc_namespace_config* out) {
  constexpr size_t kMaxPart = 65536;
  KVC_TRY(read_struct(config, out));
  const struct {
    const char* name;
    const void* data;
    size_t size;
  } parts[] = {{"model", out->model, out->model_size},
               {"adapter", out->adapter, out->adapter_size},
               {"tenant", out->tenant, out->tenant_size}};
  for (const auto& part : parts) {
    if (part.size > kMaxPart || (part.data == nullptr && part.size != 0)) {
      return invalid("%s_size is %zu%s; at most %zu bytes", part.name, part.size,
                     part.data == nullptr ? " of NULL" : "", kMaxPart);
    }
  }
  return KVC_OK;
}

kvc_status read_allocator(const kvc_allocator* allocator, Env* env) {
  if (allocator == nullptr) return KVC_OK;
  kvc_allocator own;
  KVC_TRY(read_struct(allocator, &own));
  KVC_REQUIRE_POINTER(own.allocate);
  KVC_REQUIRE_POINTER(own.release);
  env->allocator_data = own.user_data;
  env->allocate = own.allocate;
  env->release = own.release;
  return KVC_OK;
}

kvc_status read_request_config(const Shape& shape, const kvc_request_config* config, size_t struct_size,
                               kvc_request_config* out) {
  *out = kvc_request_config{};
  out->struct_size = sizeof *out;
  if (config == nullptr) return KVC_OK;
  KVC_TRY(read_struct(config, struct_size, out));
  if ((out->flags & ~kRequestFlags) != 0)
    return fail(KVC_ERROR_UNSUPPORTED,
                "request flags %#x are not supported; clear them, or update the library",
                out->flags & ~kRequestFlags);
  if (!shape.has_fills() && ((out->flags & kFillFlags) != 0 || out->wait_until_ns != 0)) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "request flags %#x, wait_until_ns %llu: the manager follows no fills; create it with "
                "KVC_MANAGER_FILLS, or leave them 0",
                out->flags & kFillFlags, ull(out->wait_until_ns));
  }
  if (out->reserved != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_request_config.reserved is %u and must be 0", out->reserved);
  KVC_TRY(check_headroom(shape, out->headroom));
  if (out->cross_tokens != 0 && !shape.has_cross()) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "cross_tokens is %llu; the manager has no cross group: create it with one, or leave it 0",
                ull(out->cross_tokens));
  }
  if (kvc_extra_key key; out->cross_tokens == 0 && cross_key(*out, &key))
    return invalid("cross_digest is set and cross_tokens is 0; set the number of the encoder's tokens");
  const struct {
    const char* name;
    uint64_t value;
  } counts[] = {{"external_tokens", out->external_tokens},
                {"slots", out->slots},
                {"lookahead", out->lookahead},
                {"cross_tokens", out->cross_tokens}};
  for (const auto& count : counts) {
    if (count.value > shape.max_request_tokens) {
      return invalid("%s is %llu; at most max_request_tokens, %llu", count.name, ull(count.value),
                     ull(shape.max_request_tokens));
    }
  }
  return KVC_OK;
}

}  // namespace kvc
