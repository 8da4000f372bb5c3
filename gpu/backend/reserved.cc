// SPDX-License-Identifier: Apache-2.0
#include "backend/reserved.h"

#include <kvcache/device.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "backend/error.h"

namespace kvc::gpu {
namespace {

struct Range {
  uint32_t device;
  char* data;
  uint64_t bytes, chunk;
  std::mutex mutex;
  std::vector<void*> mappings;  // of each chunk; nullptr = there is none
};

struct Ranges {
  std::mutex mutex;
  std::map<const char*, Range*> all;  // by first byte
};
Ranges& ranges() {
  static auto* const all = new Ranges;
  return *all;
}

void release_reserved(void* owner, void*, size_t, size_t) {
  const std::unique_ptr<Range> range(static_cast<Range*>(owner));
  {
    const std::lock_guard lock(ranges().mutex);
    ranges().all.erase(range->data);
  }
  const OnDevice on(range->device);
  static_cast<void>(runtime::synchronize_device());  // kernels of others may work on views of it
  for (size_t i = 0; i < range->mappings.size(); ++i) {
    if (range->mappings[i] != nullptr)
      static_cast<void>(runtime::unmap(range->data + i * range->chunk, range->chunk, range->mappings[i]));
  }
  static_cast<void>(runtime::free_addresses(range->data, range->bytes));
}

}  // namespace

kvc_status reserve_memory(uint32_t device, uint64_t bytes, kvc_backend_memory* memory) {
  const OnDevice on(device);
  KVC_TRY(on.status());
  uint64_t granularity = 0;
  KVC_TRY(check(runtime::map_granularity(&granularity), "asking for the granularity of memory"));
  auto range = std::make_unique<Range>();
  range->device = device;
  range->chunk = (kLeastChunk + granularity - 1) / granularity * granularity;
  range->bytes = (bytes + range->chunk - 1) / range->chunk * range->chunk;
  if (range->bytes < bytes) return refuse(KVC_ERROR_OUT_OF_MEMORY, "more bytes than there are addresses");
  range->mappings.resize(range->bytes / range->chunk);
  void* addresses = nullptr;
  KVC_TRY(check(runtime::reserve(range->bytes, &addresses), "reserving addresses"));
  range->data = static_cast<char*>(addresses);
  try {
    const std::lock_guard lock(ranges().mutex);
    ranges().all.emplace(range->data, range.get());
  } catch (const std::bad_alloc&) {
    static_cast<void>(runtime::free_addresses(addresses, range->bytes));
    throw;
  }
  kvc_backend_memory out = {};
  out.data = addresses;
  out.bytes = bytes;
  out.alignment = 4096;
  out.kind = KVC_MEMORY_DEVICE;
  out.owner = {range.release(), nullptr, release_reserved};
  *memory = out;
  return KVC_OK;
}

kvc_status map_memory(uint32_t device, const kvc_backend_memory* memory, uint64_t offset, uint64_t bytes) {
  if (memory->owner.release != release_reserved)
    return refuse(KVC_ERROR_INVALID_ARGUMENT, "the memory was allocated, not reserved: all of it is there");
  if (bytes == 0) return KVC_OK;
  const OnDevice on(device);
  KVC_TRY(on.status());
  Range& range = *static_cast<Range*>(memory->owner.user_data);
  const std::lock_guard lock(range.mutex);
  const uint64_t first = offset / range.chunk, end = (offset + bytes + range.chunk - 1) / range.chunk;
  std::vector<uint64_t> fresh;
  fresh.reserve(end - first);
  for (uint64_t i = first; i < end; ++i) {
    if (range.mappings[i] != nullptr) continue;
    const runtime::Error error = runtime::map(range.data + i * range.chunk, range.chunk, &range.mappings[i]);
    if (error == 0) {
      fresh.push_back(i);
      continue;
    }
    range.mappings[i] = nullptr;
    for (const uint64_t j : fresh) {
      static_cast<void>(runtime::unmap(range.data + j * range.chunk, range.chunk, range.mappings[j]));
      range.mappings[j] = nullptr;
    }
    return report(error, "mapping memory");
  }
  return KVC_OK;
}

bool is_reserved(const void* memory) {
  const auto* address = static_cast<const char*>(memory);
  const std::lock_guard lock(ranges().mutex);
  auto next = ranges().all.upper_bound(address);
  return next != ranges().all.begin() &&
         static_cast<uint64_t>(address - std::prev(next)->first) < std::prev(next)->second->bytes;
}

}  // namespace kvc::gpu
