// SPDX-License-Identifier: Apache-2.0
// The backend table of these devices, and the entry that returns it.
#include "backend/device_storage.h"
#include "backend/devices.h"
#include "backend/memory.h"
#include "backend/reserved.h"
#include "backend/swap.h"
#include "backend/tables.h"

namespace kvc::gpu {
namespace {

DeviceStorage& storage_of(void* storage) { return *static_cast<DeviceStorage*>(storage); }
DeviceStream* stream_of(void* stream) { return static_cast<DeviceStream*>(stream); }
DeviceEvent& event_of(void* event) { return *static_cast<DeviceEvent*>(event); }

kvc_status properties(uint32_t device, kvc_backend_device* info) {
  const OnDevice on(device);
  KVC_TRY(on.status());
  uint64_t unused = 0;
  KVC_TRY(check(runtime::free_memory(&unused), "asking for free memory"));
  const runtime::Properties& found = devices().properties[device];
  info->memory_bytes = found.memory_bytes;
  info->memory_kinds = kMemoryKinds;
  info->num_processors = found.num_processors;
  info->free_bytes = unused;
  info->name = found.name;
  info->architecture = found.architecture;
  info->dlpack_device = runtime::kDlpackDevice;
  const SwapChoice& swaps = swap_choice(device, false);
  info->swap_out_kernel_bytes = swaps.kernel_below(true);
  info->swap_in_kernel_bytes = swaps.kernel_below(false);
  info->flags = (found.reads_host_memory ? uint32_t{KVC_DEVICE_READS_HOST} : 0) |
                (found.managed_memory ? uint32_t{KVC_DEVICE_MANAGED} : 0) |
                (swaps.measured() ? uint32_t{KVC_DEVICE_SWAP_MEASURED} : 0);
  return KVC_OK;
}

kvc_status stream_create(uint32_t device, void** stream) {
  DeviceStream* made;
  KVC_TRY(DeviceStream::create(device, &made));
  *stream = made;
  return KVC_OK;
}

kvc_status stream_adopt(uint32_t device, void* handle, void** stream) {
  DeviceStream* made;
  KVC_TRY(DeviceStream::adopt(device, handle, &made));
  *stream = made;
  return KVC_OK;
}

kvc_status event_create(uint32_t device, void** event) {
  DeviceEvent* made;
  KVC_TRY(DeviceEvent::create(device, &made));
  *event = made;
  return KVC_OK;
}

kvc_status event_query(void* event, int32_t* done) {
  bool reached = false;
  KVC_TRY(event_of(event).query(&reached));
  *done = reached ? 1 : 0;
  return KVC_OK;
}

kvc_status storage_create(uint32_t device, const kvc_backend_storage* config, void** storage) {
  DeviceStorage* made;
  KVC_TRY(DeviceStorage::create(device, *config, &made));
  *storage = made;
  return KVC_OK;
}

kvc_backend make_table() {
  kvc_backend table = {};
  table.struct_size = sizeof table;
  table.abi_version = KVC_BACKEND_ABI;
  table.num_devices = devices().count;
  table.name = runtime::kName;
  table.remark = devices().remark;
  table.architectures = runtime::kArchitectures;
  table.properties = properties;
  table.allocate = allocate;
  table.register_memory = register_memory;
  table.unregister_memory = unregister_memory;
  table.reserve_memory = reserve_memory;
  table.map_memory = map_memory;
  table.export_memory = export_memory;
  table.import_memory = import_memory;
  table.stream_create = stream_create;
  table.stream_adopt = stream_adopt;
  table.stream_handle = [](void* stream) { return stream_of(stream)->handle(); };
  table.stream_destroy = [](void* stream) { stream_of(stream)->close(); };
  table.update_tables = [](void* stream, const kvc_backend_table_update* update) {
    return update_tables(*stream_of(stream), *update);
  };
  table.stream_synchronize = [](void* stream) { return stream_of(stream)->synchronize(); };
  table.stream_wait_event = [](void* stream, void* event) {
    return event_of(event).delay(*stream_of(stream));
  };
  table.event_create = event_create;
  table.event_destroy = [](void* event) { delete &event_of(event); };
  table.event_record = [](void* event, void* stream) { return event_of(event).record(*stream_of(stream)); };
  table.event_query = event_query;
  table.event_synchronize = [](void* event) { return event_of(event).synchronize(); };
  table.storage_create = storage_create;
  table.storage_wait = [](void* storage) { storage_of(storage).wait(); };
  table.storage_destroy = [](void* storage) { DeviceStorage::destroy(&storage_of(storage)); };
  table.trim = [](void* storage, uint64_t* device_bytes, uint64_t* host_bytes) {
    return storage_of(storage).trim(device_bytes, host_bytes);
  };
  table.store = [](void* storage, const kvc_backend_rows* rows, void* stream) {
    return storage_of(storage).move_rows(*rows, true, stream_of(stream));
  };
  table.gather = [](void* storage, const kvc_backend_rows* rows, void* stream) {
    return storage_of(storage).move_rows(*rows, false, stream_of(stream));
  };
  table.copy_blocks = [](void* storage, const kvc_block_copy* copies, size_t num_copies, void* stream) {
    return storage_of(storage).copy_blocks(copies, num_copies, stream_of(stream));
  };
  table.zero_blocks = [](void* storage, const int32_t* blocks, size_t num_blocks, void* stream) {
    return storage_of(storage).zero_blocks(blocks, num_blocks, stream_of(stream));
  };
  // Keys per channel are refused at creation: no block is ever residual.
  table.quantize_blocks = [](void*, const int32_t*, size_t, void*) -> kvc_status { return KVC_OK; };
  table.is_residual = [](void*, int32_t) { return 0; };
  table.measure = [](void* storage, const kvc_backend_rows* rows, kvc_backend_errors* keys,
                     kvc_backend_errors* values) { return storage_of(storage).measure(*rows, keys, values); };
  table.attend = [](void* storage, const kvc_backend_attention* attention, void* stream) {
    return storage_of(storage).attend(*attention, stream_of(stream));
  };
  table.explain = [](void* storage, const kvc_backend_attention* attention,
                     kvc_backend_attention_info* info) {
    return storage_of(storage).explain(*attention, info);
  };
  table.key_bounds = [](void* storage, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                        uint16_t* bounds, void* stream) {
    return storage_of(storage).key_bounds(layer, blocks, num_blocks, bounds, stream_of(stream));
  };
  table.select_blocks = [](void* storage, const kvc_backend_attention* attention,
                           const kvc_backend_selection* selection, void* stream) {
    return storage_of(storage).select_blocks(*attention, *selection, stream_of(stream));
  };
  table.swap_blocks = [](void* storage, const kvc_backend_swap* swap, void* stream) {
    return storage_of(storage).swap_blocks(*swap, stream_of(stream));
  };
  return table;
}

}  // namespace
}  // namespace kvc::gpu

// KVC_BACKEND_ENTRY; the build renames it for backends that are part of the library.
extern "C" [[gnu::visibility("default")]] kvc_status kvc_backend_entry_v1(const kvc_backend_host* host,
                                                                          const kvc_backend** backend) {
  kvc::gpu::set_host(host);
  static const kvc_backend table = kvc::gpu::make_table();
  *backend = &table;
  return KVC_OK;
}
