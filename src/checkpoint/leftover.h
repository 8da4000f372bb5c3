// SPDX-License-Identifier: Apache-2.0
// What a save that was cut short has left: a data file, and beside it a journal of the pages in it
// (<id>.kvcj.part), written page by page as they come to the file. Nothing in either is believed: an entry
// has its own checksum, and a page counts if its bytes have the checksum of its entry. The next save goes on
// behind them.
#pragma once
#include <string>
#include <vector>

#include "checkpoint/folder.h"

namespace kvc {

struct Leftover {
  uint64_t id = 0;     // 0 = nothing is left
  bool named = false;  // the data file has its name already, and no manifest has it
  uint64_t bytes = 0;  // of the data file, in whole blocks; what is behind them is no part of it
  uint32_t crc = 0;    // of these
  std::vector<Manifest::Page> pages;
};

// What pages are of: with equal ones, equal keys are equal bytes. Keys do not say which part of the layers
// and heads a storage has.
Digest256 source_of(const Manifest& manifest);

std::string journal_header(uint64_t id, const std::string& codec, const Digest256& source);
// The entry of a page.
Manifest::Page journal_entry(const Manifest::Page& page);

// Of the save that would be the next one, or was. Nothing if its codec or its source was another one.
Leftover find_leftover(const CheckpointFolder& folder, const std::string& codec, const Digest256& source);

}  // namespace kvc
