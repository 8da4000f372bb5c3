// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a manager in a folder. All calls check their input files before anything changes.
#pragma once
#include <kvcache/checkpoint.h>
#include <kvcache/rebuild.h>

#include "base/files.h"
#include "checkpoint/manifest.h"
#include "layout/layout.h"
#include "manager/manager.h"

namespace kvc {

// The memory of a group's blocks; without a slab its blocks have no bytes here.
struct GroupMemory {
  const Layout* layout;
  char* slab;
  uint64_t first_id;  // the block id that its block 0 has
  PageShape shape;
  PagePart part;
  Digest256 fingerprint;

  uint64_t block(int32_t id) const { return static_cast<uint64_t>(id) - first_id; }
};

struct CheckpointOptions {
  const char* folder = nullptr;
  std::string model, weights, numerics;
  std::string codec;  // empty = none
  int32_t level = 0;
  uint32_t flags = 0;  // KVC_CHECKPOINT_*
  uint32_t keep_last = 0;
  uint64_t id = 0;
};

// `out` has what the folder has of it; the callers of the public functions fill in the rest.
kvc_status save_checkpoint(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                           const CheckpointOptions& options, kvc_checkpoint_info* out);

// What that would write; nothing is written.
kvc_status measure_checkpoint(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                              const CheckpointOptions& options, kvc_checkpoint_needs* out);
// As one stream, to a descriptor; from one, which waits in `options.folder` or in memory if it can be read
// once.
kvc_status save_stream(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                       const CheckpointOptions& options, int fd, kvc_checkpoint_info* out);

struct Restored {
  kvc_namespace_pair* namespaces;
  size_t namespace_capacity;
  kvc_request_pair* requests;
  size_t request_capacity;
};
kvc_status restore_checkpoint(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                              const CheckpointOptions& options, const Restored& restored,
                              kvc_checkpoint_info* out);

kvc_status restore_stream(Files& files, Manager& manager, const std::vector<GroupMemory>& groups,
                          const CheckpointOptions& options, int fd, const Restored& restored,
                          kvc_checkpoint_info* out);

kvc_status list_checkpoints(Files& files, const char* folder, std::vector<uint64_t>* ids);
kvc_status describe_checkpoint(Files& files, const char* folder, uint64_t id, bool validate,
                               kvc_checkpoint_info* out);
kvc_status remove_checkpoint(Files& files, const char* folder, uint64_t id);
// Removes all but the newest `keep_last` (0 = none), and all files that no checkpoint needs.
kvc_status collect_checkpoints(Files& files, const char* folder, uint32_t keep_last, uint64_t* removed_bytes);
kvc_status compact_checkpoint(Files& files, const CheckpointOptions& options, kvc_checkpoint_info* out);

}  // namespace kvc
