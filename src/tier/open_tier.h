// SPDX-License-Identifier: Apache-2.0
// Tiers by name:
//
//   memory:?bytes=64GiB
//   slab:/path/of/file?bytes=1TiB&direct=1
//   dir:/path/of/folder?bytes=1TiB
//
// bytes: of all pages, or of the file; a number with KiB, MiB, GiB or TiB, or none of them.
// threads: that do the work, 0 to 256 (memory: 2, else 4). jobs: see TierOptions.max_jobs.
// direct=1: past the page cache. sync=1: a put waits for the disk.
#pragma once
#include "base/files.h"
#include "tier/tier.h"

namespace kvc {

struct TierPages {
  Digest256 fingerprint;
  uint64_t page_bytes;  // the largest page
};

// INVALID_ARGUMENT names the part that is wrong; UNSUPPORTED: there is no such kind of tier; else as the
// store.
kvc_status open_tier(const Env& env, Files& files, const char* url, const TierPages& pages,
                     std::unique_ptr<Tier>* out);

}  // namespace kvc
