// SPDX-License-Identifier: Apache-2.0
// Which positions the rows of a piece see: the rules of kvc_backend_attention, in 64-bit positions, for
// several queries at once (Reach, Span: what must be read at all) and for one query and one token. Pure
// functions.
#pragma once
#include "kernels/attention.h"

namespace kvc::gpu {

struct RequestView {
  uint32_t request;
  uint64_t first_query;  // of q
  uint64_t queries;
  int64_t start;  // position of the first query; may be negative
  int64_t kv_start, kv_len;
};

// Positions are below 2^31. With this mask sums of positions do not overflow, whatever an array holds.
inline constexpr uint64_t kPositions = (uint64_t{1} << 62) - 1;

KVC_DEVICE RequestView view_request(const AttentionArgs& args, uint32_t request) {
  RequestView view;
  view.request = request;
  view.first_query = args.q_offsets[request];
  view.queries = args.q_offsets[request + 1] - view.first_query;
  view.kv_len = static_cast<int64_t>(args.kv_lens[request]);
  view.kv_start = args.kv_starts != nullptr ? static_cast<int64_t>(args.kv_starts[request]) : 0;
  view.start = args.q_starts != nullptr ? static_cast<int64_t>(args.q_starts[request] & kPositions)
                                        : static_cast<int64_t>(args.kv_lens[request] - view.queries);
  return view;
}

// Whether a request is within the bounds of the call's memory.
KVC_DEVICE bool is_within(const AttentionBounds& bounds, const RequestView& view) {
  return view.queries <= bounds.max_queries && view.first_query <= bounds.total_queries &&
         view.queries <= bounds.total_queries - view.first_query &&
         static_cast<uint64_t>(view.kv_len) <= bounds.max_kv_len;
}

KVC_DEVICE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
KVC_DEVICE int64_t at_least(int64_t a, int64_t b) { return a < b ? b : a; }
// Far beyond every position, yet without overflow in sums.
KVC_DEVICE int64_t clamped(uint64_t n) {
  return n < (uint64_t{1} << 62) ? static_cast<int64_t>(n) : int64_t{1} << 62;
}

// What queries first..last can see at most, without masks: [0, sinks) and [low, end), sinks <= end.
struct Reach {
  int64_t sinks, low, end;
};
KVC_DEVICE Reach reach_of(const AttentionArgs& args, const RequestView& view, int64_t first, int64_t last) {
  Reach reach{0, view.kv_start, view.kv_len};
  if (args.causal != 0) reach.end = at_least(at_most(view.start + last + 1, view.kv_len), 0);
  if (args.window != 0) {
    reach.low = at_least(view.start + first - clamped(args.window) + 1, view.kv_start);
    reach.sinks = at_most(clamped(args.sinks), reach.end);
  }
  return reach;
}

// The same in tiles: [0, sink_tiles) and [low_tile, ...).
struct Span {
  int64_t sink_tiles, low_tile, tiles;
  KVC_DEVICE int64_t position(int64_t i) const {
    return (i < sink_tiles ? i : i - sink_tiles + low_tile) * kAttentionTile;
  }
};
KVC_DEVICE Span span_of(const Reach& reach) {
  constexpr int64_t kTile = kAttentionTile;
  Span span{(reach.sinks + kTile - 1) / kTile, 0, 0};
  span.tiles = span.sink_tiles;
  if (reach.low < reach.end) {
    span.low_tile = at_least(reach.low / kTile, span.sink_tiles);
    span.tiles += at_least((reach.end + kTile - 1) / kTile - span.low_tile, 0);
  }
  return span;
}

KVC_DEVICE int64_t mask_begin(const AttentionArgs& args, uint32_t request) {
  return args.mask_starts != nullptr ? static_cast<int64_t>(args.mask_starts[request]) : 0;
}

// Whether query i sees position j, without the block mask.
KVC_DEVICE bool sees(const AttentionArgs& args, const RequestView& view, int64_t i, int64_t j) {
  const Reach reach = reach_of(args, view, i, i);
  if (j >= reach.end || (j < reach.low && j >= reach.sinks)) return false;
  if (args.mask == nullptr) return true;
  const int64_t begin = mask_begin(args, view.request);
  if (j < begin) return true;
  const uint64_t bit =
      args.mask_offsets[view.request] + static_cast<uint64_t>(i * (view.kv_len - begin) + j - begin);
  return (args.mask[bit / 8] >> bit % 8 & 1) != 0;
}

// Whether queries first..last see all tokens of the tile at `position`, without the block mask.
KVC_DEVICE bool sees_tile(const AttentionArgs& args, const RequestView& view, int64_t first, int64_t last,
                          int64_t position) {
  const int64_t end = position + kAttentionTile;
  if (args.mask != nullptr && end > mask_begin(args, view.request)) return false;
  const Reach least = reach_of(args, view, first, first), most = reach_of(args, view, last, last);
  return end <= least.end && (position >= most.low || end <= least.sinks);
}

// Positions that all of queries first..last see and read, without further checks. Empty unless begin < end.
struct Whole {
  int64_t begin, end;
  KVC_DEVICE bool holds_tile(int64_t position) const {
    return position >= begin && position + kAttentionTile <= end;
  }
};
KVC_DEVICE Whole whole_of(const AttentionArgs& args, const RequestView& view, int64_t first, int64_t last) {
  if (args.block_mask != nullptr) return {0, 0};
  Whole whole{reach_of(args, view, last, last).low, reach_of(args, view, first, first).end};
  if (args.mask != nullptr) whole.end = at_most(whole.end, mask_begin(args, view.request));
  return whole;
}

KVC_DEVICE bool reads_block(const AttentionArgs& args, uint32_t request, uint32_t head, uint64_t block) {
  if (args.block_mask == nullptr) return true;
  const uint64_t row = uint64_t{request} * args.num_heads + head;
  return (args.block_mask[row * args.block_mask_stride + block / 8] >> block % 8 & 1) != 0;
}

// Whether one of queries first..last of a KV head sees position j: whether it may be read at all.
KVC_DEVICE bool is_seen(const AttentionArgs& args, const RequestView& view, uint32_t head, int64_t first,
                        int64_t last, int64_t j) {
  const Reach reach = reach_of(args, view, first, last);
  if (j >= reach.end || (j < reach.low && j >= reach.sinks)) return false;
  if (!reads_block(args, view.request, head, args.block_size.divide(static_cast<uint32_t>(j)))) return false;
  // Together they see all of their reach, unless a mask hides it.
  if (args.mask == nullptr) return true;
  for (int64_t i = first; i <= last; ++i) {
    if (sees(args, view, i, j)) return true;
  }
  return false;
}

}  // namespace kvc::gpu
