// SPDX-License-Identifier: Apache-2.0
#include "attention/visibility.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"

namespace kvc {
namespace {

int64_t clamped(uint64_t n) {  // beyond every position, without overflow in sums
  return static_cast<int64_t>(std::min<uint64_t>(n, std::numeric_limits<int64_t>::max() / 2));
}

// For one query.
Reach reach_of(const AttentionArgs& args, const RequestView& view, uint64_t i) {
  const int64_t p = view.start + static_cast<int64_t>(i);
  Reach reach{0, 0, view.kv_len};
  if (args.causal) reach.end = std::clamp<int64_t>(p + 1, 0, view.kv_len);
  if (args.window != 0) {
    reach.low = std::max<int64_t>(p - clamped(args.window) + 1, 0);
    reach.sinks = std::min(clamped(args.sinks), reach.end);
  }
  return reach;
}

// Bits [from, to) - position of a segment.
uint32_t bits_between(int64_t from, int64_t to, int64_t position) {
  const int64_t first = std::max<int64_t>(from - position, 0);
  const int64_t last = std::min<int64_t>(to - position, kSegment);
  return first >= last ? 0 : ((1u << last) - 1) & ~((1u << first) - 1);
}

}  // namespace

RequestView view_request(const AttentionArgs& args, size_t request) {
  RequestView view;
  view.request = request;
  view.first_token = args.q_offsets[request];
  view.queries = args.q_offsets[request + 1] - view.first_token;
  view.kv_len = static_cast<int64_t>(args.kv_lens[request]);
  view.start = args.q_starts != nullptr ? static_cast<int64_t>(args.q_starts[request])
                                        : view.kv_len - static_cast<int64_t>(view.queries);
  view.mask_offset = args.mask != nullptr ? args.mask_offsets[request] : 0;
  view.mask_start = args.mask_starts != nullptr ? static_cast<int64_t>(args.mask_starts[request]) : 0;
  view.table = args.block_tables + request * args.table_stride;
  return view;
}

Reach find_reach(const AttentionArgs& args, const RequestView& view, uint64_t first, uint64_t last) {
  // Positions grow with the query, so the first sees furthest back and the last furthest ahead.
  Reach reach = reach_of(args, view, last);
  reach.low = reach_of(args, view, first).low;
  return reach;
}

Span find_span(const AttentionArgs& args, const RequestView& view, uint64_t first, uint64_t last) {
  const Reach reach = find_reach(args, view, first, last);
  const auto segment = [](int64_t n) { return static_cast<uint64_t>(n) / kSegment; };
  const auto segments = [](int64_t n) { return ceil_div(static_cast<uint64_t>(n), kSegment); };
  Span span{segments(reach.sinks), 0, 0};
  span.segments = span.sink_segments;
  if (reach.low < reach.end) {
    span.low_segment = std::max(segment(reach.low), span.sink_segments);
    span.segments += std::max(segments(reach.end), span.low_segment) - span.low_segment;
  }
  return span;
}

bool all_visible(const AttentionArgs& args, const RequestView& view, uint64_t first, uint64_t last,
                 int64_t position) {
  const int64_t end = position + kSegment;
  if (args.mask != nullptr && end > view.mask_start) return false;
  const Reach least = reach_of(args, view, first), most = reach_of(args, view, last);
  return end <= least.end && (position >= most.low || end <= least.sinks);
}

uint32_t visible_bits(const AttentionArgs& args, const RequestView& view, uint64_t i, int64_t position) {
  const Reach reach = reach_of(args, view, i);
  uint32_t bits = bits_between(0, reach.sinks, position) | bits_between(reach.low, reach.end, position);
  if (args.mask == nullptr || bits == 0) return bits;
  const int64_t first = std::max(position, view.mask_start);
  const int64_t end = std::min<int64_t>(position + kSegment, view.kv_len);
  if (first >= end) return bits;
  const uint64_t from = view.mask_offset + i * static_cast<uint64_t>(view.kv_len - view.mask_start) +
                        static_cast<uint64_t>(first - view.mask_start);
  const uint64_t count = static_cast<uint64_t>(end - first);
  uint32_t bytes = 0;  // at most three, none beyond the mask's last bit
  for (uint64_t at = from / 8; at <= (from + count - 1) / 8; ++at) {
    bytes |= static_cast<uint32_t>(args.mask[at]) << (at - from / 8) * 8;
  }
  const uint32_t masked = bytes >> from % 8 & ((1u << count) - 1);
  const uint32_t before = static_cast<uint32_t>(first - position);  // positions that the mask does not cover
  return bits & (masked << before | ((1u << before) - 1));
}

bool reads_block(const AttentionArgs& args, const RequestView& view, uint32_t head, uint64_t block) {
  if (args.block_mask == nullptr) return true;
  const size_t row = view.request * args.layout->num_heads + head;
  return (args.block_mask[row * args.block_mask_stride + block / 8] >> block % 8 & 1) != 0;
}

uint32_t block_bits(const AttentionArgs& args, const RequestView& view, uint32_t head, int64_t position) {
  const uint64_t first = static_cast<uint64_t>(position), size = args.layout->block_size;
  if (args.block_mask == nullptr || size % kSegment == 0) {
    return reads_block(args, view, head, first / size) ? 0xffff : 0;
  }
  const uint64_t end = std::min<uint64_t>(first + kSegment, static_cast<uint64_t>(view.kv_len));
  uint32_t bits = 0;
  for (uint64_t at = first; at < end; ++at) {
    bits |= static_cast<uint32_t>(reads_block(args, view, head, at / size)) << (at - first);
  }
  return bits;
}

bool reads_all_blocks(const AttentionArgs& args) {
  if (args.block_mask == nullptr) return true;
  for (size_t r = 0; r < args.num_requests; ++r) {
    const RequestView view = view_request(args, r);
    if (view.queries == 0) continue;
    const uint64_t blocks = ceil_div(static_cast<uint64_t>(view.kv_len), args.layout->block_size);
    for (uint32_t head = 0; head < args.layout->num_heads; ++head) {
      for (uint64_t block = 0; block < blocks; ++block) {
        if (!reads_block(args, view, head, block)) return false;
      }
    }
  }
  return true;
}

}  // namespace kvc
