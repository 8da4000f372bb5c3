// SPDX-License-Identifier: Apache-2.0
// Replays a trace against the library as a synchronous engine with continuous batching would drive it, and
// measures hits and the time inside library calls.
#pragma once

#include <cstdint>

#include "cli/replay_result.h"
#include "cli/trace.h"

namespace kvcli {

struct ReplayOptions {
  uint64_t num_blocks = 100'000;
  uint32_t block_size = 16;
  uint32_t concurrency = 16;  // Live requests at most.
  bool commit_late = false;      // Prompts are committed after all admissions of a round, not one by one.
  bool maintain_tables = false;  // Each decode step also keeps block tables and writes slots.
  bool verify = false;           // Check every hit and every write with an Oracle.
  bool data = false;             // With verify: its memory is a kvc_storage.
};

/// Throws LibraryError if a call fails, or if the library's statistics contradict the engine's own counts.
ReplayResult replay(const Trace& trace, const ReplayOptions& options);

}  // namespace kvcli
