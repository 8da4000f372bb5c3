// SPDX-License-Identifier: Apache-2.0
// config.json files: an input is refused with a text, or the library takes the model, and from a file for
// Shortfin the storage, that was read.
#include <kvcache/model.h>

#include <cstring>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  const char* text = reinterpret_cast<const char*>(data);
  kvc_storage_config storage = {};
  storage.struct_size = sizeof storage;
  uint32_t num_devices = 0;
  if (kvc_config_from_shortfin(text, size, 0, nullptr, &storage, &num_devices) == KVC_OK) {
    uint64_t block_bytes = 0;
    storage.num_blocks = 1;
    FUZZ_REQUIRE(kvc_storage_size(&storage, &block_bytes, nullptr) == KVC_OK, kvc_last_error());
    FUZZ_REQUIRE(num_devices != 0 && block_bytes != 0, "an empty storage");
  } else {
    FUZZ_REQUIRE(storage.num_layers == 0 && num_devices == 0, "a failed call wrote");
  }
  const kvc_status status = kvc_model_from_config(text, size, &model);
  if (status != KVC_OK) {
    FUZZ_REQUIRE(status == KVC_ERROR_INVALID_ARGUMENT, kvc_last_error());
    FUZZ_REQUIRE(std::strlen(kvc_last_error()) > 20, "an error without a text");
    FUZZ_REQUIRE(model.num_layers == 0, "a failed call wrote");
    return 0;
  }
  kvc_memory_query query = {};
  query.struct_size = sizeof query;
  query.model = &model;
  query.tokens = 1;
  kvc_memory_estimate estimate = {};
  estimate.struct_size = sizeof estimate;
  FUZZ_REQUIRE(kvc_estimate_memory(&query, &estimate) == KVC_OK, kvc_last_error());
  FUZZ_REQUIRE(
      estimate.num_full_layers + estimate.num_window_layers + estimate.num_state_layers == model.num_layers,
      "layers are missing");
  return 0;
}
