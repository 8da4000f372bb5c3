// SPDX-License-Identifier: Apache-2.0
// Channel keys of blocks that are still being stored to. A layer of a block is empty, sealed (its keys are in
// the slab), or open: its keys are bf16 rows in an area here, of which each layer has a fixed number. A store
// that completes a block seals it; one that finds no free area seals the open block that was stored to
// longest ago. The state of a block depends on the calls alone, not on threads. find() and is_open() may run
// beside each other; everything else excludes all other calls.
#pragma once
#include <utility>

#include "base/memory.h"
#include "storage/rows.h"
#include "storage/worker_pool.h"

namespace kvc {

inline constexpr uint32_t kMaxOpenBlocks = 65535;

uint64_t open_key_bytes(const Layout& layout, uint32_t residual_blocks);  // of all areas

class OpenKeys {
 public:
  // Once, for a layout with channel keys. `empty`: nothing is stored yet; else all is sealed.
  [[nodiscard]] bool create(const Layout& layout, char* slab, Memory& memory, uint32_t residual_blocks,
                            size_t num_workers, bool empty);

  // The row of an open block; nullptr: it is not open.
  const uint16_t* find(uint32_t layer, uint64_t block, uint32_t head, uint64_t token) const {
    const uint32_t state = state_[layer * layout_->num_blocks + block];
    return state < kFirstArea ? nullptr : area_row(layer, state - kFirstArea, head) + token * layout_->k_dim;
  }
  bool is_open(uint64_t block) const;  // in any layer

  // Stores the keys of one layer at the slots of `rows`.
  void store(uint32_t layer, const RowArray& from, const kvc_rows& rows, WorkerPool& workers);
  void copy(uint64_t source, uint64_t destination);  // what is not in the slab; before its bytes are copied
  void clear(uint64_t block);                        // empty; the bytes are the caller's
  void seal(uint64_t block);
  void replace(uint64_t block);  // all of it is in the slab; the bytes are the caller's

 private:
  enum State : uint32_t { kEmpty, kSealed, kFirstArea };  // kFirstArea + i: open in area i
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Area {
    uint64_t block;
    uint64_t pass;  // the last one that used it; 0 = free
    uint32_t next,
        prev;  // the layer's areas as a ring from its anchor: free ones, then those used longest ago
  };
  // Tokens of one block that follow each other in a call.
  struct Run {
    uint64_t block;
    size_t begin, end;  // tokens of the call
    uint32_t area;      // kNone: all tokens in order, sealed without one
    bool complete;
  };

  uint32_t& state(uint32_t layer, uint64_t block) { return state_[layer * layout_->num_blocks + block]; }
  Area& area(uint32_t layer, uint32_t i) { return areas_[size_t{layer} * (open_blocks_ + 1) + i]; }
  uint64_t* stored(uint32_t layer, uint32_t i) {
    return stored_.data() + (size_t{layer} * open_blocks_ + i) * words_;
  }
  size_t head_elements() const { return size_t{layout_->block_size} * layout_->k_dim; }
  const uint16_t* area_row(uint32_t layer, uint32_t i, uint32_t head) const {
    return rows_.data() + ((size_t{layer} * open_blocks_ + i) * layout_->num_heads + head) * head_elements();
  }
  uint16_t* area_row(uint32_t layer, uint32_t i, uint32_t head) {
    return const_cast<uint16_t*>(std::as_const(*this).area_row(layer, i, head));
  }

  void place(uint32_t layer, uint32_t i, uint32_t after);  // in the ring
  // kNone: this pass uses all of them, or none is free and none may be taken from another block.
  uint32_t acquire(uint32_t layer, uint64_t block, bool may_seal);
  void release(uint32_t layer, uint64_t block, State to);
  void open(uint32_t layer, uint64_t block, uint32_t i, uint64_t first_token);
  bool plan(uint32_t layer, const kvc_rows& rows, bool may_seal, Run* run);
  void write(uint32_t layer, const Run& run, uint32_t head, const RowArray& from, const kvc_rows& rows,
             float* scratch);
  void seal_head(uint32_t layer, uint64_t block, uint32_t head, float* scratch);
  void seal_layer(uint32_t layer, uint64_t block);

  const Layout* layout_ = nullptr;
  char* slab_ = nullptr;
  uint32_t open_blocks_ = 0;
  size_t words_ = 0;  // of a block's bits
  uint64_t pass_ = 0;
  Array<uint32_t> state_;  // [layers][blocks]
  Array<Area> areas_;      // [layers][residual_blocks + 1]: the last one is the anchor
  Array<uint64_t>
      stored_;  // [layers][residual_blocks][words]: a bit per token that was stored since it is open
  Array<uint16_t> rows_;  // [layers][residual_blocks][heads][block_size][k_dim] bf16
  Array<float> scratch_;  // [workers][block_size][k_dim]
};

}  // namespace kvc
