// SPDX-License-Identifier: Apache-2.0
// config.json files: an input is refused with a text, or the library takes the model that was read.
#include <kvcache.h>

#include "cli/errors.h"
#include "cli/hf_config.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvc_model model;
  try {
    model = kvcli::parse_hf_config(std::string(reinterpret_cast<const char*>(data), size), "input");
  } catch (const kvcli::InputError& error) {
    FUZZ_REQUIRE(error.what()[0] != '\0', "an error without a text");
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
