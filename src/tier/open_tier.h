// SPDX-License-Identifier: Apache-2.0
// Opens a tier by its URL: kvcache/tier.h has the forms and parameters.
#pragma once
#include "base/files.h"
#include "tier/tier.h"

namespace kvc {

struct TierPages {
  Digest256 fingerprint;
  uint64_t page_bytes;  // the largest page
};

// `options` is the base of what the URL says. INVALID_ARGUMENT names the part of the URL that is wrong; else
// as the store, or as the plug-in.
kvc_status open_tier(const Env& env, Files& files, const char* url, const TierPages& pages,
                     const TierOptions& options, std::unique_ptr<Tier>* out);

}  // namespace kvc
