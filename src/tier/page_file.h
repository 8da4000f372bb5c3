// SPDX-License-Identifier: Apache-2.0
// Files of tiers, read without a tier.
#pragma once
#include <kvcache/inspect.h>

#include "base/files.h"

namespace kvc {

kvc_status describe_page_file(Files& files, const char* path, bool validate, kvc_page_file_info* out);

}  // namespace kvc
