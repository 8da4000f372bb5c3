// SPDX-License-Identifier: Apache-2.0
// Objects that need no manager: each behind its own lock, in memory of its own allocator.
#pragma once
#include <mutex>

#include "api/guard.h"
#include "base/memory.h"

namespace kvc {

template <typename T>
struct Locked {
  explicit Locked(const Env& from) : account(from), env(account.env()), memory(env) {}
  Account account;
  const Env env;
  Memory memory;
  std::mutex mutex;
  T impl;
};

template <typename Handle>
void destroy_locked(Handle* handle) {
  if (handle == nullptr) return;
  const Env env = handle->account.inner();
  handle->~Handle();
  env.release(env.allocator_data, handle, sizeof(Handle), alignof(Handle));
}

// create(impl, memory) is false without memory; `fields` says what to set lower then.
template <typename Handle, typename Create>
kvc_status make_locked(const kvc_allocator* allocator, const char* fields, Handle** out, Create&& create) {
  Env env = default_env();
  KVC_TRY(read_allocator(allocator, &env));
  void* place = env.allocate(env.allocator_data, sizeof(Handle), alignof(Handle));
  if (place != nullptr) {
    auto* made = new (place) Handle(env);
    made->account.add(sizeof(Handle));
    if (create(made->impl, made->memory)) {
      *out = made;
      return KVC_OK;
    }
    destroy_locked(made);
  }
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory; set %s lower", fields);
}

// Runs call(impl) under the object's lock.
template <typename Handle, typename Call>
kvc_status on_locked(Handle* handle, const char* name, Call&& call) noexcept {
  if (handle == nullptr) return invalid("the %s is NULL", name);
  return guarded([&] {
    const std::lock_guard lock(handle->mutex);
    return call(handle->impl);
  });
}

}  // namespace kvc
