// SPDX-License-Identifier: Apache-2.0
// `kvcache bench index`: how fast an index of a router takes events and answers, and its memory.
#pragma once

#include <cstdint>
#include <ostream>

namespace kvcli {

struct IndexBenchOptions {
  uint64_t blocks = 1'000'000;
  uint32_t workers = 8;
  uint32_t prompt_workers = 96;      // that have the long prompts
  uint64_t prompt_tokens = 240'000;  // of a long prompt, in blocks of 16
};

/// Returns false if a match was wrong.
bool print_index_bench(const IndexBenchOptions& options, uint32_t seconds, bool as_json, std::ostream& out);

}  // namespace kvcli
