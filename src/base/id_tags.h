// SPDX-License-Identifier: Apache-2.0
// The tags by which ids name their manager. A tag belongs to one living manager at a time; the next manager
// that gets it begins behind the generations that the last one used. So no id is ever given twice in a
// process, and an id of one manager is never valid in another.
#pragma once
#include <cstdint>

namespace kvc {

struct IdTag {
  uint32_t tag = 0;         // 0 = none was free
  uint32_t generation = 0;  // ids of this manager have higher ones
};

// Tags are given out in turn, so that one comes back as late as possible. Thread-safe.
IdTag take_id_tag();
// `generation`: the highest that an id with this tag has had.
void give_back_id_tag(IdTag last);

}  // namespace kvc
