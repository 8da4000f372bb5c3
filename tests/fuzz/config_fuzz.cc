// SPDX-License-Identifier: Apache-2.0
// config.json files: an input is refused with a text, or the library takes the model that was read.
#include <kvcache.h>

#include <cstring>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvc_model model = {};
  model.struct_size = sizeof model;
  const kvc_status status = kvc_model_from_config(reinterpret_cast<const char*>(data), size, &model);
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
  FUZZ_REQUIRE(estimate.num_full_layers + estimate.num_window_layers == model.num_layers,
               "layers are missing");
  return 0;
}
