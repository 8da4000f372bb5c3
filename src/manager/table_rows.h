// SPDX-License-Identifier: Apache-2.0
// The rows of the block tables that steps keep up to date, and the slots of tokens.
#pragma once
#include "manager/shape.h"
#include "request/request.h"

namespace kvc {

struct StepPlan;

// Blocks that a request's table of a group has.
inline uint32_t positions_in(const Shape& shape, const Request& request, size_t group) {
  return group < shape.num_token_groups ? request.positions : request.cross_positions;
}
// Slot of a token that has a position, of a cross group the encoder's; -1 if its block was returned.
inline int64_t slot_of(const Shape& shape, const Request& request, GroupIndex group, uint32_t token) {
  const uint32_t position = shape.by_block.divide(token);
  const BlockId block = request.groups[group].blocks.data[position];
  if (!is_block(block)) return -1;
  return int64_t{raw(block)} * shape.block_size + (token - position * shape.block_size);
}

class TableRows {
 public:
  explicit TableRows(const Shape& shape) : shape_(shape) {}
  [[nodiscard]] bool create(Memory& memory) { return owners_.create(memory, shape_.max_requests); }

  // Which request each row shows. A copy of it cannot be changed by the stores of a loop.
  struct Owners {
    const uint64_t* ids;
    size_t size;

    // Whether the row shows this request, as its `synced` fields say. Rows beyond the table are always new.
    bool owns(const Request& request, int32_t row) const {
      return static_cast<size_t>(row) < size && ids[row] == request.id;
    }
  };
  Owners owners() const { return {owners_.data(), owners_.size()}; }
  bool owns(const Request& request, int32_t row) const { return owners().owns(request, row); }
  // The row that the request was in is not kept up to date any more.
  void forget(Request& request) {
    if (owns(request, request.row)) owners_[static_cast<size_t>(request.row)] = 0;
    request.row = -1;
  }
  // Brings the item's row up to date and says how long it is.
  void show(StepPlan& plan, size_t item, Request* request);
  // The usual change of a row, in a plain manager: the request has got one block more.
  void show_last(StepPlan& plan, Request& request, int32_t row);
  // Slots of tokens [first, first + count) of item i; -1 if it failed.
  void write_slots(const StepPlan& plan, size_t i, const Request* request, uint64_t first,
                   uint64_t count) const;

  size_t size() const { return owners_.size(); }
  uint64_t owner(size_t row) const { return owners_[row]; }

 private:
  void sync(StepPlan& plan, Request& request, GroupIndex group, int32_t row, bool whole);

  const Shape& shape_;
  Array<uint64_t> owners_;  // request whose entries a row shows
};

}  // namespace kvc
