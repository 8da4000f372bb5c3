// SPDX-License-Identifier: Apache-2.0
// Files of tiers, read without a tier: the functions of kvcache/inspect.h.
#pragma once
#include <kvcache/inspect.h>

#include "base/files.h"
#include "base/sha256.h"

namespace kvc {

kvc_status describe_page_file(Files& files, const char* path, bool validate, kvc_page_file_info* out);
kvc_status describe_page_file_part(Files& files, const char* path, uint32_t number, bool validate,
                                   kvc_page_file_info* out);
kvc_status purge_page_file(Files& files, const char* path, const Digest256& fingerprint,
                           kvc_page_file_info* out);

}  // namespace kvc
