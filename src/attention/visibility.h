// SPDX-License-Identifier: Apache-2.0
// Which positions the queries of a request see: the causal, window, sink, bit mask and block mask rules of
// kvc_backend_attention, for several queries at once (Span: what must be read at all) or for one query and 16
// tokens (bits). Pure functions of the arguments.
#pragma once
#include "attention/attention.h"
#include "attention/kernels.h"

namespace kvc {

struct RequestView {
  size_t request;
  uint64_t first_token;  // of its queries
  uint64_t queries;
  int64_t start;  // position of the first query; negative if there are more queries than tokens
  int64_t kv_len;
  uint64_t mask_offset;
  int64_t mask_start;
  const int32_t* table;
};
RequestView view_request(const AttentionArgs& args, size_t request);

// What queries first..last can see at most, without masks: positions [0, sinks) and [low, end), sinks <= end.
struct Reach {
  int64_t sinks, low, end;
};
Reach find_reach(const AttentionArgs& args, const RequestView& view, uint64_t first, uint64_t last);

// The same in segments: [0, sink_segments), then [low_segment, ...).
struct Span {
  uint64_t sink_segments, low_segment, segments;
  int64_t position(uint64_t i) const {
    return static_cast<int64_t>((i < sink_segments ? i : i - sink_segments + low_segment) * kSegment);
  }
};
Span find_span(const AttentionArgs& args, const RequestView& view, uint64_t first, uint64_t last);

// Whether queries first..last see every token of the segment at `position`, without the block mask.
bool all_visible(const AttentionArgs& args, const RequestView& view, uint64_t first, uint64_t last,
                 int64_t position);

// Bit t: query i sees position + t, t < 16, without the block mask.
uint32_t visible_bits(const AttentionArgs& args, const RequestView& view, uint64_t i, int64_t position);

// The block mask: whether KV head `head` reads block `block` of the request's table; bit t: whether it reads
// that of position + t, t < 16; whether every head of every request reads all blocks.
bool reads_block(const AttentionArgs& args, const RequestView& view, uint32_t head, uint64_t block);
uint32_t block_bits(const AttentionArgs& args, const RequestView& view, uint32_t head, int64_t position);
bool reads_all_blocks(const AttentionArgs& args);

}  // namespace kvc
