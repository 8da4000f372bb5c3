// SPDX-License-Identifier: Apache-2.0
// Configurations of a manager and of storages from the file of another engine.
#include <kvcache/model.h>
#include <kvcache/storage.h>

#include "api/guard.h"
#include "models/shortfin_config.h"

using namespace kvc;

// The fields are in the first versions of both structs.
extern "C" kvc_status kvc_config_from_shortfin(const char* json, size_t size, uint32_t device,
                                               kvc_manager_config* manager, kvc_storage_config* storage,
                                               uint32_t* num_devices) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_MEMORY(json, size);
    if (manager != nullptr) KVC_TRY(check_size<kvc_manager_config>(manager->struct_size));
    if (storage != nullptr) KVC_TRY(check_size<kvc_storage_config>(storage->struct_size));
    ShortfinConfig file;
    KVC_TRY(parse_shortfin_config({json, size}, &file));
    if (device >= file.device_layers.size()) {
      return invalid("device is %u; the file has %zu devices, from 0 on", device, file.device_layers.size());
    }
    if (manager != nullptr) {
      manager->num_blocks = file.num_blocks;
      manager->block_size = file.block_size;
      manager->max_request_tokens = file.model.max_context;
    }
    if (storage != nullptr) {
      storage->num_blocks = file.num_blocks;
      storage->num_layers = file.device_layers[device];
      storage->num_heads = file.model.num_kv_heads;
      storage->head_dim = file.model.head_dim;
      storage->block_size = file.block_size;
      storage->dtype = file.dtype;
      storage->layout = KVC_LAYOUT_BLHNC;
    }
    if (num_devices != nullptr) *num_devices = static_cast<uint32_t>(file.device_layers.size());
    return KVC_OK;
  });
}
