// SPDX-License-Identifier: Apache-2.0
// Reads a Hugging Face config.json. The text is not trusted: the result is a model within the limits of the
// library, or INVALID_ARGUMENT with a text that names the field, its value and the fix. A field that is
// omitted has the default of the transformers library if published models rely on that; else it is required.
#pragma once
#include <kvcache/model.h>

#include <string_view>

namespace kvc {

// Nothing is written on failure. Throws only std::bad_alloc.
kvc_status parse_hf_config(std::string_view text, kvc_model* out);

}  // namespace kvc
