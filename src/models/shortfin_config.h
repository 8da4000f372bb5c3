// SPDX-License-Identifier: Apache-2.0
// Reads the config.json that sharktank exports for Shortfin: a model's shape and its paged KV cache. The text
// is not trusted: the result is within the limits of a manager and a storage, or INVALID_ARGUMENT with a text
// that names the field, its value and the fix. Fields that no cache needs are passed over.
#pragma once
#include <kvcache/model.h>

#include <string_view>
#include <vector>

#include "models/json.h"

namespace kvc {

struct ShortfinConfig {
  kvc_model model;      // without what the file does not tell: query heads, vocabulary, embedding
  uint32_t block_size;  // tokens of a page
  uint64_t num_blocks;  // pages on each device
  int32_t dtype;        // KVC_*
  std::vector<uint32_t> device_layers;  // layers of each device, first to last
};

// Nothing is written on failure. Throws only std::bad_alloc.
kvc_status parse_shortfin_config(std::string_view text, ShortfinConfig* out);

bool is_shortfin_config(const Section& config);
// Throws Section::Refused.
ShortfinConfig read_shortfin_config(const Section& config);

}  // namespace kvc
