// SPDX-License-Identifier: Apache-2.0
// How a plan divides the work. A piece is a request and a tile of its rows; row m is query m / group and, of
// each KV head, query head m % group. The tiles of 64 tokens that a piece reads are counted in units. The
// units of all (piece, KV head) form one line, and each block gets an equal share of it. A part is what a
// block does of one (piece, KV head); it goes to the workspace, unless it is all of it.
//
// A unit is a tile, and consecutive units of one (piece, KV head) in a share are one part. So a block leaves
// at most two parts: one that began before its share and one that ends after it. With `invariant`, a unit is
// a fixed number of tiles, and each unit is a part.
//
// A request beyond the bounds of the call is one piece of the first class with one unit. Nothing of it is
// read; its results are NaN.
//
// A plan may come from another call. If it was made for other arguments, its key differs and it is not read.
// If it was made for other lengths, it is followed where its pieces still match. All other results are NaN.
#pragma once
#include "kernels/attention_config.h"
#include "kernels/attention_rules.cuh"

namespace kvc::gpu {

KVC_DEVICE uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct Share {
  uint64_t begin, end;
};
KVC_DEVICE Share share_of(uint64_t units, uint32_t blocks, uint32_t block) {
  const uint64_t each = units / blocks, more = units % blocks;
  const uint64_t begin = block * each + (block < more ? block : more);
  return {begin, begin + each + (block < more ? 1 : 0)};
}
KVC_DEVICE uint32_t owner_of(uint64_t units, uint32_t blocks, uint64_t unit) {
  const uint64_t each = units / blocks, more = units % blocks, cut = more * (each + 1);
  return static_cast<uint32_t>(unit < cut ? unit / (each + 1) : more + (unit - cut) / each);
}

struct Piece {
  RequestView view;
  uint64_t first_row;
  uint32_t first_of_group;  // the query head of first_row, in its group
  uint32_t rows;
  int64_t first_query, last_query;
  int64_t sinks;  // positions below are seen whatever the window
  Span span;
  Whole whole;
  int64_t unit_tiles;
  uint64_t units;  // of each KV head
};

KVC_DEVICE uint64_t rows_of(const AttentionArgs& args, const RequestView& view) {
  return view.queries * (args.num_q_heads / args.num_heads);
}

// Which tile of rows the piece `i` of n is: the first, the last, the second, ... With a causal mask later
// rows see more. In this order every block's share has about as many pieces, each of which costs time to
// begin.
KVC_DEVICE uint64_t tile_of_piece(uint64_t i, uint64_t n) { return i % 2 == 0 ? i / 2 : n - 1 - i / 2; }

KVC_DEVICE Piece make_piece(const AttentionArgs& args, const Plan& plan, uint32_t request, uint64_t index) {
  Piece piece;
  piece.view = view_request(args, request);
  if (!is_within(plan.bounds, piece.view))
    piece.view.queries = 0, piece.view.kv_len = piece.view.start = 0;  // no rows, one unit
  const uint64_t group = args.num_q_heads / args.num_heads, all = rows_of(args, piece.view);
  const uint64_t tiles = (all + plan.tile_rows - 1) / plan.tile_rows;
  piece.first_row = (index < tiles ? tile_of_piece(index, tiles) : tiles) * plan.tile_rows;
  const uint64_t left = piece.first_row < all ? all - piece.first_row : 0;  // 0: a plan of other lengths
  piece.rows = left < plan.tile_rows ? static_cast<uint32_t>(left) : plan.tile_rows;
  piece.first_query = static_cast<int64_t>(piece.first_row / group);
  piece.first_of_group =
      static_cast<uint32_t>(piece.first_row - static_cast<uint64_t>(piece.first_query) * group);
  piece.last_query = static_cast<int64_t>((piece.first_row + piece.rows - (piece.rows != 0 ? 1 : 0)) / group);
  const Reach reach = reach_of(args, piece.view, piece.first_query, piece.last_query);
  piece.sinks = reach.sinks;
  piece.span = span_of(reach);
  piece.whole = whole_of(args, piece.view, piece.first_query, piece.last_query);
  // Many rows occupy many blocks without being split.
  const bool whole = plan.invariant != 0 && all > kDecodeRows;
  piece.unit_tiles = plan.invariant == 0 ? 1 : whole ? piece.span.tiles : int64_t{kInvariantTiles};
  if (piece.unit_tiles < 1) piece.unit_tiles = 1;
  piece.units = static_cast<uint64_t>((piece.span.tiles + piece.unit_tiles - 1) / piece.unit_tiles);
  if (piece.units == 0) piece.units = 1;  // zeros have to be written
  return piece;
}

// The largest i < n with first[i] <= value, of ascending values with first[0] <= value.
KVC_DEVICE uint64_t last_not_above(const uint64_t* first, uint64_t n, uint64_t value) {
  uint64_t low = 0, high = n;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (first[middle] <= value ? low : high) = middle;
  }
  return low;
}

struct Part {
  Piece piece;
  uint32_t head;
  int32_t first_tile, end_tile;
  int64_t index;  // in the workspace; -1 = all of (piece, head)
};

// Walks through the share of a block. It and its current part are in shared memory; one thread moves it.
struct PartWalk {
  uint64_t unit, end;   // of the share: what is left
  uint64_t piece;       // that of `part`, or the first one
  uint64_t pieces_end;  // units of the pieces up to this one
  bool known;           // the plan was made for these arguments
  bool more;            // there is a part
  bool fits;            // its piece is as the plan says
  Part part;

