// SPDX-License-Identifier: Apache-2.0
// C functions of devices, streams and their events; where CPU attention is put into the CPU device.
#include <new>

#include "api/storage_handle.h"
#include "device/cpu_device.h"

using kvc::fail;
using kvc::guarded;

namespace {

const kvc_backend& complete_cpu_backend() {
  static const kvc_backend backend = [] {
    kvc_backend cpu = kvc::cpu_backend();
    kvc::add_cpu_attention(&cpu);
    return cpu;
  }();
  return backend;
}

// Makes a handle for what create(backend, device, &impl) makes.
template <typename Handle, typename Create>
kvc_status make_handle(const char* device, Handle** handle, Create&& create) noexcept {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(handle);
    const kvc_backend* backend;
    uint32_t index;
    if (const kvc_status status = kvc::find_device(device, &backend, &index); status != KVC_OK) return status;
    auto* made = new (std::nothrow) Handle{backend, nullptr};
    if (made == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof(Handle));
    if (const kvc_status status = create(*backend, index, &made->impl); status != KVC_OK) {
      delete made;
      return status;
    }
    *handle = made;
    return KVC_OK;
  });
}

}  // namespace

namespace kvc {

kvc_status find_device(const char* name, const kvc_backend** backend, uint32_t* device) {
  const kvc_backend& cpu = complete_cpu_backend();
  if (name != nullptr && std::strcmp(name, cpu.name) != 0) {
    return fail(KVC_ERROR_NOT_FOUND, "no device \"%.64s\"; this library has \"%s\" alone", name, cpu.name);
  }
  *backend = &cpu;
  *device = 0;
  return KVC_OK;
}

}  // namespace kvc

extern "C" {

kvc_status kvc_device_properties(const char* device, kvc_device_info* info) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(info);
    if (const kvc_status status = kvc::check_size<kvc_device_info>(info->struct_size, "kvc_device_info");
        status != KVC_OK)
      return status;
    const kvc_backend* backend;
    uint32_t index;
    if (const kvc_status status = kvc::find_device(device, &backend, &index); status != KVC_OK) return status;
    kvc_device_info own = {};
    if (const kvc_status status = backend->properties(index, &own); status != KVC_OK) return status;
    kvc::write_struct(own, info);
    return KVC_OK;
  });
}

kvc_status kvc_stream_create(const char* device, kvc_stream** stream) {
  return make_handle(device, stream, [](const kvc_backend& backend, uint32_t index, void** impl) {
    return backend.stream_create(index, impl);
  });
}

void kvc_stream_destroy(kvc_stream* stream) {
  if (stream == nullptr) return;
  stream->backend->stream_destroy(stream->impl);
  delete stream;
}

kvc_status kvc_stream_synchronize(kvc_stream* stream) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(stream);
    return stream->backend->stream_synchronize(stream->impl);
  });
}

kvc_status kvc_stream_wait_event(kvc_stream* stream, kvc_stream_event* event) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(stream);
    KVC_REQUIRE_POINTER(event);
    return stream->backend->stream_wait_event(stream->impl, event->impl);
  });
}

kvc_status kvc_stream_event_create(const char* device, kvc_stream_event** event) {
  return make_handle(device, event, [](const kvc_backend& backend, uint32_t index, void** impl) {
    return backend.event_create(index, impl);
  });
}

void kvc_stream_event_destroy(kvc_stream_event* event) {
  if (event == nullptr) return;
  event->backend->event_destroy(event->impl);
  delete event;
}

kvc_status kvc_stream_event_record(kvc_stream_event* event, kvc_stream* stream) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(event);
    KVC_REQUIRE_POINTER(stream);
    return event->backend->event_record(event->impl, stream->impl);
  });
}

kvc_status kvc_stream_event_query(kvc_stream_event* event, int32_t* done) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(event);
    KVC_REQUIRE_POINTER(done);
    return event->backend->event_query(event->impl, done);
  });
}

kvc_status kvc_stream_event_synchronize(kvc_stream_event* event) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(event);
    return event->backend->event_synchronize(event->impl);
  });
}

}  // extern "C"
