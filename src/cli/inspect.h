// SPDX-License-Identifier: Apache-2.0
// `kvcache inspect`: what is in a folder of checkpoints, in one of them, in the folder of a tier, in a slab
// or in a page.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cli/inspect_place.h"

namespace kvcli {

struct InspectOptions {
  std::string path;
  bool validate = false;  // read and check every byte
  PurgeOptions purge;     // if any: instead
};

/// Ids of the checkpoints of a folder.
std::vector<uint64_t> checkpoints_of(const std::string& folder);

/// False if something is damaged. Throws InputError if the path is none of these.
bool print_inspection(const InspectOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
