// SPDX-License-Identifier: Apache-2.0
#include "backend/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>

#include "backend/devices.h"
#include "backend/error.h"
#include "backend/registered.h"
#include "backend/reserved.h"

namespace kvc::gpu {
namespace {

constexpr uint32_t kAlignment = 256;  // of device memory, at least
constexpr uint32_t kPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

// Releases a piece of memory after the work that may use it.
struct Owner {
  uint32_t device;
  void* base;  // as the runtime gave it
};

void release_device(void* owner, void*, size_t, size_t) {
  const std::unique_ptr<Owner> self(static_cast<Owner*>(owner));
  const OnDevice on(self->device);
  static_cast<void>(runtime::release(self->base));  // which waits
}

void release_pinned(void* owner, void* memory, size_t bytes, size_t) {
  const std::unique_ptr<Owner> self(static_cast<Owner*>(owner));
  const OnDevice on(self->device);
  static_cast<void>(runtime::synchronize_device());
  static_cast<void>(unregister_pieces(self->device, memory, true));
  munmap(memory, bytes);
}

void release_imported(void* owner, void*, size_t, size_t) {
  const std::unique_ptr<Owner> self(static_cast<Owner*>(owner));
  const OnDevice on(self->device);
  static_cast<void>(runtime::synchronize_device());
  static_cast<void>(runtime::close_memory(self->base));
}

bool is_aligned(const void* memory, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(memory) % alignment == 0;
}

kvc_status allocate_device(uint32_t device, bool managed, uint64_t bytes, uint32_t alignment,
                           kvc_backend_memory* out, void** base) {
  const auto allocate = managed ? runtime::allocate_managed : runtime::allocate;
  runtime::Error error = allocate(bytes, base);
  if (error == 0 && !is_aligned(*base, alignment)) {  // more than the runtime promises
    static_cast<void>(runtime::release(*base));
    error = allocate(bytes + alignment, base);
  }
  if (error == 0) {
    const uintptr_t number = reinterpret_cast<uintptr_t>(*base);
    out->data = reinterpret_cast<void*>((number + alignment - 1) / alignment * alignment);
    return KVC_OK;
  }
  uint64_t unused = 0;
  if (!runtime::is_out_of_memory(error) || runtime::free_memory(&unused) != 0)
    return report(error, "an allocation of device memory");
  return refuse(KVC_ERROR_OUT_OF_MEMORY, "%s:%u has no %llu bytes: %llu are free", runtime::kName, device,
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(unused));
}

kvc_status allocate_pinned(uint32_t device, uint64_t bytes, kvc_backend_memory* out, void** base) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return refuse(KVC_ERROR_OUT_OF_MEMORY, "the host has no %llu bytes",
                  static_cast<unsigned long long>(bytes));
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  if (const kvc_status status = register_pieces(device, memory, bytes, true); status != KVC_OK) {
    munmap(memory, bytes);
    return status;
  }
  *base = out->data = memory;
  return KVC_OK;
}

}  // namespace

