// SPDX-License-Identifier: Apache-2.0
// The place of a tier on a disk, a folder of pages or a slab: what is in it by fingerprint, age and bytes,
// and how pages leave it. Pages of a folder may leave while tiers use it, those of a slab while no tier has
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kvcli {

struct PurgeOptions {
  std::optional<std::string> fingerprint;  // of its pages: all digits, or the first 8 or more
  std::optional<std::string> older_than;   // not used for so long: 30m, 12h, 7d
  bool any() const { return fingerprint || older_than; }
};

/// Whether a folder is the place of a tier: it has the file that counts its bytes.
bool is_tier_folder(const std::filesystem::path& folder);
/// Its fingerprints, with pages, bytes, and ages in seconds since the last use.
nlohmann::ordered_json tier_folder_json(const std::filesystem::path& folder, bool validate);
/// The fingerprints of a slab, with pages and bytes.
nlohmann::ordered_json slab_parts_json(const std::filesystem::path& slab, bool validate);
/// Removes pages of a folder or a slab. Says how many pages and bytes have gone. Throws InputError: nothing
/// has this fingerprint, the slab is in use, or an option is wrong.
nlohmann::ordered_json purge_json(const std::filesystem::path& place, const PurgeOptions& options);

}  // namespace kvcli
