// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_backend.h"

#include <algorithm>
#include <thread>

#include "cpu/attention.h"
#include "cpu/free_memory.h"
#include "cpu/task.h"
#include "storage/host_memory.h"

namespace kvc {
namespace {

Stream& stream_of(void* stream) { return *static_cast<Stream*>(stream); }
Event& event_of(void* event) { return *static_cast<Event*>(event); }

struct MoveRows {
  kvc_backend_rows rows;
  bool store;

  void run(Storage& storage) { store ? storage.store(rows) : storage.gather(rows); }
  template <typename F>
  void for_each_array(F&& array) {
    for_each_host_array(rows, array);
  }
};

// An operation on a list of blocks.
template <typename T, void (Storage::*kOperation)(const T*, size_t)>
struct OnBlocks {
  const T* list;
  size_t count;

  void run(Storage& storage) { (storage.*kOperation)(list, count); }
  template <typename F>
  void for_each_array(F&& array) {
    array(list, count);
  }
};

struct SwapBlocks {
  kvc_backend_swap swap;

  void run(Storage& storage) { storage.swap_blocks(swap); }
  template <typename F>
  void for_each_array(F&& array) {
    array(swap.copies, swap.num_copies);
  }
};

kvc_status check_supported(const kvc_backend_rows& rows) {
  if (rows.on_device == 0) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED, "KVC_ROWS_ON_DEVICE with the cpu; leave it out");
}

kvc_status move_rows(void* storage, const kvc_backend_rows* rows, void* stream, bool store) {
  KVC_TRY(check_supported(*rows));
  return launch(storage_of(storage), MoveRows{*rows, store}, stream);
}

kvc_status properties(uint32_t /*device*/, kvc_backend_device* info) {
  const FreeMemory memory = read_free_memory();
  info->memory_bytes = memory.total;
  info->free_bytes = memory.free;
  info->memory_kinds = kHostMemoryKinds | 1u << KVC_MEMORY_EXTERNAL;
  info->num_processors = std::thread::hardware_concurrency();
  info->dlpack_device = 1;
  info->flags = KVC_DEVICE_READS_HOST;
  return KVC_OK;
}

kvc_status allocate(uint32_t /*device*/, const kvc_backend_allocator* allocator, uint32_t kind,
                    uint64_t bytes, uint32_t alignment, kvc_backend_memory* memory) {
  constexpr uint32_t kPage = 4096;
  return allocate_host_memory(allocator, kind, bytes, std::max(alignment, kPage), memory);
}

kvc_status stream_create(uint32_t /*device*/, void** stream) {
  Stream* made = Stream::create(default_env());
  if (made == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory or no thread for a stream; use fewer of them");
  *stream = made;
  return KVC_OK;
}

void stream_destroy(void* stream) { stream_of(stream).close(); }

kvc_status stream_synchronize(void* stream) {
  stream_of(stream).wait(stream_of(stream).end());
  return KVC_OK;
}

kvc_status stream_wait_event(void* stream, void* event) {
  if (event_of(event).delay(stream_of(stream))) return KVC_OK;
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory in the stream's queue");
}

kvc_status event_create(uint32_t /*device*/, void** event) {
  Event* made = new (std::nothrow) Event;
  if (made == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for an event");
  *event = made;
  return KVC_OK;
}

void event_destroy(void* event) { delete &event_of(event); }

kvc_status event_record(void* event, void* stream) {
  event_of(event).record(stream_of(stream));
  return KVC_OK;
}

kvc_status event_query(void* event, int32_t* done) {
  *done = event_of(event).passed();
  return KVC_OK;
}

kvc_status event_synchronize(void* event) {
  event_of(event).wait();
  return KVC_OK;
}

kvc_status storage_create(uint32_t /*device*/, const kvc_backend_storage* config, void** storage) {
  Env env = default_env();
  if (config->allocator.allocate != nullptr) {
    env.allocator_data = config->allocator.user_data;
    env.allocate = config->allocator.allocate;
    env.release = config->allocator.release;
  }
  Storage* made =
      Storage::create(*config->layout, env, config->memory, config->zeroed != 0, config->num_threads,
                      {config->parallel_for, config->parallel_context}, config->residual_blocks);
  if (made == nullptr) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory or no threads for a storage with %u threads",
                config->num_threads);
  }
  *storage = made;
  return KVC_OK;
}

void storage_wait(void* storage) { storage_of(storage).wait(); }

void storage_destroy(void* storage) { Storage::destroy(static_cast<Storage*>(storage)); }

kvc_status trim(void* storage, uint64_t* device_bytes, uint64_t* host_bytes) {
  *device_bytes = 0;
  *host_bytes = storage_of(storage).trim();
  return KVC_OK;
}

kvc_status store(void* storage, const kvc_backend_rows* rows, void* stream) {
  return move_rows(storage, rows, stream, true);
}

kvc_status gather(void* storage, const kvc_backend_rows* rows, void* stream) {
  return move_rows(storage, rows, stream, false);
}

kvc_status copy_blocks(void* storage, const kvc_block_copy* copies, size_t num_copies, void* stream) {
  return launch(storage_of(storage), OnBlocks<kvc_block_copy, &Storage::copy_blocks>{copies, num_copies},
                stream);
}

kvc_status zero_blocks(void* storage, const int32_t* blocks, size_t num_blocks, void* stream) {
  return launch(storage_of(storage), OnBlocks<int32_t, &Storage::zero_blocks>{blocks, num_blocks}, stream);
}

kvc_status quantize_blocks(void* storage, const int32_t* blocks, size_t num_blocks, void* stream) {
  return launch(storage_of(storage), OnBlocks<int32_t, &Storage::quantize_blocks>{blocks, num_blocks},
                stream);
}

kvc_status swap_blocks(void* storage, const kvc_backend_swap* swap, void* stream) {
  return launch(storage_of(storage), SwapBlocks{*swap}, stream);
}

int32_t is_residual(void* storage, int32_t block) {
  return storage_of(storage).is_residual(static_cast<uint64_t>(block));
}

kvc_status measure(void* storage, const kvc_backend_rows* rows, kvc_backend_errors* keys,
                   kvc_backend_errors* values) {
  KVC_TRY(check_supported(*rows));
  for (kvc_backend_errors* out : {keys, values}) {
    if (out == nullptr) continue;
    QuantMeter meter;
    storage_of(storage).measure(*rows, out == keys, &meter);
    const QuantSums& sums = meter.sums();
    *out = {sums.bytes, sums.elements, sums.finite, sums.signal, sums.noise, sums.max_error};
  }
  return KVC_OK;
}

}  // namespace