kvc_status allocate(uint32_t device, const kvc_backend_allocator* allocator, uint32_t kind, uint64_t bytes,
                    uint32_t alignment, kvc_backend_memory* memory) {
  if (kind == KVC_MEMORY_DEFAULT) kind = KVC_MEMORY_DEVICE;
  const bool managed = kind == KVC_MEMORY_MANAGED;
  if (kind != KVC_MEMORY_DEVICE && kind != KVC_MEMORY_PINNED &&
      !(managed && devices().properties[device].managed_memory)) {
    return refuse(KVC_ERROR_UNSUPPORTED,
                  "%s:%u has no memory of kind %u; use KVC_MEMORY_DEVICE or KVC_MEMORY_PINNED",
                  runtime::kName, device, kind);
  }
  if (managed && bytes < KVC_MANAGED_LEAST_BYTES) {
    return refuse(KVC_ERROR_INVALID_ARGUMENT,
                  "%llu bytes of managed memory; at least %d: smaller buffers are better KVC_MEMORY_PINNED",
                  static_cast<unsigned long long>(bytes), KVC_MANAGED_LEAST_BYTES);
  }
  if (allocator != nullptr) {
    return refuse(KVC_ERROR_UNSUPPORTED,
                  "memory of %s does not come from an allocator; leave it out, or give the memory itself",
                  runtime::kName);
  }
  std::unique_ptr<Owner> owner(new (std::nothrow) Owner{device, nullptr});
  if (owner == nullptr) return refuse(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof(Owner));
  const OnDevice on(device);
  KVC_TRY(on.status());
  const bool pinned = kind == KVC_MEMORY_PINNED;
  kvc_backend_memory out = {};
  out.bytes = bytes;
  out.kind = kind;
  out.alignment = pinned ? kPage : std::max(alignment, kAlignment);
  KVC_TRY(pinned ? allocate_pinned(device, bytes, &out, &owner->base)
                 : allocate_device(device, managed, bytes, out.alignment, &out, &owner->base));
  out.owner = {owner.release(), nullptr, pinned ? release_pinned : release_device};
  *memory = out;
  return KVC_OK;
}

kvc_status register_memory(uint32_t device, void* memory, uint64_t bytes) {
  return register_pieces(device, memory, bytes, false);
}

kvc_status unregister_memory(uint32_t device, void* memory) {
  return unregister_pieces(device, memory, false);
}

kvc_status export_memory(uint32_t device, const kvc_backend_memory* memory, kvc_memory_handle* handle) {
  static_assert(runtime::kHandleBytes <= sizeof handle->data);
  if (memory->kind != KVC_MEMORY_DEVICE || memory->owner.release != release_device)
    return refuse(KVC_ERROR_UNSUPPORTED, "only device memory that was allocated here can be exported");
  const OnDevice on(device);
  KVC_TRY(on.status());
  const auto* owner = static_cast<const Owner*>(memory->owner.user_data);
  if (owner->base != memory->data)
    return refuse(KVC_ERROR_UNSUPPORTED, "the memory begins inside another one");
  return check(runtime::export_memory(owner->base, handle->data), "exporting memory");
}

kvc_status import_memory(uint32_t device, const kvc_memory_handle* handle, kvc_backend_memory* memory) {
  std::unique_ptr<Owner> owner(new (std::nothrow) Owner{device, nullptr});
  if (owner == nullptr) return refuse(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", sizeof(Owner));
  const OnDevice on(device);
  KVC_TRY(on.status());
  kvc_backend_memory out = {};
  KVC_TRY(check(runtime::import_memory(handle->data, &out.data), "importing memory"));
  owner->base = out.data;
  out.bytes = handle->bytes;
  out.alignment = kAlignment;
  out.kind = KVC_MEMORY_DEVICE;
  out.owner = {owner.release(), nullptr, release_imported};
  *memory = out;
  return KVC_OK;
}

bool is_known(const void* memory) {
  runtime::Found found;
  return runtime::find_address(memory, &found) == 0 && found.known;
}

bool is_managed(const void* memory) {
  runtime::Found found;
  return runtime::find_address(memory, &found) == 0 && found.managed;
}

kvc_status find_address(uint32_t device, const void* memory, const char* name, void** on_device) {
  *on_device = const_cast<void*>(memory);
  if (memory == nullptr || is_reserved(memory)) return KVC_OK;
  runtime::Found found;
  KVC_TRY(check(runtime::find_address(memory, &found), "looking at an address"));
  // Ordinary host memory may have a device address, but each page would be a fault.
  const bool own = found.known && found.on_device != nullptr;
  if (own) *on_device = found.on_device;
  if (own || devices().properties[device].reads_host_memory) return KVC_OK;
  return refuse(KVC_ERROR_INVALID_ARGUMENT,
                "%s is in host memory that %s:%u does not read; use memory of kvc_device_allocate, or "
                "kvc_device_register",
                name, runtime::kName, device);
}

}  // namespace kvc::gpu
