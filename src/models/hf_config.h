// SPDX-License-Identifier: Apache-2.0
// Reads the config.json that Hugging Face keeps beside a model's weights. A file comes from anywhere: the
// answer is a model within the limits of the library, or INVALID_ARGUMENT with a text that names the key, its
// value and the fix. Values that a config leaves out are those of the transformers library where a published
// model relies on them; everything else must be there.
#pragma once
#include <kvcache.h>

#include <string_view>

namespace kvc {

// Nothing is written on failure. Throws std::bad_alloc and nothing else.
kvc_status parse_hf_config(std::string_view text, kvc_model* out);

}  // namespace kvc
