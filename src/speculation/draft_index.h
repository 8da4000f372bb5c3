// SPDX-License-Identifier: Apache-2.0
// The n-grams of many rows, each a sequence of its own. Not thread-safe.
#pragma once
#include <kvcache/speculation.h>

#include "base/status.h"
#include "speculation/ngrams.h"

namespace kvc {

class DraftIndex {
 public:
  DraftIndex() = default;
  ~DraftIndex();
  DraftIndex(const DraftIndex&) = delete;
  DraftIndex& operator=(const DraftIndex&) = delete;

  // A configuration with defaults; false: no memory.
  [[nodiscard]] bool create(Memory& memory, const kvc_draft_config& config);

  kvc_status append(const int32_t* rows, size_t num_rows, const uint64_t* offsets, const int32_t* tokens);
  kvc_status truncate(int32_t row, uint64_t num_tokens);
  kvc_status propose(const int32_t* rows, size_t num_rows, const uint32_t* max_lengths, uint64_t* offsets,
                     int32_t* tokens, size_t capacity, size_t* count) const;

 private:
  kvc_status check_row(const char* name, size_t i, int32_t row) const;

  Memory* memory_ = nullptr;
  NgramIndex* rows_ = nullptr;
  size_t num_rows_ = 0;
  uint64_t calls_ = 0;
};

}  // namespace kvc
