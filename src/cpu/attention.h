// SPDX-License-Identifier: Apache-2.0
// Attention operations of the CPU backend.
#pragma once
#include "backend/backend.h"

namespace kvc {

kvc_status cpu_attend(void* storage, const kvc_backend_attention* attention, void* stream);
kvc_status cpu_explain(void* storage, const kvc_backend_attention* attention,
                       kvc_backend_attention_info* info);
kvc_status cpu_key_bounds(void* storage, uint32_t layer, const int32_t* blocks, size_t num_blocks,
                          uint16_t* bounds, void* stream);
kvc_status cpu_select_blocks(void* storage, const kvc_backend_attention* attention,
                             const kvc_backend_selection* selection, void* stream);

}  // namespace kvc
