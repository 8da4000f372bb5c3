// SPDX-License-Identifier: Apache-2.0
// One group's block table of a request, and what its row in the caller's memory already shows. Used
// under the manager's lock.
#pragma once
#include "base/arena.h"
#include "base/ids.h"

namespace kvc {

struct GroupTable {
  Buffer<BlockId> blocks;
  uint32_t dropped;         // positions below this were returned, sinks excepted
  uint32_t synced;          // row entries [0, synced) are right, except those dropped since
  uint32_t synced_dropped;  // `dropped` when the row was last written
  uint32_t shown;           // row entries in use when it was last written

  // Entries that the window has left: [sinks, dropped).
  uint32_t num_dropped(uint32_t sinks) const { return dropped > sinks ? dropped - sinks : 0; }

  // An admission has filled the table; no row shows it yet.
  void begin(uint32_t window_start) {
    dropped = window_start;
    synced = synced_dropped = shown = 0;
  }
  void replace(uint32_t position, BlockId block) {
    blocks.data[position] = block;
    if (synced > position) synced = position;
  }
  // Positions from `kept` on are gone; a window now begins at `window_start` at the latest.
  void cut(uint32_t kept, uint32_t window_start) {
    if (synced > kept) synced = kept;
    if (dropped > window_start) dropped = window_start;
    if (synced_dropped > window_start) synced_dropped = window_start;
  }
  // Whether the row shows a table of so many positions.
  bool in_sync(uint32_t positions) const {
    return synced == positions && shown == positions && synced_dropped == dropped;
  }
  void set_synced(uint32_t positions) {
    synced = shown = positions;
    synced_dropped = dropped;
  }
};

}  // namespace kvc