  KVC_DEVICE void start(const Plan& plan) {
    known = plan.totals.known();
    const uint64_t pieces = plan.totals[0];
    const Share share = share_of(plan.totals[1], plan.num_blocks, blockIdx.x);
    unit = share.begin;
    end = share.end;
    pieces_end = unit;  // step() takes the first piece
    piece = unit < end ? last_not_above(plan.first_unit, pieces, unit) - 1 : 0;
  }

  KVC_DEVICE void step(const AttentionArgs& args, const Plan& plan) {
    more = unit < end;
    if (!more) return;
    if (unit >= pieces_end) {
      ++piece;
      pieces_end = plan.first_unit[piece + 1];
      const uint32_t request = plan.request_of[piece];
      part.piece = make_piece(args, plan, request, piece - plan.first_piece[request]);
      const uint64_t units = (pieces_end - plan.first_unit[piece]) / args.num_heads;
      fits = part.piece.rows != 0 && part.piece.units == units;
      part.piece.units = units;  // as all blocks count that follow the plan
    }
    const uint64_t of_head = part.piece.units, first = plan.first_unit[piece];
    part.head = static_cast<uint32_t>((unit - first) / of_head);
    const uint64_t at = unit - first - part.head * of_head;
    uint64_t count = plan.invariant != 0 ? 1 : of_head - at;
    if (count > end - unit) count = end - unit;
    const Piece& of = part.piece;
    part.first_tile = static_cast<int32_t>(static_cast<int64_t>(at) * of.unit_tiles);
    part.end_tile =
        static_cast<int32_t>(at_most(static_cast<int64_t>(at + count) * of.unit_tiles, of.span.tiles));
    part.index = count == of_head      ? -1
                 : plan.invariant != 0 ? static_cast<int64_t>(unit)
                                       : 2 * int64_t{blockIdx.x} + (at == 0 ? 1 : 0);
    unit += count;
  }
};

// In every float type, bits that are all set are NaN.
KVC_DEVICE void fill_nan(void* data, uint64_t bytes) {
  for (uint64_t i = threadIdx.x; i < bytes / 2; i += blockDim.x) static_cast<uint16_t*>(data)[i] = 0xFFFF;
}
// A row of results.
KVC_DEVICE void fill_nan_row(const AttentionArgs& args, uint64_t query, uint64_t head) {
  const int32_t dtype = args.out_dtype != 0 ? args.out_dtype : args.q_dtype;
  const uint64_t bytes = dtype == KVC_FLOAT32 ? 4 : 2;
  const uint64_t element = query * args.out_token_stride + head * args.out_head_stride;
  fill_nan(static_cast<char*>(args.out) + element * bytes, args.v_dim * bytes);
  if (args.lse != nullptr) fill_nan(args.lse + query * args.num_q_heads + head, sizeof(float));
}
KVC_DEVICE void fill_nan_all(const AttentionArgs& args, const Plan& plan) {
  const uint64_t queries = least(args.q_offsets[args.num_requests], plan.bounds.total_queries);
  const uint64_t rows = queries * args.num_q_heads;
  for (uint64_t row = blockIdx.x; row < rows; row += plan.num_blocks)
    fill_nan_row(args, row / args.num_q_heads, row % args.num_q_heads);
}
// The rows of a request beyond the bounds that are in the results.
KVC_DEVICE void fill_nan_request(const AttentionArgs& args, const Plan& plan, const Part& part) {
  const RequestView& view = part.piece.view;
  const uint64_t group = args.num_q_heads / args.num_heads;
  const uint64_t end = least(args.q_offsets[view.request + 1], plan.bounds.total_queries);
  for (uint64_t query = view.first_query; query < end; ++query) {
    for (uint64_t i = 0; i < group; ++i) fill_nan_row(args, query, part.head * group + i);
  }
}
KVC_DEVICE void fill_nan_part(const AttentionArgs& args, const Plan& plan, const Part& part) {
  if (!is_within(plan.bounds, view_request(args, part.piece.view.request)))
    fill_nan_request(args, plan, part);
  if (part.index >= 0) {
    const uint64_t row = static_cast<uint64_t>(part.index) * plan.tile_rows;
    fill_nan(plan.part_out + row * args.v_dim, uint64_t{plan.tile_rows} * args.v_dim * sizeof(float));
    return fill_nan(plan.part_lse + row, plan.tile_rows * sizeof(float));
  }
  const uint64_t group = args.num_q_heads / args.num_heads;
  for (uint64_t m = part.piece.first_row; m < part.piece.first_row + part.piece.rows; ++m) {
    fill_nan_row(args, part.piece.view.first_query + m / group, part.head * group + m % group);
  }
}

// Calls work(part) for each part of this block's share, in all threads. When work() returns, other threads
// may still read what it has left in shared memory.
template <typename Work>
KVC_DEVICE void for_each_part(const AttentionArgs& args, const Plan& plan, Work&& work) {
  KVC_SHARED(PartWalk, walk, 1);
  if (threadIdx.x == 0) walk->start(plan);
  for (;;) {
    sync_block();
    if (threadIdx.x == 0) walk->step(args, plan);
    sync_block();
    if (!walk->known) return fill_nan_all(args, plan);
    if (!walk->more) return;
    if (walk->fits) {
      work(walk->part);
    } else {
      fill_nan_part(args, plan, walk->part);
    }
  }
}

}  // namespace kvc::gpu
