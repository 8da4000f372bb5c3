// SPDX-License-Identifier: Apache-2.0
// What saving, compacting and describing have in common.
#pragma once
#include <kvcache/plugin.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

namespace kvc {

// Compresses and decompresses pages; with the empty name it has no table.
struct Codec {
  const kvc_codec* table = nullptr;
  std::string name;
};
kvc_status open_codec(const std::string& name, Codec* out);
class DataWriter;
// Writes a page, compressed if that makes it shorter.
kvc_status add_page(DataWriter* writer, const Codec& codec, int32_t level, const char* bytes, uint64_t size,
                    Manifest::Page* page);

// Gives the manifest its name: the moment at which the checkpoint is there. Then removes what is not kept:
// checkpoints in `gone`, those that keep_last leaves out, and files that nobody needs.
kvc_status commit_checkpoint(CheckpointFolder& folder, const Manifest& manifest,
                             const CheckpointOptions& options, const std::vector<uint64_t>& gone,
                             kvc_checkpoint_info* out);
// Fills in all that follows from a manifest.
void describe(const Manifest& manifest, kvc_checkpoint_info* out);
// Keys of the pages of all entries of the pools, in their order.
std::vector<Digest256> page_keys(const Manifest& manifest);

}  // namespace kvc
