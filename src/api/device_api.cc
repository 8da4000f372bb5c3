// SPDX-License-Identifier: Apache-2.0
// C functions of backends, devices, streams and their events.
#include <kvcache/device.h>
#include <kvcache/step.h>

#include <charconv>
#include <new>
#include <string>

#include "api/storage_handle.h"
#include "backend/backends.h"
#include "cpu/cpu_backend.h"
#include "plugin/libraries.h"

using namespace kvc;

namespace {

// Backend `name` of `length` characters, by the public rules of names.
kvc_status find_backend(const char* name, size_t length, const char* path, OpenBackend* backend) {
  const std::string_view wanted(name, length);
  if (wanted == "cpu") {
    if (path != nullptr) return invalid("the backend \"cpu\" is in no other file");
    *backend = {&cpu_backend(), ""};
    return KVC_OK;
  }
  if (!is_library_name(name, length)) {
    return fail(path == nullptr ? KVC_ERROR_NOT_FOUND : KVC_ERROR_INVALID_ARGUMENT,
                "no backend is called \"%.64s\"; names are like \"cpu\", \"cuda\", \"hip\"", name);
  }
  return open_backend(std::string(wanted).c_str(), path, backend);
}

// Makes a handle for what create(backend, device, &impl) makes.
template <typename Handle, typename Create>
kvc_status make_handle(const char* device, Handle** handle, Create&& create) noexcept {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(handle);
    const kvc_backend* backend;
    uint32_t index;
    KVC_TRY(find_device(device, &backend, &index));
    auto* made = new (std::nothrow) Handle{backend, nullptr, index};
    if (made == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof(Handle));
    if (const kvc_status status = create(*backend, index, &made->impl); status != KVC_OK) {
      delete made;
      return status;
    }
    *handle = made;
    return KVC_OK;
  });
}

kvc_status check_same_device(const kvc_stream& stream, const kvc_stream_event& event) {
  if (stream.backend == event.backend && stream.device == event.device) return KVC_OK;
  return invalid("an event of %s:%u with a stream of %s:%u", event.backend->name, event.device,
                 stream.backend->name, stream.device);
}

}  // namespace

namespace kvc {

kvc_status find_device(const char* name, const kvc_backend** backend, uint32_t* device) {
  if (name == nullptr) name = "cpu";
  const size_t length = std::strcspn(name, ":");
  uint32_t index = 0;
  if (const char* number = name + length; *number == ':') {
    const char* const end = number + std::strlen(number);
    const auto [stop, error] = std::from_chars(number + 1, end, index);
    if (error != std::errc() || stop != end || stop - number > 4)
      return fail(KVC_ERROR_NOT_FOUND, "no device \"%.64s\"; names are like \"cpu\", \"cuda\", \"cuda:1\"",
                  name);
  }
  OpenBackend open;
  KVC_TRY(find_backend(name, length, nullptr, &open));
  if (index >= open.table->num_devices) {
    return fail(KVC_ERROR_NOT_FOUND, "no device \"%.64s\": backend \"%s\" has %u%s%s", name, open.table->name,
                open.table->num_devices, *open.table->remark != '\0' ? ": " : "", open.table->remark);
  }
  *backend = open.table;
  *device = index;
  return KVC_OK;
}

}  // namespace kvc

extern "C" {

kvc_status kvc_backend_open(const char* name, const char* path) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(name);
    OpenBackend backend;
    return find_backend(name, std::strlen(name), path, &backend);
  });
}

kvc_status kvc_backend_properties(const char* name, kvc_backend_info* info) {
  return guarded([&] {
    return answer(info, [&](kvc_backend_info* out) -> kvc_status {
      if (name == nullptr) name = "cpu";
      OpenBackend backend;
      KVC_TRY(find_backend(name, std::strlen(name), nullptr, &backend));
      const kvc_backend& table = *backend.table;
      *out = {sizeof *out, backend.path, table.architectures, table.remark, table.num_devices, 0};
      return KVC_OK;
    });
  });
}

kvc_status kvc_device_read_info(const char* device, kvc_device_info* info) {
  return guarded([&] {
    return answer(info, [&](kvc_device_info* out) -> kvc_status {
      const kvc_backend* backend;
      uint32_t index;
      KVC_TRY(find_device(device, &backend, &index));
      kvc_backend_device d = {};
      d.name = d.architecture = "";
      KVC_TRY(backend->properties(index, &d));
      *out = {sizeof *out,
              d.memory_bytes,
              d.memory_kinds,
              d.num_processors,
              d.free_bytes,
              d.name,
              d.architecture,
              d.dlpack_device,
              d.flags,
              d.swap_out_kernel_bytes,
              d.swap_in_kernel_bytes};
      return KVC_OK;
    });
  });
}

