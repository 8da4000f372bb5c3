// SPDX-License-Identifier: Apache-2.0
// Which blocks of a request are kept in any case, and which are compared: the rules of kvc_block_choice for
// one request, the same for all of its heads. Columns are entries of its block table. Pure functions.
#pragma once
#include "kernels/attention_rules.cuh"
#include "kernels/select.h"

namespace kvc::gpu {

struct Columns {
  uint32_t begin, end;  // empty unless begin < end
  KVC_DEVICE bool contain(uint32_t column) const { return column >= begin && column < end; }
  KVC_DEVICE uint32_t count() const { return begin < end ? end - begin : 0; }
  // Those that are not kept.
  KVC_DEVICE Columns between(uint32_t from, uint32_t to) const {
    return {begin < from ? from : begin, end < to ? end : to};
  }
};

struct Candidates {
  uint32_t blocks;      // of the request
  Columns reached[2];   // by a query: sinks, window
  Columns compared[2];  // of these; all others that are reached are kept
  uint32_t count;       // that are compared
  uint32_t wanted;      // of these
  bool dense;           // all blocks of the request are picked

  KVC_DEVICE bool is_reached(uint32_t column) const {
    return reached[0].contain(column) || reached[1].contain(column);
  }
  KVC_DEVICE bool is_compared(uint32_t column) const {
    return compared[0].contain(column) || compared[1].contain(column);
  }
  // Whose bounds are looked for at all.
  KVC_DEVICE uint32_t scored() const { return dense || wanted == 0 ? 0 : count; }
  KVC_DEVICE uint32_t column(uint32_t i) const {
    const uint32_t first = compared[0].count();
    return i < first ? compared[0].begin + i : compared[1].begin + (i - first);
  }
};

// Of a request beyond the bounds there are none.
KVC_DEVICE Candidates find_candidates(const SelectionArgs& args, const AttentionBounds& bounds,
                                      uint32_t request) {
  const AttentionArgs& a = args.attention;
  const RequestView view = view_request(a, request);
  const uint32_t size = a.block_size.value;
  const auto blocks_of = [size](int64_t tokens) { return (static_cast<uint32_t>(tokens) + size - 1) / size; };
  Candidates found = {};
  if (!is_within(bounds, view)) return found;
  found.blocks = blocks_of(view.kv_len);
  if (view.queries == 0) return found;
  const Reach reach = reach_of(a, view, 0, static_cast<int64_t>(view.queries) - 1);
  if (reach.end == 0) {
    found.dense = true;
    return found;
  }
  const uint32_t sinks = blocks_of(reach.sinks);
  const uint32_t low = static_cast<uint32_t>(at_most(reach.low, reach.end)) / size;
  found.reached[0] = {0, sinks};
  found.reached[1] = {low < sinks ? sinks : low, blocks_of(reach.end)};

  const int64_t last = reach.end - 1;
  const int64_t newest = a.causal != 0 ? at_least(at_most(view.start, last), 0) : last;
  const uint32_t recent_end = static_cast<uint32_t>(newest) / size + 1;
  const uint64_t recent = args.recent_blocks == 0 ? 1 : args.recent_blocks;
  const uint32_t recent_begin = recent < recent_end ? recent_end - static_cast<uint32_t>(recent) : 0;
  const uint32_t sink_end =
      args.sink_blocks < found.blocks ? static_cast<uint32_t>(args.sink_blocks) : found.blocks;
  uint64_t all = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    found.compared[i] = found.reached[i].between(sink_end, recent_begin);
    found.count += found.compared[i].count();
    all += found.reached[i].count();
  }
  const uint64_t kept = all - found.count;
  const uint64_t most = args.ratio == 0 ? args.top_k : (all * args.ratio + 0xFFFFFFFFu) >> 32;
  found.dense = all <= most;
  found.wanted = most > kept && !found.dense ? static_cast<uint32_t>(most - kept) : 0;
  if (args.threshold != 0) found.wanted = found.count;  // at most
  return found;
}

}  // namespace kvc::gpu
