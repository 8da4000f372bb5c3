// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a replayed trace. The keys and values of a position follow from its digest, so that whoever
// restores them can tell whether each byte is right.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "cli/replay.h"
#include "cli/trace.h"

namespace kvcli {

struct CheckpointOptions {
  std::string what;    // One of save, restore, remove, compact.
  std::string folder;  // Of the checkpoints.
  uint64_t id = 0;     // 0 = the newest.
  std::string codec = "none";
  uint32_t keep_last = 0;
  bool full = false;
  uint64_t num_blocks = 0;  // Of the restored manager; 0 = those of the checkpoint.
};

void add_checkpoint_options(CLI::App& command, CheckpointOptions& options);

/// Replays a trace and saves what is cached at its end.
void save_replayed(const Trace& trace, const ReplayOptions& replayed, const CheckpointOptions& options,
                   bool as_json, std::ostream& out);

/// Restores, removes or compacts. Returns false if a restored byte or hit is wrong.
bool run_checkpoint(const CheckpointOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
