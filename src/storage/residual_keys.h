// SPDX-License-Identifier: Apache-2.0
// Residual blocks: channel keys that are not quantized yet, since a scale per channel needs all tokens of a
// block. A layer of a block is empty, quantized (its keys are in the slab), or residual: its keys are
// bfloat16 rows in an area here. Each layer has a fixed number of areas. A store that completes a block
// quantizes it. A store that finds no free area quantizes the residual block whose last store is the oldest.
// The state of a block depends on the calls alone, not on threads. find() and is_residual() may run beside
// each other; every other call excludes all others.
#pragma once
#include <utility>

#include "base/memory.h"
#include "storage/rows.h"
#include "storage/worker_pool.h"

namespace kvc {

inline constexpr uint32_t kMaxResidualBlocks = 65535;

uint64_t residual_key_bytes(const Layout& layout, uint32_t residual_blocks);  // of all areas

class ResidualKeys {
 public:
  // Once, for a layout with channel keys. `empty`: no block holds anything yet; else all are quantized.
  [[nodiscard]] bool create(const Layout& layout, char* slab, Memory& memory, uint32_t residual_blocks,
                            size_t num_workers, bool empty);

  // The row of a residual block; nullptr: the block is not residual.
  const uint16_t* find(uint32_t layer, uint64_t block, uint32_t head, uint64_t token) const {
    const uint32_t state = state_[layer * layout_->num_blocks + block];
    return state < kFirstArea ? nullptr : area_row(layer, state - kFirstArea, head) + token * layout_->k_dim;
  }
  bool is_residual(uint64_t block) const;  // in any layer

  // Stores the keys of one layer at the slots of `rows`.
  void store(uint32_t layer, const RowArray& from, const kvc_backend_rows& rows, WorkerPool& workers);
  void copy(uint64_t source, uint64_t destination);  // what is not in the slab; before its bytes are copied
  void clear(uint64_t block);                        // makes it empty; the caller clears its bytes
  void quantize(uint64_t block);
  void replace(uint64_t block);  // makes it quantized; the caller writes its bytes

 private:
  enum State : uint32_t { kEmpty, kQuantized, kFirstArea };  // kFirstArea + i: residual, in area i
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Area {
    uint64_t block;
    uint64_t pass;        // the last one that used it; 0 = free
    uint32_t next, prev;  // the layer's areas in a ring from its anchor: free ones, then the oldest stores
  };
  // Tokens of one block that follow each other in a call.
  struct Run {
    uint64_t block;
    size_t begin, end;  // tokens of the call
    uint32_t area;      // kNone: all tokens in order, quantized without an area
    bool complete;
  };

  uint32_t& state(uint32_t layer, uint64_t block) { return state_[layer * layout_->num_blocks + block]; }
  Area& area(uint32_t layer, uint32_t i) { return areas_[size_t{layer} * (residual_blocks_ + 1) + i]; }
  uint64_t* stored(uint32_t layer, uint32_t i) {
    return stored_.data() + (size_t{layer} * residual_blocks_ + i) * words_;
  }
  size_t head_elements() const { return size_t{layout_->block_size} * layout_->k_dim; }
  const uint16_t* area_row(uint32_t layer, uint32_t i, uint32_t head) const {
    return rows_.data() +
           ((size_t{layer} * residual_blocks_ + i) * layout_->num_heads + head) * head_elements();
  }
  uint16_t* area_row(uint32_t layer, uint32_t i, uint32_t head) {
    return const_cast<uint16_t*>(std::as_const(*this).area_row(layer, i, head));
  }

  void place(uint32_t layer, uint32_t i, uint32_t after);  // in the ring
  // kNone: this pass uses all of them, or none is free and none may be taken from another block.
  uint32_t acquire(uint32_t layer, uint64_t block, bool may_quantize);
  void release(uint32_t layer, uint64_t block, State to);
  void take_over(uint32_t layer, uint64_t block, uint32_t i, uint64_t first_token);
  bool plan(uint32_t layer, const kvc_backend_rows& rows, bool may_quantize, Run* run);
  void write(uint32_t layer, const Run& run, uint32_t head, const RowArray& from,
             const kvc_backend_rows& rows, float* scratch);
  void quantize_head(uint32_t layer, uint64_t block, uint32_t head, float* scratch);
  void quantize_layer(uint32_t layer, uint64_t block);

  const Layout* layout_ = nullptr;
  char* slab_ = nullptr;
  uint32_t residual_blocks_ = 0;
  size_t words_ = 0;  // of a block's bits
  uint64_t pass_ = 0;
  Array<uint32_t> state_;  // [layers][blocks]
  Array<Area> areas_;      // [layers][residual_blocks + 1]: the last one is the anchor
  Array<uint64_t>
      stored_;  // [layers][residual_blocks][words]: a bit per token stored since the area took the block
  Array<uint16_t> rows_;  // [layers][residual_blocks][heads][block_size][k_dim] bf16
  Array<float> scratch_;  // [workers][block_size][k_dim]
};

}  // namespace kvc
