// SPDX-License-Identifier: Apache-2.0
// The one boundary between C and C++: nothing thrown passes it, warnings are delivered after the lock is
// free, and structs that grow are read and written by their struct_size.
#pragma once
#include <cstring>
#include <exception>
#include <new>

#include "api/first_sizes.h"
#include "base/account.h"
#include "base/checked.h"
#include "base/status.h"
#include "manager/manager.h"
#include "observe/latencies.h"

struct kvc_memory_query;
struct kvc_model;

namespace kvc {
class Recorder;
}

struct kvc_manager {
  explicit kvc_manager(const kvc::Env& from);  // api/create.cc

  kvc::Manager* impl = nullptr;
  kvc::Account account;
  const kvc::Env env = account.env();
  kvc::Latencies latencies;
  void (*log)(void* user_data, int32_t level, const char* text) = nullptr;
  void* log_user_data = nullptr;
  kvc::Recorder* recorder = nullptr;  // nullptr: its calls are not recorded
  bool has_scheduler = false;         // changed atomically
};

namespace kvc {

template <typename Function>
kvc_status guarded(Function&& function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory");
  } catch (const std::exception& error) {
    return fail(KVC_ERROR_INTERNAL, "unexpected exception: %s", error.what());
  } catch (...) {
    return fail(KVC_ERROR_INTERNAL, "unexpected exception");
  }
}

// Runs function(manager) and passes a warning on.
template <typename Function>
kvc_status on_manager(kvc_manager* m, Function&& function) noexcept {
  if (m == nullptr) return invalid("the manager is NULL");
  return guarded([&] {
    const kvc_status status = function(*m->impl);
    if (m->log != nullptr) {
      if (const char* text = m->impl->take_warning(); text != nullptr) m->log(m->log_user_data, 1, text);
    }
    return status;
  });
}

// What a latency of an object is recorded in; nullptr: it is not measured.
template <typename Handle>
Histogram* latency_of(const Handle* handle, uint32_t latency) {
  return handle == nullptr ? nullptr : handle->latencies.find(latency);
}

// What the caller calls `own.tokens` or `step->frees`: the name without ours for its struct.
inline const char* public_name(const char* expression) {
  const char* at = expression;
  while ((*at >= 'a' && *at <= 'z') || *at == '_') ++at;
  if (*at == '.') return at + 1;
  return at[0] == '-' && at[1] == '>' ? at + 2 : expression;
}

#define KVC_REQUIRE_POINTER(pointer) \
  if ((pointer) == nullptr) return ::kvc::invalid("%s is NULL", ::kvc::public_name(#pointer))
#define KVC_REQUIRE_ARRAY(pointer, count)                                           \
  if ((pointer) == nullptr && (count) != 0)                                         \
  return ::kvc::invalid("%s is NULL and %s is not 0", ::kvc::public_name(#pointer), \
                        ::kvc::public_name(#count))

// The same for arrays whose length nothing else bounds: a length that no memory has is refused before
// anything is read. Give products of lengths by `product`; the text then names the array alone.
#define KVC_REQUIRE_MEMORY(pointer, count) \
  KVC_TRY(::kvc::check_memory(pointer, count, ::kvc::element_size(pointer), #pointer, #count))

inline kvc_status check_memory(const void* pointer, size_t count, size_t unit, const char* name,
                               const char* length) {
  const bool is_product = std::strchr(length, '(') != nullptr;
  if (pointer == nullptr && count != 0) {
    return is_product ? invalid("%s is NULL and its lengths are not 0", public_name(name))
                      : invalid("%s is NULL and %s is not 0", public_name(name), public_name(length));
  }
  if (count <= PTRDIFF_MAX / unit) return KVC_OK;
  return is_product ? invalid("%s: its lengths give more elements than memory can have", public_name(name))
                    : invalid("%s: more elements than memory can have", public_name(length));
}

template <typename T>
constexpr size_t element_size(const T*) {
  return sizeof(T);
}
inline size_t element_size(const void*) { return 1; }

// SIZE_MAX if it overflows.
inline size_t product(size_t a, size_t b) {
  size_t out;
  return checked_mul(a, b, &out) ? out : SIZE_MAX;
}

inline constexpr size_t kLargestStruct = 4096;

// The name of a caller's struct, and its size in the version that brought it: what every caller has at least.
template <typename T>
kvc_status check_size(size_t struct_size) {
  static_assert(kFirstSize<T> != 0, "a struct that is missing in first_sizes.h");
  static_assert(sizeof(T) >= kFirstSize<T>);
  if (struct_size < kFirstSize<T> || struct_size > kLargestStruct) {
    return invalid("%s.struct_size is %zu; set it to sizeof(%s), %zu here", kStructName<T>, struct_size,
                   kStructName<T>, sizeof(T));
  }
  return KVC_OK;
}

// Reads a caller's struct: what it does not have is 0; what we do not know must be 0.
template <typename T>
kvc_status read_struct(const void* from, size_t struct_size, T* out) {
  KVC_TRY(check_size<T>(struct_size));
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < struct_size; ++i) {
    if (bytes[i] != 0) {
      return fail(
          KVC_ERROR_UNSUPPORTED,
          "%s has a field at byte %zu that this library does not know; set it to 0 or update the library",
          kStructName<T>, i);
    }
  }
  *out = T{};
  std::memcpy(out, from, struct_size < sizeof(T) ? struct_size : sizeof(T));
  out->struct_size = sizeof(T);
  return KVC_OK;
}

template <typename T>
kvc_status read_struct(const T* from, T* out) {
  return read_struct(from, from->struct_size, out);
}

// Writes what the caller's struct has room for and zeroes the rest of it. struct_size was checked and stays.
template <typename T>
void write_struct(const T& from, T* to) {
  const size_t size = to->struct_size;
  constexpr size_t kHead = sizeof(size_t);
  const size_t known = size < sizeof(T) ? size : sizeof(T);
  std::memcpy(reinterpret_cast<char*>(to) + kHead, reinterpret_cast<const char*>(&from) + kHead,
              known - kHead);
  if (size > known) std::memset(reinterpret_cast<char*>(to) + known, 0, size - known);
}

// Answers a question whose answer is a struct: fill(&out) completes a zeroed one.
template <typename T, typename Function>
kvc_status answer(T* to, Function&& fill) {
  if (to == nullptr) return invalid("the %s is NULL", kStructName<T>);
  KVC_TRY(check_size<T>(to->struct_size));
  T out = {};
  KVC_TRY(fill(&out));
  write_struct(out, to);
  return KVC_OK;
}

// api/arguments.cc
kvc_status check_group(const Shape& shape, GroupIndex group);
kvc_status check_pool(const Shape& shape, PoolIndex pool);
kvc_status check_layer(uint32_t layer, uint32_t num_layers);  // of a storage
// KVC_HEADROOM_*, which the manager must support.
kvc_status check_headroom(const Shape& shape, uint32_t headroom);
kvc_status read_prompt(const kvc_prompt* prompt, TokenSpan* out);
kvc_status read_namespace_config(const kvc_namespace_config* config, kvc_namespace_config* out);
kvc_status read_allocator(const kvc_allocator* allocator, Env* env);  // NULL leaves *env as it is
kvc_status read_request_config(const Shape& shape, const kvc_request_config* config, size_t struct_size,
                               kvc_request_config* out);

// api/models_api.cc: with memory_fraction turned into budget_bytes
kvc_status read_memory_query(const kvc_memory_query* query, kvc_memory_query* out, kvc_model* model);

}  // namespace kvc
