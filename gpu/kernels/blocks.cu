// SPDX-License-Identifier: Apache-2.0
// Whole blocks: copied inside a slab, to and from pages, and cleared. The 16-byte vectors of a call are one
// range of indices, so that parts of any size keep all lanes busy. Each thread has several loads in flight.
#include "kernels/rows.cuh"
#include "layout/parts.h"

namespace kvc::gpu {
namespace {

constexpr uint32_t kInFlight = 4;
constexpr uint64_t kPerBlock = uint64_t{kThreads} * kInFlight;

using Vector = Words<16>;  // parts are whole numbers of these: layouts align blocks to 16

struct Side {
  char* base;
  uint64_t block, part;  // strides in bytes

  KVC_DEVICE Vector* at(int32_t item, uint64_t part_index) const {
    return reinterpret_cast<Vector*>(base + static_cast<uint64_t>(item) * block + part_index * part);
  }
};

// Of an item of a list, all parts.
struct Extent {
  uint64_t num_vectors;    // of all items
  Divisor parts, vectors;  // of an item, of a part
};

struct Position {
  uint64_t item, part, vector;
};
KVC_DEVICE Position position_of(const Extent& extent, uint64_t index) {
  const uint64_t part = extent.vectors.divide(index), item = extent.parts.divide(part);
  return {item, part - item * extent.parts.value, index - part * extent.vectors.value};
}

struct MoveArgs {
  Side from, to;
  const kvc_block_copy* pairs;
  Extent extent;
};

// No branch comes before the last load: indices past the end load the last vector again.
KVC_KERNEL(kThreads, 4)
move_blocks(KVC_ARGUMENT(MoveArgs) args) {
  const uint64_t total = args.extent.num_vectors;
  for (uint64_t first = blockIdx.x * kPerBlock + threadIdx.x; first < total; first += gridDim.x * kPerBlock) {
    Position at[kInFlight];
    kvc_block_copy pairs[kInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      const uint64_t index = first + uint64_t{i} * kThreads;
      at[i] = position_of(args.extent, index < total ? index : total - 1);
      pairs[i] = args.pairs[at[i].item];
    }
    Vector data[kInFlight];
    Vector* to[kInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      data[i] = load_once(args.from.at(pairs[i].source, at[i].part) + at[i].vector);
      to[i] = args.to.at(pairs[i].destination, at[i].part) + at[i].vector;
    }
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) {
      if (first + uint64_t{i} * kThreads < total) store_once(to[i], data[i]);
    }
  }
}

struct ZeroArgs {
  Side to;
  const int32_t* blocks;
  Extent extent;
};

KVC_KERNEL(kThreads, 4)
clear_blocks(KVC_ARGUMENT(ZeroArgs) args) {
  for_each_index(args.extent.num_vectors, [&](uint64_t index) {
    const Position at = position_of(args.extent, index);
    store_once(args.to.at(args.blocks[at.item], at.part) + at.vector, Vector{});
  });
}

Extent extent_of(const BlockParts& parts, size_t count) {
  const uint64_t vectors = parts.bytes / sizeof(Vector);
  return {count * parts.count * vectors, divisor(parts.count), divisor(vectors)};
}

int move(const BlockParts& parts, const Side& from, const Side& to, const kvc_block_copy* pairs, size_t count,
         uint32_t max_blocks, Stream stream) {
  if (count == 0) return 0;
  const MoveArgs args{from, to, pairs, extent_of(parts, count)};
  const uint32_t blocks = blocks_for(args.extent.num_vectors, kPerBlock);
  const Grid grid{max_blocks != 0 && max_blocks < blocks ? max_blocks : blocks};
  return launch(move_blocks, grid, kThreads, 0, stream, args);
}

Side slab_side(const BlockParts& parts, void* slab) {
  return {static_cast<char*>(slab), parts.block, parts.part};
}
}  // namespace

int copy_blocks(const Layout& layout, void* slab, const kvc_block_copy* copies, size_t num_copies,
                Stream stream) {
  const BlockParts parts = block_parts(layout);
  return move(parts, slab_side(parts, slab), slab_side(parts, slab), copies, num_copies, 0, stream);
}

int zero_blocks(const Layout& layout, void* slab, const int32_t* blocks, size_t num_blocks, Stream stream) {
  if (num_blocks == 0) return 0;
  const BlockParts parts = block_parts(layout);
  const ZeroArgs args{slab_side(parts, slab), blocks, extent_of(parts, num_blocks)};
  return launch(clear_blocks, Grid{blocks_for(args.extent.num_vectors, kThreads)}, kThreads, 0, stream, args);
}

int swap_blocks(const Layout& layout, void* slab, const kvc_backend_swap& swap, uint32_t max_blocks,
                Stream stream) {
  const BlockParts parts = block_parts(layout);
  const Side blocks = slab_side(parts, slab), pages = {swap.pages, swap.page_bytes, parts.bytes};
  const bool out = swap.out != 0;
  return move(parts, out ? blocks : pages, out ? pages : blocks, swap.copies, swap.num_copies, max_blocks,
              stream);
}

}  // namespace kvc::gpu
