// SPDX-License-Identifier: Apache-2.0
#include "storage/host_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/pages.h"
#include "base/status.h"

namespace kvc {
namespace {

constexpr kvc_backend_allocator kSystem = {
    nullptr, [](void*, size_t bytes, size_t alignment) { return allocate_pages(bytes, alignment); },
    [](void*, void* memory, size_t, size_t) { std::free(memory); }};

}  // namespace

kvc_status allocate_host_memory(const kvc_backend_allocator* allocator, uint32_t kind, uint64_t bytes,
                                uint32_t alignment, kvc_backend_memory* memory) {
  if (kind != KVC_MEMORY_DEFAULT && (kind > 31 || (kHostMemoryKinds >> kind & 1) == 0)) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "the cpu device has no memory of kind %u (pinned and device memory need a GPU); use "
                "KVC_MEMORY_HOST or KVC_MEMORY_HOST_HUGE",
                kind);
  }
  if (allocator != nullptr && kind == KVC_MEMORY_HOST_HUGE) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "huge pages cannot be asked for through an allocator; leave memory_kind or allocator out");
  }
  const bool huge = allocator == nullptr &&
                    (kind == KVC_MEMORY_HOST_HUGE || (kind == KVC_MEMORY_DEFAULT && wants_huge_pages(bytes)));
  kvc_backend_memory out = {};
  out.bytes = bytes;
  out.alignment = std::max(alignment, huge ? static_cast<uint32_t>(kHugePage) : 0);
  out.kind = huge ? KVC_MEMORY_HOST_HUGE : KVC_MEMORY_HOST;
  out.owner = allocator != nullptr ? *allocator : kSystem;
  out.data = out.owner.allocate(out.owner.user_data, bytes, out.alignment);
  if (out.data == nullptr) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory of %llu bytes, aligned to %u",
                static_cast<unsigned long long>(bytes), out.alignment);
  }
  if (huge) {
    if (!ask_for_huge_pages(out.data, bytes) && kind == KVC_MEMORY_HOST_HUGE) {
      const int error = errno;
      release_memory(out);
      return fail(KVC_ERROR_UNSUPPORTED, "the system has no huge pages: %s; use KVC_MEMORY_HOST",
                  std::strerror(error));
    }
  }
  *memory = out;
  return KVC_OK;
}

void release_memory(const kvc_backend_memory& memory) {
  if (memory.owner.release == nullptr) return;
  memory.owner.release(memory.owner.user_data, memory.data, memory.bytes, memory.alignment);
}

}  // namespace kvc
