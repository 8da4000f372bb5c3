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

// Whether the pages of a manifest have the keys of their prefixes; those with bytes, by index. `name`: of the
// manifest, for texts.
kvc_status check_keys(const std::string& name, const Manifest& manifest, std::vector<uint32_t>* pages);
// The codecs of the files that have these pages compressed; by file.
kvc_status open_codecs(const std::string& name, const Manifest& manifest, const std::vector<uint32_t>& pages,
                       std::vector<Codec>* out);
// Makes *bytes, those of a compressed page, its `size` plain ones, which are in `room`.
kvc_status decompress(const std::string& name, const Manifest& manifest, uint32_t page, const Codec& codec,
                      uint64_t size, std::vector<char>* room, const char** bytes);

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
