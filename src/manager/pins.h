// SPDX-License-Identifier: Apache-2.0
// Pins: prefixes kept from eviction. A pin remembers the blocks that it holds, per group and position.
#pragma once
#include "manager/matcher.h"

namespace kvc {

struct Pin {
  uint64_t id;  // 0 = entry not in use
  uint32_t generation;
  int32_t next_free;
  uint32_t ns;
  uint32_t length;         // positions
  Buffer<BlockId> blocks;  // [num_groups][length], kNoBlock where none is needed
};

class PinTable {
 public:
  // Ids get the tag and generations above the one given.
  [[nodiscard]] bool create(Memory& memory, size_t max_pins, uint32_t tag, uint32_t generation = 0) {
    if (!pins_.create(memory, max_pins)) return false;
    tag_ = tag;
    for (size_t i = max_pins; i-- > 0;) {
      pins_[i].generation = generation;
      pins_[i].next_free = free_;
      free_ = static_cast<int32_t>(i);
    }
    return true;
  }
  Pin* find(uint64_t id) {
    const uint32_t index = handle_index(id);
    return index < pins_.size() && id != 0 && pins_[index].id == id ? &pins_[index] : nullptr;
  }
  // nullptr if all are in use.
  Pin* take() {
    if (free_ < 0) return nullptr;
    Pin& pin = pins_[static_cast<size_t>(free_)];
    const auto index = static_cast<uint32_t>(free_);
    free_ = pin.next_free;
    pin = Pin{0, pin.generation + 1, -1, 0, 0, {}};
    pin.id = make_handle(tag_, HandleKind::kPin, index, pin.generation);
    return &pin;
  }
  void give_back(Pin& pin) {
    pin.id = 0;
    if (pin.generation == UINT32_MAX) return;  // ids are never reused
    pin.next_free = free_;
    free_ = static_cast<int32_t>(&pin - pins_.data());
  }
  size_t size() const { return pins_.size(); }
  Pin& at(size_t index) { return pins_[index]; }
  const Pin& operator[](size_t index) const { return pins_[index]; }

 private:
  Array<Pin> pins_;
  uint32_t tag_ = 0;
  int32_t free_ = -1;
};

class Pins {
 public:
  Pins(const Shape& shape, Blocks& blocks, Matcher& matcher, Arena& arena)
      : shape_(shape), blocks_(blocks), matcher_(matcher), arena_(arena) {}
  [[nodiscard]] bool create(Memory& memory, IdTag tag) {
    return table_.create(memory, shape_.max_requests, tag.tag, tag.generation);
  }

  const PinTable& table() const { return table_; }
  // Under the manager's lock, as unpin().
  kvc_status pin(LookupScratch& scratch, uint64_t* id, uint64_t* num_pinned);
  kvc_status unpin(uint64_t id);

 private:
  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  Arena& arena_;
  PinTable table_;
};

}  // namespace kvc
