// SPDX-License-Identifier: Apache-2.0
// A kvc_page_config, read and checked against a storage.
#pragma once
#include <kvcache/page.h>

#include "api/storage_handle.h"
#include "tier/page.h"

namespace kvc {

struct Pages {
  PageShape shape;  // of whole pages
  PagePart part;    // of the storage
  Digest256 fingerprint;
};
// The texts of a config that was read.
kvc_status check_page_config(const kvc_page_config& config);
kvc_status read_pages(const kvc_storage& storage, const kvc_page_config* config, Pages* out);

}  // namespace kvc
