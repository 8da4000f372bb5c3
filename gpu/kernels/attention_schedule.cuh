// SPDX-License-Identifier: Apache-2.0
// Who does what. A piece is a request and a tile of its rows; row m is query m / group and, of each KV head,
// query head m % group. The tiles of 64 tokens that a piece reads are counted in units, and the units of all
// (piece, KV head) stand in one line, of which each block gets an equal share. A part is what a block does of
// one (piece, KV head); it has a slot in the workspace unless it is the whole of it.
//
// Units are tiles, and a block does all units of a share that follow each other as one part: it leaves at
// most two parts, that which was begun before its share and that which ends after it. With `invariant` a unit
// is a fixed number of tiles and a part by itself.
//
// A request beyond the bounds of the call is one piece of the first class with one unit, of which nothing is
// read: its results are NaN.
//
// A schedule may be another call's. One that was made for other arguments has another key and is not read;
// one of other lengths is followed where its pieces are still as it says. What is left is NaN.
#pragma once
#include "kernels/attention_plan.h"
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

KVC_DEVICE Piece make_piece(const AttentionArgs& args, const Schedule& schedule, uint32_t request,
                            uint64_t tile) {
  Piece piece;
  piece.view = view_request(args, request);
  if (!is_within(schedule.bounds, piece.view))
    piece.view.queries = 0, piece.view.kv_len = piece.view.start = 0;  // no rows, one unit
  const uint64_t group = args.num_q_heads / args.num_heads, all = rows_of(args, piece.view);
  piece.first_row = tile * schedule.tile_rows;
  const uint64_t left = piece.first_row < all ? all - piece.first_row : 0;  // 0: a schedule of other lengths
  piece.rows = left < schedule.tile_rows ? static_cast<uint32_t>(left) : schedule.tile_rows;
  piece.first_query = static_cast<int64_t>(piece.first_row / group);
  piece.last_query = static_cast<int64_t>((piece.first_row + piece.rows - (piece.rows != 0 ? 1 : 0)) / group);
  const Reach reach = reach_of(args, piece.view, piece.first_query, piece.last_query);
  piece.sinks = reach.sinks;
  piece.span = span_of(reach);
  piece.whole = whole_of(args, piece.view, piece.first_query, piece.last_query);
  // Many rows give work to many blocks without any parts.
  const bool whole = schedule.invariant != 0 && all > kDecodeRows;
  piece.unit_tiles = schedule.invariant == 0 ? 1 : whole ? piece.span.tiles : int64_t{kInvariantTiles};
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
  int64_t slot;  // -1 = all of (piece, head)
};

// Goes through the share of a block. It is in shared memory, like the part that it is at: one thread moves
// it.
struct PartWalk {
  uint64_t unit, end;   // of the share: what is left
  uint64_t piece;       // that of `part`, or the first one
  uint64_t pieces_end;  // units of the pieces up to this one
  bool known;           // else the schedule is not this call's
  bool more;            // there is a part
  bool fits;            // else its piece is not as the schedule says
  Part part;

  KVC_DEVICE void start(const Schedule& schedule) {
    known = schedule.totals.known();
    const uint64_t pieces = schedule.totals[0];
    const Share share = share_of(schedule.totals[1], schedule.num_blocks, blockIdx.x);
    unit = share.begin;
    end = share.end;
    pieces_end = unit;  // none is known yet
    piece = unit < end ? last_not_above(schedule.first_unit, pieces, unit) - 1 : 0;
  }

  KVC_DEVICE void step(const AttentionArgs& args, const Schedule& schedule) {
    more = unit < end;
    if (!more) return;
    if (unit >= pieces_end) {
      ++piece;
      pieces_end = schedule.first_unit[piece + 1];
      const uint32_t request = schedule.request_of[piece];
      part.piece = make_piece(args, schedule, request, piece - schedule.first_piece[request]);
      const uint64_t units = (pieces_end - schedule.first_unit[piece]) / args.num_heads;
      fits = part.piece.rows != 0 && part.piece.units == units;
      part.piece.units = units;  // what others who follow the schedule count with
    }
    const uint64_t of_head = part.piece.units, first = schedule.first_unit[piece];
    part.head = static_cast<uint32_t>((unit - first) / of_head);
    const uint64_t at = unit - first - part.head * of_head;
    uint64_t count = schedule.invariant != 0 ? 1 : of_head - at;
    if (count > end - unit) count = end - unit;
    const Piece& of = part.piece;
    part.first_tile = static_cast<int32_t>(static_cast<int64_t>(at) * of.unit_tiles);
    part.end_tile =
        static_cast<int32_t>(at_most(static_cast<int64_t>(at + count) * of.unit_tiles, of.span.tiles));
    part.slot = count == of_head          ? -1
                : schedule.invariant != 0 ? static_cast<int64_t>(unit)
                                          : 2 * int64_t{blockIdx.x} + (at == 0 ? 1 : 0);
    unit += count;
  }
};