kvc_status kvc_stream_create(const char* device, kvc_stream** stream) {
  return make_handle(device, stream, [](const kvc_backend& backend, uint32_t index, void** impl) {
    return backend.stream_create(index, impl);
  });
}

kvc_status kvc_stream_adopt(const char* device, void* handle, uint32_t flags, kvc_stream** stream) {
  return make_handle(device, stream,
                     [&](const kvc_backend& backend, uint32_t index, void** impl) -> kvc_status {
                       if ((flags & ~uint32_t{KVC_STREAM_LEGACY}) != 0)
                         return fail(KVC_ERROR_UNSUPPORTED, "stream flags %#x are not supported",
                                     flags & ~uint32_t{KVC_STREAM_LEGACY});
                       if ((handle == nullptr) != ((flags & KVC_STREAM_LEGACY) != 0)) {
                         return invalid(
                             "handle is %sNULL: KVC_STREAM_LEGACY with NULL is the default stream, "
                             "any other stream has a handle",
                             handle == nullptr ? "" : "not ");
                       }
                       if (backend.stream_adopt == nullptr)
                         return fail(KVC_ERROR_UNSUPPORTED,
                                     "%s has streams of its own alone; use kvc_stream_create", backend.name);
                       return backend.stream_adopt(index, handle, impl);
                     });
}

kvc_status kvc_stream_handle(kvc_stream* stream, void** handle) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(stream);
    KVC_REQUIRE_POINTER(handle);
    if (stream->backend->stream_handle == nullptr)
      return fail(KVC_ERROR_UNSUPPORTED, "streams of %s belong to no runtime", stream->backend->name);
    *handle = stream->backend->stream_handle(stream->impl);
    return KVC_OK;
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
    KVC_TRY(check_same_device(*stream, *event));
    return stream->backend->stream_wait_event(stream->impl, event->impl);
  });
}

kvc_status kvc_stream_update_tables(kvc_stream* stream, const kvc_table_update* update) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(stream);
    KVC_REQUIRE_POINTER(update);
    kvc_table_update own;
    KVC_TRY(read_struct(update, &own));
    if (stream->backend->update_tables == nullptr)
      return fail(KVC_ERROR_UNSUPPORTED, "kernels of %s read the tables that kvc_manager_step writes",
                  stream->backend->name);
    KVC_REQUIRE_ARRAY(own.uploads, own.num_uploads);
    KVC_REQUIRE_ARRAY(own.changes, own.num_changes);
    KVC_REQUIRE_ARRAY(own.tables, own.num_changes + own.num_slots + own.num_rows);
    KVC_REQUIRE_ARRAY(own.positions, own.num_slots);
    KVC_REQUIRE_ARRAY(own.slots, own.num_slots);
    KVC_REQUIRE_ARRAY(own.lengths, own.num_rows);
    KVC_REQUIRE_ARRAY(own.csr_offsets, own.num_rows);
    KVC_REQUIRE_ARRAY(own.csr_blocks, own.num_rows);
    if (own.num_uploads > KVC_BACKEND_MAX_UPLOADS)
      return invalid("%zu uploads; at most %u", own.num_uploads, KVC_BACKEND_MAX_UPLOADS);
    for (size_t i = 0; i < own.num_uploads; ++i) {
      KVC_REQUIRE_ARRAY(own.uploads[i].from, own.uploads[i].bytes);
      KVC_REQUIRE_ARRAY(own.uploads[i].to, own.uploads[i].bytes);
    }
    for (size_t i = 0; i < own.num_changes; ++i) {
      const kvc_table_change& change = own.changes[i];
      if (change.group >= 0 && change.row >= 0 && change.column >= 0 &&
          static_cast<uint64_t>(change.column) < own.row_stride)
        continue;
      return invalid("changes[%zu]: group %d, row %d, column %d of %llu", i, change.group, change.row,
                     change.column, ull(own.row_stride));
    }
    if (own.num_slots + own.num_rows != 0 && (own.block_size == 0 || own.block_size > 1024))
      return invalid("block_size is %u; 1 .. 1024", own.block_size);
    const kvc_backend_table_update call = {
        own.uploads,      own.num_uploads, own.changes,      own.num_changes, own.tables,
        own.group_stride, own.row_stride,  own.positions_of, own.positions,   own.slots,
        own.num_slots,    own.lengths,     own.csr_offsets,  own.csr_blocks,  own.csr_last_tokens,
        own.num_rows,     own.block_size};
    return stream->backend->update_tables(stream->impl, &call);
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
    KVC_TRY(check_same_device(*stream, *event));
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