const kvc_backend& cpu_backend() {
  static const kvc_backend backend = [] {
    kvc_backend cpu = {};
    cpu.struct_size = sizeof cpu;
    cpu.abi_version = KVC_BACKEND_ABI;
    cpu.num_devices = 1;
    cpu.name = "cpu";
    cpu.remark = cpu.architectures = "";
    cpu.properties = properties;
    cpu.allocate = allocate;
    cpu.stream_create = stream_create;
    cpu.stream_destroy = stream_destroy;
    cpu.stream_synchronize = stream_synchronize;
    cpu.stream_wait_event = stream_wait_event;
    cpu.event_create = event_create;
    cpu.event_destroy = event_destroy;
    cpu.event_record = event_record;
    cpu.event_query = event_query;
    cpu.event_synchronize = event_synchronize;
    cpu.storage_create = storage_create;
    cpu.storage_wait = storage_wait;
    cpu.storage_destroy = storage_destroy;
    cpu.trim = trim;
    cpu.store = store;
    cpu.gather = gather;
    cpu.copy_blocks = copy_blocks;
    cpu.zero_blocks = zero_blocks;
    cpu.quantize_blocks = quantize_blocks;
    cpu.is_residual = is_residual;
    cpu.measure = measure;
    cpu.attend = cpu_attend;
    cpu.explain = cpu_explain;
    cpu.key_bounds = cpu_key_bounds;
    cpu.select_blocks = cpu_select_blocks;
    cpu.swap_blocks = swap_blocks;
    return cpu;
  }();
  return backend;
}

}  // namespace kvc