// Every float type knows bits that are all set as NaN.
KVC_DEVICE void spoil(void* data, uint64_t bytes) {
  for (uint64_t i = threadIdx.x; i < bytes / 2; i += blockDim.x) static_cast<uint16_t*>(data)[i] = 0xFFFF;
}
// A row of results.
KVC_DEVICE void spoil_row(const AttentionArgs& args, uint64_t query, uint64_t head) {
  const int32_t dtype = args.out_dtype != 0 ? args.out_dtype : args.q_dtype;
  const uint64_t bytes = dtype == KVC_FLOAT32 ? 4 : 2;
  const uint64_t element = query * args.out_token_stride + head * args.out_head_stride;
  spoil(static_cast<char*>(args.out) + element * bytes, args.v_dim * bytes);
  if (args.lse != nullptr) spoil(args.lse + query * args.num_q_heads + head, sizeof(float));
}
KVC_DEVICE void spoil_all(const AttentionArgs& args, const Schedule& schedule) {
  const uint64_t queries = least(args.q_offsets[args.num_requests], schedule.bounds.total_queries);
  const uint64_t rows = queries * args.num_q_heads;
  for (uint64_t row = blockIdx.x; row < rows; row += schedule.num_blocks)
    spoil_row(args, row / args.num_q_heads, row % args.num_q_heads);
}
// A request beyond the bounds: those of its rows that results have.
KVC_DEVICE void spoil_request(const AttentionArgs& args, const Schedule& schedule, const Part& part) {
  const RequestView& view = part.piece.view;
  const uint64_t group = args.num_q_heads / args.num_heads;
  const uint64_t end = least(args.q_offsets[view.request + 1], schedule.bounds.total_queries);
  for (uint64_t query = view.first_query; query < end; ++query) {
    for (uint64_t i = 0; i < group; ++i) spoil_row(args, query, part.head * group + i);
  }
}
KVC_DEVICE void spoil_part(const AttentionArgs& args, const Schedule& schedule, const Part& part) {
  if (!is_within(schedule.bounds, view_request(args, part.piece.view.request)))
    spoil_request(args, schedule, part);
  if (part.slot >= 0) {
    const uint64_t row = static_cast<uint64_t>(part.slot) * schedule.tile_rows;
    spoil(schedule.part_out + row * args.v_dim, uint64_t{schedule.tile_rows} * args.v_dim * sizeof(float));
    return spoil(schedule.part_lse + row, schedule.tile_rows * sizeof(float));
  }
  const uint64_t group = args.num_q_heads / args.num_heads;
  for (uint64_t m = part.piece.first_row; m < part.piece.first_row + part.piece.rows; ++m) {
    spoil_row(args, part.piece.view.first_query + m / group, part.head * group + m % group);
  }
}

// Calls work(part) for each part of this block's share, in all threads; what work() leaves in shared memory
// may still be read by others when it returns.
template <typename Work>
KVC_DEVICE void for_each_part(const AttentionArgs& args, const Schedule& schedule, Work&& work) {
  KVC_SHARED(PartWalk, walk, 1);
  if (threadIdx.x == 0) walk->start(schedule);
  for (;;) {
    sync_block();
    if (threadIdx.x == 0) walk->step(args, schedule);
    sync_block();
    if (!walk->known) return spoil_all(args, schedule);
    if (!walk->more) return;
    if (walk->fits) {
      work(walk->part);
    } else {
      spoil_part(args, schedule, walk->part);
    }
  }
}

}  // namespace kvc::gpu
