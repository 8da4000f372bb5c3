// SPDX-License-Identifier: Apache-2.0
// The handle of a manager, from its creation to its end.
#include "api/create.h"

#include <kvcache/metrics.h>

#include "api/guard.h"
#include "api/recording.h"
#include "api/shape.h"

kvc_manager::kvc_manager(const kvc::Env& from) : account(from), latencies(env, KVC_LATENCY_ADMIT, 2) {
  account.add(sizeof(kvc_manager));
}

namespace kvc {
namespace {

void release_manager(kvc_manager* m) {
  const Env env = m->account.inner();
  m->~kvc_manager();
  env.release(env.allocator_data, m, sizeof(kvc_manager), alignof(kvc_manager));
}

}  // namespace

kvc_status create_manager(const kvc_manager_config* config, Env env, kvc_manager** manager) {
  KVC_REQUIRE_POINTER(config);
  KVC_REQUIRE_POINTER(manager);
  kvc_manager_config own;
  Shape shape;
  KVC_TRY(read_struct(config, &own));
  KVC_TRY(read_allocator(own.allocator, &env));
  ModelGroups by_model;
  if (own.memory != nullptr) KVC_TRY(size_by_memory(&own, &by_model));
  KVC_TRY(read_shape(own, own.memory != nullptr ? by_model.tokens : own.max_request_tokens, &shape));
  shape.near_tokens = env.near_tokens;
  env.touches = (shape.flags & KVC_MANAGER_TOUCH_MEMORY) != 0;
  void* const place = env.allocate(env.allocator_data, sizeof(kvc_manager), alignof(kvc_manager));
  if (place == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a manager");
  auto* handle = new (place) kvc_manager(env);
  if (const kvc_status status = Manager::create(shape, handle->env, &handle->impl); status != KVC_OK) {
    release_manager(handle);
    return status;
  }
  handle->log = own.log, handle->log_user_data = own.log_user_data;
  if (own.record_bytes != 0) {
    if (const kvc_status status = start_recording(handle, own); status != KVC_OK) {
      kvc_manager_destroy(handle);
      return status;
    }
  }
  *manager = handle;
  return KVC_OK;
}

}  // namespace kvc

using namespace kvc;

extern "C" {

kvc_status kvc_manager_create(const kvc_manager_config* config, kvc_manager** manager) {
  return guarded([&] { return create_manager(config, default_env(), manager); });
}

void kvc_manager_destroy(kvc_manager* m) {
  if (m == nullptr) return;
  stop_recording(m);
  Manager::destroy(m->impl);
  release_manager(m);
}

}  // extern "C"
