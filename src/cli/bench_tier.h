// SPDX-License-Identifier: Apache-2.0
// `kvcache bench tier`: puts, gets and exists of a tier, beside what it stands on in the same run.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace kvcli {

struct TierBenchOptions {
  std::string url;
  std::string page_bytes = "2MiB";
  uint64_t pages = 0;    // 0: 1 GiB of them
  uint32_t depth = 0;    // operations in flight of a thread on the raw side; 0: as a slab has
  uint32_t seconds = 5;  // rounds go on until then; 3 at least
};

/// Returns false if a page was wrong, or an item not done. Throws InputError for options that are wrong.
bool print_tier_bench(const TierBenchOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
